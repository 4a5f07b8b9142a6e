"""Pods are given to nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.scheduler import Scheduler
from tests.devcluster.core import Plain, Settler, node, plain, pod, settle


class _World:
    """An API with the scheduler, at rest between steps."""

    def __init__(self) -> None:
        self.api: Plain = plain(widgets=False)
        # Without the hook that taints new nodes: nobody is here to take the taint away.
        del self.api.api.hooks["nodes"]
        self.settler: Settler = settle(self.api, Scheduler(self.api.api))

    def node(self, name: str, **labels: str) -> None:
        self.api.create("nodes", node(name, labels=labels))
        self.settler.settle()

    def pod(self, name: str, **spec: Any) -> str:
        self.api.create("pods", pod(name, **spec))
        return self.where(name)

    def where(self, name: str) -> str:
        self.settler.settle()
        return str(self.api.get("pods", name)["spec"].get("nodeName", ""))

    def patch(self, plural: str, name: str, change: Any, subresource: str = "") -> None:
        self.api.patch(plural, name, change, subresource=subresource)
        self.settler.settle()

    def delete(self, plural: str, name: str) -> None:
        key = self.api.key(plural, name)
        delete(self.api.api, self.api.info(plural), key, DeleteOptions(grace_period_seconds=0))
        self.settler.settle()

    def events(self) -> list[tuple[str, str]]:
        records = self.api.store.table("events").records()
        return sorted((r.object["reason"], r.object["message"]) for r in records)


@pytest.fixture
def world() -> _World:
    """An empty one."""
    return _World()


def _condition(api: Plain, name: str) -> Json:
    (condition,) = api.get("pods", name)["status"]["conditions"]
    found: Json = condition
    return found


def test_a_pod_is_bound_to_a_node_that_fits(world: _World) -> None:
    """With event and condition."""
    world.node("a")
    world.node("b", disk="ssd")
    assert world.pod("p", nodeSelector={"disk": "ssd"}) == "b"
    assert world.events() == [("Scheduled", "Successfully assigned default/p to b")]
    assert _condition(world.api, "p")["status"] == "True"


def test_pods_are_spread(world: _World) -> None:
    """Each goes where the fewest are, also within one sweep."""
    world.node("a")
    world.node("b")
    for n in range(4):
        world.api.create("pods", pod(f"p{n}"))
    assert [world.where(f"p{n}") for n in range(4)] == ["a", "b", "a", "b"]


def test_a_pod_that_fits_nowhere_waits_and_says_why(world: _World) -> None:
    """One event for one reason, until there is a node."""
    assert world.pod("p", nodeSelector={"disk": "ssd"}) == ""
    world.node("a")
    world.node("b")
    assert world.where("p") == ""
    assert [reason for reason, _ in world.events()] == ["FailedScheduling"] * 3
    condition = _condition(world.api, "p")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] == (
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    )
    world.patch("nodes", "b", _labelled)
    assert world.where("p") == "b"


def _labelled(obj: Json) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "labels": {"disk": "ssd"}}}


def test_heartbeats_of_nodes_wake_nobody(world: _World) -> None:
    """Only what a node offers matters."""
    world.node("a")
    world.pod("p", nodeSelector={"disk": "ssd"})
    before = world.api.store.table("pods").revision
    status = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    world.patch("nodes", "a", lambda n: {**n, "status": status}, "status")
    assert world.api.store.table("pods").revision == before


def test_a_pod_that_leaves_makes_room(world: _World) -> None:
    """Host ports are free again when a pod is deleted or over."""
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
    world.node("a")
    assert world.pod("p1", containers=[container]) == "a"
    assert world.pod("p2", containers=[container]) == ""
    world.delete("pods", "p1")
    assert world.where("p2") == "a"
    assert world.pod("p3", containers=[container]) == ""
    world.patch("pods", "p2", lambda p: {**p, "status": {"phase": "Succeeded"}}, "status")
    assert world.where("p3") == "a"


@pytest.mark.parametrize(
    "spec", [{"schedulerName": "other"}, {"schedulingGates": [{"name": "x.io/g"}]}]
)
def test_pods_that_are_not_its_business(world: _World, spec: Json) -> None:
    """Another scheduler's, and those that are gated."""
    world.node("a")
    assert world.pod("p", **spec) == ""
    assert world.events() == []


def test_a_pod_with_a_node_is_left_alone(world: _World) -> None:
    """Whoever made it chose."""
    world.node("a")
    assert world.pod("p", nodeName="elsewhere") == "elsewhere"


def test_a_waiting_pod_that_is_deleted_is_forgotten(world: _World) -> None:
    """A later node does not bring it back."""
    world.pod("p")
    world.delete("pods", "p")
    world.node("a")
    assert world.api.names("pods") == []


def test_a_node_that_goes_takes_no_more(world: _World) -> None:
    """The reason changes with the number of nodes."""
    world.node("a")
    world.delete("nodes", "a")
    world.pod("p")
    assert world.events() == [("FailedScheduling", "no nodes available to schedule pods")]


def test_a_pod_that_went_before_its_turn(world: _World) -> None:
    """There is nothing to bind."""
    world.api.create("pods", pod("p"))
    scheduler = Scheduler(world.api.api)
    key = world.api.key("pods", "p")
    world.api.api.remove(world.api.info("pods"), key)
    assert scheduler.reconcile(key) is None
