"""Strategic merge patches.

The examples with Deployments were compared with a kube-apiserver, request by request.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.api.meta import Json
from gm.devcluster.patch import merge_patch
from gm.devcluster.registry import Registry
from gm.devcluster.schema import Schema
from gm.devcluster.status import StatusError
from gm.devcluster.strategic import strategic_merge

# ``spec.items`` is merged by name, ``spec.tags`` is a set, ``spec.args`` and the rest are replaced.
NODE = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "x-kubernetes-patch-merge-key": "name",
                    "x-kubernetes-patch-strategy": "merge",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "args": {"type": "array", "items": {"type": "string"}},
                            "env": {
                                "type": "array",
                                "x-kubernetes-patch-merge-key": "name",
                                "x-kubernetes-patch-strategy": "merge",
                                "items": {"type": "object", "properties": {}},
                            },
                        },
                    },
                },
                "tags": {
                    "type": "array",
                    "x-kubernetes-patch-strategy": "merge",
                    "items": {"type": "string"},
                },
                "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
            },
        }
    },
}
SCHEMA = Schema(NODE)

names = st.sampled_from("abcdefg")
items = st.lists(names, max_size=6, unique=True)
numbered = st.dictionaries(names, st.integers(), max_size=6)


def _spec(values: dict[str, int]) -> Json:
    return {"spec": {"items": [{"name": k, "v": v} for k, v in values.items()]}}


def _items(obj: Json) -> list[Json]:
    found: list[Json] = obj["spec"]["items"]
    return found


def _names(obj: Json) -> list[str]:
    return [item["name"] for item in _items(obj)]


@given(numbered, numbered)
def test_a_keyed_list_is_the_union_with_the_patch_winning(
    original: dict[str, int], change: dict[str, int]
) -> None:
    """As dicts by key, a merged list is the two dicts merged."""
    merged = strategic_merge(_spec(original), _spec(change), SCHEMA)
    assert {i["name"]: i["v"] for i in _items(merged)} == {**original, **change}


@given(numbered, numbered)
def test_orders_of_both_lists_are_kept(original: dict[str, int], change: dict[str, int]) -> None:
    """Elements of the patch in its order; the others in that of the original."""
    result = _names(strategic_merge(_spec(original), _spec(change), SCHEMA))
    assert [n for n in result if n in change] == list(change)
    assert [n for n in result if n not in change] == [n for n in original if n not in change]


@given(numbered, numbered)
def test_a_patch_is_idempotent_and_changes_neither_argument(
    original: dict[str, int], change: dict[str, int]
) -> None:
    """Applying it twice is applying it once; the store shares objects."""
    first, patch = _spec(original), _spec(change)
    before = copy.deepcopy((first, patch))
    once = strategic_merge(first, patch, SCHEMA)
    assert strategic_merge(once, patch, SCHEMA) == once
    assert (first, patch) == before


@given(numbered, st.data())
def test_set_element_order_orders_what_it_names(
    original: dict[str, int], data: st.DataObject
) -> None:
    """The named elements come in that order, whatever else is there."""
    order = data.draw(st.permutations(list(original)))
    named = order[: data.draw(st.integers(0, len(order)))]
    patch = {"spec": {"$setElementOrder/items": [{"name": n} for n in named]}}
    result = _names(strategic_merge(_spec(original), patch, SCHEMA))
    assert [n for n in result if n in named] == named
    assert sorted(result) == sorted(original)


@given(numbered, items)
def test_deleting_by_key_takes_exactly_those(original: dict[str, int], gone: list[str]) -> None:
    """``$patch: delete`` of what is not there does nothing."""
    patch = {"spec": {"items": [{"name": n, "$patch": "delete"} for n in gone]}}
    assert _names(strategic_merge(_spec(original), patch, SCHEMA)) == [
        n for n in original if n not in gone
    ]


@given(items, items)
def test_a_list_of_primitives_is_a_set(original: list[str], change: list[str]) -> None:
    """Each once; and ``$deleteFromPrimitiveList`` takes them away again."""
    merged = strategic_merge({"spec": {"tags": original}}, {"spec": {"tags": change}}, SCHEMA)
    assert sorted(merged["spec"]["tags"]) == sorted({*original, *change})
    patch = {"spec": {"$deleteFromPrimitiveList/tags": change}}
    left = strategic_merge(merged, patch, SCHEMA)
    assert sorted(left["spec"]["tags"]) == sorted(set(original) - set(change))


plain: st.SearchStrategy[Any] = st.dictionaries(
    names, st.integers() | st.dictionaries(names, st.none() | st.integers(), max_size=3), max_size=4
)


@given(plain, plain)
def test_without_lists_it_is_a_merge_patch(original: Any, change: Any) -> None:
    """But nulls inside new objects are dropped, as by a merge patch on an empty object."""
    original = merge_patch({}, original)
    assert strategic_merge(original, change, SCHEMA) == merge_patch(original, change)


@cache
def _deployment_schema() -> Schema:
    info = Registry().lookup("apps", "v1", "deployments")
    assert info is not None
    assert info.patch_schema is not None
    return info.patch_schema


def _deployment() -> Json:
    spec = {
        "containers": [
            {
                "name": "c1",
                "image": "i1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "args": ["x", "y"],
                "ports": [{"containerPort": 1}, {"containerPort": 2}],
            },
            {"name": "c2", "image": "i2"},
            {"name": "c3", "image": "i3"},
        ],
        "volumes": [
            {"name": "v1", "emptyDir": {}},
            {"name": "v2", "hostPath": {"path": "/x"}},
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "nodeSelector": {"a": "b"},
    }
    return {
        "metadata": {"name": "d", "finalizers": ["a.b/c", "d.e/f"]},
        "spec": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {}},
            "template": {"spec": spec},
        },
    }


def _patched(pod_patch: Json) -> Json:
    patch = {"spec": {"template": {"spec": pod_patch}}}
    merged = strategic_merge(_deployment(), patch, _deployment_schema())
    found: Json = merged["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"containers": [{"name": "c2", "image": "n"}]}, ["c1=i1", "c2=n", "c3=i3"]),
        ({"containers": [{"name": "c9", "image": "n"}]}, ["c9=n", "c1=i1", "c2=i2", "c3=i3"]),
        (
            {
                "containers": [
                    {"name": "c3", "image": "n"},
                    {"name": "c9", "image": "n"},
                    {"name": "c1", "image": "n"},
                ]
            },
            ["c2=i2", "c3=n", "c9=n", "c1=n"],
        ),
        (
            {
                "$setElementOrder/containers": [{"name": "c3"}, {"name": "c1"}],
                "containers": [{"name": "c1", "image": "n"}],
            },
            ["c2=i2", "c3=i3", "c1=n"],
        ),
        (
            {"$setElementOrder/containers": [{"name": "c3"}, {"name": "c2"}, {"name": "c1"}]},
            ["c3=i3", "c2=i2", "c1=i1"],
        ),
        ({"containers": [{"name": "c1", "$patch": "delete"}]}, ["c2=i2", "c3=i3"]),
        ({"containers": [{"name": "cX", "image": "x"}, {"$patch": "replace"}]}, ["cX=x"]),
    ],
)
def test_containers_are_merged_by_name(change: Json, expected: list[str]) -> None:
    """Order and content as a real API server gives them."""
    containers = _patched(change)["containers"]
    assert [f"{c['name']}={c['image']}" for c in containers] == expected


def test_lists_inside_merged_elements_follow_their_own_rules() -> None:
    """env is merged by name, ports by containerPort, args are replaced."""
    change = {
        "name": "c1",
        "env": [{"name": "B", "$patch": "delete"}, {"name": "C", "value": "3"}],
        "args": ["z"],
        "ports": [{"containerPort": 2, "name": "p"}],
    }
    container = _patched({"containers": [change]})["containers"][0]
    assert [e["name"] for e in container["env"]] == ["C", "A"]
    assert container["args"] == ["z"]
    assert container["ports"] == [{"containerPort": 1}, {"containerPort": 2, "name": "p"}]


def test_volumes_keep_only_the_keys_that_are_retained() -> None:
    """So that one source replaces another."""
    change = {"name": "v2", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}
    assert _patched({"volumes": [change]})["volumes"] == [
        {"name": "v1", "emptyDir": {}},
        {"name": "v2", "emptyDir": {}},
    ]


def test_null_removes_a_list_and_a_field() -> None:
    """As in a merge patch."""
    patched = _patched({"volumes": None, "nodeSelector": {"a": None, "c": "d"}, "gone": None})
    assert "volumes" not in patched
    assert patched["nodeSelector"] == {"c": "d"}


def test_lists_without_a_strategy_are_replaced() -> None:
    """Tolerations have none."""
    new = [{"key": "q", "operator": "Exists"}]
    assert _patched({"tolerations": new})["tolerations"] == new


def test_retain_keys_on_an_object() -> None:
    """The deployment's strategy."""
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    merged = strategic_merge(_deployment(), patch, _deployment_schema())
    assert merged["spec"]["strategy"] == {"type": "Recreate"}


def test_finalizers_are_a_set_with_an_order() -> None:
    """What kubectl apply sends when one is replaced by another."""
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a.b/c"],
            "$setElementOrder/finalizers": ["g.h/i", "d.e/f"],
            "finalizers": ["g.h/i"],
        }
    }
    merged = strategic_merge(_deployment(), patch, _deployment_schema())
    assert merged["metadata"]["finalizers"] == ["g.h/i", "d.e/f"]


def test_replace_and_delete_of_an_object() -> None:
    """Directives inside a map."""
    original = {"spec": {"m": {"a": 1, "b": 2}}}
    replaced = strategic_merge(original, {"spec": {"m": {"$patch": "replace", "c": 3}}}, SCHEMA)
    assert replaced == {"spec": {"m": {"c": 3}}}
    deleted = strategic_merge(original, {"spec": {"m": {"$patch": "delete"}}}, SCHEMA)
    assert deleted == {"spec": {"m": {}}}


def test_a_field_with_strategy_replace_is_replaced() -> None:
    """Whole."""
    original = {"spec": {"whole": {"a": 1}}}
    assert strategic_merge(original, {"spec": {"whole": {"b": 2}}}, SCHEMA) == {
        "spec": {"whole": {"b": 2}}
    }


def test_new_content_holds_no_nulls_and_no_directives() -> None:
    """What is merged with nothing is stored as an object."""
    patch = {
        "spec": {
            "new": {"a": None, "b": [{"$patch": "delete", "name": "x"}, {"name": "y", "z": None}]},
            "items": [{"name": "n", "v": None, "$retainKeys": ["name"]}],
        }
    }
    assert strategic_merge({}, patch, SCHEMA) == {
        "spec": {"new": {"b": [{"name": "y"}]}, "items": [{"name": "n"}]}
    }


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"$patch": "foo"}},
        {"spec": {"items": [{"name": "a", "$patch": "merge"}]}},
        {"spec": {"items": [{"v": 1}]}},
        {"spec": {"items": ["x"]}},
        {"spec": {"$setElementOrder/items": 1}},
        {"spec": {"$setElementOrder/items": {"name": "a"}, "items": []}},
    ],
)
def test_directives_that_make_no_sense(patch: Json) -> None:
    """500 without a reason, as upstream."""
    with pytest.raises(StatusError) as caught:
        strategic_merge({"spec": {"items": []}}, patch, SCHEMA)
    assert (caught.value.code, caught.value.reason) == (500, "")


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"$retainKeys": ["a"], "b": 1}},
        {"spec": {"$retainKeys": "a", "tags": []}},
        {"spec": {"$retainKeys": 1}},
        {"spec": {"$retainKeys": ["a"], "": 1}},
        {"spec": {"$deleteFromPrimitiveList/tags": 1}},
    ],
)
def test_directives_of_a_wrong_form(patch: Json) -> None:
    """400, as upstream."""
    with pytest.raises(StatusError, match=r"^invalid patch format of ") as caught:
        strategic_merge({"spec": {"items": [], "tags": ["x"]}}, patch, SCHEMA)
    assert caught.value.code == 400


@pytest.mark.parametrize("key", [{"a": 1}, ["x"], 1.5])
def test_merge_keys_of_any_type_tell_elements_apart(key: Any) -> None:
    """That they are no texts is found when the object is read."""
    patch = {"items": [{"name": key, "v": 2}]}
    merged = strategic_merge({"spec": {"items": [{"name": key, "v": 1}]}}, {"spec": patch}, SCHEMA)
    assert merged == {"spec": patch}


def test_orders_and_deletions_of_what_is_not_there() -> None:
    """They do nothing."""
    order = {"$setElementOrder/items": [{"name": "a"}], "$deleteFromPrimitiveList/tags": [1]}
    assert strategic_merge({"spec": {"x": 1}}, {"spec": order}, SCHEMA) == {"spec": {"x": 1}}
