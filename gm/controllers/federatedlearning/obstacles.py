"""What keeps workers from doing their work though their pods are as they should be.

Nothing here stops or replaces a worker: an edge node comes back by itself, and people are told
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from gm.api.core import Pod, PodSpec, Service
from gm.api.meta import Condition, Json
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.state import CREATING, Phase, WorkerState
from gm.controllers.federatedlearning.status import Problem
from gm.controllers.federatedlearning.world import World
from gm.kube.lister import Stored

__all__ = [
    "HostPort",
    "HostPorts",
    "Obstacle",
    "host_ports",
    "slow_starts",
    "unreachable_nodes",
    "without_endpoint",
]

_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not listened on


class Obstacle(msgspec.Struct, frozen=True):
    """A problem from ``begins`` on; before that it is only a possibility."""

    begins: datetime
    problem: Problem


def unreachable_nodes(world: World, states: Sequence[WorkerState]) -> list[Obstacle]:
    """Nodes that are not Ready while a worker of the job is on them.

    The grace period begins anew with each report from the worker: who reports is reached.
    """
    grace = timedelta(seconds=world.settings.node_grace_seconds)
    reports = {entry.name: entry.last_report_time for entry in world.job.view.status.workers or ()}
    found = []
    for state in states:
        node = (world.nodes or {}).get(state.node or "")
        if state.has_ended or node is None or not (state.is_active or state.leaving):
            continue
        ready = _condition(node.status.conditions, "Ready")
        if ready is None or ready.status == "True":
            continue
        since = ready.last_transition_time
        heard = reports.get(state.worker.name)
        begins = [moment + grace for moment in (since, heard) if moment is not None]
        told = f" since {timestamp(since)}" if since else ""
        why = f" ({ready.message})" if ready.message else ""
        message = (
            f"{state.title}: the node is not Ready{told}{why}; "
            "the pod is left alone until it is back"
        )
        problem = Problem(kind="NodeUnreachable", reason="NodeNotReady", message=message)
        found.append(Obstacle(max(begins, default=world.now), problem))
    return found


def slow_starts(world: World, states: Sequence[WorkerState]) -> list[Obstacle]:
    """Pods whose node prepares them for long: a real kubelet says why in an Event only.

    Where the pod itself tells why, there is nothing to wait for.
    """
    grace = timedelta(seconds=world.settings.creating_grace_seconds)
    found = []
    for state in states:
        if state.pod is None or state.has_ended or state.reason not in CREATING:
            continue
        since = _idle_since(state.pod.view)
        if since is None:
            continue
        pod, why = state.pod.key, state.message
        words = why or "its image may still be pulled, or a volume can not be mounted"
        message = (
            f"{state.title}: pod {pod.name} is being created since {timestamp(since)}: {words}; "
            f"see kubectl describe pod {pod.name} -n {pod.namespace}"
        )
        problem = Problem(kind="Waiting", reason="ContainerCreating", message=message)
        found.append(Obstacle(since if why else since + grace, problem))
    return found


def _idle_since(pod: Pod) -> datetime | None:
    """Since when the node has run nothing of the pod; None while something runs."""
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    states = [status.state for status in statuses if status.state is not None]
    if any(state.running is not None for state in states):
        return None
    ends = [state.terminated.finished_at for state in states if state.terminated is not None]
    begin = pod.status.start_time or pod.metadata.creation_timestamp
    return max([moment for moment in (*ends, begin) if moment is not None], default=None)


def without_endpoint(
    world: World, service: Stored[Service] | None, states: Sequence[WorkerState]
) -> list[Obstacle]:
    """The aggregator's Service, if trainers run and it has no pod that is ready.

    Its endpoints are the pods that its selector finds: the aggregator's, which GM sees anyway.
    """
    aggregator, trainers = states[0], states[1:]
    if service is None or aggregator.has_ended or not any(s.is_active for s in trainers):
        return []
    since = _not_ready_since(aggregator)
    if since is None:
        return []
    where = f" on {aggregator.node}" if aggregator.node else ""
    words = aggregator.reason or (_phase_of(aggregator.pod) if aggregator.pod else "has no pod")
    message = (
        f"Service {service.key.name} has no ready endpoint since {timestamp(since)}, so trainers "
        f"do not reach the aggregator{where}: {words}"
    )
    problem = Problem(kind="WorkerUnreachable", reason="NoEndpoints", message=message)
    grace = timedelta(seconds=world.settings.endpoint_grace_seconds)
    return [Obstacle(since + grace, problem)]


def _not_ready_since(aggregator: WorkerState) -> datetime | None:
    if aggregator.pod is None:
        return min(
            (
                pod.view.metadata.deletion_requested
                for pod in aggregator.leaving
                if pod.view.metadata.deletion_requested is not None
            ),
            default=None,
        )
    pod = aggregator.pod.view
    ready = _condition(pod.status.conditions, "Ready")
    if ready is None:
        is_running = pod.status.phase == Phase.RUNNING
        return None if is_running else pod.metadata.creation_timestamp
    if ready.status == "True":
        return None
    return ready.last_transition_time or pod.metadata.creation_timestamp


def _phase_of(pod: Stored[Pod]) -> str:
    return f"its pod is {pod.view.status.phase or 'Pending'}, but not ready"


def _condition(conditions: Iterable[Condition] | None, kind: str) -> Condition | None:
    return next((c for c in conditions or () if c.type == kind), None)


# --- host ports ---


class HostPort(msgspec.Struct, frozen=True):
    """A port of a node that a pod takes, on one of the node's addresses or (empty) on all."""

    port: int
    protocol: str = "TCP"
    address: str = ""

    def meets(self, other: HostPort) -> bool:
        """Whether only one of the two can be had."""
        same = self.port == other.port and self.protocol == other.protocol
        return same and (
            self.address == other.address
            or not _ANY_ADDRESS.isdisjoint({self.address, other.address})
        )


class HostPorts:
    """The host ports of the nodes, and which pod has them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._taken: dict[str, list[tuple[HostPort, str]]] = {}

    def take(self, node: str | None, body: Json) -> Problem | None:
        """Take what the pod ``body`` needs on ``node``; else say who has it."""
        try:
            spec = msgspec.convert(body["spec"], PodSpec)
        except msgspec.ValidationError:
            return None  # the API server says what is wrong with it
        wanted = host_ports(spec)
        if node is None or not wanted:
            return None  # without a node: the scheduler finds one where they are free
        name, holders = body["metadata"]["name"], self._holders(node)
        for port in wanted:
            for taken, holder in holders:
                if port.meets(taken):
                    message = (
                        f"Pod {name} needs port {port.port}/{port.protocol} of node {node}, which "
                        f"pod {holder} has; it is made when that pod has gone, or give it another"
                    )
                    return Problem(kind="PortConflict", reason="PortConflict", message=message)
        holders += [(port, name) for port in wanted]
        return None

    def _holders(self, node: str) -> list[tuple[HostPort, str]]:
        if node not in self._taken:
            own = [pod for pod in self._world.pods if pod.view.spec.node_name == node]
            mine = {pod.key for pod in own}
            others = [p for p in self._world.neighbours.get(node, ()) if p.key not in mine]
            self._taken[node] = [
                (port, str(pod.key))
                for pod in (*own, *others)
                if pod.view.status.phase not in (Phase.SUCCEEDED, Phase.FAILED)
                for port in host_ports(pod.view.spec)
            ]
        return self._taken[node]


def host_ports(spec: PodSpec) -> list[HostPort]:
    """The ports of its node that a pod takes: in the node's network, all that it declares."""
    declared = [port for container in spec.containers or () for port in container.ports or ()]
    return [
        HostPort(number, port.protocol or "TCP", port.host_ip or "")
        for port in declared
        if (number := port.host_port or (port.container_port if spec.host_network else None))
    ]
