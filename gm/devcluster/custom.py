"""What happens to an object of a custom kind on a write, and how its columns are rendered."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from gm.api.meta import Json
from gm.devcluster.cells import human_duration, seconds_of
from gm.devcluster.definitions import definitions
from gm.devcluster.embedded import embedded_causes, read_embedded
from gm.devcluster.info import Column, ResourceInfo
from gm.devcluster.jsonpath import JsonPathError, compile_path, text
from gm.devcluster.metadata import dns_subdomain, validate_metadata, validate_update
from gm.devcluster.preparing import (
    carry_metadata,
    drop_server_owned,
    drop_unknown,
    raise_causes,
    undecodable,
)
from gm.devcluster.scalepaths import ScalePaths
from gm.devcluster.schema import Schema, TypeMismatch, apply_defaults, check_types, normalise
from gm.devcluster.values import Validator

__all__ = ["CustomBehaviour", "custom_schema", "printer_column"]

_OBJECT_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def custom_schema(raw: Json) -> Schema:
    """A CRD's schema with the fields that every object has."""
    meta = {
        "apiVersion": {
            "description": "The version of the group that this object is written in.",
            "type": "string",
        },
        "kind": {"description": "What this object is.", "type": "string"},
        "metadata": {"description": "Standard object's metadata.", "$ref": _OBJECT_META},
    }
    whole = {**raw, "properties": {**meta, **(raw.get("properties") or {}), **meta}}
    return Schema(whole, definitions(), is_custom=True)


class CustomBehaviour:
    """The rules of one version of a custom kind."""

    def __init__(
        self, validator: Validator, *, has_status: bool, scale: ScalePaths | None = None
    ) -> None:
        self._validator, self._has_status, self._scale = validator, has_status, scale

    def create(
        self, info: ResourceInfo, obj: Json, *, field_validation: str, duplicates: Sequence[str]
    ) -> list[str]:
        """Prepare a new object, in place."""
        warnings = self._decode(info, obj, field_validation, duplicates)
        drop_server_owned(obj.setdefault("metadata", {}))
        if self._has_status:
            obj.pop("status", None)
        self._finish(info, obj, None)
        return warnings

    def update(
        self,
        info: ResourceInfo,
        new: Json,
        old: Json,
        *,
        subresource: str,
        field_validation: str,
        duplicates: Sequence[str],
    ) -> list[str]:
        """Prepare an object that replaces ``old``, in place."""
        warnings = self._decode(info, new, field_validation, duplicates)
        if subresource == "status":
            status = new.get("status")
            version = new["metadata"].get("resourceVersion")
            new.clear()
            new.update(copy.deepcopy({k: v for k, v in old.items() if k != "status"}))
            if version:
                new["metadata"]["resourceVersion"] = version
            if status is not None:
                new["status"] = status
        elif self._has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = copy.deepcopy(old["status"])
        carry_metadata(new, old)
        self._finish(info, new, old)
        return warnings

    def _decode(
        self, info: ResourceInfo, obj: Json, field_validation: str, duplicates: Sequence[str]
    ) -> list[str]:
        warnings = drop_unknown(
            info, obj, field_validation=field_validation, duplicates=duplicates, in_order=True
        )
        meta = info.schema.child("metadata")
        assert meta is not None
        try:
            check_types(meta, obj.get("metadata") or {}, owner="ObjectMeta")
            read_embedded(info.schema, obj)
        except TypeMismatch as exc:
            raise undecodable(info, obj, str(exc)) from exc
        return warnings

    def _finish(self, info: ResourceInfo, obj: Json, old: Json | None) -> None:
        meta = info.schema.child("metadata")
        assert meta is not None
        normalise(meta, obj["metadata"])
        apply_defaults(info.schema, obj)
        causes = [] if old is None else validate_update(obj["metadata"], old["metadata"])
        causes += validate_metadata(
            obj["metadata"],
            namespaced=info.resource.namespaced,
            name_rule=dns_subdomain,
            is_custom=True,
        )
        causes += self._validator.causes(obj)
        causes += embedded_causes(info.schema, obj)
        if self._scale is not None:
            causes += self._scale.causes(obj)
        raise_causes(info, obj, causes)


def printer_column(declared: Json) -> Column:
    """A column as a CRD declares it."""
    kind = declared["type"]
    try:
        find = compile_path(declared["jsonPath"])
    except JsonPathError:  # the CRD's writer was warned
        find = _nowhere

    def cell(obj: Json, now: float) -> Any:
        found = find(obj)
        return _cell(kind, found[0], now) if found else None

    path = declared["jsonPath"]
    return Column(
        name=declared["name"],
        type=kind,
        format=declared.get("format", ""),
        description=declared.get("description")
        or f"Custom resource definition column (in JSONPath format): {path}",
        priority=declared.get("priority", 0),
        cell=cell,
    )


def _nowhere(_obj: Json) -> list[Any]:
    return []


def _cell(kind: str, value: Any, now: float) -> Any:
    """A value as a cell of the declared type; null if it is of another."""
    if kind == "string":
        return text(value)
    if kind == "date":
        if not isinstance(value, str):
            return None
        at = seconds_of(value)
        return "<invalid>" if at is None else human_duration(now - at)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return int(value) if number else None
    if kind == "number":
        return value if number else None
    return value if isinstance(value, bool) else None
