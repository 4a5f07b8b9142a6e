"""Objects with something wrong anywhere: refused with a reason or taken, never a failure."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.api.meta import Json
from gm.devcluster.api import WriteOptions
from gm.devcluster.patch import MERGE_PATCH, STRATEGIC_MERGE_PATCH, apply_patch
from gm.devcluster.status import StatusError
from tests.devcluster.core import plain, widget
from tests.devcluster.test_fidelity import OBJECTS

API = plain()
DRY = WriteOptions(dry_run=True)
WIDGETS = "widgets.example.com"
SEEDS: dict[str, tuple[str, Json]] = {
    "widget": (WIDGETS, widget("x", labels={"a": "b"}, finalizers=["x.io/f"])),
    **{
        case: (".".join(filter(None, (plural, group))), body)
        for case, (plural, group, body) in OBJECTS.items()
    },
}
# Nothing in the store is as deep or as odd as what clients may send.
VALUES: list[Any] = [
    *(None, "", 0, -1, 1.5, True, [], {}, "x", "A b", "x" * 300, 2**31, 2**63, 1e40, "1", "-1"),
    *([None], [{}], [1], ["x", "x"], [[]], {"a": None}, {"": ""}, {"x": {"y": 1}}, "\u2603"),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in ``value``, at whatever depth."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in children:
        yield (*path, key)
        if isinstance(child, dict | list):
            yield from _places(child, (*path, key))


def _mutated(obj: Json, data: st.DataObject) -> Json:
    """``obj`` with something else at a few places."""
    changed = copy.deepcopy(obj)
    for _ in range(data.draw(st.integers(1, 3))):
        # what is no text there is refused when a body is decoded, which is not done here
        places = [place for place in _places(changed) if place not in (("kind",), ("apiVersion",))]
        if not places:
            break
        *parents, last = data.draw(st.sampled_from(places))
        here: Any = changed
        for part in parents:
            here = here[part]
        here[last] = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
    return changed


@pytest.mark.parametrize("case", SEEDS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_whatever_is_wrong_with_an_object_it_is_answered(case: str, data: st.DataObject) -> None:
    """As a new object, as a patch of both kinds, and as an update."""
    name, body = SEEDS[case]
    info = API.info(name)
    namespace = "default" if info.resource.namespaced else ""
    base = {**copy.deepcopy(body), "kind": info.resource.kind}
    base["apiVersion"] = info.resource.api_version
    base["metadata"] = {"name": "x", **base.get("metadata", {})}
    wrong = _mutated(base, data)
    key, schema = API.key(name, "x"), info.patch_schema
    if API.find(name, "x") is None:
        with contextlib.suppress(StatusError):  # some of the cases are refused as they are
            API.api.create(info, namespace, copy.deepcopy(base))
    kinds = [MERGE_PATCH, *([STRATEGIC_MERGE_PATCH] if schema is not None else [])]
    for kind, part in itertools.product(kinds, ["", *({"status"} & info.subresources)]):

        def change(obj: Json, kind: str = kind) -> Json:
            return apply_patch(kind, obj, copy.deepcopy(wrong), schema)

        with contextlib.suppress(StatusError):
            API.api.patch(info, key, change, subresource=part, options=DRY)
    with contextlib.suppress(StatusError):
        API.api.create(info, namespace, copy.deepcopy(wrong), DRY)
    with contextlib.suppress(StatusError):
        API.api.replace(info, key, copy.deepcopy(wrong), options=DRY)
