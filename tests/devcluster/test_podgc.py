"""Pods of nodes that are gone or that do not want them."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.controller import Controller
from gm.devcluster.cursors import Feed
from gm.devcluster.podgc import PodCollector, TaintEviction
from tests.devcluster.core import Plain, node, plain, pod


class _World:
    """An API, one of the controllers, and a clock that is set by hand."""

    def __init__(self, make: type[Controller[Any]], **settings: float) -> None:
        self.api: Plain = plain(widgets=False)
        del self.api.api.hooks["nodes"]
        self.now = 0.0
        self.controller = make(self.api.api, **settings)
        self.controller.clock = lambda: self.now
        self._feed = Feed(self.api.store, *self.controller.kinds)

    def look(self, at: float) -> list[float | None]:
        """Reconcile what has changed, and the pod ``p`` in any case."""
        self.now = at
        keys = dict.fromkeys(k for c in self._feed.take() for k in self.controller.observe(c))
        keys.setdefault(self.api.key("pods", "p"))
        return [self.controller.reconcile(key) for key in keys]

    def taint(self, *taints: Json) -> None:
        self.api.patch("nodes", "n", lambda n: {**n, "spec": {"taints": list(taints)}})


@pytest.fixture
def orphans() -> _World:
    """The collector of pods without a node."""
    return _World(PodCollector, grace_seconds=40)


@pytest.fixture
def taints() -> _World:
    """The eviction by taints."""
    world = _World(TaintEviction)
    world.api.create("nodes", node("n"))
    return world


def test_a_pod_whose_node_is_gone_fails_and_is_removed(orphans: _World) -> None:
    """After the grace; whoever watches sees Failed with the reason."""
    orphans.api.create("nodes", node("n"))
    orphans.api.create("pods", pod("p", nodeName="n"))
    assert orphans.look(0) == [None]
    orphans.api.api.remove(orphans.api.info("nodes"), orphans.api.key("nodes", "n"))
    assert orphans.look(1) == [40]
    assert orphans.look(40) == [1]
    before = orphans.api.store.revision
    assert orphans.look(41) == [None]
    assert orphans.api.names("pods") == []
    seen = orphans.api.store.table("pods").changes(before)
    assert [c.type for c in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
    status = seen[0].record.object["status"]
    assert status["phase"] == "Failed"
    assert status["conditions"][-1]["reason"] == "DeletionByPodGC"


def test_a_node_that_comes_back_in_time_keeps_its_pods(orphans: _World) -> None:
    """The grace begins anew the next time."""
    orphans.api.create("pods", pod("p", nodeName="n"))
    assert orphans.look(0) == [40]
    orphans.api.create("nodes", node("n"))
    assert orphans.look(39) == [None]
    orphans.api.api.remove(orphans.api.info("nodes"), orphans.api.key("nodes", "n"))
    assert orphans.look(50) == [40]


def test_pods_without_a_node_are_not_orphans(orphans: _World) -> None:
    """They wait for the scheduler."""
    orphans.api.create("pods", pod("p"))
    assert orphans.look(0) == [None]
    assert orphans.look(100) == [None]
    assert orphans.api.names("pods") == ["p"]


def test_a_pod_that_was_over_keeps_its_phase(orphans: _World) -> None:
    """It succeeded, whatever became of its node."""
    orphans.api.create("pods", pod("p", nodeName="n"))
    orphans.api.patch(
        "pods", "p", lambda p: {**p, "status": {"phase": "Succeeded"}}, subresource="status"
    )
    orphans.look(0)
    orphans.look(40)
    last = orphans.api.store.table("pods").changes(orphans.api.store.revision - 1)[0]
    assert last.record.object["status"]["phase"] == "Succeeded"


TAINT = {"key": "k", "effect": "NoExecute"}


def test_a_pod_that_does_not_tolerate_a_taint_is_deleted(taints: _World) -> None:
    """With its grace, and an event."""
    taints.api.create("pods", pod("p", nodeName="n"))
    assert taints.look(0) == [None]
    taints.taint({"key": "k", "effect": "NoSchedule"})
    assert taints.look(1) == [None]
    taints.taint(TAINT)
    taints.look(2)
    assert "deletionTimestamp" in taints.api.get("pods", "p")["metadata"]
    (event,) = taints.api.store.table("events").records()
    assert event.object["reason"] == "TaintManagerEviction"
    assert taints.look(3) == [None]


@pytest.mark.parametrize("seconds", [None, 300])
def test_a_toleration_may_be_for_some_time(taints: _World, seconds: int | None) -> None:
    """Or for ever."""
    toleration: Json = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds
    taints.api.create("pods", pod("p", nodeName="n", tolerations=[toleration]))
    taints.taint(TAINT)
    assert taints.look(10) == [seconds]
    taints.look(309)
    assert "deletionTimestamp" not in taints.api.get("pods", "p")["metadata"]
    taints.look(310)
    assert ("deletionTimestamp" in taints.api.get("pods", "p")["metadata"]) is (seconds == 300)


def test_a_taint_that_goes_in_time_is_forgotten(taints: _World) -> None:
    """The next one counts from its own beginning."""
    toleration = {
        "key": "k",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    taints.api.create("pods", pod("p", nodeName="n", tolerations=[toleration]))
    taints.taint(TAINT)
    assert taints.look(0) == [300]
    taints.taint()
    assert taints.look(200) == [None]
    taints.taint(TAINT)
    assert taints.look(400) == [300]


def test_a_removed_pod_is_not_looked_for(taints: _World) -> None:
    """The node's later changes are not its business."""
    taints.api.create("pods", pod("p", nodeName="n"))
    taints.look(0)
    taints.api.api.remove(taints.api.info("pods"), taints.api.key("pods", "p"))
    taints.taint(TAINT)
    assert taints.look(1) == [None]
