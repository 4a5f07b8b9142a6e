"""What is wrong with a pod's containers, in the words of kube-apiserver."""

from __future__ import annotations

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
    qualified_name,
    required,
)
from gm.devcluster.podvolumes import (
    FIELDS,
    field_reference,
    key_reference,
    mounts,
    resource_reference,
)
from gm.devcluster.rules import choice, not_negative, port_name, port_number
from gm.devcluster.status import Cause

__all__ = ["MAX_ID", "containers", "identities", "warnings"]

MAX_ID = 2**31 - 1
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_PROBE_ACTIONS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_ACTIONS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROTOCOLS = ["SCTP", "TCP", "UDP"]


def containers(spec: Json, path: str, volumes: set[str]) -> Iterator[Cause]:
    """The containers of a pod, and those that run before them."""
    names: set[str] = set()
    host_ports: set[str] = set()
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            where = f"{path}.{field}[{index}]"
            yield from _container(container, where, names, volumes)
            yield from _probes(container, where, is_init=field == "initContainers")
            if field == "containers":
                yield from _host_ports(container.get("ports") or [], f"{where}.ports", host_ports)
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.ephemeralContainers", "cannot be set on create")


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
    yield from choice(
        container, path, "terminationMessagePolicy", ["File", "FallbackToLogsOnError"]
    )
    yield from _ports(container.get("ports") or [], f"{path}.ports")
    for index, variable in enumerate(container.get("env") or []):
        yield from _variable(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom") or []):
        yield from _variables(source, f"{path}.envFrom[{index}]", f"{path}.envFrom")
    yield from mounts(container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes)
    yield from choice(container, path, "imagePullPolicy", ["Always", "IfNotPresent", "Never"])
    yield from _resources(container.get("resources") or {}, f"{path}.resources")
    yield from _security(container.get("securityContext") or {}, f"{path}.securityContext")
    for hook, action in (container.get("lifecycle") or {}).items():
        if isinstance(action, dict):
            yield from _action(action, f"{path}.lifecycle.{hook}", _HOOK_ACTIONS)


def _variable(variable: Json, path: str) -> Iterator[Cause]:
    yield from _variable_name(variable.get("name", ""), f"{path}.name")
    source = variable.get("valueFrom")
    where = f"{path}.valueFrom"
    if source is None:
        return
    sources = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
    given = [name for name in sources if source.get(name) is not None]
    if "fieldRef" in given:
        yield from field_reference(source["fieldRef"], f"{where}.fieldRef", FIELDS)
    if "resourceFieldRef" in given:
        yield from resource_reference(source["resourceFieldRef"], f"{where}.resourceFieldRef")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in given:
            yield from _object_name(source[name], f"{where}.{name}")
            yield from key_reference(source[name], f"{where}.{name}")
    if variable.get("value") and given:
        yield invalid_value(where, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid_value(where, "", "may not have more than one field specified at a time")
    elif not given:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid_value(where, "", f"must specify one of: {listed}")


def _variable_name(name: str, path: str) -> Iterator[Cause]:
    if not name:
        yield required(path)
    elif "=" in name or not name.isascii() or not name.isprintable():
        why = "a valid environment variable name must consist only of printable ASCII characters other than '='"  # noqa: E501
        yield invalid_value(path, name, why)


def _object_name(reference: Json, path: str) -> Iterator[Cause]:
    name = reference.get("name", "")
    if problem := dns_subdomain(name):
        yield invalid_value(f"{path}.name", name, problem)


def _variables(source: Json, path: str, whole: str) -> Iterator[Cause]:
    if prefix := source.get("prefix"):
        yield from _variable_name(prefix, f"{path}.prefix")
    given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
    for name in given:
        yield from _object_name(source[name], f"{path}.{name}")
    if len(given) > 1:
        yield invalid_value(whole, "", "may not have more than one field specified at a time")
    elif not given:
        yield invalid_value(whole, "", "must specify one of: `configMapRef` or `secretRef`")


def _ports(ports: list[Json], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if name := port.get("name"):
            yield from port_name(name, f"{where}.name")
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        if not (number := port.get("containerPort")):
            yield required(f"{where}.containerPort")
        else:
            yield from port_number(number, f"{where}.containerPort")
        if host_port := port.get("hostPort"):
            yield from port_number(host_port, f"{where}.hostPort")
        yield from choice(port, where, "protocol", _PROTOCOLS)


def _host_ports(ports: list[Json], path: str, taken: set[str]) -> Iterator[Cause]:
    for index, port in enumerate(ports):
        if not (number := port.get("hostPort")):
            continue
        which = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{number}"
        if which in taken:
            yield duplicate(f"{path}[{index}].hostPort", which)
        taken.add(which)


def _resources(resources: Json, path: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _amount(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        yield from _amount(name, amount, f"{path}.requests[{name}]")
        if name in limits and quantity.value(amount) > quantity.value(limits[name]):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", amount, why)
        elif name not in limits and _is_counted(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif (
            name in limits
            and _is_counted(name)
            and quantity.value(amount) != quantity.value(limits[name])
        ):
            why = f"must be equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", amount, why)


def _is_counted(name: str) -> bool:
    """Whether a resource is of whole things that can not be shared: what other vendors define."""
    return "/" in name and not name.startswith(("kubernetes.io/", "requests."))


def _amount(name: str, amount: Any, path: str) -> Iterator[Cause]:
    if problem := qualified_name(name):
        yield invalid_value(path, name, problem)
    elif "/" not in name and not name.startswith("hugepages-") and name not in _STANDARD:
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        yield invalid_value(path, name, "must be a standard resource for containers")
    number = quantity.value(amount)
    if number < 0:
        yield invalid_value(path, str(amount), "must be greater than or equal to 0")
    elif _is_counted(name) and number != int(number):
        yield invalid_value(path, quantity.canonical(amount), "must be an integer")


def identities(context: Json, path: str) -> Iterator[Cause]:
    """Who a process runs as."""
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _identity(context.get(field), f"{path}.{field}")
    for index, group in enumerate(context.get("supplementalGroups") or []):
        yield from _identity(group, f"{path}.supplementalGroups[{index}]")


def _identity(value: int | None, path: str) -> Iterator[Cause]:
    if value is not None and not 0 <= value <= MAX_ID:
        yield invalid_value(path, value, f"must be between 0 and {MAX_ID}, inclusive")


# How upstream shows a security context: all of its fields, by their names in Go.
_SECURITY = (
    *("Capabilities", "Privileged", "SELinuxOptions", "WindowsOptions", "RunAsUser"),
    *("RunAsGroup", "RunAsNonRoot", "ReadOnlyRootFilesystem", "AllowPrivilegeEscalation"),
    *("ProcMount", "SeccompProfile", "AppArmorProfile"),
)


def _security(context: Json, path: str) -> Iterator[Cause]:
    yield from identities(context, path)
    if context.get("allowPrivilegeEscalation") is False and context.get("privileged"):
        shown = {name: context.get(name[0].lower() + name[1:]) for name in _SECURITY}
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid_value(path, shown, why)


def _probes(container: Json, path: str, *, is_init: bool) -> Iterator[Cause]:
    for kind in _PROBES:
        if (probe := container.get(kind)) is None:
            continue
        where = f"{path}.{kind}"
        if is_init and container.get("restartPolicy") != "Always":
            why = "may not be set for init containers without restartPolicy=Always"
            yield forbidden(where, why)
            continue
        yield from _action(probe, where, _PROBE_ACTIONS)
        numbers = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold")
        yield from not_negative(probe, where, *numbers, "failureThreshold")
        if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            yield invalid_value(f"{where}.successThreshold", probe["successThreshold"], "must be 1")


def _action(action: Json, path: str, kinds: tuple[str, ...]) -> Iterator[Cause]:
    """What a probe or a hook does."""
    given = [kind for kind in kinds if action.get(kind) is not None]
    for extra in given[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    if not given:
        yield required(path, "must specify a handler type")
        return
    kind, where = given[0], f"{path}.{given[0]}"
    if kind == "exec":
        if not action[kind].get("command"):
            yield required(f"{where}.command")
        return
    if kind == "httpGet":
        if not action[kind].get("path"):
            yield required(f"{where}.path")
        yield from choice(action[kind], where, "scheme", ["HTTP", "HTTPS"])
    port = action[kind].get("port")
    if isinstance(port, str):
        yield from port_name(port, f"{where}.port")
    elif port is not None:
        yield from port_number(port, f"{where}.port")


def warnings(spec: Json, path: str) -> Iterator[str]:
    """What a client is told about containers that are taken nevertheless."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            where = f"{path}.{field}[{index}]"
            yield from _hidden(container.get("env") or [], f"{where}.env")
            yield from _repeated(container.get("ports") or [], f"{where}.ports")


def _hidden(variables: list[Json], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name in seen:
            yield (
                f'{path}[{index}]: hides previous definition of "{name}", which may be dropped '
                "when using apply"
            )
        seen.add(name)


def _repeated(ports: list[Json], path: str) -> Iterator[str]:
    seen: dict[tuple[Any, ...], int] = {}
    for index, port in enumerate(ports):
        key = tuple(port.get(f) for f in ("containerPort", "protocol", "hostIP", "hostPort"))
        if key in seen:
            yield f"{path}[{index}]: duplicate port definition with {path}[{seen[key]}]"
        seen.setdefault(key, index)
