"""The rules that make a CRD's schema structural, in the words of kube-apiserver."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from gm.api.meta import Json
from gm.devcluster.formats import KNOWN
from gm.devcluster.metadata import forbidden, invalid_value, required, unsupported
from gm.devcluster.schema import Schema, join, prune
from gm.devcluster.status import Cause
from gm.devcluster.structurallists import list_rules
from gm.devcluster.values import Validator

__all__ = ["cel_rules", "check", "formats"]

_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id")
# What may stand outside of anyOf and its like only, and what it must be inside of them.
_OUTSIDE_JUNCTORS = {
    "additionalProperties": "undefined",
    "default": "undefined",
    "description": "empty",
    "nullable": "false",
    "title": "empty",
    "type": "empty",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-validations": "empty",
}
_NO_TYPE = {
    "root": "must not be empty at the root",
    "field": "must not be empty for specified object fields",
    "item": "must not be empty for specified array items",
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def check(schema: Json, path: str) -> list[Cause]:
    """What keeps ``schema`` (of a whole object) from being structural."""
    causes = [*_node(schema, path, "root")]
    if not causes:
        causes += _defaults(schema, path)
    return causes


def cel_rules(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of the ``x-kubernetes-validations`` in a schema."""
    if schema.get("x-kubernetes-validations"):
        yield path or "."
    for name, child in (schema.get("properties") or {}).items():
        yield from cel_rules(child or {}, f"{path}.{name}")
    for key, suffix in (("items", "[*]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), Mapping):
            yield from cel_rules(schema[key], path + suffix)


def formats(schema: Mapping[str, Any]) -> list[str]:
    """The formats in a schema that nobody knows, in order of the alphabet."""
    found: set[str] = set()
    waiting: list[Mapping[str, Any]] = [schema]
    while waiting:
        node = waiting.pop()
        if node.get("type") == "string" and (name := node.get("format")) and name not in KNOWN:
            found.add(name)
        inner = [*(node.get("properties") or {}).values()]
        inner += [node.get("items"), node.get("additionalProperties")]
        waiting += [each for each in inner if isinstance(each, Mapping)]
    return sorted(found)


def _node(node: Json, path: str, place: str) -> Iterator[Cause]:
    for key in _UNSUPPORTED:
        if node.get(key):
            yield forbidden(f"{path}.{key}", f"{key} is not supported")
    kind = node.get("type")
    free = node.get("x-kubernetes-int-or-string") or node.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if not kind and (place == "root" or not free) and not node.get("$ref"):
        yield required(f"{path}.type", _NO_TYPE[place])
    elif kind and place == "root" and kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    if kind and kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        yield forbidden(
            f"{path}.type", "type cannot be set to null, use nullable as an alternative"
        )
    if place == "root" and node.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield invalid_value(where, False, "must be true or undefined")
    yield from _object_rules(node, path, place)
    yield from list_rules(node, path)
    yield from _pattern(node, path)
    for key in _JUNCTORS:
        if (
            key == "anyOf"
            and node.get("x-kubernetes-int-or-string")
            and node.get(key) == (_INT_OR_STRING)
        ):
            continue
        for index, part in enumerate(node.get(key) or []):
            yield from _junctor(part, f"{path}.{key}[{index}]")
    if node.get("not"):
        yield from _junctor(node["not"], f"{path}.not")
    yield from _children(node, path, place)


def _children(node: Json, path: str, place: str) -> Iterator[Cause]:
    for name, child in (node.get("properties") or {}).items():
        where = f"{path}.properties[{name}]"
        if place == "root" and name in ("metadata", "apiVersion", "kind"):
            yield from _identity(name, child, where)
        else:
            yield from _node(child or {}, where, "field")
    if isinstance(node.get("items"), dict):
        yield from _node(node["items"], f"{path}.items", "item")
    if isinstance(node.get("additionalProperties"), dict):
        yield from _node(node["additionalProperties"], f"{path}.additionalProperties", "field")


def _identity(name: str, node: Json, path: str) -> Iterator[Cause]:
    """The fields that every object has are declared by the server."""
    wanted = "object" if name == "metadata" else "string"
    if node.get("type") != wanted:
        yield invalid_value(f"{path}.type", node.get("type", ""), f"must be {wanted}")
    elif name == "metadata" and set(node.get("properties") or {}) - {"name", "generateName"}:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"  # noqa: E501
        yield forbidden(path, why)


def _object_rules(node: Json, path: str, place: str) -> Iterator[Cause]:
    additional = node.get("additionalProperties")
    if additional and place == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if additional and node.get("properties"):
        why = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", why)
    if not node.get("x-kubernetes-embedded-resource"):
        return
    if not node.get("properties") and not node.get("x-kubernetes-preserve-unknown-fields"):
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"  # noqa: E501
        yield required(f"{path}.properties", why)
    if node.get("type") != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid_value(f"{path}.type", node.get("type", ""), why)


def _pattern(node: Json, path: str) -> Iterator[Cause]:
    if not isinstance(pattern := node.get("pattern"), str):
        return
    try:
        jsonschema_rs.Draft4Validator({"pattern": pattern})
    except (ValueError, jsonschema_rs.ValidationError):
        why = "must be a valid regular expression, but isn't"
        yield invalid_value(f"{path}.pattern", pattern, why)


def _junctor(node: Json, path: str) -> Iterator[Cause]:
    for key, wanted in _OUTSIDE_JUNCTORS.items():
        if node.get(key):
            yield forbidden(f"{path}.{key}", f"must be {wanted} to be structural")
    yield from _pattern(node, path)
    for name, child in (node.get("properties") or {}).items():
        yield from _junctor(child, f"{path}.properties[{name}]")
    if isinstance(node.get("items"), dict):
        yield from _junctor(node["items"], f"{path}.items")
    for key in _JUNCTORS:
        for index, part in enumerate(node.get(key) or []):
            yield from _junctor(part, f"{path}.{key}[{index}]")
    if node.get("not"):
        yield from _junctor(node["not"], f"{path}.not")


def _defaults(node: Json, path: str) -> Iterator[Cause]:
    """Every default must itself be a valid value."""
    if "default" in node:
        value, unknown = copy.deepcopy(node["default"]), list[str]()
        wrong = Validator(node).causes(value)
        prune(Schema(node, is_custom=True), value, unknown=unknown)
        if unknown:
            yield invalid_value(f"{path}.default", node["default"], "must not have unknown fields")
        for cause in wrong:
            where = f"{path}.default"
            yield Cause(
                cause.reason, cause.message, join(where, cause.field) if cause.field else where
            )
    for name, child in (node.get("properties") or {}).items():
        yield from _defaults(child or {}, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _defaults(node[key], f"{path}.{key}")
