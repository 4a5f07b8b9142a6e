"""What makes a CRD's schema structural; the words are those of a real server."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.structural import cel_rules, check

TEXT = {"type": "string"}


def of(**properties: Any) -> Json:
    """A root schema."""
    return {"type": "object", "properties": properties}


def items(**more: Any) -> Json:
    """A list of objects with the field ``k``."""
    return {"type": "array", "items": {"type": "object", "properties": {"k": TEXT}}, **more}


A = "S.properties[a]"
REFUSED: dict[str, tuple[Json, list[str]]] = {
    "no type": ({"properties": {}}, ["S.type: Required value: must not be empty at the root"]),
    "text": (TEXT, ['S.type: Invalid value: "string": must be object at the root']),
    "field without type": (
        of(a={}),
        [f"{A}.type: Required value: must not be empty for specified object fields"],
    ),
    "items without type": (
        of(a={"type": "array", "items": {}}),
        [f"{A}.items.type: Required value: must not be empty for specified array items"],
    ),
    "array without items": (
        of(a={"type": "array"}),
        [f"{A}.items: Required value: must be specified"],
    ),
    "properties and more": (
        of(a={"type": "object", "properties": {"x": TEXT}, "additionalProperties": TEXT}),
        [
            f"{A}.additionalProperties: Forbidden: additionalProperties and properties are mutual "
            "exclusive"
        ],
    ),
    "map at the root": (
        {"type": "object", "additionalProperties": TEXT},
        ["S.additionalProperties: Forbidden: must not be used at the root"],
    ),
    "wrong type": (
        of(a={"type": "int"}),
        [
            f'{A}.type: Unsupported value: "int": supported values: "array", "boolean", "integer", '
            '"number", "object", "string"'
        ],
    ),
    "reference": (of(a={"$ref": "#/x"}), [f"{A}.$ref: Forbidden: $ref is not supported"]),
    "unique": (
        of(a={"type": "array", "items": TEXT, "uniqueItems": True}),
        [
            f"{A}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
            "complexity becomes quadratic"
        ],
    ),
    "list type": (
        of(a={"type": "array", "items": TEXT, "x-kubernetes-list-type": "foo"}),
        [
            f'{A}.x-kubernetes-list-type: Unsupported value: "foo": supported values: "atomic", '
            '"set", "map"'
        ],
    ),
    "map without keys": (
        of(a=items(**{"x-kubernetes-list-type": "map"})),
        [
            f"{A}.x-kubernetes-list-map-keys: Required value: must not be empty if "
            "x-kubernetes-list-type is map"
        ],
    ),
    "optional key": (
        of(a=items(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})),
        [
            f"{A}.items.properties[k].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property"
        ],
    ),
    "unknown key": (
        of(a=items(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"]})),
        [
            f'{A}.x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of '
            "item properties"
        ],
    ),
    "pattern": (
        of(a={"type": "string", "pattern": "("}),
        [f'{A}.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t'],
    ),
    "default of another type": (
        of(a={"type": "integer", "default": "x"}),
        [f'{A}.default: Invalid value: "string":  in body must be of type integer: "string"'],
    ),
    "default with unknown fields": (
        of(a={"type": "object", "default": {"x": 1}, "properties": {"y": TEXT}}),
        [f'{A}.default: Invalid value: {{"x":1}}: must not have unknown fields'],
    ),
    "default in items": (
        of(a={"type": "array", "items": {"type": "integer", "default": "x"}}),
        [f'{A}.items.default: Invalid value: "string":  in body must be of type integer: "string"'],
    ),
    "metadata": (
        of(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
        [
            "S.properties[metadata]: Forbidden: must not specify anything other than name and "
            "generateName, but metadata is implicitly specified"
        ],
    ),
    "metadata as text": (
        of(metadata=TEXT),
        ['S.properties[metadata].type: Invalid value: "string": must be object'],
    ),
    "kind as number": (
        of(kind={"type": "integer"}),
        ['S.properties[kind].type: Invalid value: "integer": must be string'],
    ),
    "embedded": (
        of(a={"type": "string", "x-kubernetes-embedded-resource": True}),
        [
            f"{A}.properties: Required value: must not be empty if x-kubernetes-embedded-resource "
            "is true without x-kubernetes-preserve-unknown-fields",
            f'{A}.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource '
            "is true",
        ],
    ),
    "type in any of": (
        of(a={"type": "object", "anyOf": [{"type": "object"}]}),
        [f"{A}.anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    "default in not, deep": (
        of(a={"type": "array", "items": TEXT, "not": {"items": {"not": {"default": 1}}}}),
        [f"{A}.not.items.not.default: Forbidden: must be undefined to be structural"],
    ),
    "title in one of, nested": (
        of(a={"type": "object", "oneOf": [{"allOf": [{"properties": {"x": {"title": "t"}}}]}]}),
        [f"{A}.oneOf[0].allOf[0].properties[x].title: Forbidden: must be empty to be structural"],
    ),
    "values of a map without type": (
        of(a={"type": "object", "additionalProperties": {"description": "any"}}),
        [
            f"{A}.additionalProperties.type: Required value: must not be empty for specified "
            "object fields"
        ],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_schema_that_is_not_structural_is_refused(case: str) -> None:
    """Path and words of each rule."""
    schema, told = REFUSED[case]
    assert [f"{cause.field}: {cause.message}" for cause in check(schema, "S")] == told


def test_a_structural_schema_is_accepted() -> None:
    """With what people write."""
    schema = of(
        apiVersion=TEXT,
        kind=TEXT,
        metadata={"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
        spec=of(
            port={
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^[0-9]+$",
            },
            any={"x-kubernetes-preserve-unknown-fields": True},
            names={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            keyed=items(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})
            | {"items": {"type": "object", "required": ["k"], "properties": {"k": TEXT}}},
            either={"type": "object", "oneOf": [{"required": ["x"]}], "not": {"required": ["y"]}},
            made={"type": "object", "default": {"k": "v"}, "properties": {"k": TEXT}},
            embedded={
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        ),
    )
    assert check(schema, "S") == []


def test_cel_rules_are_found_everywhere() -> None:
    """So that people can be told that they are not evaluated."""
    rule = {"x-kubernetes-validations": [{"rule": "true"}]}
    schema = {
        "properties": {
            "spec": {
                "properties": {
                    "l": {"type": "array", "items": {"type": "string", **rule}},
                    "m": {"type": "object", "additionalProperties": rule},
                }
            }
        },
        **rule,
    }
    assert [*cel_rules(schema)] == [".", ".spec.l[*]", ".spec.m.*"]
