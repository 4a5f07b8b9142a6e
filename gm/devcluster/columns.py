"""The columns of the built-in kinds' tables, cell by cell as kube-apiserver renders them."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import Json
from gm.devcluster.cells import (
    NONE,
    UNKNOWN,
    age,
    age_column,
    conditions_of,
    labels_text,
    meta_of,
    name_column,
    selector_text,
    spec_of,
    status_of,
)
from gm.devcluster.info import Column
from gm.devcluster.podcolumns import PODS

__all__ = ["BUILTIN", "DEFAULT"]

# --- nodes --------------------------------------------------------------------------------------

_ROLE = "node-role.kubernetes.io/"


def _node_status(obj: Json, _now: float) -> str:
    ready = conditions_of(obj).get("Ready")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if spec_of(obj).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: Json, _now: float) -> str:
    roles = set()
    for key, value in (meta_of(obj).get("labels") or {}).items():
        if key.startswith(_ROLE) and (role := key.removeprefix(_ROLE)):
            roles.add(role)
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    return ",".join(sorted(roles)) or NONE


def _node_address(kind: str) -> Column:
    def cell(obj: Json, _now: float) -> str:
        addresses = status_of(obj).get("addresses") or []
        return next((a.get("address", "") for a in addresses if a.get("type") == kind), NONE)

    return Column(name=kind.replace("IP", "-IP"), priority=1, cell=cell)


def _node_info(name: str, key: str) -> Column:
    return Column(
        name=name,
        priority=1,
        cell=lambda obj, _: (status_of(obj).get("nodeInfo") or {}).get(key) or UNKNOWN,
    )


_NODES = (
    Column(name="Status", cell=_node_status),
    Column(name="Roles", cell=_node_roles),
    age_column(),
    Column(
        name="Version",
        cell=lambda obj, _: (status_of(obj).get("nodeInfo") or {}).get("kubeletVersion", ""),
    ),
    _node_address("InternalIP"),
    _node_address("ExternalIP"),
    _node_info("OS-Image", "osImage"),
    _node_info("Kernel-Version", "kernelVersion"),
    _node_info("Container-Runtime", "containerRuntimeVersion"),
)


# --- services -----------------------------------------------------------------------------------


def _external_ip(obj: Json, _now: float) -> str:
    spec = spec_of(obj)
    fixed = list(spec.get("externalIPs") or [])
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case "LoadBalancer":
            ingress = (status_of(obj).get("loadBalancer") or {}).get("ingress") or []
            got = [i.get("ip") or i.get("hostname") or "" for i in ingress]
            return ",".join([*got, *fixed]) or "<pending>"
        case _:
            return ",".join(fixed) or NONE


def _service_ports(obj: Json, _now: float) -> str:
    texts = []
    for port in spec_of(obj).get("ports") or []:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


_SERVICES = (
    Column(name="Type", cell=lambda obj, _: spec_of(obj).get("type", "")),
    Column(name="Cluster-IP", cell=lambda obj, _: spec_of(obj).get("clusterIP") or NONE),
    Column(name="External-IP", cell=_external_ip),
    Column(name="Port(s)", cell=_service_ports),
    age_column(),
    Column(
        name="Selector", priority=1, cell=lambda obj, _: labels_text(spec_of(obj).get("selector"))
    ),
)


# --- workloads ----------------------------------------------------------------------------------


def _template_containers(obj: Json) -> list[Json]:
    spec = (spec_of(obj).get("template") or {}).get("spec") or {}
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
        name="Selector", priority=1, cell=lambda obj, _: selector_text(spec_of(obj).get("selector"))
    ),
)


def _count(name: str, key: str, *, type: str = "integer") -> Column:  # noqa: A002
    return Column(name=name, type=type, cell=lambda obj, _: status_of(obj).get(key, 0))


_DEPLOYMENTS = (
    Column(
        name="Ready",
        cell=lambda obj, _: (
            f"{status_of(obj).get('readyReplicas', 0)}/{spec_of(obj).get('replicas', 0)}"
        ),
    ),
    _count("Up-to-date", "updatedReplicas", type="string"),
    _count("Available", "availableReplicas", type="string"),
    age_column(),
    *_WORKLOAD,
)
_REPLICA_SETS = (
    Column(name="Desired", type="integer", cell=lambda obj, _: spec_of(obj).get("replicas", 0)),
    _count("Current", "replicas"),
    _count("Ready", "readyReplicas"),
    age_column(),
    *_WORKLOAD,
)


def _hpa_reference(obj: Json, _now: float) -> str:
    target = spec_of(obj).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _hpa_targets(obj: Json, _now: float) -> str:
    texts = []
    for metric in spec_of(obj).get("metrics") or []:
        resource = metric.get("resource") or {}
        target = resource.get("target") or {}
        if metric.get("type") == "Resource" and "averageUtilization" in target:
            texts.append(f"{resource.get('name')}: <unknown>/{target['averageUtilization']}%")
        else:
            texts.append("<unknown>/<auto>")
    return ", ".join(texts) or NONE


_AUTOSCALERS = (
    Column(name="Reference", cell=_hpa_reference),
    Column(name="Targets", cell=_hpa_targets),
    Column(name="MinPods", cell=lambda obj, _: str(spec_of(obj).get("minReplicas", "<unset>"))),
    Column(name="MaxPods", cell=lambda obj, _: spec_of(obj).get("maxReplicas", 0)),
    _count("Replicas", "currentReplicas", type="string"),
    age_column(),
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
    Column(
        name="Name", format="name", priority=1, cell=lambda obj, _: meta_of(obj).get("name", "")
    ),
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
    return _few(texts) or NONE


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
        "Terminating"
        if meta_of(obj).get("deletionTimestamp")
        else str(status_of(obj).get("phase", ""))
    )


def _claim_bound(key: str, *, what: str) -> Column:
    """A cell that stays empty until the claim has a volume."""

    def cell(obj: Json, _now: float) -> str:
        if not spec_of(obj).get("volumeName"):
            return ""
        if key == "capacity":
            return str((status_of(obj).get("capacity") or {}).get("storage", ""))
        return ",".join(_ACCESS.get(mode, mode) for mode in status_of(obj).get("accessModes") or [])

    return Column(name=what, cell=cell)


_CLAIMS = (
    Column(name="Status", cell=_claim_status),
    Column(name="Volume", cell=lambda obj, _: spec_of(obj).get("volumeName", "")),
    _claim_bound("capacity", what="Capacity"),
    _claim_bound("accessModes", what="Access Modes"),
    Column(name="StorageClass", cell=lambda obj, _: spec_of(obj).get("storageClassName", "")),
    Column(
        name="VolumeAttributesClass",
        cell=lambda obj, _: spec_of(obj).get("volumeAttributesClassName", "<unset>"),
    ),
    age_column(),
    Column(name="VolumeMode", priority=1, cell=lambda obj, _: spec_of(obj).get("volumeMode", "")),
)

DEFAULT: tuple[Column, ...] = (name_column(), age_column())
"""Columns of a kind that says nothing about them."""

BUILTIN: dict[str, tuple[Column, ...]] = {
    "Pod": PODS,
    "Node": (name_column(), *_NODES),
    "Service": (name_column(), *_SERVICES),
    "Deployment": (name_column(), *_DEPLOYMENTS),
    "ReplicaSet": (name_column(), *_REPLICA_SETS),
    "HorizontalPodAutoscaler": (name_column(), *_AUTOSCALERS),
    "Event": _EVENTS,
    "Namespace": (
        name_column(),
        Column(name="Status", cell=lambda obj, _: status_of(obj).get("phase", "")),
        age_column(),
    ),
    "Secret": (
        name_column(),
        Column(name="Type", cell=lambda obj, _: obj.get("type", "")),
        Column(name="Data", cell=lambda obj, _: len(obj.get("data") or {})),
        age_column(),
    ),
    "ConfigMap": (
        name_column(),
        Column(
            name="Data",
            cell=lambda obj, _: len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
        ),
        age_column(),
    ),
    "ServiceAccount": (
        name_column(),
        Column(name="Secrets", cell=lambda obj, _: len(obj.get("secrets") or [])),
        age_column(),
    ),
    "Endpoints": (name_column(), Column(name="Endpoints", cell=_endpoints), age_column()),
    "EndpointSlice": (
        name_column(),
        Column(name="AddressType", cell=lambda obj, _: obj.get("addressType", "")),
        Column(name="Ports", cell=_slice_ports),
        Column(name="Endpoints", cell=_slice_endpoints),
        age_column(),
    ),
    "PersistentVolumeClaim": (name_column(), *_CLAIMS),
    "Lease": (
        name_column(),
        Column(name="Holder", cell=lambda obj, _: spec_of(obj).get("holderIdentity", "")),
        age_column(),
    ),
    "CustomResourceDefinition": (
        name_column(),
        Column(
            name="Created At",
            type="date",
            cell=lambda obj, _: meta_of(obj).get("creationTimestamp", ""),
        ),
    ),
}
"""Columns by kind."""
