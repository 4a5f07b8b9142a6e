"""Merge and JSON patches, and which kinds of patch are taken."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.devcluster import patch
from gm.devcluster.patch import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    json_patch,
    merge_patch,
)
from gm.devcluster.schema import Schema
from gm.devcluster.status import StatusError

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value


def _difference(old: Any, new: Any) -> Any:
    """The merge patch that makes ``new`` of ``old``, for trees without nulls in objects."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    gone = {key: None for key in old if key not in new}
    changed = {
        key: _difference(old.get(key), value) for key, value in new.items() if old.get(key) != value
    }
    return {**gone, **changed}


@given(values, values)
def test_a_merge_patch_is_idempotent(target: Any, change: Any) -> None:
    """Applying it twice is applying it once."""
    once = merge_patch(target, change)
    assert merge_patch(once, change) == once


@given(values, values)
def test_a_merge_patch_changes_neither_argument(target: Any, change: Any) -> None:
    """The store shares objects."""
    before = copy.deepcopy((target, change))
    merge_patch(target, change)
    assert (target, change) == before


@given(objects.map(_without_nulls), objects.map(_without_nulls))
def test_the_difference_as_a_merge_patch_gives_the_new_object(old: Any, new: Any) -> None:
    """Any object can be reached."""
    assert merge_patch(old, _difference(old, new)) == new


@given(values)
def test_an_empty_merge_patch_keeps_objects(target: Any) -> None:
    """And makes an object of anything else (RFC 7386)."""
    assert merge_patch(target, {}) == (target if isinstance(target, dict) else {})


@pytest.mark.parametrize(
    ("target", "change", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(target: Any, change: Any, expected: Any) -> None:
    """Appendix A."""
    assert merge_patch(target, change) == expected


@given(objects, st.sampled_from("abcd"), scalars)
def test_adding_and_removing_a_field_by_json_patch(target: Any, field: str, value: Any) -> None:
    """What add sets, remove takes away; the target stays as it was."""
    before = copy.deepcopy(target)
    added = json_patch(target, [{"op": "add", "path": f"/{field}", "value": value}])
    assert added == {**target, field: value}
    removed = json_patch(added, [{"op": "remove", "path": f"/{field}"}])
    assert removed == {k: v for k, v in target.items() if k != field}
    assert target == before


def test_json_patch_has_its_ways_upstream() -> None:
    """Numbers count from the end, what has no value has null, and nothing is null, too."""
    target: Any = {"a": 1, "l": [1, {"x": 2}]}
    operations = [
        {"op": "replace", "path": "/l/-1/x", "value": 3},
        {"op": "replace", "path": "/l/-2", "value": 0},
        {"op": "test", "path": "/gone"},
        {"op": "test", "path": "/l/-1/gone", "value": None},
        {"op": "add", "path": "/empty"},
        {"op": "remove", "path": "/a"},
    ]
    assert json_patch(target, operations) == {"l": [0, {"x": 3}], "empty": None}


def test_json_patch_operations() -> None:
    """All six; a list's end is ``-``; a pointer's ``~1`` is a slash."""
    target: Any = {"a": {"x/y": 1}, "l": [1, 2]}
    operations = [
        {"op": "test", "path": "/a/x~1y", "value": 1},
        {"op": "replace", "path": "/a/x~1y", "value": 2},
        {"op": "replace", "path": "/a/new", "value": 3},  # upstream adds what is missing
        {"op": "add", "path": "/l/-", "value": 3},
        {"op": "replace", "path": "/l/0", "value": 0},
        {"op": "copy", "from": "/l/0", "path": "/b"},
        {"op": "move", "from": "/b", "path": "/c"},
        {"op": "remove", "path": "/l/1"},
    ]
    assert json_patch(target, operations) == {"a": {"x/y": 2, "new": 3}, "l": [0, 3], "c": 0}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/gone"},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/gone", "value": 2},
        {"op": "add", "path": "/gone/x", "value": 2},
        {"op": "add", "path": "no-slash", "value": 2},
        {"op": "replace", "path": "/l/9", "value": 2},
        {"op": "replace", "path": "/a/b/c", "value": 2},
        {"op": "move", "from": "/gone", "path": "/a"},
        {"op": "dance", "path": "/a"},
        {"op": "replace"},
        {"op": "add", "path": "", "value": {}},
        {"op": "copy", "from": "", "path": "/b"},
        {"op": "move", "from": "/a", "path": ""},
        {"op": "replace", "path": "/l/-9", "value": 2},
        {"path": "/a"},
        {"op": "add", "path": 7, "value": 1},
    ],
)
def test_an_operation_that_can_not_be_done_is_422(operation: Any) -> None:
    """With the one sentence that upstream has for all of them."""
    with pytest.raises(StatusError) as caught:
        json_patch({"a": 1, "l": []}, [operation])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize("operations", [{}, [3], "x"])
def test_what_is_no_list_of_operations_is_400(operations: Any) -> None:
    """And says what it is instead."""
    with pytest.raises(StatusError, match="error decoding patch: json: cannot unmarshal") as caught:
        json_patch({}, operations)
    assert caught.value.code == 400


def test_too_many_operations_are_refused() -> None:
    """413, as upstream."""
    with pytest.raises(StatusError, match="10001") as caught:
        json_patch({}, [{"op": "test", "path": ""}] * 10_001)
    assert caught.value.code == 413


def test_decode_explains_what_is_no_json() -> None:
    """400."""
    assert patch.decode(MERGE_PATCH, b'{"a":null}') == ({"a": None}, [])
    with pytest.raises(StatusError, match="error decoding patch: unexpected end of JSON input"):
        patch.decode(MERGE_PATCH, b'{"data":')


SCHEMA = Schema({"type": "object", "properties": {}})


def test_strategic_patches_need_a_schema() -> None:
    """Custom resources have none, so that kubectl falls back to merge patches."""
    patch.check_type(STRATEGIC_MERGE_PATCH, SCHEMA)
    with pytest.raises(StatusError) as caught:
        patch.check_type(STRATEGIC_MERGE_PATCH, None)
    assert caught.value.code == 415
    assert "application/merge-patch+json" in caught.value.message


def test_server_side_apply_is_refused_with_advice() -> None:
    """415, and what to do instead."""
    with pytest.raises(StatusError, match="kubectl apply without --server-side") as caught:
        patch.check_type(APPLY_PATCH, SCHEMA)
    assert caught.value.code == 415


def test_apply_patch_picks_by_content_type() -> None:
    """One change in three forms."""
    before = {"metadata": {"name": "a"}, "n": 1}
    after = {"metadata": {"name": "a"}, "n": 2}
    operations = [{"op": "replace", "path": "/n", "value": 2}]
    assert patch.apply_patch(JSON_PATCH, before, operations, None) == after
    assert patch.apply_patch(MERGE_PATCH, before, {"n": 2}, None) == after
    assert patch.apply_patch(STRATEGIC_MERGE_PATCH, before, {"n": 2}, SCHEMA) == after


@pytest.mark.parametrize(
    ("content_type", "change"),
    [(MERGE_PATCH, []), (MERGE_PATCH, None), (JSON_PATCH, [{"op": "remove", "path": ""}])],
)
def test_an_object_must_come_of_it(content_type: str, change: Any) -> None:
    """400, or 422 where the operation itself is refused."""
    with pytest.raises(StatusError) as caught:
        patch.apply_patch(content_type, {"metadata": {}}, change, None)
    assert caught.value.code in (400, 422)


def test_a_json_patch_may_not_replace_the_object_by_something_else() -> None:
    """An operation on the whole document can give anything."""
    operations = [{"op": "replace", "path": "", "value": [1]}]
    with pytest.raises(StatusError, match="cannot unmarshal array"):
        patch.apply_patch(JSON_PATCH, {"metadata": {}}, operations, None)


def test_copies_do_not_grow_without_end() -> None:
    """Each doubles what is there: thirty lines would fill the memory."""
    grow = [{"op": "copy", "from": "/a", "path": f"/a/{name}"} for name in "bc"]
    with pytest.raises(StatusError) as caught:
        patch.json_patch({"a": {"text": "x" * 1000}}, grow * 15)
    assert caught.value.code == 422


def test_nothing_is_patched_to_be_too_deep() -> None:
    """What walks through objects calls itself."""
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    with pytest.raises(StatusError, match="exceeded max depth"):
        patch.apply_patch(patch.MERGE_PATCH, {}, deep, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("9223372036854775807", 2**63 - 1), ("9" * 30, float("9" * 30)), ("2.0", 2), ("-1", -1)],
)
def test_numbers_are_those_of_go(text: str, value: float) -> None:
    """Integers have 64 bits."""
    decoded, _ = patch.decode(MERGE_PATCH, text.encode())
    assert (decoded, type(decoded)) == (value, type(value))


@pytest.mark.parametrize("text", ["1e999", "9" * 5000, "NaN"])
def test_numbers_that_are_none(text: str) -> None:
    """400 and not 500, whatever their size."""
    with pytest.raises(StatusError) as caught:
        patch.decode(MERGE_PATCH, text.encode())
    assert caught.value.code == 400


def test_keys_that_a_patch_repeats_are_named() -> None:
    """The last value counts, as in objects."""
    body = b'{"a":{"b":1,"b":2}}'
    assert patch.decode(MERGE_PATCH, body) == ({"a": {"b": 2}}, ['duplicate field "a.b"'])
    body = b'[{"op":"add","op":"test","path":"/a"}]'
    operations = [{"op": "test", "path": "/a"}]
    told = ['json patch duplicate field "[0].op"']
    assert patch.decode(JSON_PATCH, body) == (operations, told)


def test_a_patch_that_says_null() -> None:
    """No operations, nothing to merge strategically, but no merge patch."""
    before = {"metadata": {"name": "a"}}
    assert patch.apply_patch(JSON_PATCH, before, None, None) == before
    assert patch.apply_patch(STRATEGIC_MERGE_PATCH, before, None, SCHEMA) == before
    with pytest.raises(StatusError, match=r"^Invalid JSON Patch$"):
        patch.apply_patch(MERGE_PATCH, before, None, None)
    with pytest.raises(StatusError, match="the server rejected our request") as caught:
        patch.apply_patch(JSON_PATCH, before, [None], None)
    assert caught.value.code == 422


def test_a_strategic_patch_leaves_the_kind_alone() -> None:
    """It is merged into what is decoded already."""
    before = {"kind": "A", "apiVersion": "v1", "n": 1}
    change = {"kind": "B", "apiVersion": None, "n": 2}
    patched = patch.apply_patch(STRATEGIC_MERGE_PATCH, before, change, SCHEMA)
    assert patched == {"kind": "A", "apiVersion": "v1", "n": 2}
