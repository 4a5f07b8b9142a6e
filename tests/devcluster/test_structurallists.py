"""Lists and maps in the schemas of CRDs; the words are a real kube-apiserver's."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.structurallists import list_rules
from tests.devcluster.core import lines

TEXT: Json = {"type": "string"}
KEYED: Json = {"type": "object", "required": ["a"], "properties": {"a": TEXT}}


def listed(items: Any, kind: str = "", **more: Any) -> Json:
    """The schema of a list."""
    typed = {"x-kubernetes-list-type": kind} if kind else {}
    return {"type": "array", "items": items, **typed, **more}


def keyed(items: Json, *keys: str) -> Json:
    """The schema of a list that is a map."""
    return listed(items, "map", **{"x-kubernetes-list-map-keys": [*keys]})


KEYS = "f.x-kubernetes-list-map-keys"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (listed(TEXT, "set"), []),
        (keyed(KEYED, "a"), []),
        (
            keyed(KEYED),
            [f"{KEYS}: Required value: must not be empty if x-kubernetes-list-type is map"],
        ),
        (
            keyed({**KEYED, "required": []}, "a"),
            [
                "f.items.properties[a].default: Required value: this property is in "
                "x-kubernetes-list-map-keys, so it must have a default or be a required property"
            ],
        ),
        (
            listed({"type": "object"}, "set"),
            [
                "f.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a "
                "list with x-kubernetes-list-type=set"
            ],
        ),
        ({"type": "object", "x-kubernetes-map-type": "granular"}, []),
        (
            {"type": "object", "x-kubernetes-map-type": "foo"},
            [
                'f.x-kubernetes-map-type: Unsupported value: "foo": supported values: "atomic", '
                '"granular"'
            ],
        ),
        ({"type": "array"}, ["f.items: Required value: must be specified"]),
    ],
)
def test_lists_and_maps_are_what_their_types_need(schema: Json, told: list[str]) -> None:
    """Keys are there, are simple, and are no more than once."""
    assert lines(list_rules(schema, "f")) == told
