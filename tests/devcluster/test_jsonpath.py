"""kubectl's JSONPath, as printer columns use it."""

from __future__ import annotations

from typing import Any

import pytest

from gm.devcluster.jsonpath import JsonPathError, compile_path, text

OBJECT: dict[str, Any] = {
    "metadata": {"labels": {"a.b/c": "dotted", "plain": "p"}},
    "spec": {"size": 3, "list": [1, 2, 3], "nested": [{"k": ["x"]}, {"k": ["y", "z"]}]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Done", "status": "False", "n": 2},
        ]
    },
}
PATHS: dict[str, list[Any]] = {
    ".spec.size": [3],
    "{.spec.size}": [3],
    "$.spec.size": [3],
    ".": [OBJECT],
    ".spec.absent": [],
    ".spec.absent.deeper": [],
    ".spec.size.deeper": [],
    ".spec.list[0]": [1],
    ".spec.list[-1]": [3],
    ".spec.list[7]": [],
    ".spec.size[0]": [],
    ".spec.list[*]": [1, 2, 3],
    ".spec.list.[*]": [1, 2, 3],
    ".spec.size[*]": [],
    ".spec.list[0:2]": [1, 2],
    ".spec.list[::2]": [1, 3],
    ".spec.size[0:1]": [],
    ".spec.nested[*].k[*]": ["x", "y", "z"],
    ".metadata.labels.plain": ["p"],
    r".metadata.labels.a\.b/c": ["dotted"],
    ".metadata.labels['a.b/c']": ["dotted"],
    '.metadata.labels["plain"]': ["p"],
    ".metadata.labels.*": ["dotted", "p"],
    '.status.conditions[?(@.type=="Ready")].status': ["True"],
    ".status.conditions[?(@.type=='Done')].status": ["False"],
    '.status.conditions[?(@.type != "Ready")].type': ["Done"],
    ".status.conditions[?(@.n>1)].type": ["Done"],
    ".status.conditions[?(@.n>=1)].type": ["Ready", "Done"],
    ".status.conditions[?(@.n<2)].type": ["Ready"],
    ".status.conditions[?(@.n<=0)].type": [],
    ".status.conditions[?(@.type>1)].type": [],
    ".status.conditions[?(@.type==Ready)].n": [1],
    ".status.conditions[?(@.absent)].type": [],
    ".status.conditions[?(@.n)].type": ["Ready", "Done"],
    ".status.conditions[?(@['type']=='Ready')].n": [1],
    ".spec.size[?(@.a==1)]": [],
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_finds_values(path: str) -> None:
    """Each form of the dialect; what is missing gives nothing."""
    assert compile_path(path)(OBJECT) == PATHS[path]


@pytest.mark.parametrize("path", [".spec[", "..size", ".spec[?(@.a=)]", "spec"])
def test_what_is_not_this_dialect_is_named(path: str) -> None:
    """The error shows the path."""
    with pytest.raises(JsonPathError, match=r"the path|not supported"):
        compile_path(path)


def test_cells_of_type_string_show_any_value() -> None:
    """Texts as they are, the rest as JSON."""
    shown = [text(value) for value in ("a", 1, True, None, [1, "b"], {"k": 1.5})]
    assert shown == ["a", "1", "true", "<nil>", '[1,"b"]', '{"k":1.5}']
