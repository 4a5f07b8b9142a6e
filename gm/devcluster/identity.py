"""Whether an object is what its URL says: kind, version, namespace and name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gm.api.meta import Json, ObjectKey
from gm.devcluster.decoding import identity_problem
from gm.devcluster.gojson import type_name
from gm.devcluster.info import ResourceInfo
from gm.devcluster.query import unsigned_problem
from gm.devcluster.status import Cause, StatusError, bad_request, conflict, invalid

__all__ = [
    "bad_patch",
    "check_kind",
    "check_names",
    "check_patched",
    "check_version",
    "metadata_of",
    "other_incarnation",
    "set_namespace",
    "shown_in_refusals",
]

_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)

_PREFIXES = {
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "nodes": "minions",
}


def metadata_of(info: ResourceInfo, obj: Json) -> Json:
    """The object's metadata, made if there is none. Raises: StatusError (400)."""
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    if not isinstance(meta, dict):
        kind = info.resource.kind
        into = "Go value" if info.is_custom else f"Go struct field {kind}.metadata"
        why = f"json: cannot unmarshal {type_name(meta)} into {into} of type v1.ObjectMeta"
        raise bad_request(_unhandled(info, kind, info.resource.version, why))
    return meta


def _unhandled(info: ResourceInfo, kind: str, version: str, why: str) -> str:
    return f'{kind} in version "{version}" cannot be handled as a {info.resource.kind}: {why}'


def check_kind(info: ResourceInfo, obj: Json) -> None:
    """Raises: StatusError (400, 422) if ``obj`` is of another kind; one that is silent is not."""
    resource = info.resource
    if not info.is_custom:  # null says nothing either; custom ones had to speak before
        obj["kind"] = obj.get("kind") or resource.kind
        obj["apiVersion"] = obj.get("apiVersion") or resource.api_version
    kind = obj.setdefault("kind", resource.kind)
    version = obj.setdefault("apiVersion", resource.api_version)
    if (kind, version) == (resource.kind, resource.api_version):
        return
    if info.is_custom and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    if info.is_custom:
        cause = Cause(
            "FieldValueInvalid", f'Invalid value: "{kind}": must be {resource.kind}', "kind"
        )
        raise invalid(kind, resource.group, metadata_of(info, obj).get("name", ""), [cause])
    short = version.rpartition("/")[2]
    if kind == resource.kind:
        why = f'no kind "{kind}" is registered for version "{version}"'
    else:
        package = resource.group.partition(".")[0] or "core"
        why = f"converting ({short}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    raise bad_request(_unhandled(info, kind, short, why))


def check_patched(info: ResourceInfo, new: Json) -> None:
    """Raises: StatusError (422) if a patch has made another kind of an object."""
    resource = info.resource
    if problem := identity_problem(new):
        raise bad_patch(new, problem)
    if not info.is_custom:
        new["kind"], new["apiVersion"] = (
            new.get("kind") or resource.kind,
            new.get("apiVersion") or resource.api_version,
        )
    said, own = (new.get("kind"), new.get("apiVersion")), (resource.kind, resource.api_version)
    if said == own:
        return
    if not info.is_custom:
        raise bad_patch(new, "kind and apiVersion can not be changed")
    if not said[0]:
        shown = msgspec.json.encode(new).decode()
        raise bad_patch(new, f"Object 'Kind' is missing in '{shown}'")
    causes = [
        Cause("FieldValueInvalid", f'Invalid value: "{got or ""}": must be {wanted}', field)
        for field, got, wanted in zip(("kind", "apiVersion"), said, own, strict=True)
        if got != wanted
    ]
    group = str(said[1] or "").rpartition("/")[0]
    raise invalid(str(said[0]), group, metadata_of(info, new).get("name", ""), causes)


def set_namespace(info: ResourceInfo, meta: Json, namespace: str) -> None:
    """Put a new object where the URL says. Raises: StatusError (400) if it says otherwise."""
    if not info.resource.namespaced:
        meta.pop("namespace", None)
    elif not namespace:
        raise bad_request("an empty namespace may not be set during creation")
    elif meta.setdefault("namespace", namespace) != namespace:
        raise bad_request(_OTHER_NAMESPACE)


def check_names(info: ResourceInfo, meta: Mapping[str, Any], key: ObjectKey) -> None:
    """Raises: StatusError (400) if name or namespace are not those of the URL."""
    name = meta.get("name")
    if not name:
        raise bad_request(
            f"the name of the object ({key.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != key.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({key.name})"
        )
    namespace = meta.get("namespace")
    if info.resource.namespaced and namespace and namespace != key.namespace:
        raise bad_request(_OTHER_NAMESPACE)


def bad_patch(patched: Json | bytes, why: str) -> StatusError:
    """422: the patch can be applied, but not to anything that makes sense."""
    shown = patched if isinstance(patched, bytes) else msgspec.json.encode(patched)
    quoted = msgspec.json.encode(shown.decode()).decode()
    return invalid(
        "", "", "", [Cause("FieldValueInvalid", f"Invalid value: {quoted}: {why}", "patch")]
    )


@contextlib.contextmanager
def shown_in_refusals(shown: bytes, kind: str) -> Iterator[None]:
    """What a patch has made can not be decoded: then it is shown, as it is nowhere else."""
    try:
        yield
    except StatusError as error:
        _, undecodable, why = error.message.partition(f"cannot be handled as a {kind}: ")
        if error.code == 400 and undecodable:
            raise bad_patch(shown, why) from None
        raise


def other_incarnation(info: ResourceInfo, key: ObjectKey, asked: str, found: str) -> StatusError:
    """409: the object has another UID than the client takes for granted."""
    place = "/".join(filter(None, (_prefix(info), key.namespace, key.name)))
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: "
        f"0, AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, "
        f"UID in object meta: {found}"
    )
    return conflict(info.resource, key.name, why)


def _prefix(info: ResourceInfo) -> str:
    """Where upstream keeps objects of a kind; it says so in a message."""
    storage = info.storage
    if info.is_custom:
        return f"{storage.group}/{storage.plural}"
    return _PREFIXES.get(storage.qualified, storage.plural)


def check_version(version: Any) -> None:
    """Raises: StatusError (500, as upstream) if a resourceVersion, if there is one, is none."""
    if version and (problem := unsigned_problem(str(version))):
        raise StatusError(500, "", problem)
