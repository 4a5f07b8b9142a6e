"""Where an object keeps its replicas."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.scalepaths import ScalePaths, at
from tests.devcluster.core import lines

PATHS = ScalePaths(replicas="spec.n.r", ready="status.r", selector="status.s")


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        ({"spec": {"n": {"r": 3}}}, 3),
        ({"spec": {"n": None}}, None),
        ({"spec": "x"}, None),
        ({}, None),
    ],
)
def test_what_is_not_there_is_nothing(obj: Json, found: Any) -> None:
    """Nor is what lies beneath something that is no object."""
    assert at(obj, "spec.n.r") == found


@pytest.mark.parametrize("spec", [{"n": {"r": 1, "other": 2}}, {"n": "x"}, None])
def test_replicas_are_set_without_a_change_of_what_they_were_in(spec: Any) -> None:
    """Parents are copied, since they may belong to the object that is stored."""
    obj: Json = {"spec": spec, "kept": 1}
    before = {"spec": {"n": {"r": 1, "other": 2}}} if isinstance(spec, dict) else None
    PATHS.put(obj, 7)
    assert at(obj, "spec.n.r") == 7
    assert obj["kept"] == 1
    if before and spec == before["spec"]:
        assert obj["spec"]["n"]["other"] == 2
        assert spec["n"]["r"] == 1


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"r": 3, "s": "a=b"}, []),
        ({}, []),
        ({"r": -1}, [".status.r: Invalid value: -1: should be a non-negative integer"]),
        (
            {"r": 2**31},
            [".status.r: Invalid value: 2147483648: should be less than or equal to 2147483647"],
        ),
        (
            {"r": "x"},
            [
                ".status.r: Invalid value: 0: .status.r accessor error: x is of the type string, "
                "expected int64"
            ],
        ),
        (
            {"s": 5},
            [
                '.status.s: Invalid value: "": .status.s accessor error: 5 is of the type int64, '
                "expected string"
            ],
        ),
    ],
)
def test_an_object_that_can_not_be_shown_is_refused(status: Json, told: list[str]) -> None:
    """In kube-apiserver's words, in which the paths begin with a dot."""
    assert lines(PATHS.causes({"status": status})) == told
