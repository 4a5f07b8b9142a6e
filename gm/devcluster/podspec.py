"""What is wrong with a pod, or with the change of one, in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

from gm.api.meta import Json
from gm.devcluster.gojson import fingerprint
from gm.devcluster.metadata import (
    dns_label,
    dns_label_problems,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid_value,
    labels_causes,
    qualified_name,
    required,
)
from gm.devcluster.podaffinity import affinity, spread, toleration
from gm.devcluster.podcontainers import MAX_ID, containers, identities
from gm.devcluster.podcontainers import warnings as container_warnings
from gm.devcluster.podvolumes import volumes
from gm.devcluster.rules import choice, ip_address
from gm.devcluster.status import Cause

__all__ = ["pod", "pod_change", "pod_spec", "pod_warnings", "spec_warnings"]

_CHANGEABLE = "`spec.containers[*].image`,`spec.initContainers[*].image`," + (
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_CONTAINERS = ("containers", "initContainers")
_POLICIES = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]


def pod(obj: Json) -> Iterator[Cause]:
    """A pod."""
    spec = obj["spec"]
    yield from pod_spec(spec, "spec")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield forbidden(
            "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
        )


def pod_spec(spec: Json, path: str) -> Iterator[Cause]:
    """The spec of a pod, or of a template at ``path``."""
    found: list[Json] = spec.get("volumes") or []
    yield from volumes(found, f"{path}.volumes")
    yield from containers(spec, path, {volume.get("name", "") for volume in found})
    yield from choice(spec, path, "restartPolicy", ["Always", "OnFailure", "Never"])
    yield from choice(spec, path, "dnsPolicy", _POLICIES)
    yield from labels_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    yield from _security(spec, path)
    yield from affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _dns(spec, path)
    yield from _names(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_ID:
        why = f"must be between 1 and {MAX_ID}, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, why)
    for index, each in enumerate(spec.get("tolerations") or []):
        yield from toleration(each, f"{path}.tolerations[{index}]")
    for index, alias in enumerate(spec.get("hostAliases") or []):
        yield from _alias(alias, f"{path}.hostAliases[{index}]")
    constraints: list[Json] = spec.get("topologySpreadConstraints") or []
    yield from spread(constraints, f"{path}.topologySpreadConstraints")
    if (system := (spec.get("os") or {}).get("name")) is not None:
        yield from choice({"os": system}, path, "os", ["linux", "windows"])
    yield from _gates(spec.get("schedulingGates") or [], f"{path}.schedulingGates")


def _security(spec: Json, path: str) -> Iterator[Cause]:
    where = f"{path}.securityContext"
    if spec.get("hostNetwork"):
        for field in ("containers", "initContainers"):
            for index, container in enumerate(spec.get(field) or []):
                ports: list[Json] = container.get("ports") or []
                yield from _host_ports(ports, f"{path}.{field}[{index}].ports")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid_value(f"{where}.shareProcessNamespace", True, why)
    yield from identities(spec.get("securityContext") or {}, where)


def _host_ports(ports: list[Json], path: str) -> Iterator[Cause]:
    for index, port in enumerate(ports):
        if port.get("hostPort") not in (None, 0, port.get("containerPort")):
            why = "must match `containerPort` when `hostNetwork` is true"
            yield invalid_value(f"{path}[{index}].hostPort", port["hostPort"], why)


def _dns(spec: Json, path: str) -> Iterator[Cause]:
    config, where = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(where, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{where}.nameservers", why)
    servers: list[str] = (config or {}).get("nameservers") or []
    if len(servers) > 3:
        yield invalid_value(
            f"{where}.nameservers", servers, "must not have more than 3 nameservers"
        )
    for index, server in enumerate(servers):
        yield from ip_address(server, f"{where}.nameservers[{index}]")
    for index, option in enumerate((config or {}).get("options") or []):
        if not option.get("name"):
            yield required(f"{where}.options[{index}]", "must not be empty")


def _names(spec: Json, path: str) -> Iterator[Cause]:
    rules = {
        "serviceAccountName": dns_subdomain,
        "nodeName": dns_subdomain,
        "hostname": dns_label,
        "subdomain": dns_label,
        "priorityClassName": dns_subdomain,
    }
    for field, rule in rules.items():
        if (name := spec.get(field)) and (problem := rule(name)):
            yield invalid_value(f"{path}.{field}", name, problem)


def _alias(alias: Json, path: str) -> Iterator[Cause]:
    yield from ip_address(alias.get("ip", ""), f"{path}.ip")
    for index, name in enumerate(alias.get("hostnames") or []):
        if problem := dns_subdomain(name):
            yield invalid_value(f"{path}.hostnames[{index}]", name, problem)


def _gates(gates: list[Json], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        if problem := qualified_name(name):
            yield invalid_value(f"{path}[{index}]", name, problem)
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def pod_change(new: Json, old: Json) -> Iterator[Cause]:
    """What may change of a pod's spec: images, deadline, more tolerations, fewer gates."""
    if any(len(old["spec"].get(f) or ()) != len(new["spec"].get(f) or ()) for f in _CONTAINERS):
        yield forbidden("spec.containers", "pod updates may not add or remove containers")
        return
    yield from _class_change(new, old)
    yield from _deadline_change(*(o["spec"].get("activeDeadlineSeconds") for o in (old, new)))
    gates = {gate.get("name") for gate in old["spec"].get("schedulingGates") or []}
    for index, gate in enumerate(new["spec"].get("schedulingGates") or []):
        if gate.get("name") not in gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", why)
    kept = {fingerprint(each) for each in new["spec"].get("tolerations") or []}
    if any(fingerprint(each) not in kept for each in old["spec"].get("tolerations") or []):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", why)
    before, after = (_fixed(o["spec"]) for o in (old, new))
    if (old["spec"].get("terminationGracePeriodSeconds") or 0) < 0:
        before["terminationGracePeriodSeconds"] = 1
    if before != after:
        fields = sorted(k for k in {*before, *after} if before.get(k) != after.get(k))
        yield forbidden(
            "spec",
            f"pod updates may not change fields other than {_CHANGEABLE}: "
            f"{', '.join(fields)} would change",
        )


def _class_change(new: Json, old: Json) -> Iterator[Cause]:
    """The class that a pod's resources put it in stays."""
    before, after = ((o.get("status") or {}).get("qosClass") for o in (old, new))
    if before and before != after:
        yield invalid_value("status.qosClass", after, "field is immutable")


def _deadline_change(before: int | None, after: int | None) -> Iterator[Cause]:
    """A deadline may only come nearer."""
    field = "spec.activeDeadlineSeconds"
    if before is None:
        return
    if after is None:
        yield invalid_value(field, None, "must not update from a positive integer to nil value")
    elif after > before:
        yield invalid_value(field, after, "must be less than or equal to previous value")


def _fixed(spec: Json) -> Json:
    """What of a spec can not change."""
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    fixed = {k: v for k, v in spec.items() if k not in free}
    for field in _CONTAINERS:
        if field in fixed:
            fixed[field] = [{**c, "image": ""} for c in fixed[field]]
    return fixed


def pod_warnings(obj: Json) -> list[str]:
    """What the writer of a pod is told about what is taken nevertheless."""
    found = []
    if problems := dns_label_problems(obj["metadata"].get("name", "")):
        found.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising "
            f"behavior; a DNS label is recommended: [{' '.join(problems)}]"
        )
    return [*found, *spec_warnings(obj["spec"], "spec")]


def spec_warnings(spec: Json, path: str) -> Iterator[str]:
    """The same of a spec, which may be a template's."""
    for index, secret in enumerate(spec.get("imagePullSecrets") or []):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from container_warnings(spec, path)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        if constraint.get("labelSelector") is None:
            where = f"{path}.topologySpreadConstraints[{index}].labelSelector"
            yield f"{where}: a null labelSelector results in matching no pod"
