"""What is wrong with objects of the built-in kinds: the common mistakes, in the server's words."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from gm.api.meta import Json
from gm.devcluster import quantity
from gm.devcluster.metadata import (
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid_value,
    labels_causes,
    quoted,
    required,
    unsupported,
)
from gm.devcluster.status import Cause

__all__ = [
    "config_data",
    "config_data_change",
    "core_event",
    "deployment",
    "deployment_change",
    "lease",
    "node",
    "pod",
    "pod_change",
    "replica_set",
    "secret",
    "secret_change",
    "service",
    "service_change",
]

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PORT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_POD_CHANGEABLE = "`spec.containers[*].image`,`spec.initContainers[*].image`," + (
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MAX_INT32 = 2**31 - 1
_DATA_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable"
_CONTAINERS = ("containers", "initContainers")
_EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]


# --- pods ---------------------------------------------------------------------------------------


def pod(obj: Json) -> Iterator[Cause]:
    """A pod."""
    yield from pod_spec(obj["spec"], "spec")


def pod_spec(spec: Json, path: str) -> Iterator[Cause]:
    """The spec of a pod, or of a template at ``path``."""
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or []):
        yield from _volume(volume, f"{path}.volumes[{index}]", volumes)
    names: set[str] = set()
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            yield from _container(container, f"{path}.{field}[{index}]", names, volumes)
    yield from _choice(spec, path, "restartPolicy", ["Always", "OnFailure", "Never"])
    yield from _choice(
        spec, path, "dnsPolicy", ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]
    )
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        why = f"must be between 1 and {_MAX_INT32}, inclusive"
        yield invalid_value(f"{path}.activeDeadlineSeconds", deadline, why)
    for field in ("nodeName", "hostname", "serviceAccountName"):
        rule = dns_label if field == "hostname" else dns_subdomain
        if (name := spec.get(field)) and (problem := rule(name)):
            yield invalid_value(f"{path}.{field}", name, problem)
    yield from labels_causes(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    for index, toleration in enumerate(spec.get("tolerations") or []):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")


def _choice(obj: Json, path: str, field: str, allowed: list[str]) -> Iterator[Cause]:
    if (value := obj.get(field)) is not None and value not in allowed:
        yield unsupported(f"{path}.{field}", value, allowed)


def _volume(volume: Json, path: str, names: set[str]) -> Iterator[Cause]:
    name = volume.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif problem := dns_label(name):
        yield invalid_value(f"{path}.name", name, problem)
    elif name in names:
        yield duplicate(f"{path}.name", name)
    names.add(name)
    if len(sources := sorted(key for key in volume if key != "name")) > 1:
        for extra in sources[1:]:
            yield forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    if "hostPath" in volume and not volume["hostPath"].get("path"):
        yield required(f"{path}.hostPath.path")
    if "secret" in volume and not volume["secret"].get("secretName"):
        yield required(f"{path}.secret.secretName")
    if "configMap" in volume and not volume["configMap"].get("name"):
        yield required(f"{path}.configMap.name")


def _container(container: Json, path: str, names: set[str], volumes: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif problem := dns_label(name):
        yield invalid_value(f"{path}.name", name, problem)
    elif name in names:
        yield duplicate(f"{path}.name", name)
    names.add(name)
    image = container.get("image", "")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        why = "must not have leading or trailing whitespace"
        yield invalid_value(f"{path}.image", image, why)
    yield from _choice(container, path, "imagePullPolicy", ["Always", "IfNotPresent", "Never"])
    yield from _ports(container.get("ports") or [], f"{path}.ports")
    for index, variable in enumerate(container.get("env") or []):
        yield from _variable(variable, f"{path}.env[{index}]")
    for index, mount in enumerate(container.get("volumeMounts") or []):
        yield from _mount(mount, f"{path}.volumeMounts[{index}]", volumes)
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _mount(mount: Json, path: str, volumes: set[str]) -> Iterator[Cause]:
    if not (name := mount.get("name")):
        yield required(f"{path}.name")
    elif name not in volumes:
        yield Cause("FieldValueNotFound", f"Not found: {quoted(name)}", f"{path}.name")
    if not mount.get("mountPath"):
        yield required(f"{path}.mountPath")


def _variable(variable: Json, path: str) -> Iterator[Cause]:
    if not variable.get("name"):
        yield required(f"{path}.name")
    elif "=" in variable["name"]:
        why = "a valid environment variable name must consist only of printable ASCII characters other than '='"  # noqa: E501
        yield invalid_value(f"{path}.name", variable["name"], why)
    source = variable.get("valueFrom")
    if source is not None and variable.get("value"):
        yield invalid_value(
            f"{path}.valueFrom", "", "may not be specified when `value` is not empty"
        )
    elif source == {}:
        sources = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid_value(f"{path}.valueFrom", "", f"must specify one of: {sources}")


def _ports(ports: list[Json], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if name := port.get("name"):
            yield from _port_name(name, f"{where}.name", names)
        if not (number := port.get("containerPort")):
            yield required(f"{where}.containerPort")
        else:
            yield from _port_number(number, f"{where}.containerPort")
        if host_port := port.get("hostPort"):
            yield from _port_number(host_port, f"{where}.hostPort")
        yield from _choice(port, where, "protocol", ["SCTP", "TCP", "UDP"])


def _port_name(name: str, path: str, names: set[str]) -> Iterator[Cause]:
    if len(name) > 15:
        yield invalid_value(path, name, "must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        why = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield invalid_value(path, name, why)
    if not re.search("[a-z]", name):
        yield invalid_value(path, name, "must contain at least one letter (a-z)")
    if name in names:
        yield duplicate(path, name)
    names.add(name)


def _port_number(number: int, path: str) -> Iterator[Cause]:
    if not 1 <= number <= 65535:
        yield invalid_value(path, number, "must be between 1 and 65535, inclusive")


def _resources(resources: Json, path: str) -> Iterator[Cause]:
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        if name in limits and quantity.value(amount) > quantity.value(limits[name]):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", amount, why)


def _toleration(toleration: Json, path: str) -> Iterator[Cause]:
    operator = toleration.get("operator") or "Equal"
    if operator not in ("Equal", "Exists"):
        yield unsupported(f"{path}.operator", operator, ["Equal", "Exists"])
    if operator == "Exists" and toleration.get("value"):
        why = "value must be empty when `operator` is 'Exists'"
        yield invalid_value(f"{path}.operator", toleration["value"], why)
    if not toleration.get("key") and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'  # noqa: E501
        yield invalid_value(f"{path}.operator", toleration.get("operator", ""), why)
    yield from _choice(toleration, path, "effect", _EFFECTS)


def pod_change(new: Json, old: Json) -> Iterator[Cause]:
    """What may change of a pod's spec: images, deadline, more tolerations."""
    if any(len(old["spec"].get(f) or ()) != len(new["spec"].get(f) or ()) for f in _CONTAINERS):
        yield forbidden("spec.containers", "pod updates may not add or remove containers")
        return
    yield from _deadline_change(*(o["spec"].get("activeDeadlineSeconds") for o in (old, new)))
    before, after = (_fixed_pod_spec(o["spec"]) for o in (old, new))
    if (old["spec"].get("terminationGracePeriodSeconds") or 0) < 0:
        before["terminationGracePeriodSeconds"] = 1
    if before != after:
        fields = sorted(k for k in {*before, *after} if before.get(k) != after.get(k))
        yield forbidden(
            "spec",
            f"pod updates may not change fields other than {_POD_CHANGEABLE}: "
            f"{', '.join(fields)} would change",
        )
    kept = new["spec"].get("tolerations") or []
    if any(t not in kept for t in old["spec"].get("tolerations") or []):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", why)


def _deadline_change(before: int | None, after: int | None) -> Iterator[Cause]:
    """A deadline may only come nearer."""
    field = "spec.activeDeadlineSeconds"
    if before is None:
        return
    if after is None:
        yield invalid_value(field, None, "must not update from a positive integer to nil value")
    elif after > before:
        yield invalid_value(field, after, "must be less than or equal to previous value")


def _fixed_pod_spec(spec: Json) -> Json:
    fixed = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations")}
    for field in _CONTAINERS:
        if field in fixed:
            fixed[field] = [{**c, "image": ""} for c in fixed[field]]
    return fixed


# --- services -----------------------------------------------------------------------------------


def service(obj: Json) -> Iterator[Cause]:
    """A service."""
    spec, ports = obj["spec"], obj["spec"].get("ports") or []
    kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
    yield from _choice(spec, "spec", "type", kinds)
    headless = spec.get("clusterIP") == "None"
    if spec.get("type") == "ExternalName":
        if not spec.get("externalName"):
            yield required("spec.externalName")
        return
    if not ports and not headless:
        yield required("spec.ports")
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        yield from _service_port(port, f"spec.ports[{index}]", names, many=len(ports) > 1)
        key = (port.get("port"), port.get("protocol"))
        if key in numbers:
            yield duplicate(f"spec.ports[{index}]", {"port": key[0], "protocol": key[1]})
        numbers.add(key)
        if port.get("nodePort") and spec.get("type") == "ClusterIP":
            why = "may not be used when `type` is 'ClusterIP'"
            yield forbidden(f"spec.ports[{index}].nodePort", why)
    yield from _choice(spec, "spec", "sessionAffinity", ["ClientIP", "None"])
    yield from labels_causes(spec.get("selector") or {}, "spec.selector")
    for index, address in enumerate(spec.get("externalIPs") or []):
        yield from _external_address(address, f"spec.externalIPs[{index}]")


def _service_port(port: Json, path: str, names: set[str], *, many: bool) -> Iterator[Cause]:
    name = port.get("name", "")
    if not name and many:
        yield required(f"{path}.name")
    elif name:
        if problem := dns_label(name):
            yield invalid_value(f"{path}.name", name, problem)
        elif name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
    yield from _port_number(port.get("port", 0), f"{path}.port")
    yield from _choice(port, path, "protocol", ["SCTP", "TCP", "UDP"])
    target = port.get("targetPort")
    if isinstance(target, int):
        yield from _port_number(target, f"{path}.targetPort")
    elif isinstance(target, str):
        yield from _port_name(target, f"{path}.targetPort", set())


def _external_address(address: str, path: str) -> Iterator[Cause]:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        yield invalid_value(
            path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        )
        return
    if parsed.is_loopback:
        yield invalid_value(
            path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"
        )
    if parsed.is_unspecified:
        yield invalid_value(path, address, f"may not be unspecified ({address})")


def _ingress(service: Json) -> Any:
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress")


def service_change(new: Json, old: Json) -> Iterator[Cause]:
    """A service keeps its address, unless it becomes or was an ExternalName."""
    before, after = old["spec"], new["spec"]
    given = _ingress(new)
    if given and given != _ingress(old) and after.get("type") != "LoadBalancer":
        why = "may only be used when `spec.type` is 'LoadBalancer'"
        yield forbidden("status.loadBalancer.ingress", why)
    if "ExternalName" in (before.get("type"), after.get("type")):
        return
    if before.get("clusterIP") and before.get("clusterIP") != after.get("clusterIP"):
        value = [after.get("clusterIP", "")]
        yield invalid_value("spec.clusterIPs[0]", value, "may not change once set")


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


# --- the rest -----------------------------------------------------------------------------------


def core_event(obj: Json) -> Iterator[Cause]:
    """An event lies in the namespace of what it is about (``default`` for cluster-wide kinds)."""
    namespace = obj["metadata"].get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    if about != namespace if about else namespace != "default":
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if obj.get("eventTime"):  # written through the newer API, which asks for more
        for field in ("reportingComponent", "reportingInstance", "action", "reason"):
            if not obj.get(field):
                yield required(field)
        if obj.get("type") not in ("Normal", "Warning"):
            yield invalid_value("type", obj.get("type", ""), "has invalid value: ")


def config_data(obj: Json, *, is_secret: bool = False) -> Iterator[Cause]:
    """The keys of a config map or secret are file names; together they have a MiB."""
    for key in obj.get("data") or {}:
        if key in (obj.get("binaryData") or {}):
            yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if len(key) > 253 or not _CONFIG_KEY.fullmatch(key) or key in (".", ".."):
                yield invalid_value(
                    f"{field}[{key}]",
                    key,
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
                    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation "
                    f"is '{_CONFIG_KEY.pattern}')",
                )
    plain = {} if is_secret else obj.get("data") or {}
    encoded = (obj.get("data") if is_secret else obj.get("binaryData")) or {}
    size = sum(len(value.encode()) for value in plain.values())
    size += sum(len(value) * 3 // 4 - value.count("=", -2) for value in encoded.values())
    if size > _DATA_BYTES:
        why = f"Too long: may not be more than {_DATA_BYTES} bytes"
        yield Cause("FieldValueTooLong", why, "data" if is_secret else "[]")  # named so upstream


def config_data_change(new: Json, old: Json) -> Iterator[Cause]:
    """A config map or secret that says ``immutable`` stays as it is."""
    if not old.get("immutable"):
        return
    why = "field is immutable when `immutable` is set"
    for field in ("immutable", "data", "binaryData"):
        if new.get(field) != old.get(field):
            yield forbidden(field, why)


def secret(obj: Json) -> Iterator[Cause]:
    """A secret; some types need certain keys."""
    yield from config_data(obj, is_secret=True)
    for key in _SECRET_KEYS.get(obj.get("type", ""), ()):
        if key not in (obj.get("data") or {}):
            yield required(f"data[{key}]")


def node(obj: Json) -> Iterator[Cause]:
    """A node."""
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        if taint.get("effect") not in _EFFECTS:
            path = f"metadata.taints[{index}].effect"  # the real server names it so
            yield unsupported(path, taint.get("effect", ""), _EFFECTS)


def lease(obj: Json) -> Iterator[Cause]:
    """A lease."""
    seconds = (obj.get("spec") or {}).get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")


def secret_change(new: Json, old: Json) -> Iterator[Cause]:
    """A secret keeps its type."""
    if new.get("type") != old.get("type"):
        yield invalid_value("type", new.get("type"), _IMMUTABLE)
    yield from config_data_change(new, old)


def _workload(obj: Json) -> Iterator[Cause]:
    spec = obj["spec"]
    if (spec.get("replicas") or 0) < 0:
        yield invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    selector, template = spec.get("selector"), spec.get("template") or {}
    if not selector:
        yield required("spec.selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    wanted = (selector or {}).get("matchLabels") or {}
    if not selector or any(labels.get(k) != v for k, v in wanted.items()):
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels or None, why)
    yield from pod_spec(template.get("spec") or {}, "spec.template.spec")
    policy = (template.get("spec") or {}).get("restartPolicy", "Always")
    if policy != "Always":
        yield unsupported("spec.template.spec.restartPolicy", policy, ["Always"])


def deployment(obj: Json) -> Iterator[Cause]:
    """A deployment."""
    yield from _workload(obj)
    strategy = obj["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate"):
        why = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", why)


def replica_set(obj: Json) -> Iterator[Cause]:
    """A replica set."""
    yield from _workload(obj)


def deployment_change(new: Json, old: Json) -> Iterator[Cause]:
    """A deployment or replica set keeps its selector."""
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield invalid_value("spec.selector", new["spec"].get("selector"), _IMMUTABLE)
