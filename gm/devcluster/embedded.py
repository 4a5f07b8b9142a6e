"""Whole objects inside of custom ones (``x-kubernetes-embedded-resource``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gm.api.meta import Json
from gm.devcluster.metadata import invalid_value, labels_causes, quoted, required, service_name
from gm.devcluster.schema import Schema, TypeMismatch, check_types, join, normalise
from gm.devcluster.status import Cause

__all__ = ["embedded_causes", "read_embedded"]


def _each(schema: Schema, value: Any, path: str = "") -> Iterator[tuple[Schema, Json, str]]:
    """The objects in ``value``, with their schemas and places."""
    if isinstance(value, dict):
        if schema.embedded:
            yield schema, value, path
        for field, item in value.items():
            if (child := schema.child(field)) is not None:
                yield from _each(child, item, join(path, field))
    elif isinstance(value, list) and (items := schema.items) is not None:
        for index, item in enumerate(value):
            yield from _each(items, item, f"{path}[{index}]")


def read_embedded(schema: Schema, value: Json) -> None:
    """Bring the metadata of the objects in ``value`` into the form that Go gives it, in place.

    Raises: TypeMismatch if it can not be read.
    """
    for node, obj, path in _each(schema, value):
        for field in ("apiVersion", "kind"):
            if field in obj and not isinstance(obj[field], str):
                shown = quoted(obj[field])
                raise TypeMismatch(f"{path}.{field}: Invalid value: {shown}: must be a string")
        if (meta := obj.get("metadata")) is None:
            continue
        declared = node.child("metadata")
        if declared is None:
            continue
        where = f"{path}.metadata: Invalid value: {quoted(meta)}"
        if not isinstance(meta, dict):
            why = f"json: cannot unmarshal {_kind(meta)} into Go value of type v1.ObjectMeta"
            raise TypeMismatch(f"{where}: {why}")
        try:
            check_types(declared, meta, owner="ObjectMeta")
        except TypeMismatch as exc:
            raise TypeMismatch(f"{where}: {exc}") from exc
        normalise(declared, meta)


def _kind(value: Any) -> str:
    names = {list: "array", str: "string", bool: "bool"}
    return names.get(type(value), "number")


def embedded_causes(schema: Schema, value: Any) -> Iterator[Cause]:
    """What is wrong with the objects in ``value``: they must say what they are."""
    for _, obj, path in _each(schema, value):
        version, kind = obj.get("apiVersion"), obj.get("kind")
        if not version:
            yield required(join(path, "apiVersion"))
        elif version.count("/") > 1:
            why = f"unexpected GroupVersion string: {version}"
            yield invalid_value(join(path, "apiVersion"), version, why)
        if not kind:
            yield required(join(path, "kind"))
        elif problem := service_name(kind.lower()):
            why = f"may have mixed case, but should otherwise match: {problem}"
            yield invalid_value(join(path, "kind"), kind, why)
        labels = (obj.get("metadata") or {}).get("labels") or {}
        yield from labels_causes(labels, join(path, "metadata.labels"))
