"""The columns of the built-in kinds' tables, cell by cell as kube-apiserver renders them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gm.api.meta import Json
from gm.devcluster.info import Column

__all__ = ["BUILTIN", "DEFAULT", "NAME_DESCRIPTION", "age", "human_duration", "name_column"]

NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name "
    "automatically. Name is primarily intended for creation idempotence and configuration "
    "definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/"
    "working-with-objects/names#names"
)
_NONE, _UNKNOWN = "<none>", "<unknown>"


def human_duration(seconds: float) -> str:
    """A duration in the two units that matter: ``13s``, ``2m5s``, ``3h10m``, ``4d2h``, ``1y3d``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(hours // 24, "d", hours % 24, "h")
    days = hours // 24
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}" + (f"{small}{small_unit}" if small else "")


def seconds_of(timestamp: str) -> float | None:
    """An RFC 3339 time as seconds since the epoch; None if it is none."""
    try:
        parsed = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def age(timestamp: Any, now: float) -> str:
    """How long ago ``timestamp`` was; ``<unknown>`` without one."""
    at = seconds_of(timestamp) if timestamp else None
    return _UNKNOWN if at is None else human_duration(now - at)


def _meta(obj: Json) -> Json:
    meta: Json = obj.get("metadata") or {}
    return meta


def _spec(obj: Json) -> Json:
    spec: Json = obj.get("spec") or {}
    return spec


def _status(obj: Json) -> Json:
    status: Json = obj.get("status") or {}
    return status


def name_column() -> Column:
    """The first column of every table."""
    return Column(name="Name", format="name", cell=lambda obj, _: _meta(obj).get("name", ""))


def _age_column() -> Column:
    return Column(name="Age", cell=lambda obj, now: age(_meta(obj).get("creationTimestamp"), now))


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


def selector_text(selector: Json | None) -> str:
    """A label selector as one line."""
    if not selector:
        return _NONE
    parts = [f"{k}={v}" for k, v in sorted((selector.get("matchLabels") or {}).items())]
    for need in selector.get("matchExpressions") or []:
        key, values = need.get("key", ""), ",".join(sorted(need.get("values") or []))
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }.get(need.get("operator", ""), key)
        )
    return ",".join(parts) or _NONE


def _conditions(obj: Json) -> dict[str, str]:
    found = _status(obj).get("conditions") or []
    return {c.get("type", ""): c.get("status", "") for c in found}


# --- pods ---------------------------------------------------------------------------------------


def _sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _state(status: Json, which: str, state: str = "state") -> Json | None:
    found: Json | None = (status.get(state) or {}).get(which)
    return found


def _ended(terminated: Json) -> str:
    """Why a container ended, in one word."""
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(obj: Json) -> str:
    """Which init container the pod waits for; empty when none."""
    declared = _spec(obj).get("initContainers") or []
    by_name = {c.get("name"): c for c in declared}
    for index, status in enumerate(_status(obj).get("initContainerStatuses") or []):
        terminated, waiting = _state(status, "terminated"), _state(status, "waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if _sidecar(by_name.get(status.get("name"), {})) and status.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        reason = (waiting or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(declared)}"
    return ""


def pod_status(obj: Json) -> str:
    """The STATUS cell of a pod: its phase, or what a container says that is more telling."""
    status = _status(obj)
    reason = str(status.get("reason") or status.get("phase") or "")
    phase = status.get("phase", "")
    conditions = _conditions(obj)
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initializing = _init_reason(obj)
    if initializing:
        reason = initializing
    if not initializing or conditions.get("Initialized") == "True":
        reason = _container_reason(obj, reason, is_ready=conditions.get("Ready") == "True")
    if _meta(obj).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _container_reason(obj: Json, reason: str, *, is_ready: bool) -> str:
    has_running = False
    for container in reversed(_status(obj).get("containerStatuses") or []):
        waiting, terminated = _state(container, "waiting"), _state(container, "terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
        elif container.get("ready") and _state(container, "running") is not None:
            has_running = True
    if reason == "Completed" and has_running:
        return "Running" if is_ready else "NotReady"
    return reason


def _pod_ready(obj: Json, _now: float) -> str:
    total = len(_spec(obj).get("containers") or [])
    statuses = [*(_status(obj).get("containerStatuses") or [])]
    ready = sum(1 for s in statuses if s.get("ready") and _state(s, "running") is not None)
    sidecars = {c.get("name") for c in _spec(obj).get("initContainers") or [] if _sidecar(c)}
    for status in _status(obj).get("initContainerStatuses") or []:
        ready += status.get("name") in sidecars and bool(status.get("ready"))
    return f"{ready}/{total + len(sidecars)}"


def _pod_restarts(obj: Json, now: float) -> str:
    which = "containerStatuses"
    if _init_reason(obj) and _conditions(obj).get("Initialized") != "True":
        which = "initContainerStatuses"
    statuses = _status(obj).get(which) or []
    restarts = sum(s.get("restartCount", 0) for s in statuses)
    ends = [
        at
        for status in statuses
        if (last := _state(status, "terminated", "lastState")) is not None
        and (at := seconds_of(last.get("finishedAt", ""))) is not None
    ]
    if restarts and ends:
        return f"{restarts} ({human_duration(now - max(ends))} ago)"
    return str(restarts)


def _pod_ip(obj: Json, _now: float) -> str:
    ips = _status(obj).get("podIPs") or []
    return str((ips[0].get("ip") if ips else _status(obj).get("podIP")) or _NONE)


def _readiness_gates(obj: Json, _now: float) -> str:
    gates = _spec(obj).get("readinessGates") or []
    if not gates:
        return _NONE
    conditions = _conditions(obj)
    met = sum(1 for gate in gates if conditions.get(gate.get("conditionType", "")) == "True")
    return f"{met}/{len(gates)}"


_PODS = (
    Column(name="Ready", cell=_pod_ready),
    Column(name="Status", cell=lambda obj, _: pod_status(obj)),
    Column(name="Restarts", cell=_pod_restarts),
    _age_column(),
    Column(name="IP", priority=1, cell=_pod_ip),
    Column(name="Node", priority=1, cell=lambda obj, _: _spec(obj).get("nodeName") or _NONE),
    Column(
        name="Nominated Node",
        priority=1,
        cell=lambda obj, _: _status(obj).get("nominatedNodeName") or _NONE,
    ),
    Column(name="Readiness Gates", priority=1, cell=_readiness_gates),
)


# --- nodes --------------------------------------------------------------------------------------

_ROLE = "node-role.kubernetes.io/"


def _node_status(obj: Json, _now: float) -> str:
    ready = _conditions(obj).get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if _spec(obj).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: Json, _now: float) -> str:
    roles = set()
    for key, value in (_meta(obj).get("labels") or {}).items():
        if key.startswith(_ROLE) and (role := key.removeprefix(_ROLE)):
            roles.add(role)
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or _NONE


def _node_address(kind: str) -> Column:
    def cell(obj: Json, _now: float) -> str:
        addresses = _status(obj).get("addresses") or []
        return next((a.get("address", "") for a in addresses if a.get("type") == kind), _NONE)

    return Column(name=kind.replace("IP", "-IP"), priority=1, cell=cell)


def _node_info(name: str, key: str) -> Column:
    return Column(
        name=name,
        priority=1,
        cell=lambda obj, _: (_status(obj).get("nodeInfo") or {}).get(key) or _UNKNOWN,
    )


_NODES = (
    Column(name="Status", cell=_node_status),
    Column(name="Roles", cell=_node_roles),
    _age_column(),
    Column(
        name="Version",
        cell=lambda obj, _: (_status(obj).get("nodeInfo") or {}).get("kubeletVersion", ""),
    ),
    _node_address("InternalIP"),
    _node_address("ExternalIP"),
    _node_info("OS-Image", "osImage"),
    _node_info("Kernel-Version", "kernelVersion"),
    _node_info("Container-Runtime", "containerRuntimeVersion"),
)


# --- services -----------------------------------------------------------------------------------


def _external_ip(obj: Json, _now: float) -> str:
    spec = _spec(obj)
    fixed = list(spec.get("externalIPs") or [])
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case "LoadBalancer":
            ingress = (_status(obj).get("loadBalancer") or {}).get("ingress") or []
            got = [i.get("ip") or i.get("hostname") or "" for i in ingress]
            return ",".join([*got, *fixed]) or "<pending>"
        case _:
            return ",".join(fixed) or _NONE


def _service_ports(obj: Json, _now: float) -> str:
    texts = []
    for port in _spec(obj).get("ports") or []:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or _NONE


_SERVICES = (
    Column(name="Type", cell=lambda obj, _: _spec(obj).get("type", "")),
    Column(name="Cluster-IP", cell=lambda obj, _: _spec(obj).get("clusterIP") or _NONE),
    Column(name="External-IP", cell=_external_ip),
    Column(name="Port(s)", cell=_service_ports),
    _age_column(),
    Column(name="Selector", priority=1, cell=lambda obj, _: _labels(_spec(obj).get("selector"))),
)


# --- workloads ----------------------------------------------------------------------------------


def _template_containers(obj: Json) -> list[Json]:
    spec = (_spec(obj).get("template") or {}).get("spec") or {}
    containers: list[Json] = spec.get("containers") or []
    return containers


_WORKLOAD = (
    Column(
        name="Containers",
        priority=1,
        cell=lambda obj, _: ",".join(c.get("name", "") for c in _template_containers(obj)),
    ),
    Column(
        name="Images",
        priority=1,
        cell=lambda obj, _: ",".join(c.get("image", "") for c in _template_containers(obj)),
    ),
    Column(
        name="Selector", priority=1, cell=lambda obj, _: selector_text(_spec(obj).get("selector"))
    ),
)


def _count(name: str, key: str, *, type: str = "integer") -> Column:  # noqa: A002
    return Column(name=name, type=type, cell=lambda obj, _: _status(obj).get(key, 0))


_DEPLOYMENTS = (
    Column(
        name="Ready",
        cell=lambda obj, _: (
            f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}"
        ),
    ),
    _count("Up-to-date", "updatedReplicas", type="string"),
    _count("Available", "availableReplicas", type="string"),
    _age_column(),
    *_WORKLOAD,
)
_REPLICA_SETS = (
    Column(name="Desired", type="integer", cell=lambda obj, _: _spec(obj).get("replicas", 0)),
    _count("Current", "replicas"),
    _count("Ready", "readyReplicas"),
    _age_column(),
    *_WORKLOAD,
)


def _hpa_reference(obj: Json, _now: float) -> str:
    target = _spec(obj).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _hpa_targets(obj: Json, _now: float) -> str:
    texts = []
    for metric in _spec(obj).get("metrics") or []:
        resource = metric.get("resource") or {}
        target = resource.get("target") or {}
        if metric.get("type") == "Resource" and "averageUtilization" in target:
            texts.append(f"{resource.get('name')}: <unknown>/{target['averageUtilization']}%")
        else:
            texts.append("<unknown>/<auto>")
    return ", ".join(texts) or _NONE


_AUTOSCALERS = (
    Column(name="Reference", cell=_hpa_reference),
    Column(name="Targets", cell=_hpa_targets),
    Column(name="MinPods", cell=lambda obj, _: str(_spec(obj).get("minReplicas", "<unset>"))),
    Column(name="MaxPods", cell=lambda obj, _: _spec(obj).get("maxReplicas", 0)),
    _count("Replicas", "currentReplicas", type="string"),
    _age_column(),
)


# --- events -------------------------------------------------------------------------------------


def _event_target(obj: Json, _now: float) -> str:
    involved = obj.get("involvedObject") or {}
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(obj: Json, _now: float) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _first_seen(obj: Json, now: float) -> str:
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _last_seen(obj: Json, now: float) -> str:
    if series := obj.get("series"):
        return age(series.get("lastObservedTime"), now)
    return age(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else _first_seen(obj, now)


def _event_count(obj: Json, _now: float) -> int:
    return int((obj.get("series") or obj).get("count") or 1)


_EVENTS = (
    Column(name="Last Seen", cell=_last_seen),
    Column(name="Type", cell=lambda obj, _: obj.get("type", "")),
    Column(name="Reason", cell=lambda obj, _: obj.get("reason", "")),
    Column(name="Object", cell=_event_target),
    Column(
        name="Subobject",
        priority=1,
        cell=lambda obj, _: (obj.get("involvedObject") or {}).get("fieldPath", ""),
    ),
    Column(name="Source", priority=1, cell=_event_source),
    Column(name="Message", cell=lambda obj, _: (obj.get("message") or "").strip()),
    Column(name="First Seen", priority=1, cell=_first_seen),
    Column(name="Count", priority=1, cell=_event_count),
    Column(name="Name", format="name", priority=1, cell=lambda obj, _: _meta(obj).get("name", "")),
)


# --- the rest -----------------------------------------------------------------------------------


def _few(texts: Iterable[str], most: int = 3) -> str:
    """The first ``most`` of ``texts``, and how many more there are."""
    every = list(texts)
    if len(every) > most:
        return f"{','.join(every[:most])} + {len(every) - most} more..."
    return ",".join(every)


def _endpoints(obj: Json, _now: float) -> str:
    texts: list[str] = []
    for subset in obj.get("subsets") or []:
        addresses = [a.get("ip", "") for a in subset.get("addresses") or []]
        ports = [p.get("port") for p in subset.get("ports") or []]
        texts += [f"{ip}:{port}" for port in ports for ip in addresses] if ports else addresses
    return _few(texts) or _NONE


def _slice_ports(obj: Json, _now: float) -> str:
    return _few(str(p.get("port", "*")) for p in obj.get("ports") or []) or "<unset>"


def _slice_endpoints(obj: Json, _now: float) -> str:
    found = [a for endpoint in obj.get("endpoints") or [] for a in endpoint.get("addresses") or []]
    return _few(found) or "<unset>"


_ACCESS = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _claim_status(obj: Json, _now: float) -> str:
    return (
        "Terminating" if _meta(obj).get("deletionTimestamp") else str(_status(obj).get("phase", ""))
    )


def _claim_bound(key: str, *, what: str) -> Column:
    """A cell that stays empty until the claim has a volume."""

    def cell(obj: Json, _now: float) -> str:
        if not _spec(obj).get("volumeName"):
            return ""
        if key == "capacity":
            return str((_status(obj).get("capacity") or {}).get("storage", ""))
        return ",".join(_ACCESS.get(mode, mode) for mode in _status(obj).get("accessModes") or [])

    return Column(name=what, cell=cell)


_CLAIMS = (
    Column(name="Status", cell=_claim_status),
    Column(name="Volume", cell=lambda obj, _: _spec(obj).get("volumeName", "")),
    _claim_bound("capacity", what="Capacity"),
    _claim_bound("accessModes", what="Access Modes"),
    Column(name="StorageClass", cell=lambda obj, _: _spec(obj).get("storageClassName", "")),
    Column(
        name="VolumeAttributesClass",
        cell=lambda obj, _: _spec(obj).get("volumeAttributesClassName", "<unset>"),
    ),
    _age_column(),
    Column(name="VolumeMode", priority=1, cell=lambda obj, _: _spec(obj).get("volumeMode", "")),
)

DEFAULT: tuple[Column, ...] = (name_column(), _age_column())
"""Columns of a kind that says nothing about them."""

BUILTIN: dict[str, tuple[Column, ...]] = {
    "Pod": (name_column(), *_PODS),
    "Node": (name_column(), *_NODES),
    "Service": (name_column(), *_SERVICES),
    "Deployment": (name_column(), *_DEPLOYMENTS),
    "ReplicaSet": (name_column(), *_REPLICA_SETS),
    "HorizontalPodAutoscaler": (name_column(), *_AUTOSCALERS),
    "Event": _EVENTS,
    "Namespace": (
        name_column(),
        Column(name="Status", cell=lambda obj, _: _status(obj).get("phase", "")),
        _age_column(),
    ),
    "Secret": (
        name_column(),
        Column(name="Type", cell=lambda obj, _: obj.get("type", "")),
        Column(name="Data", cell=lambda obj, _: len(obj.get("data") or {})),
        _age_column(),
    ),
    "ConfigMap": (
        name_column(),
        Column(
            name="Data",
            cell=lambda obj, _: len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
        ),
        _age_column(),
    ),
    "ServiceAccount": (
        name_column(),
        Column(name="Secrets", cell=lambda obj, _: len(obj.get("secrets") or [])),
        _age_column(),
    ),
    "Endpoints": (name_column(), Column(name="Endpoints", cell=_endpoints), _age_column()),
    "EndpointSlice": (
        name_column(),
        Column(name="AddressType", cell=lambda obj, _: obj.get("addressType", "")),
        Column(name="Ports", cell=_slice_ports),
        Column(name="Endpoints", cell=_slice_endpoints),
        _age_column(),
    ),
    "PersistentVolumeClaim": (name_column(), *_CLAIMS),
    "Lease": (
        name_column(),
        Column(name="Holder", cell=lambda obj, _: _spec(obj).get("holderIdentity", "")),
        _age_column(),
    ),
    "CustomResourceDefinition": (
        name_column(),
        Column(
            name="Created At",
            type="date",
            cell=lambda obj, _: _meta(obj).get("creationTimestamp", ""),
        ),
    ),
}
"""Columns by kind."""
