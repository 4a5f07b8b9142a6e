"""Structural schemas made from types."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pytest

from gm.api.schema import View, doc, schema_of

KEEP = {"x-kubernetes-preserve-unknown-fields": True}


class Inner(View, frozen=True, kw_only=True):
    """An inner thing.

    This paragraph is for programmers.
    """

    host_ip: Annotated[str, doc("An address.", required=True, minLength=1)] = ""
    loose: dict[str, Any] | None = None


class Outer(View, frozen=True, kw_only=True):
    """An outer thing."""

    inners: Annotated[tuple[Inner, ...] | None, doc("Some inner things.")] = None
    kept: Annotated[Inner | None, doc("Keeps more than it names.", keep_unknown=True)] = None
    described: Annotated[dict[str, Any] | None, doc("Read loosely.", schema_of=Inner)] = None
    labels: dict[str, str] | None = None


class Empty(View, frozen=True, kw_only=True):
    """Nothing to set."""


INNER = {
    "type": "object",
    "description": "An inner thing.",
    "properties": {
        "hostIp": {"type": "string", "description": "An address.", "minLength": 1},
        "loose": {"type": "object", **KEEP},
    },
    "required": ["hostIp"],
}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int, {"type": "integer", "format": "int64"}),
        (float, {"type": "number"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (str | None, {"type": "string"}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}},
        ),
        (dict[str, Any], {"type": "object", **KEEP}),
        (
            int | str | None,
            {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
            },
        ),
        (Empty, {"type": "object", "description": "Nothing to set."}),
    ],
    ids=str,
)
def test_each_type_has_its_schema(kind: Any, schema: dict[str, Any]) -> None:
    """None means that a field may be missing; the API server drops a null."""
    assert schema_of(kind) == schema


def test_a_struct_lists_its_fields_in_camel_case_with_description_and_constraints() -> None:
    """Constraints bind the API server; reading an object that breaks them still works."""
    assert schema_of(Inner) == INNER
    assert Inner(host_ip="").host_ip == ""


def test_the_description_of_a_field_beats_that_of_its_type() -> None:
    """In lists, where both are shown, both are kept."""
    properties = schema_of(Outer)["properties"]
    assert properties["inners"]["description"] == "Some inner things."
    assert properties["inners"]["items"] == INNER
    assert properties["described"] == {**INNER, "description": "Read loosely."}


def test_fields_below_keep_unknown_are_kept_at_every_level() -> None:
    """The API server prunes again wherever properties are named."""
    kept = schema_of(Outer)["properties"]["kept"]
    assert kept == {**INNER, "description": "Keeps more than it names.", **KEEP}
    nested = schema_of(tuple[Outer, ...], keep_unknown=True)["items"]
    assert nested["x-kubernetes-preserve-unknown-fields"] is True
    assert nested["properties"]["inners"]["items"]["x-kubernetes-preserve-unknown-fields"] is True


@pytest.mark.parametrize("kind", [bytes, int | float, object])
def test_a_type_without_structural_schema_is_refused(kind: Any) -> None:
    """It is the generator that fails, not the API server."""
    with pytest.raises(TypeError, match="has no structural schema"):
        schema_of(kind)
