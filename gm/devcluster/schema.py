"""Schemas of objects: one walk for pruning, defaults and patch hints, for built-ins and CRDs.

A ``Schema`` is one node of an OpenAPI v3 schema with its references resolved on demand, since
some schemas (that of a CRD, for one) contain themselves.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

from gm.devcluster.gojson import go_number
from gm.devcluster.gotime import MICRO, WHOLE, in_utc, time_problem
from gm.devcluster.omitempty import is_left_out, is_written_null
from gm.devcluster.quantity import NO_QUANTITY, QuantityError, canonical

__all__ = [
    "Schema",
    "TypeMismatch",
    "apply_defaults",
    "check_types",
    "join",
    "normalise",
    "prune",
]

_REF = "#/components/schemas/"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_WHOLE_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_MILLI = -3
_EMBEDDED_FIELDS = ("apiVersion", "kind", "metadata")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


class Schema:
    """One node of a schema.

    ``child(field)`` is the schema of an object's field, ``items`` that of a list's elements;
    ``patch_merge_key`` and ``patch_strategy`` tell how a strategic merge patch treats a list.
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        definitions: Mapping[str, Any] | None = None,
        *,
        is_custom: bool = False,
    ) -> None:
        """``is_custom``: an object without declared fields is empty, not free, as in CRDs."""
        self._is_custom = is_custom
        self._definitions = definitions if definitions is not None else {}
        self.outer = raw
        self.reference = ""
        self.raw = self._resolve(raw)
        self.type: str = self.raw.get("type", "")
        self._properties: Mapping[str, Any] = self.raw.get("properties") or {}
        self._children: dict[str, Schema] = {}
        self._items: Schema | None = None
        self.patch_merge_key: str = raw.get("x-kubernetes-patch-merge-key", "")
        self.patch_strategy: str = raw.get("x-kubernetes-patch-strategy", "")
        self.list_type: str = self.raw.get("x-kubernetes-list-type", "")
        self.list_map_keys: list[str] = self.raw.get("x-kubernetes-list-map-keys") or []
        self.required: frozenset[str] = frozenset(self.raw.get("required") or ())
        self.nullable: bool = bool(self.raw.get("nullable"))
        self.embedded: bool = bool(self.raw.get("x-kubernetes-embedded-resource"))
        self.int_or_string: bool = (
            bool(self.raw.get("x-kubernetes-int-or-string"))
            or self.raw.get("format") == "int-or-string"
        )
        additional = self.raw.get("additionalProperties")
        self._additional = additional if isinstance(additional, Mapping) else None
        self._extra: Schema | None = None
        self.is_map: bool = self._additional is not None or additional is True
        self.open: bool = bool(
            self.raw.get("x-kubernetes-preserve-unknown-fields")
            or additional is True
            or self.int_or_string
            or (
                not self._is_custom
                and not self._properties
                and self._additional is None
                and additional is not False
            )
        )

    def _resolve(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The node itself: generated documents wrap a reference in a one-element ``allOf``."""
        while True:
            reference = raw.get("$ref")
            wrapped = raw.get("allOf")
            if isinstance(reference, str) and reference.startswith(_REF):
                self.reference = reference.removeprefix(_REF)
                self._is_custom = False
                raw = self._definitions[self.reference]
            elif (
                isinstance(wrapped, list)
                and len(wrapped) == 1
                and "$ref" in wrapped[0]
                and self._definitions
            ):
                raw = wrapped[0]
            else:
                return raw

    @property
    def fields(self) -> Mapping[str, Any]:
        """The declared fields, as written."""
        return self._properties

    @property
    def struct(self) -> str:
        """Name of the schema that this node refers to, without its package: ``PodSpec``."""
        return self.reference.rsplit(".", 1)[-1]

    @property
    def items(self) -> Schema | None:
        """The schema of a list's elements."""
        raw = self.raw.get("items")
        if self._items is None and isinstance(raw, Mapping):
            self._items = self._inner(raw)
        return self._items

    def _inner(self, raw: Mapping[str, Any]) -> Schema:
        return Schema(raw, self._definitions, is_custom=self._is_custom)

    def child(self, field: str) -> Schema | None:
        """The schema of ``field``; None if it is not declared."""
        if (found := self._children.get(field)) is not None:
            return found
        if self.embedded and field == "metadata" and _OBJECT_META in self._definitions:
            raw: Mapping[str, Any] | None = {"$ref": _REF + _OBJECT_META}
        else:
            raw = self._properties.get(field)
        if raw is not None:
            found = self._children[field] = self._inner(raw)
            return found
        if self._extra is None and self._additional is not None:
            self._extra = self._inner(self._additional)
        return self._extra


def join(path: str, field: str) -> str:
    """``path.field``, as messages name a field."""
    return f"{path}.{field}" if path else field


def prune(schema: Schema, value: Any, path: str = "", *, unknown: list[str]) -> None:
    """Drop what ``schema`` does not know from ``value``, in place; ``unknown`` gets its paths."""
    if isinstance(value, dict):
        for field in [*value]:
            child = schema.child(field)
            where = join(path, field)
            if child is not None:
                prune(child, value[field], where, unknown=unknown)
            elif not schema.open and not (schema.embedded and field in _EMBEDDED_FIELDS):
                unknown.append(where)
                del value[field]
    elif isinstance(value, list) and (items := schema.items) is not None:
        for index, item in enumerate(value):
            prune(items, item, f"{path}[{index}]", unknown=unknown)


def apply_defaults(schema: Schema, value: Any) -> None:
    """Fill in the ``default`` values of a custom resource's schema, in place.

    A null in a field that is not nullable counts as absent, as the structural schema rules say.
    """
    if isinstance(value, dict):
        for field, raw in schema.fields.items():
            child = schema.child(field)
            if child is None:
                continue
            if (
                value.get(field) is None
                and "default" in raw
                and not _keeps_null(child, value, field)
            ):
                value[field] = copy.deepcopy(raw["default"])
        for field, item in [*value.items()]:
            if (child := schema.child(field)) is None:
                continue
            if item is None and not child.nullable:
                del value[field]
            else:
                apply_defaults(child, item)
    elif isinstance(value, list) and (items := schema.items) is not None:
        for item in value:
            apply_defaults(items, item)


def _keeps_null(schema: Schema, value: dict[str, Any], field: str) -> bool:
    return schema.nullable and field in value


_GO_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number"}


def normalise(schema: Schema, value: Any) -> None:
    """Bring a built-in kind's object into the form that a Go server answers with, in place.

    Nulls, empty lists and empty maps are dropped (``omitempty``); fields that Go always writes
    get their zero value, which is what the ``default`` of a generated schema tells.
    """
    if isinstance(value, dict):
        for field in [*value]:
            child, item = schema.child(field), value[field]
            if child is not None and item is None and schema.is_map and child.type == "string":
                value[field] = ""
            elif child is not None and item is None and schema.is_map and _is_quantity(child):
                value[field] = "0"
            elif child is not None and item is None and schema.is_map and child.fields:
                value[field] = {}
            elif _is_zero(item) and _is_omitted(schema, field, item):
                del value[field]
            elif child is not None and schema.is_map and _is_quantity(child):
                value[field] = canonical(item, least=_MILLI)  # as all lists of resources
            elif item is None or (child is not None and _is_empty(child, item)):
                del value[field]
            elif child is not None and (spelling := _SPELLINGS.get(child.reference)):
                value[field] = spelling(item)
            elif child is not None:
                normalise(child, item)
        for field, raw in schema.fields.items():
            default = raw.get("default")
            is_written = not _is_zero(default) or not _is_omitted(schema, field, default)
            if field not in value and is_written_null(schema.reference, field):
                value[field] = None
            elif field not in value and "default" in raw and is_written:
                value[field] = copy.deepcopy(raw["default"])
                if (child := schema.child(field)) is not None:
                    normalise(child, value[field])
    elif isinstance(value, list) and (items := schema.items) is not None:
        for index, item in enumerate(value):
            if item is None:
                value[index] = _zero(items)
            normalise(items, value[index])


def _zero(schema: Schema) -> Any:
    """What Go makes of a null among the elements of a list."""
    zeros: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}
    return {} if schema.fields or schema.is_map else zeros.get(schema.type)


# What Go reads in several spellings and writes in one.
_SPELLINGS: dict[str, Callable[[Any], str]] = {
    _QUANTITY: canonical,
    _WHOLE_TIME: lambda text: in_utc(text, WHOLE),
    _MICRO_TIME: lambda text: in_utc(text, MICRO),
}


def _is_quantity(schema: Schema) -> bool:
    return schema.reference == _QUANTITY


def _is_zero(value: Any) -> bool:
    """Whether a value is what Go's fields begin as."""
    return isinstance(value, str | int | float) and not value


def _is_omitted(schema: Schema, field: str, value: Any) -> bool:
    """Whether Go leaves out a zero value: where it may be absent, and is no pointer."""
    raw = schema.fields.get(field)
    if raw is None or field in schema.required or (value == "" and raw.get("type") != "string"):
        return False
    return is_left_out(schema.reference, field, value)


def _is_empty(schema: Schema, value: Any) -> bool:
    return value == [] or (value == {} and schema.is_map)


class TypeMismatch(Exception):
    """A value can not be decoded into a built-in kind's field; the message is Go's."""


def check_types(schema: Schema, value: Any, path: str = "", owner: str = "") -> None:
    """Refuse values of the wrong JSON type, as decoding into Go structs does.

    Raises: TypeMismatch at the first one.
    """
    if value is None:
        return
    if isinstance(value, dict) and (schema.type == "object" or schema.fields):
        owner = schema.struct or owner
        for field, item in value.items():
            if (child := schema.child(field)) is not None:
                where = join(path, field) if field in schema.fields else path
                check_types(child, item, where, owner)
    elif isinstance(value, list) and schema.type == "array":
        if (items := schema.items) is not None:
            for item in value:
                check_types(items, item, path, owner)
    elif not _fits(schema, value):
        if _is_quantity(schema):
            raise TypeMismatch(NO_QUANTITY)
        got = _GO_NAMES.get(type(value), "number")
        if got == "number" and (schema.type == "integer" or schema.int_or_string):
            got = f"number {go_number(value)}"
        raise TypeMismatch(
            f"json: cannot unmarshal {got} into Go struct field {owner}.{path} "
            f"of type {_go_type(schema)}"
        )
    else:
        _check_text(schema, value)


def _check_text(schema: Schema, value: Any) -> None:
    """Texts that Go parses while it decodes."""
    if schema.reference == _QUANTITY:
        try:
            canonical(value)
        except QuantityError as exc:
            raise TypeMismatch(str(exc)) from exc
    elif schema.raw.get("format") == "byte":
        _check_base64(value)
    elif schema.raw.get("format") == "date-time":
        layout = MICRO if schema.reference == _MICRO_TIME else WHOLE
        if problem := time_problem(value, layout):
            raise TypeMismatch(problem)


def _fits(schema: Schema, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) and "oneOf" in schema.raw:  # IntOrString, Quantity
        return True
    if schema.int_or_string:
        return number and _is_whole(value) and -(1 << 31) <= value < 1 << 31
    if "oneOf" in schema.raw:
        return number
    match schema.type:
        case "":
            return True
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return number and _is_whole(value) and _is_in_range(schema, int(value))
        case "number":
            return number
        case _:
            return False


def _is_whole(value: int | float) -> bool:
    """Whether a number has no fraction, and has not lost one either: YAML's ``2.0`` has not."""
    return isinstance(value, int) or (value.is_integer() and abs(value) < 1 << 53)


def _is_in_range(schema: Schema, value: int) -> bool:
    bits = 63 if schema.raw.get("format") == "int64" else 31
    return -(1 << bits) <= value < 1 << bits


def _check_base64(text: str) -> None:
    """Raises: TypeMismatch unless ``text`` is base64 in the standard alphabet."""
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError as exc:
        raise TypeMismatch(f"illegal base64 data at input byte {_bad_byte(text)}") from exc


def _bad_byte(text: str) -> int:
    """Where Go's decoder gives up: at a letter of another alphabet, or at wrong padding."""
    quantum = 0  # how many letters of the four that make three bytes have been read
    for at, letter in enumerate(text):
        if letter in "\r\n":
            continue
        if letter == "=" and quantum >= 2:
            return _after_padding(text, at, quantum)
        if letter == "=" or _NOT_BASE64.match(letter):
            return at
        quantum = (quantum + 1) % 4
    return len(text) - quantum


def _after_padding(text: str, at: int, quantum: int) -> int:
    """What is wrong after the first ``=``: no second one where one is due, or more letters."""
    rest = text[at + 1 :].lstrip("\r\n")
    if quantum == 2:
        if not rest:
            return len(text)
        if rest[0] != "=":
            return len(text) - len(rest) - 1
        rest = rest[1:].lstrip("\r\n")
    return len(text) - len(rest)


def _go_type(schema: Schema) -> str:
    """The Go type of a field, as decoding errors name it."""
    if schema.int_or_string:
        return "int32"
    if schema.type == "array":
        return f"[]{_go_type(schema.items)}" if schema.items is not None else "[]interface {}"
    if schema.type == "object" and schema.is_map and not schema.fields:
        return "map[string]string"
    if schema.reference:
        package = schema.reference.split(".")[-2]
        return f"{package}.{schema.struct}"
    if schema.raw.get("format") == "byte":
        return "[]uint8"
    named = {"boolean": "bool", "integer": schema.raw.get("format") or "int32"}
    return named.get(schema.type, schema.type)
