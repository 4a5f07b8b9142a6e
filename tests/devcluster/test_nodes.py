"""Taints and conditions of nodes."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster.nodes import NOT_READY, UNREACHABLE, NodeLifecycle
from tests.devcluster.core import Plain, node, plain, pod

LEASES = "leases.coordination.k8s.io"


class _World:
    """An API with the node controller and a clock that is set by hand."""

    def __init__(self) -> None:
        self.api: Plain = plain(widgets=False)
        self.now = 0.0
        self.controller = NodeLifecycle(self.api.api, grace_seconds=40)
        self.controller.clock = lambda: self.now

    def look(self, at: float) -> float | None:
        self.now = at
        return self.controller.reconcile("n")

    def taints(self) -> list[tuple[str, str]]:
        taints = self.api.get("nodes", "n")["spec"].get("taints", [])
        return [(taint["key"], taint["effect"]) for taint in taints]

    def ready(self) -> str:
        conditions = self.api.get("nodes", "n")["status"].get("conditions", [])
        return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "")

    def set_ready(self, status: str, heartbeat: str) -> None:
        condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
        self.api.patch(
            "nodes",
            "n",
            lambda n: {**n, "status": {"conditions": [condition]}},
            subresource="status",
        )

    def renew(self, time: str) -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "n"},
            "spec": {"renewTime": f"{time}.000000Z"},
        }
        if self.api.find(LEASES, "n", namespace="kube-node-lease") is None:
            self.api.create(LEASES, lease, namespace="kube-node-lease")
            return
        key = self.api.key(LEASES, "n", "kube-node-lease")
        self.api.api.modify(self.api.info(LEASES), key, lambda o: {**o, "spec": lease["spec"]})


BOTH_NOT_READY = [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
BOTH_UNREACHABLE = [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]


def test_a_new_node_is_tainted_until_it_is_ready() -> None:
    """The runner or kubelet reports, the taint goes."""
    world = _World()
    world.api.create("nodes", node("n", ready=""))
    assert world.taints() == [(NOT_READY, "NoSchedule")]
    world.look(0)
    assert world.taints() == [(NOT_READY, "NoSchedule")]
    world.set_ready("False", "2026-01-01T00:00:00Z")
    world.look(1)
    assert world.taints() == BOTH_NOT_READY
    world.set_ready("True", "2026-01-01T00:00:01Z")
    world.look(2)
    assert world.taints() == []


def test_other_taints_are_left_alone() -> None:
    """A person's or a program's."""
    world = _World()
    mine = {"key": "sedna.io/runner", "effect": "NoSchedule"}
    world.api.create("nodes", {**node("n"), "spec": {"taints": [mine]}})
    world.look(0)
    assert world.taints() == [("sedna.io/runner", "NoSchedule")]


def test_the_taint_is_not_added_twice() -> None:
    """A node that brings it."""
    world = _World()
    brought = {"key": NOT_READY, "effect": "NoSchedule"}
    world.api.create("nodes", {**node("n", ready=""), "spec": {"taints": [brought]}})
    assert world.taints() == [(NOT_READY, "NoSchedule")]


def test_a_node_that_is_not_heard_of_is_unknown() -> None:
    """After the grace, with taints and an event; its pods are not ready."""
    world = _World()
    world.api.create("nodes", node("n"))
    world.renew("2026-01-01T00:00:00")
    for name, where in (("here", "n"), ("there", "m"), ("bare", "n")):
        world.api.create("pods", pod(name, nodeName=where))
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    for name in ("here", "there"):
        world.api.patch("pods", name, lambda p: {**p, "status": ready}, subresource="status")
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    world.api.create("pods", pod("unready", nodeName="n"))
    world.api.patch("pods", "unready", lambda p: {**p, "status": unready}, subresource="status")
    before_loss = world.api.get("pods", "unready")
    assert world.look(0) == 40
    assert world.look(39) == 1
    assert world.ready() == "True"
    assert world.look(40) is None
    assert world.ready() == "Unknown"
    assert world.taints() == BOTH_UNREACHABLE
    assert _pod_ready(world, "here") == "False"
    assert _pod_ready(world, "there") == "True"
    assert world.api.get("pods", "unready") is before_loss
    (event,) = world.api.store.table("events").records()
    assert event.object["reason"] == "NodeNotReady"
    before = world.api.store.revision
    assert world.look(50) is None
    assert world.api.store.revision == before


def _pod_ready(world: _World, name: str) -> str:
    conditions: list[Json] = world.api.get("pods", name)["status"]["conditions"]
    return next(str(c["status"]) for c in conditions if c["type"] == "Ready")


def test_a_lease_or_a_heartbeat_keeps_a_node_alive() -> None:
    """The server's clock counts, whatever times the node writes."""
    world = _World()
    world.api.create("nodes", node("n"))
    world.look(0)
    world.renew("1999-01-01T00:00:00")
    assert world.look(30) == 40
    world.set_ready("True", "1999-01-01T00:00:00Z")
    assert world.look(60) == 40
    world.renew("1999-01-01T00:00:05")
    assert world.look(90) == 40
    assert world.ready() == "True"


def test_a_node_that_returns_is_ready_again() -> None:
    """As soon as it says so."""
    world = _World()
    world.api.create("nodes", node("n"))
    world.look(0)
    world.look(41)
    assert world.ready() == "Unknown"
    world.set_ready("True", "2026-01-01T00:00:00Z")
    assert world.look(60) == 40
    assert (world.ready(), world.taints()) == ("True", [])


def test_a_node_that_never_reported() -> None:
    """Says so."""
    world = _World()
    world.api.create("nodes", node("n", ready=""))
    world.look(0)
    world.look(40)
    (condition,) = world.api.get("nodes", "n")["status"]["conditions"]
    assert condition["reason"] == "NodeStatusNeverUpdated"


def test_a_node_that_is_gone_is_forgotten() -> None:
    """Another of the same name begins anew."""
    world = _World()
    world.api.create("nodes", node("n"))
    world.look(0)
    world.api.api.remove(world.api.info("nodes"), world.api.key("nodes", "n"))
    assert world.look(39) is None
    world.api.create("nodes", node("n"))
    assert world.look(39) == 40


def test_leases_of_others_are_no_heartbeats() -> None:
    """Leader elections have Leases, too."""
    world = _World()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n"}}
    world.api.create(LEASES, lease)
    world.api.create("nodes", node("n"))
    world.renew("2026-01-01T00:00:00")
    changes = [
        change
        for table in ("nodes", LEASES)
        for change in world.api.store.table(table).changes(world.api.store.first)
    ]
    assert [list(world.controller.observe(change)) for change in changes] == [["n"], [], ["n"]]


def test_the_hook_has_nothing_to_do_later() -> None:
    """Changes and removals of nodes pass."""
    world = _World()
    world.api.create("nodes", node("n", ready=""))
    world.api.patch("nodes", "n", lambda n: {**n, "spec": {}})
    assert world.taints() == []
    world.api.api.remove(world.api.info("nodes"), world.api.key("nodes", "n"))
    assert world.api.names("nodes") == []
