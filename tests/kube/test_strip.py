"""Objects without managedFields."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.kube.strip import without_managed_fields

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def encoded(obj: Any) -> bytes:
    """As Go writes it."""
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()


@settings(max_examples=50, deadline=None)
@given(
    spec=JSON,
    metadata=st.dictionaries(st.text(), JSON),
    managed=st.none() | st.lists(st.dictionaries(st.text(), JSON)),
)
def test_everything_else_stays_as_it_was(spec: Any, metadata: dict[str, Any], managed: Any) -> None:
    """Order, numbers and escapes included: fields are copied, not decoded."""
    metadata.pop("managedFields", None)
    expected = {"kind": "X", "metadata": metadata, "spec": spec}
    given_ = expected | {"metadata": {"name": "n", "managedFields": managed} | metadata}
    expected["metadata"] = {"name": "n"} | metadata
    assert without_managed_fields(encoded(given_)) == encoded(expected)


@pytest.mark.parametrize(
    "obj",
    [
        {"metadata": {"name": "n"}},
        {"spec": {"managedFields": 1}, "metadata": {}},
        {"data": {"text": '"managedFields"'}},
        {},
    ],
)
def test_what_has_none_is_only_copied(obj: dict[str, Any]) -> None:
    """Also when the word stands somewhere else."""
    data = encoded(obj)
    assert without_managed_fields(data) == data


def test_a_slice_of_a_page_does_not_keep_the_page() -> None:
    """The result is bytes of its own."""
    page = encoded({"items": [{"metadata": {"name": "a"}}]})
    (item,) = msgspec.json.decode(page, type=dict[str, list[msgspec.Raw]])["items"]
    assert type(without_managed_fields(item)) is bytes
