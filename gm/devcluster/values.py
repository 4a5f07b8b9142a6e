"""Custom objects against their schema: every error at once, in kube-apiserver's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from gm.devcluster.alternatives import at, explained, validator
from gm.devcluster.formats import CHECKS
from gm.devcluster.gojson import fingerprint
from gm.devcluster.metadata import duplicate, invalid_value, quoted, required
from gm.devcluster.schema import Schema, join
from gm.devcluster.status import Cause

__all__ = ["Validator", "translate"]

_NESTED = ("allOf", "anyOf", "oneOf")
_KEPT = frozenset(
    {
        "type", "format", "pattern", "minLength", "maxLength", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
        "minProperties", "maxProperties", "required",
    }
)  # fmt: skip


def translate(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A CRD's schema as JSON Schema draft 4, whose exclusive bounds are booleans as well."""
    result: dict[str, Any] = {key: value for key, value in raw.items() if key in _KEPT}
    if raw.get("type") != "string" or result.get("format") not in CHECKS:
        result.pop("format", None)  # other formats are words for people
    if raw.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if "enum" in raw:
        result["enum"] = [*raw["enum"]]
    if raw.get("nullable"):
        if "type" in result:
            types = result["type"] if isinstance(result["type"], list) else [result["type"]]
            result["type"] = [*types, "null"]
        if "enum" in result:
            result["enum"].append(None)
    if "properties" in raw:
        result["properties"] = {k: translate(v) for k, v in raw["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(raw.get(key), Mapping):
            result[key] = translate(raw[key])
    for key in _NESTED:
        if key in raw:
            result[key] = [translate(item) for item in raw[key]]
    return result


class Validator:
    """Checks objects against one schema of a CRD."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._schema = Schema(raw, is_custom=True)
        self._translated = translate(raw)
        self._check = validator(self._translated)

    def causes(self, value: Any, *, path: str = "") -> list[Cause]:
        """Everything that is wrong with ``value``."""
        errors = self._check.iter_errors(value)
        found = explained(errors, self._translated, path, _cause)
        return [*found, *_own_rules(self._schema, value, path)]


def _json_type(value: Any) -> str:
    """The JSON type of a value, as messages name it."""
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _too_many(field: str, value: Any, limit: int) -> Cause:
    unit = "item" if limit == 1 else "items"
    message = f"Too many: {len(value)}: must have at most {limit} {unit}"
    return Cause("FieldValueTooMany", message, field)


def _wrong_type(field: str, shown: Any, types: str) -> Cause:
    message = (
        f"Invalid value: {quoted(shown)}: {field} in body must be of type {types}: {quoted(shown)}"
    )
    return Cause("FieldValueTypeInvalid", message, field)


def _cause(error: jsonschema_rs.ValidationError, path: str) -> Cause:
    kind: Any = error.kind
    field, value = at(path, error.instance_path), error.instance
    match kind.name:
        case "required":
            return required(join(field, kind.property))
        case "type":
            types = [t for t in _as_list(kind.types) if t != "null"]
            return _wrong_type(field, _json_type(value), ",".join(types))
        case "format":
            return _wrong_type(field, value, kind.format)
        case "enum":
            options = ", ".join(quoted(o) for o in _as_list(kind.options) if o is not None)
            message = f"Unsupported value: {quoted(value)}: supported values: {options}"
            return Cause("FieldValueNotSupported", message, field)
        case "maxLength":
            unit = "byte" if kind.limit == 1 else "bytes"
            message = f"Too long: may not be more than {kind.limit} {unit}"
            return Cause("FieldValueTooLong", message, field)
        case "maxItems" | "maxProperties":
            return _too_many(field, value, kind.limit)
        case _:
            shown, why = _bound(kind, value)
            return invalid_value(field, shown, f"{field} in body {why}")


def _as_list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else [value]


def _bound(kind: Any, value: Any) -> tuple[Any, str]:
    """What to show of the value, and the rule that it breaks."""
    match kind.name:
        case "minimum":
            return value, f"should be greater than or equal to {quoted(kind.limit)}"
        case "maximum":
            return value, f"should be less than or equal to {quoted(kind.limit)}"
        case "exclusiveMinimum":
            return value, f"should be greater than {quoted(kind.limit)}"
        case "exclusiveMaximum":
            return value, f"should be less than {quoted(kind.limit)}"
        case "multipleOf":
            return value, f"should be a multiple of {quoted(kind.multiple_of)}"
        case "minLength":
            return value, f"should be at least {kind.limit} chars long"
        case "pattern":
            return value, f"should match '{kind.pattern}'"
        case "minItems":
            return len(value), f"should have at least {kind.limit} items"
        case "minProperties":
            return len(value), f"should have at least {kind.limit} properties"
        case _:
            return value, f"breaks the rule {kind.name}"


def _own_rules(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    """Rules beyond JSON Schema: lists have unique keys."""
    if isinstance(value, dict):
        for field, item in value.items():
            if (child := schema.child(field)) is not None:
                yield from _own_rules(child, item, join(path, field))
    elif isinstance(value, list):
        yield from _list_rules(schema, value, path)


def _list_rules(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        key: Any = item
        if schema.list_type == "map" and isinstance(item, dict):
            key = {name: item[name] for name in schema.list_map_keys if name in item}
        if schema.list_type in ("map", "set"):
            if (found := fingerprint(key)) in seen:
                yield duplicate(where, key)
            seen.add(found)
        if (items := schema.items) is not None:
            yield from _own_rules(items, item, where)
