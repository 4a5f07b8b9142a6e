"""What an EdgeNode says, from what the hub knows and what was written before."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gm.api.sedna import Quarantined
from gm.controllers.edgenode_status import (
    MAX_KEYS,
    WRITER,
    Known,
    Link,
    compute,
    status_patch,
)
from gm.messagelayer import NodeStatus, WireKey

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)


def key(name: str) -> WireKey:
    """A dataset's key."""
    return WireKey("dataset", "ns", name)


def snapshot(**fields: Any) -> NodeStatus:
    """A node that is connected and in step."""
    known: dict[str, Any] = {
        "name": "edge1",
        "connected": True,
        "protocol": "v2",
        "desired": 1,
        "pending": 0,
        "held": (key("d"),),
        "quarantined": {},
        "silent_seconds": 3.0,
    }
    return NodeStatus(**{**known, **fields})


def away(**fields: Any) -> NodeStatus:
    """A node without session."""
    return snapshot(connected=False, protocol="", held=(), silent_seconds=None, **fields)


def known(status: dict[str, Any] | None = None, *, is_ours: bool = True) -> Known:
    """An EdgeNode as the API server has it."""
    body = {
        "metadata": {
            "name": "edge1",
            "uid": "u",
            "resourceVersion": "7",
            "annotations": {WRITER: "sedna/*"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "edge1", "uid": "node-uid"}
            ],
        },
        "status": status or {},
    }
    return Known.of(json.dumps(body).encode(), is_ours=is_ours)


def merged(before: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A status after a merge patch."""
    both = {**before, **patch}
    return {field: value for field, value in both.items() if value is not None}


def test_connected_node_says_all_that_is_known() -> None:
    """With the first keys that it holds and lacks."""
    status = compute(
        snapshot(pending=2, lacking=(key("a"), key("b"))), None, Link(since=EARLIER), NOW
    )
    assert status_patch(status) == {
        "connected": True,
        "protocol": "v2",
        "since": "2026-11-30T11:00:00Z",
        "lastSeen": "2026-11-30T11:59:57Z",
        "pending": 2,
        "pendingKeys": ("dataset/ns/a", "dataset/ns/b"),
        "held": 1,
        "heldKeys": ("dataset/ns/d",),
        "quarantined": None,
    }


def test_lists_are_bounded_and_counts_are_not() -> None:
    """Fifty names are enough for people; the rest is a number."""
    many = tuple(key(f"d{n:03}") for n in range(120))
    status = compute(
        snapshot(
            held=many, pending=120, lacking=many, quarantined=dict.fromkeys(many, "too large")
        ),
        None,
        None,
        NOW,
    )
    assert (status.held, status.pending) == (120, 120)
    assert status.held_keys is not None
    assert status.held_keys[0] == "dataset/ns/d000"
    assert len(status.held_keys) == len(status.pending_keys or ()) == MAX_KEYS
    assert len(status.quarantined or ()) == MAX_KEYS


def test_node_that_leaves_keeps_what_it_held_last() -> None:
    """What is not known anew is not written: the merge patch leaves it."""
    before = merged({}, status_patch(compute(snapshot(), None, Link(since=EARLIER), NOW)))
    gone = Link(since=NOW, last_seen=NOW - timedelta(seconds=40))
    status = compute(away(pending=1, lacking=(key("e"),)), known(before), gone, NOW)
    after = merged(before, json.loads(json.dumps(status_patch(status))))
    assert after == {
        "connected": False,
        "protocol": "v2",
        "since": "2026-11-30T12:00:00Z",
        "lastSeen": "2026-11-30T11:59:20Z",
        "pending": 1,
        "pendingKeys": ["dataset/ns/e"],
        "held": 1,
        "heldKeys": ("dataset/ns/d",),
    }


def test_node_that_was_never_connected_holds_nothing_as_far_as_known() -> None:
    """And nobody has seen it."""
    status = compute(away(pending=1, lacking=(key("d"),)), None, None, NOW)
    assert (status.held, status.pending, status.since, status.last_seen) == (0, 1, None, None)
    again = compute(away(pending=1, lacking=(key("d"),)), known({"held": 0}), None, NOW)
    assert again.held == 0


def test_node_that_shall_hold_nothing_any_more_lacks_the_deletes() -> None:
    """While it is away; the hub has forgotten it."""
    before = known({"connected": False, "held": 3, "since": "2026-11-30T11:00:00Z"})
    status = compute(None, before, None, NOW)
    assert (status.connected, status.pending, status.since) == (False, 3, EARLIER)
    assert compute(None, None, None, NOW).pending == 0


def test_link_that_ended_while_no_gm_watched_went_down_now() -> None:
    """As far as we can tell; when it was seen last stays."""
    seen = "2026-11-30T11:00:00Z"
    before = known({"connected": True, "since": seen, "lastSeen": seen}, is_ours=False)
    status = compute(away(), before, None, NOW)
    assert (status.since, status.last_seen) == (NOW, EARLIER)


def test_what_was_quarantined_before_keeps_its_time() -> None:
    """A reason may change, or another object come in addition."""
    before = known(
        {
            "connected": True,
            "quarantined": [{"key": "dataset/ns/a", "since": "2026-11-30T11:00:00Z"}],
        }
    )
    found = snapshot(quarantined={key("b"): "too large", key("a"): "refused"})
    status = compute(found, before, None, NOW)
    assert status.quarantined == (
        Quarantined(key="dataset/ns/a", reason="refused", since=EARLIER),
        Quarantined(key="dataset/ns/b", reason="too large", since=NOW),
    )
    assert status_patch(status)["quarantined"][0] == {
        "key": "dataset/ns/a",
        "reason": "refused",
        "since": "2026-11-30T11:00:00Z",
    }


@pytest.mark.parametrize("found", [snapshot(), away(pending=1, lacking=(key("d"),)), None])
def test_what_was_written_is_recognised(found: NodeStatus | None) -> None:
    """Nothing is written twice, also after a restart of GM."""
    link = Link(since=EARLIER, last_seen=EARLIER)
    status = compute(found, None, link, NOW)
    written = known(json.loads(json.dumps(merged({}, status_patch(status)))), is_ours=False)
    assert written.shows(compute(found, written, link, NOW + timedelta(minutes=1)))


def test_each_difference_is_seen_but_not_that_of_last_seen() -> None:
    """The latter has a rhythm of its own."""
    link = Link(since=EARLIER)
    status = compute(snapshot(), None, link, NOW)
    written = known(json.loads(json.dumps(merged({}, status_patch(status)))))
    assert written.shows(compute(snapshot(silent_seconds=0.0), written, link, NOW))
    for other in (
        snapshot(protocol="v1"),
        snapshot(held=()),
        snapshot(pending=1, lacking=(key("x"),)),
        snapshot(quarantined={key("x"): "too large"}),
        away(),
    ):
        assert not written.shows(compute(other, written, link, NOW))
    assert not written.shows(compute(snapshot(), written, Link(since=NOW), NOW))


def test_nonsense_that_somebody_wrote_counts_as_nothing() -> None:
    """Its metadata is read all the same, so that it can be replaced."""
    found = known({"held": "many"})
    assert (found.name, found.uid, found.owner_uid, found.writer) == (
        "edge1",
        "u",
        "node-uid",
        "sedna/*",
    )
    assert found.was_never_connected
    assert not found.shows(compute(snapshot(), found, None, NOW))
