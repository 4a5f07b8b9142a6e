"""What is said where a schema has alternatives; the words are a real kube-apiserver's."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.values import Validator
from tests.devcluster.core import lines

INTEGER: Json = {"type": "integer"}
KEYS: Json = {"a": INTEGER, "b": {"type": "string"}, "c": {"type": "string"}}
FIELDS: Json = {
    "all": {**INTEGER, "allOf": [{"minimum": 5}, {"maximum": 3}]},
    "any": {
        "type": "object",
        "properties": KEYS,
        "anyOf": [
            {"required": ["a"], "properties": {"a": {"minimum": 5}}},
            {"required": ["b"], "properties": {"b": {"maxLength": 2}, "c": {"enum": ["x"]}}},
        ],
    },
    "one": {
        "type": "object",
        "properties": KEYS,
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "not": {**INTEGER, "not": {"minimum": 5}},
    "both": {
        **INTEGER,
        "allOf": [
            {"anyOf": [{"minimum": 10}, {"maximum": 2}]},
            {"oneOf": [{"multipleOf": 5}, {"multipleOf": 7}]},
        ],
    },
    "list": {"type": "array", "items": {**INTEGER, "allOf": [{"minimum": 3}]}},
    "map": {
        "type": "object",
        "additionalProperties": {**INTEGER, "allOf": [{"minimum": 3}, {"maximum": 9}]},
    },
    "allOf": {**INTEGER, "minimum": 3},  # a field may have the name of the word
}
VALIDATOR = Validator(
    {"type": "object", "properties": {"s": {"type": "object", "properties": FIELDS}}}
)
NEITHER = '"s.one" must validate one and only one schema (oneOf). Found '
ANY = '<nil>: Invalid value: "": "s.any" must validate at least one schema (anyOf)'


def summary(what: str) -> str:
    """What is said of no field in particular."""
    return f'<nil>: Invalid value: "": {what}'


def less(field: str, value: int, bound: int) -> str:
    """A number is too small."""
    return _bound(field, value, f"greater than or equal to {bound}")


def more(field: str, value: int, bound: int) -> str:
    """A number is too large."""
    return _bound(field, value, f"less than or equal to {bound}")


def _bound(field: str, value: int, what: str) -> str:
    return f"{field}: Invalid value: {value}: {field} in body should be {what}"


ALL = "must validate all the schemas (allOf)"
CASES: list[tuple[str, Any, list[str]]] = [
    (
        "all",
        4,
        [less("s.all", 4, 5), more("s.all", 4, 3), summary(f'"s.all" {ALL}. None validated')],
    ),
    ("all", 6, [more("s.all", 6, 3), summary(f'"s.all" {ALL}')]),
    ("any", {}, [ANY, "s.any.a: Required value"]),
    ("any", {"a": 1}, [ANY, less("s.any.a", 1, 5)]),
    # the second speaks of more of what there is
    (
        "any",
        {"a": 1, "b": "yyy", "c": "x"},
        [ANY, "s.any.b: Too long: may not be more than 2 bytes"],
    ),
    ("any", {"a": 5}, []),
    ("one", {}, [summary(f"{NEITHER}none valid"), "s.one.a: Required value"]),
    ("one", {"a": 1, "b": "x"}, [summary(f"{NEITHER}2 valid alternatives")]),
    ("one", {"b": "x"}, []),
    ("not", 7, [summary('"s.not" must not validate the schema (not)')]),
    (
        "both",
        5,
        [
            summary('"s.both" must validate at least one schema (anyOf)'),
            less("s.both", 5, 10),
            summary(f'"s.both" {ALL}'),
        ],
    ),
    (
        "both",
        35,
        [
            summary(
                '"s.both" must validate one and only one schema (oneOf). Found 2 valid alternatives'
            ),
            summary(f'"s.both" {ALL}'),
        ],
    ),
    (
        "list",
        [1, 3, 2],
        [
            line
            for n, value in ((0, 1), (2, 2))
            for line in (
                less(f"s.list[{n}]", value, 3),
                summary(f'"s.list[{n}]" {ALL}. None validated'),
            )
        ],
    ),
    ("map", {"k": 1}, [less("s.map.k", 1, 3), summary(f'"s.map.k" {ALL}')]),
    ("allOf", 1, [less("s.allOf", 1, 3)]),
]


@pytest.mark.parametrize(("field", "value", "told"), CASES)
def test_alternatives_are_explained_by_the_one_that_comes_nearest(
    field: str, value: Any, told: list[str]
) -> None:
    """After what is said of no field in particular."""
    assert lines(VALIDATOR.causes({"s": {field: value}})) == told
