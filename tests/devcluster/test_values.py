"""Custom values against their schema; the words are those of a real server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.values import Validator, translate

TEXT = {"type": "string"}

# schema of ``x``, value of ``x``, field, reason, message
REFUSED: dict[str, tuple[Json, Any, str, str, str]] = {
    "minimum": (
        {"type": "integer", "minimum": 1}, 0, "x", "Invalid",
        "Invalid value: 0: x in body should be greater than or equal to 1",
    ),
    "maximum": (
        {"type": "integer", "maximum": 10}, 11, "x", "Invalid",
        "Invalid value: 11: x in body should be less than or equal to 10",
    ),
    "exclusive minimum": (
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, "x", "Invalid",
        "Invalid value: 1: x in body should be greater than 1",
    ),
    "exclusive maximum": (
        {"type": "number", "maximum": 1.5, "exclusiveMaximum": True}, 1.5, "x", "Invalid",
        "Invalid value: 1.5: x in body should be less than 1.5",
    ),
    "multiple of": (
        {"type": "number", "multipleOf": 0.5}, 0.3, "x", "Invalid",
        "Invalid value: 0.3: x in body should be a multiple of 0.5",
    ),
    "integer": (
        {"type": "integer"}, 1.5, "x", "TypeInvalid",
        'Invalid value: "number": x in body must be of type integer: "number"',
    ),
    "text": (
        TEXT, 1, "x", "TypeInvalid",
        'Invalid value: "integer": x in body must be of type string: "integer"',
    ),
    "boolean": (
        {"type": "boolean"}, "true", "x", "TypeInvalid",
        'Invalid value: "string": x in body must be of type boolean: "string"',
    ),
    "object": (
        {"type": "object"}, [], "x", "TypeInvalid",
        'Invalid value: "array": x in body must be of type object: "array"',
    ),
    "int or string": (
        {"x-kubernetes-int-or-string": True}, True, "x", "TypeInvalid",
        'Invalid value: "boolean": x in body must be of type integer,string: "boolean"',
    ),
    "nullable": (
        {"type": "string", "nullable": True}, 1, "x", "TypeInvalid",
        'Invalid value: "integer": x in body must be of type string: "integer"',
    ),
    "minimum length": (
        {"type": "string", "minLength": 2}, "a", "x", "Invalid",
        'Invalid value: "a": x in body should be at least 2 chars long',
    ),
    "maximum length": (
        {"type": "string", "maxLength": 4}, "abcde", "x", "TooLong",
        "Too long: may not be more than 4 bytes",
    ),
    "pattern": (
        {"type": "string", "pattern": "^[a-z]+$"}, "A1", "x", "Invalid",
        "Invalid value: \"A1\": x in body should match '^[a-z]+$'",
    ),
    "enum": (
        {"type": "string", "enum": ["b", "a"]}, "c", "x", "NotSupported",
        'Unsupported value: "c": supported values: "b", "a"',
    ),
    "format": (
        {"type": "string", "format": "date-time"}, "y", "x", "TypeInvalid",
        'Invalid value: "y": x in body must be of type date-time: "y"',
    ),
    "minimum of items": (
        {"type": "array", "items": TEXT, "minItems": 1}, [], "x", "Invalid",
        "Invalid value: 0: x in body should have at least 1 items",
    ),
    "maximum of items": (
        {"type": "array", "items": TEXT, "maxItems": 2}, ["a", "b", "c"], "x", "TooMany",
        "Too many: 3: must have at most 2 items",
    ),
    "minimum of properties": (
        {"type": "object", "additionalProperties": TEXT, "minProperties": 1}, {}, "x", "Invalid",
        "Invalid value: 0: x in body should have at least 1 properties",
    ),
    "maximum of properties": (
        {"type": "object", "additionalProperties": TEXT, "maxProperties": 1}, {"a": "", "b": ""},
        "x", "TooMany", "Too many: 2: must have at most 1 item",
    ),
    "item": (
        {"type": "array", "items": TEXT}, ["a", None], "x[1]", "TypeInvalid",
        'Invalid value: "null": x[1] in body must be of type string: "null"',
    ),
    "value of a map": (
        {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "b"}, "x.a",
        "TypeInvalid", 'Invalid value: "string": x.a in body must be of type integer: "string"',
    ),
    "required": (
        {"type": "object", "required": ["a"], "properties": {"a": TEXT}}, {}, "x.a", "Required",
        "Required value",
    ),
    "list map": (
        {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
         "items": {"type": "object", "properties": {"k": TEXT}}},
        [{"k": "a", "v": 1}, {"k": "a"}], "x[1]", "Duplicate", 'Duplicate value: {"k":"a"}',
    ),
    "list set": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}, ["a", "b", "a"], "x[2]",
        "Duplicate", 'Duplicate value: "a"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_value_is_told(case: str) -> None:
    """Field, reason and message of each rule."""
    schema, value, field, reason, message = REFUSED[case]
    validator = Validator({"type": "object", "properties": {"x": schema}})
    causes = validator.causes({"x": value})
    assert [(c.field, c.reason, c.message) for c in causes] == [
        (field, f"FieldValue{reason}", message)
    ]


ACCEPTED: dict[str, tuple[Json, Any]] = {
    "nullable": ({"type": "string", "nullable": True, "enum": ["a"]}, None),
    "number": ({"x-kubernetes-int-or-string": True}, 5),
    "text": ({"x-kubernetes-int-or-string": True}, "5%"),
    "unknown format": ({"type": "string", "format": "nonsense"}, "x"),
    "int32 is only a word": ({"type": "integer", "format": "int32"}, 3_000_000_000),
    "time": ({"type": "string", "format": "date-time"}, "2024-01-01T00:00:00Z"),
    "both of": ({"type": "string", "allOf": [{"minLength": 1}, {"maxLength": 2}]}, "ab"),
    "atomic list": (
        {"type": "array", "x-kubernetes-list-type": "atomic", "items": TEXT},
        ["a", "a"],
    ),
    "embedded": (
        {"type": "object", "x-kubernetes-embedded-resource": True},
        {"kind": "A", "apiVersion": "v1"},
    ),
    "free": ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"a": [1, {}]}),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_right_value_is_accepted(case: str) -> None:
    """No cause."""
    schema, value = ACCEPTED[case]
    validator = Validator({"type": "object", "properties": {"x": schema}})
    assert validator.causes({"x": value}) == []


def test_all_errors_come_at_once() -> None:
    """With paths below the one that is given."""
    schema = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["c"]}
    causes = Validator(schema).causes({"a": 1, "b": 2}, path="spec")
    assert {c.field for c in causes} == {"spec.a", "spec.b", "spec.c"}


def test_the_translation_does_not_share_with_the_crd() -> None:
    """A schema may be a stored object's part."""
    schema = {"type": "string", "nullable": True, "enum": ["a"]}
    assert translate(schema)["enum"] == ["a", None]
    assert schema["enum"] == ["a"]


def test_a_rule_that_no_message_is_known_for_is_still_told() -> None:
    """Not silently dropped."""
    causes = Validator({"type": "object", "additionalProperties": TEXT}).causes({"a": 1})
    assert len(causes) == 1


def test_long_lists_are_checked_in_no_time() -> None:
    """Each element is looked up, not compared with all before it."""
    schema = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}
    value = [*range(100_000), 7]
    began = time.monotonic()
    told = [f"{c.field}: {c.message}" for c in Validator(schema).causes(value, path="l")]
    assert told == ["l[100000]: Duplicate value: 7"]
    assert time.monotonic() - began < 5
