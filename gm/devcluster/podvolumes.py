"""What is wrong with a pod's volumes, and with where containers mount them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gm.api.meta import Json
from gm.devcluster.metadata import (
    dns_label,
    duplicate,
    forbidden,
    invalid_value,
    not_found_value,
    required,
)
from gm.devcluster.rules import choice, config_key, no_backsteps, relative_path
from gm.devcluster.status import Cause

__all__ = [
    "FIELDS",
    "field_reference",
    "key_reference",
    "mounts",
    "resource_reference",
    "volumes",
]

_HOST_PATH_TYPES = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
]
_OF_VOLUMES = [
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace"),
    "metadata.uid",
]
FIELDS = [
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"),
    *("spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"),
    "status.podIPs",
]
"""What an environment variable may be set to."""
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_OTHERS = ("spec.restartPolicy", "spec.schedulerName", "status.phase")
_KNOWN = frozenset({*FIELDS, *_SUBSCRIPTED, *_OTHERS})
_RESOURCES = [
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
]
_MAX_MODE = 0o777


def volumes(found: list[Json], path: str) -> Iterator[Cause]:
    """The volumes of a pod."""
    names: set[str] = set()
    for index, volume in enumerate(found):
        where = f"{path}[{index}]"
        name = volume.get("name", "")
        if not name:
            yield required(f"{where}.name")
        elif problem := dns_label(name):
            yield invalid_value(f"{where}.name", name, problem)
        elif name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
        sources = sorted(key for key in volume if key != "name")
        for extra in sources[1:]:
            yield forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        for source in sources[:1]:
            if rule := _SOURCES.get(source):
                yield from rule(volume[source], f"{where}.{source}")


def _host_path(source: Json, path: str) -> Iterator[Cause]:
    if not source.get("path"):
        yield required(f"{path}.path")
    yield from no_backsteps(source.get("path", ""), f"{path}.path")
    yield from choice(source, path, "type", _HOST_PATH_TYPES)


def _secret(source: Json, path: str) -> Iterator[Cause]:
    if not source.get("secretName"):
        yield required(f"{path}.secretName")
    yield from _files(source, path)


def _config_map(source: Json, path: str) -> Iterator[Cause]:
    if not source.get("name"):
        yield required(f"{path}.name")
    yield from _files(source, path)


def _files(source: Json, path: str) -> Iterator[Cause]:
    """Which keys become which files."""
    yield from _mode(source, path, "defaultMode")
    for index, item in enumerate(source.get("items") or []):
        where = f"{path}.items[{index}]"
        if not item.get("key"):
            yield required(f"{where}.key")
        yield from _file(item, where)


def _file(item: Json, path: str) -> Iterator[Cause]:
    if not item.get("path"):
        yield required(f"{path}.path")
    else:
        yield from relative_path(item["path"], f"{path}.path")
    yield from _mode(item, path, "mode")


def _mode(obj: Json, path: str, field: str) -> Iterator[Cause]:
    mode = obj.get(field)
    if mode is not None and not 0 <= mode <= _MAX_MODE:
        why = "must be a number between 0 and 0777 (octal), both inclusive"
        yield invalid_value(f"{path}.{field}", mode, why)


def _downward(source: Json, path: str) -> Iterator[Cause]:
    yield from _mode(source, path, "defaultMode")
    for item in source.get("items") or []:  # which of the items it is, is not said
        yield from _file(item, path)
        if (reference := item.get("fieldRef")) is not None:
            yield from field_reference(reference, f"{path}.fieldRef", _OF_VOLUMES)
            if item.get("resourceFieldRef") is not None:
                why = "fieldRef and resourceFieldRef can not be specified simultaneously"
                yield invalid_value(path, "resource", why)
        elif (reference := item.get("resourceFieldRef")) is not None:
            if not reference.get("containerName"):
                yield required(f"{path}.resourceFieldRef.containerName")
            yield from resource_reference(reference, f"{path}.resourceFieldRef")
        else:
            yield required(path, "one of fieldRef and resourceFieldRef is required")


def _claim(source: Json, path: str) -> Iterator[Cause]:
    if not source.get("claimName"):
        yield required(f"{path}.claimName")


def _nfs(source: Json, path: str) -> Iterator[Cause]:
    for field in ("server", "path"):
        if not source.get(field):
            yield required(f"{path}.{field}")
    if (there := source.get("path")) and not there.startswith("/"):
        yield invalid_value(f"{path}.path", there, "must be an absolute path")


_SOURCES: dict[str, Callable[[Json, str], Iterator[Cause]]] = {
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "downwardAPI": _downward,
    "persistentVolumeClaim": _claim,
    "nfs": _nfs,
}


def field_reference(reference: Json, path: str, allowed: list[str]) -> Iterator[Cause]:
    """A reference to a field of the pod."""
    where = f"{path}.fieldPath"
    if not (field := reference.get("fieldPath")):
        yield required(where)
        return
    name, bracket, rest = field.partition("['")
    if bracket and rest.endswith("']"):
        if name not in _SUBSCRIPTED:
            why = f"error converting fieldPath: field label does not support subscript: {field}"
            yield invalid_value(where, field, why)
        return
    if field not in _KNOWN:
        why = f"error converting fieldPath: field label not supported: {field}"
        yield invalid_value(where, field, why)
    else:
        yield from choice({"fieldPath": field}, path, "fieldPath", allowed)


def resource_reference(reference: Json, path: str) -> Iterator[Cause]:
    """A reference to a resource of a container."""
    if not (name := reference.get("resource")):
        yield required(f"{path}.resource")
    elif not name.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield from choice({"resource": name}, path, "resource", _RESOURCES)


def mounts(found: list[Json], path: str, names: set[str]) -> Iterator[Cause]:
    """Where a container mounts the volumes of these ``names``."""
    seen: set[str] = set()
    for index, mount in enumerate(found):
        where = f"{path}[{index}]"
        if not (name := mount.get("name")):
            yield required(f"{where}.name")
        elif name not in names:
            yield not_found_value(f"{where}.name", name)
        if not (place := mount.get("mountPath")):
            yield required(f"{where}.mountPath")
        elif place in seen:
            yield invalid_value(f"{where}.mountPath", place, "must be unique")
        seen.add(place or "")
        parts = [field for field in ("subPath", "subPathExpr") if mount.get(field)]
        for field in parts:  # which of the mounts it is, is not said
            yield from relative_path(mount[field], f"{path}.{field}")
        if len(parts) > 1:
            why = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{path}.subPathExpr", mount["subPathExpr"], why)


def key_reference(reference: Json, path: str) -> Iterator[Cause]:
    """A reference to a key of a config map or secret."""
    if not (key := reference.get("key")):
        yield required(f"{path}.key")
    else:
        yield from config_key(key, f"{path}.key")
