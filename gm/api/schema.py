"""How a field's annotation carries its description to the CRDs, and the schema made from types.

Constraints given here bind the API server only, never the reading: an object that an older CRD
let through must still be readable, so that its status can say what is wrong with it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["View", "doc", "schema_of"]

_KEEP = {"x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_SCALARS: Mapping[Any, Mapping[str, str]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
}


class View(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Base of all views: unknown fields are ignored, fields that hold the default not written."""


def doc(
    description: str,
    *,
    required: bool = False,
    keep_unknown: bool = False,
    schema_of: type[msgspec.Struct] | None = None,
    **schema: Any,
) -> msgspec.Meta:
    """Annotation of a field: its ``description`` and further keywords of its ``schema``.

    ``required``: the CRD demands the field. ``keep_unknown``: fields below it that the CRD does
    not name are kept. ``schema_of``: the type that describes it in the CRD, where reading is
    looser.
    """
    return msgspec.Meta(
        description=description,
        extra_json_schema=schema or None,
        extra={"required": required, "keep_unknown": keep_unknown, "schema_of": schema_of},
    )


def schema_of(kind: Any, *, keep_unknown: bool = False) -> dict[str, Any]:
    """The structural OpenAPI v3 schema of type ``kind``.

    Raises: TypeError for a type that has no structural schema.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1], keep_unknown=keep_unknown)
    if origin in (Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        if set(inner) == {int, str}:
            return dict(_INT_OR_STRING)
        if len(inner) == 1:
            return schema_of(inner[0], keep_unknown=keep_unknown)
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0], keep_unknown=keep_unknown)}
    if origin is dict:
        if arguments[1] is Any:
            return {"type": "object", **_KEEP}
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(kind, keep_unknown=keep_unknown)
    raise TypeError(f"{kind!r} has no structural schema")


def _annotated(kind: Any, meta: msgspec.Meta, *, keep_unknown: bool) -> dict[str, Any]:
    extra = meta.extra or {}
    schema = schema_of(
        extra["schema_of"] or kind, keep_unknown=keep_unknown or extra["keep_unknown"]
    )
    return {**schema, "description": meta.description, **(meta.extra_json_schema or {})}


def _struct(kind: type[msgspec.Struct], *, keep_unknown: bool) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    fields = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    for field, encoded in fields:
        hint = hints[field]
        properties[encoded] = schema_of(hint, keep_unknown=keep_unknown)
        if get_origin(hint) is Annotated and (get_args(hint)[1].extra or {}).get("required"):
            required.append(encoded)
    paragraph = (kind.__doc__ or "").split("\n\n")[0]
    schema: dict[str, Any] = {"type": "object", "description": " ".join(paragraph.split())}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    # Below a field that keeps unknown fields, the API server would prune again wherever
    # properties are named: each level has to say so itself.
    return {**schema, **_KEEP} if keep_unknown else schema
