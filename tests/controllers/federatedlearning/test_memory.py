"""What caches do not show yet, or not any more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gm.api.core import Pod
from gm.api.meta import ObjectKey
from gm.api.resources import PODS
from gm.controllers.federatedlearning.memory import ChildCache, Departed, Endings, HostPortUsers
from gm.kube.lister import Event, EventType, Lister, Stored
from tests.controllers.support import view


class Clock:
    """Time that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def pod(name: str = "p", uid: str = "u", version: str = "1", **status: Any) -> Stored[Pod]:
    """A pod of job ``j``."""
    owner = {
        "apiVersion": "v1",
        "kind": "FederatedLearningJob",
        "name": "j",
        "uid": "j",
        "controller": True,
    }
    return view(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": uid,
                "resourceVersion": version,
                "ownerReferences": [owner],
            },
            "status": status,
        },
        Pod,
    )


@pytest.fixture
def clock() -> Clock:
    """A clock at 0."""
    return Clock()


@pytest.fixture
def lister() -> Lister[Pod]:
    """An empty cache."""
    return Lister()


@pytest.fixture
def cache(lister: Lister[Pod], clock: Clock) -> ChildCache[Pod]:
    """What is tested."""
    return ChildCache(lister, clock=clock)


def uids(cache: ChildCache[Pod]) -> list[str]:
    """Uids of the job's pods."""
    return [stored.uid for stored in cache.owned_by("j")]


def test_what_was_made_is_seen_before_the_cache_shows_it(
    cache: ChildCache[Pod], lister: Lister[Pod]
) -> None:
    """And once only afterwards."""
    made = pod()
    cache.made(made)
    assert uids(cache) == ["u"]
    assert cache.owned_by("other") == ()
    lister.put(made)
    cache.seen(Event(EventType.ADDED, PODS, new=made))
    assert uids(cache) == ["u"]
    lister.remove(made.key)
    cache.seen(Event(EventType.DELETED, PODS, old=made))
    assert uids(cache) == []


def test_what_the_cache_never_shows_is_forgotten(cache: ChildCache[Pod], clock: Clock) -> None:
    """Made and gone between two lists."""
    cache.made(pod())
    clock.now = 31.0
    assert uids(cache) == []


def test_an_event_of_an_earlier_pod_of_that_name_does_not_hide_the_new_one(
    cache: ChildCache[Pod],
) -> None:
    """The deletion of the old one comes late."""
    cache.made(pod(uid="new"))
    cache.seen(Event(EventType.DELETED, PODS, old=pod(uid="old")))
    assert uids(cache) == ["new"]


def test_what_was_deleted_counts_as_leaving(
    cache: ChildCache[Pod], lister: Lister[Pod], clock: Clock
) -> None:
    """Until the cache tells, or the deletion seems to have been lost."""
    lister.put(pod())
    cache.deleted("u")
    assert cache.owned_by("j")[0].view.metadata.deletion_timestamp is not None
    clock.now = 11.0
    assert cache.owned_by("j")[0].view.metadata.deletion_timestamp is None


def test_our_own_change_is_seen_before_the_cache_shows_it(
    cache: ChildCache[Pod], lister: Lister[Pod]
) -> None:
    """So that it is not made twice."""
    lister.put(pod())
    cache.made(pod(version="2"))
    assert cache.owned_by("j")[0].resource_version == "2"
    lister.put(pod(version="3"))
    assert cache.owned_by("j")[0].resource_version == "3"


def test_departed_pods_are_remembered_until_the_status_tells() -> None:
    """Of each job its own; without a controller there is nobody to remember for."""
    departed = Departed()
    departed.add(pod(uid="a", phase="Succeeded"))
    departed.add(pod(uid="b"))
    departed.add(view({"metadata": {"name": "x", "namespace": "ns"}}, Pod))
    told = departed.of("j")[:1]
    departed.forget("j", told)
    assert [p.uid for p in departed.of("j")] == ["b"]
    departed.forget("j")
    assert departed.of("j") == ()


def test_departed_pods_of_predecessors_are_forgotten() -> None:
    """Jobs come and go under one name."""
    departed, owner = Departed(), ObjectKey("ns", "j")
    departed.add(pod(phase="Succeeded"), ended_alone=True)
    departed.keep_only(owner, "j")
    assert departed.endings("j") == {"u": True}
    departed.keep_only(owner, "successor")
    assert departed.of("j") == ()
    assert departed.endings("j") == {}
    assert departed._owners == {}


def leaving(**status: Any) -> Stored[Pod]:
    """The pod after its removal was asked for."""
    made = pod(**status)
    meta = msgspec.structs.replace(
        made.view.metadata, deletion_timestamp=datetime(2026, 11, 30, tzinfo=UTC)
    )
    return msgspec.structs.replace(made, view=msgspec.structs.replace(made.view, metadata=meta))


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([pod(phase="Running"), leaving(phase="Running"), leaving(phase="Succeeded")], False),
        ([pod(phase="Running"), pod(phase="Succeeded"), leaving(phase="Succeeded")], True),
        ([leaving(phase="Running"), leaving(phase="Failed")], False),
        ([pod(phase="Running"), leaving(phase="Succeeded")], None),  # a list after a broken watch
        ([leaving(phase="Succeeded")], None),  # GM has just started
    ],
)
def test_the_order_of_end_and_removal_is_remembered(
    states: list[Stored[Pod]], expected: bool | None
) -> None:
    """As it was seen, until the pod is gone."""
    endings = Endings()
    for state in states:
        told = endings.note(Event(EventType.MODIFIED, PODS, new=state))
    assert told is expected
    assert endings.of([states[-1]]) == ({} if expected is None else {"u": expected})
    assert endings.note(Event(EventType.DELETED, PODS, old=states[-1])) is expected
    assert endings.of([states[-1]]) == {}
    assert endings.note(Event[Pod](EventType.SYNCED, PODS)) is None


def test_what_we_delete_has_not_ended_by_itself_unless_it_shows() -> None:
    """It may have ended before the request came to the API server."""
    endings = Endings()
    endings.removing("u")
    assert endings.note(Event(EventType.MODIFIED, PODS, new=leaving(phase="Failed"))) is False
    assert endings.note(Event(EventType.MODIFIED, PODS, new=pod(phase="Failed"))) is True
    endings.removing("u")
    assert endings.of([pod()]) == {"u": True}


def test_departed_pods_are_bounded() -> None:
    """A job that fails for ever must not fill the memory."""
    departed = Departed()
    for number in range(500):
        departed.add(pod(uid=str(number)))
    assert len(departed.of("j")) == 200
    assert departed.of("j")[-1].uid == "499"


def on_node(name: str, *, phase: str = "Running", port: int = 80, node: str = "n") -> Stored[Pod]:
    """A pod in the network of ``node``."""
    containers = [{"ports": [{"containerPort": port}]}] if port else []
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
        "spec": {"nodeName": node or None, "hostNetwork": True, "containers": containers},
        "status": {"phase": phase},
    }
    found: Stored[Pod] = view(body, Pod)
    return found


@pytest.mark.parametrize(
    "end",
    [
        Event(EventType.DELETED, PODS, old=on_node("a")),
        Event(EventType.MODIFIED, PODS, new=on_node("a", phase="Succeeded"), old=on_node("a")),
    ],
)
def test_who_waits_for_a_port_is_woken_once_when_a_pod_of_that_node_goes_P1_068(
    end: Event[Pod],
) -> None:
    """By its deletion or its end."""
    users, job = HostPortUsers(), ObjectKey("ns", "job")
    assert users.note(Event(EventType.ADDED, PODS, new=on_node("a"))) == frozenset()
    users.wait(job, ["n"])
    assert users.note(Event(EventType.ADDED, PODS, new=on_node("b"))) == frozenset()
    assert [pod.key.name for pod in users.pods["n"]] == ["a", "b"]
    assert users.note(end) == {job}
    assert users.note(Event(EventType.DELETED, PODS, old=on_node("b"))) == frozenset()
    assert users.pods == {}


def test_pods_without_node_or_port_take_no_room_P1_068() -> None:
    """Nor do events without a pod."""
    users = HostPortUsers()
    for event in (
        Event(EventType.ADDED, PODS, new=on_node("a", node="")),
        Event(EventType.ADDED, PODS, new=on_node("a", port=0)),
        Event[Pod](EventType.SYNCED, PODS),
    ):
        assert users.note(event) == frozenset()
    assert users.pods == {}
