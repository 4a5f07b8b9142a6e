"""The subresource ``scale``: how many replicas an object wants and has, whatever its kind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import msgspec

from gm.api.meta import Json, ObjectKey, ResourceType
from gm.devcluster.api import Api, WriteOptions
from gm.devcluster.cells import age_column, name_column, selector_text
from gm.devcluster.definitions import definitions
from gm.devcluster.identity import (
    check_kind,
    check_names,
    check_patched,
    metadata_of,
    other_incarnation,
    shown_in_refusals,
)
from gm.devcluster.info import Column, ResourceInfo
from gm.devcluster.metadata import invalid_value
from gm.devcluster.preparing import BuiltinBehaviour
from gm.devcluster.scalepaths import ScalePaths, at
from gm.devcluster.schema import Schema
from gm.devcluster.status import internal, invalid

__all__ = ["SCALE", "shown_as", "view", "write"]

_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INTEGER = {"type": "integer", "format": "int32"}
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _struct(name: str, properties: Json) -> Json:
    """The definition of one of Scale's parts, under the name by which messages know it."""
    return {f"io.k8s.api.autoscaling.v1.{name}": {"type": "object", "properties": properties}}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/io.k8s.api.autoscaling.v1.{name}", "default": {}}


_DEFINITIONS: Json = {
    **definitions(),
    **_struct("ScaleSpec", {"replicas": _INTEGER}),
    **_struct(
        "ScaleStatus",
        {"replicas": {**_INTEGER, "default": 0}, "selector": {"type": "string"}},
    ),
    **_struct(
        "Scale",
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": _META, "default": {}},
            "spec": _reference("ScaleSpec"),
            "status": _reference("ScaleStatus"),
        },
    ),
}
_TYPE = ResourceType(group="autoscaling", version="v1", kind="Scale", plural="scales")
_COUNTS = (
    Column(name="Desired", type="integer", cell=lambda obj, _: at(obj, "spec.replicas") or 0),
    Column(name="Available", type="integer", cell=lambda obj, _: at(obj, "status.replicas") or 0),
)
SCALE = ResourceInfo(
    resource=_TYPE,
    storage=_TYPE,
    singular="scale",
    list_kind="ScaleList",
    schema=Schema(_reference("Scale"), _DEFINITIONS),
    behaviour=BuiltinBehaviour(named=False),
    columns=(
        Column(name="Name", cell=lambda obj, _: obj["metadata"].get("name", "")),
        *_COUNTS,
        age_column(),
    ),
)
"""What a Scale looks like; it is no resource of its own."""
_OF_CUSTOM = replace(SCALE, columns=(name_column(), *_COUNTS, replace(age_column(), type="date")))


def shown_as(info: ResourceInfo) -> ResourceInfo:
    """What the Scale of an object is as a table."""
    return _OF_CUSTOM if info.is_custom else SCALE


def view(info: ResourceInfo, obj: Json) -> Json:
    """What ``scale`` shows of an object. Raises: StatusError (500) where it says no number."""
    paths = _paths(info)
    wanted = at(obj, paths.replicas)
    if wanted is None and info.is_custom:
        raise internal(f'the spec replicas field ".{paths.replicas}" does not exist')
    meta = obj["metadata"]
    selector = at(obj, paths.selector) if paths.selector else None
    if not info.is_custom:
        selector = selector_text(at(obj, "spec.selector"))
    return {
        "kind": SCALE.resource.kind,
        "apiVersion": SCALE.resource.api_version,
        "metadata": {field: meta[field] for field in _SHOWN if field in meta},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {
            "replicas": at(obj, paths.ready) or 0,
            **({"selector": selector} if selector else {}),
        },
    }


def _paths(info: ResourceInfo) -> ScalePaths:
    assert info.scale is not None
    return info.scale


def write(
    api: Api,
    info: ResourceInfo,
    key: ObjectKey,
    make: Callable[[Json], Json],
    options: WriteOptions,
    *,
    is_patch: bool,
) -> tuple[Json, list[str]]:
    """Set the replicas of an object to those of the Scale that ``make`` makes of the object.

    Returns: what ``scale`` shows then, and warnings. Raises: StatusError (400, 404, 409, 422).
    """
    warnings: list[str] = []

    def change(obj: Json) -> Json:
        scale = make(obj)
        warnings.extend(_read(info, key, obj, scale, options, is_patch=is_patch))
        _paths(info).put(obj, at(scale, "spec.replicas") or 0)
        if version := scale["metadata"].get("resourceVersion"):
            obj["metadata"]["resourceVersion"] = version
        return obj

    written = api.patch(info, key, change, options=replace(options, duplicates=()))
    return view(info, written.record.view(info.from_storage)), warnings


def _read(
    info: ResourceInfo,
    key: ObjectKey,
    obj: Json,
    scale: Json,
    options: WriteOptions,
    *,
    is_patch: bool,
) -> list[str]:
    """Check a Scale, and bring it into its form; returns warnings."""
    check = check_patched if is_patch else check_kind
    check(SCALE, scale)
    meta = metadata_of(SCALE, scale)
    uid = meta.get("uid")
    shown = msgspec.json.encode(scale)
    with shown_in_refusals(shown, "Scale") if is_patch else contextlib.nullcontext():
        warnings = SCALE.prepare_create(
            scale, field_validation=options.field_validation, duplicates=options.duplicates
        )
    check_names(info, meta, key)
    if uid and uid != obj["metadata"].get("uid"):
        raise other_incarnation(info, key, uid, obj["metadata"]["uid"])
    wanted = at(scale, "spec.replicas") or 0
    if wanted < 0 and not info.is_custom:
        why = "must be greater than or equal to 0"
        cause = invalid_value("spec.replicas", wanted, why)
        raise invalid("Scale", SCALE.resource.group, key.name, [cause])
    return warnings
