"""Whole objects inside of custom ones; the words are a real kube-apiserver's."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.custom import custom_schema
from gm.devcluster.embedded import embedded_causes, read_embedded
from gm.devcluster.schema import TypeMismatch
from tests.devcluster.core import lines

POD: Json = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}
SCHEMA = custom_schema(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"pod": POD}},
            "pods": {"type": "array", "items": POD},
        },
    }
)
NAMED: Json = {"apiVersion": "v1", "kind": "Pod"}
KIND = "may have mixed case, but should otherwise match: a DNS-1035 label"


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        (NAMED, []),
        ({}, ["apiVersion: Required value", "kind: Required value"]),
        (
            {**NAMED, "apiVersion": "a/b/c"},
            ['apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        ({**NAMED, "kind": "Pod_"}, [f'kind: Invalid value: "Pod_": {KIND}']),
    ],
)
@pytest.mark.parametrize("place", ["spec.pod", "pods[0]"])
def test_an_object_says_what_it_is(pod: Json, told: list[str], place: str) -> None:
    """Wherever it is."""
    obj: Json = {"spec": {"pod": pod}} if place == "spec.pod" else {"pods": [pod]}
    found = lines(embedded_causes(SCHEMA, obj))
    assert len(found) == len(told)
    assert all(line.startswith(f"{place}.{start}") for line, start in zip(found, told, strict=True))


def test_labels_are_those_of_any_object() -> None:
    """A key that none could have is refused."""
    obj = {"spec": {"pod": {**NAMED, "metadata": {"labels": {"a b": "c"}}}}}
    (cause,) = embedded_causes(SCHEMA, obj)
    assert cause.field == "spec.pod.metadata.labels"


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        ({"apiVersion": 5}, "spec.pod.apiVersion: Invalid value: 5: must be a string"),
        (
            {"metadata": "x"},
            'spec.pod.metadata: Invalid value: "x": json: cannot unmarshal string into Go value '
            "of type v1.ObjectMeta",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            'spec.pod.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number '
            "into Go struct field ObjectMeta.labels of type string",
        ),
    ],
)
def test_metadata_that_can_not_be_read_is_refused(pod: Json, told: str) -> None:
    """In the words of who decodes it."""
    with pytest.raises(TypeMismatch) as caught:
        read_embedded(SCHEMA, {"spec": {"pod": pod}})
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"name": "p", "labels": {}, "annotations": None}, {"name": "p"}),
        ({"name": ""}, {}),
        (
            {"creationTimestamp": "2020-01-01T01:00:00+01:00"},
            {"creationTimestamp": "2020-01-01T00:00:00Z"},
        ),
    ],
)
def test_metadata_gets_the_form_that_go_gives_it(given: Any, kept: Any) -> None:
    """Nothing that is empty, and times in UTC."""
    pod: Json = {**NAMED, "metadata": given}
    read_embedded(SCHEMA, {"spec": {"pod": pod}})
    assert pod["metadata"] == kept
