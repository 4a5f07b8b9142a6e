"""Read-only views of Kubernetes' own kinds, as far as this program reads them.

Whatever an API server may send as ``null`` or leave out has a default; unknown fields are
ignored. A view is therefore never written back: patch the object instead.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from gm.api.meta import Condition, ObjectMeta
from gm.api.schema import View

__all__ = [
    "Container",
    "ContainerPort",
    "ContainerState",
    "ContainerStatus",
    "DaemonEndpoint",
    "EnvVar",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespaceStatus",
    "Node",
    "NodeAddress",
    "NodeDaemonEndpoints",
    "NodeSpec",
    "NodeStatus",
    "Pod",
    "PodSpec",
    "PodStatus",
    "Running",
    "Secret",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "Taint",
    "Terminated",
    "Waiting",
]


class EnvVar(View, frozen=True, kw_only=True):
    """One environment variable; ``value`` is None where it comes from elsewhere."""

    name: str = ""
    value: str | None = None


class ContainerPort(View, frozen=True, kw_only=True):
    """A port that a container declares; ``host_port`` is one of its node."""

    container_port: int = 0
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Container(View, frozen=True, kw_only=True):
    """A container as the pod's spec has it."""

    name: str = ""
    image: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    ports: tuple[ContainerPort, ...] | None = None

    def env_value(self, name: str) -> str | None:
        """The literal value of variable ``name``; of duplicates the last, as in a real pod."""
        return next((e.value for e in reversed(self.env or ()) if e.name == name), None)


class PodSpec(View, frozen=True, kw_only=True):
    """What we read of a pod's spec."""

    node_name: str | None = None
    host_network: bool | None = None
    restart_policy: str | None = None
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None


class Waiting(View, frozen=True, kw_only=True):
    """A container that is not running yet, or not again yet."""

    reason: str | None = None
    message: str | None = None


class Running(View, frozen=True, kw_only=True):
    """A container that runs."""

    started_at: datetime | None = None


class Terminated(View, frozen=True, kw_only=True):
    """A container that has ended."""

    exit_code: int = 0
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(View, frozen=True, kw_only=True):
    """At most one of the three is set; none means waiting."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    """How one container is doing."""

    name: str = ""
    ready: bool | None = None
    restart_count: int | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatus(View, frozen=True, kw_only=True):
    """How a pod is doing; ``phase`` is empty on a pod that no kubelet has seen."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(View, frozen=True, kw_only=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ServicePort(View, frozen=True, kw_only=True):
    """One port of a Service; ``target_port`` is a number or a container port's name."""

    name: str | None = None
    port: int = 0
    node_port: int | None = None
    target_port: int | str | None = None
    protocol: str | None = None


class ServiceSpec(View, frozen=True, kw_only=True):
    """What we read of a Service's spec."""

    type: str | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    ports: tuple[ServicePort, ...] | None = None
    selector: dict[str, str] | None = None
    external_ips: tuple[str, ...] | None = msgspec.field(default=None, name="externalIPs")


class Service(View, frozen=True, kw_only=True):
    """A Service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class NodeAddress(View, frozen=True, kw_only=True):
    """An address of a node; ``type`` is InternalIP, ExternalIP, Hostname and the like."""

    type: str = ""
    address: str = ""


class Taint(View, frozen=True, kw_only=True):
    """What keeps pods off a node unless they tolerate it."""

    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(View, frozen=True, kw_only=True):
    """What we read of a Node's spec."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool | None = None


class DaemonEndpoint(View, frozen=True, kw_only=True):
    """A port; Kubernetes writes it with a capital letter."""

    port: int = msgspec.field(default=0, name="Port")


class NodeDaemonEndpoints(View, frozen=True, kw_only=True):
    """Where the node's kubelet serves logs."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeStatus(View, frozen=True, kw_only=True):
    """How a node is doing."""

    addresses: tuple[NodeAddress, ...] | None = None
    conditions: tuple[Condition, ...] | None = None
    daemon_endpoints: NodeDaemonEndpoints | None = None


class Node(View, frozen=True, kw_only=True):
    """A node of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def address(self, *types: str) -> str | None:
        """The first address of the first of ``types`` that the node has."""
        for wanted in types:
            for entry in self.status.addresses or ():
                if entry.type == wanted and entry.address:
                    return entry.address
        return None


class Secret(View, frozen=True, kw_only=True):
    """A Secret; the values of ``data`` are base64."""

    metadata: ObjectMeta = ObjectMeta()
    type: str | None = None
    data: dict[str, str] | None = None


class NamespaceStatus(View, frozen=True, kw_only=True):
    """``phase`` is Active or Terminating."""

    phase: str | None = None


class Namespace(View, frozen=True, kw_only=True):
    """A namespace."""

    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class LeaseSpec(View, frozen=True, kw_only=True):
    """Who holds a lease, and until when."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(View, frozen=True, kw_only=True):
    """A lease of ``coordination.k8s.io/v1``."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
