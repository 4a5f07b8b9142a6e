"""Status as JSON: conditions and patches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.controllers.conditions import (
    conflict_pause,
    find_condition,
    parse_time,
    remove_conditions,
    set_condition,
    status_of,
    status_patch,
    timestamp,
    truncated,
)
from tests.controllers.support import NOW

JSON = st.recursive(
    st.none() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda children: st.lists(children, max_size=2),
    max_leaves=4,
)
STATUS = st.dictionaries(
    st.sampled_from("abcd"),
    st.integers()
    | st.lists(JSON, max_size=2)
    | st.dictionaries(st.sampled_from("xy"), st.integers()),
)


def merge(old: Any, patch: Any) -> Any:
    """RFC 7396, as an API server does it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def test_a_condition_is_kept_once_and_its_times_move_only_with_news() -> None:
    """So an unchanged status is not written."""
    status: dict[str, Any] = {}
    set_condition(status, "A", at=NOW, reason="R", message="m")
    first = find_condition(status, "A")
    assert first is not None
    later = NOW + timedelta(minutes=1)
    set_condition(status, "A", at=later, reason="R", message="m")
    assert find_condition(status, "A") == first
    set_condition(status, "A", at=later, reason="R", message="other")
    second = find_condition(status, "A")
    assert second is not None
    assert second["lastTransitionTime"] == timestamp(NOW), "the status is still True"
    assert second["lastHeartbeatTime"] == timestamp(later)
    set_condition(status, "A", at=later, is_true=False)
    third = find_condition(status, "A")
    assert third is not None
    assert third["lastTransitionTime"] == timestamp(later)
    assert len(status["conditions"]) == 1


def test_conditions_that_sedna_appended_become_one() -> None:
    """One per report, without bound, until somebody tidies up."""
    old = [{"type": "Training", "status": "True", "message": f"Round {i}"} for i in range(9)]
    status = {"conditions": [{"type": "Other", "status": "True"}, *old]}
    set_condition(status, "Training", at=NOW, message="Round 9")
    assert [c["type"] for c in status["conditions"]] == ["Other", "Training"]


def test_conditions_are_removed_by_type() -> None:
    """The others stay."""
    status = {"conditions": [{"type": "A"}, {"type": "B"}]}
    remove_conditions(status, ["A"])
    assert status == {"conditions": [{"type": "B"}]}
    empty: dict[str, Any] = {}
    remove_conditions(empty, ["A"])
    assert empty == {}


@given(STATUS, STATUS)
def test_a_patch_brings_the_new_status_about(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Whatever was added, changed or taken away."""
    patch = status_patch(old, new, resource_version="7")
    if patch is None:
        assert old == new
    else:
        assert patch["metadata"]["resourceVersion"] == "7"
        assert merge(old, patch["status"]) == new


def test_messages_are_cut_off_at_1_kib() -> None:
    """Also within a character of several bytes."""
    assert truncated("short") == "short"
    cut = truncated("ü" * 2000)
    assert len(cut.encode()) <= 1024
    assert cut.endswith("...")


def test_a_first_conflict_costs_no_pause_and_a_contest_has_bounded_ones_P0_022() -> None:
    """At random, so that two writers come out of step."""
    assert conflict_pause(0) == 0
    for attempt, most in ((1, 0.02), (3, 0.08), (50, 1.0)):
        pauses = [conflict_pause(attempt) for _ in range(100)]
        assert all(0 <= pause <= most for pause in pauses)
        assert len(set(pauses)) > 1


def test_times_are_read_leniently() -> None:
    """Anything else is no time."""
    assert parse_time(timestamp(NOW)) == NOW
    assert parse_time(None) is None
    assert parse_time("yesterday") is None
    assert status_of(b'{"status": null}') == {}


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-11-30T01:00:00Z", "2026-11-30T01:00:00Z"),
        ("2026-11-30T01:00:00+05:30", "2026-11-29T19:30:00Z"),
        ("2026-11-30T01:00:00.999999Z", "2026-11-30T01:00:00Z"),
        ("0099-01-01T00:00:00Z", "0099-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+01:00", None),
        ("9999-12-31T23:59:59-01:00", None),
        ("2026-11-30T01:00:00", None),
        ("2026-11-30 01:00:00", None),
        ("2026-02-30T01:00:00Z", None),
        ("", None),
        (1_796_000_000, None),
        (1.5, None),
        ([], None),
        ({}, None),
    ],
)
def test_times_of_others_are_stored_in_utc_or_are_none(text: Any, stored: str | None) -> None:
    """Whatever a node's clock and zone are; without a zone it is no time."""
    moment = parse_time(text)
    assert (None if moment is None else timestamp(moment)) == stored
