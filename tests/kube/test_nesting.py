"""JSON that is nested deeper than decoders take."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.kube import nesting

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[],:é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def nested(levels: int, *, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    """A value of so many levels."""
    return opening * levels + b"1" + closing * levels


@pytest.mark.parametrize(
    ("data", "is_deep"),
    [
        (nested(nesting.MAX_DEPTH), False),
        (nested(nesting.MAX_DEPTH + 1), True),
        (nested(9000), True),
        (nested(9000, opening=b"[", closing=b"]"), True),
        # brackets in texts, which would fool a count
        (nested(9000, opening=b'{"}":', closing=b',"{":0}'), True),
        (nested(9000, opening=b'{"\\"}":'), True),
        (b"[" + b'{"a":[]},' * 500 + b'"' + b"{" * 500 + b'"]', False),
        (b'"{{{"', False),
    ],
)
def test_levels_are_counted_and_texts_are_not(data: bytes, is_deep: bool) -> None:
    """However wide or odd the rest is."""
    assert nesting.is_too_deep(data) is is_deep


@given(st.dictionaries(st.text('ab{}"\\', max_size=4), VALUES))
def test_an_object_is_taken_apart_as_a_decoder_would(value: dict[str, Any]) -> None:
    """Each field as JSON; escapes in names are not resolved, which no field that we read has."""
    for indent in (None, 2):
        found = nesting.fields(json.dumps(value, indent=indent).encode())
        assert {k: json.loads(v) for k, v in found.items()} == {
            json.dumps(k)[1:-1]: v for k, v in value.items()
        }


@given(st.lists(VALUES))
def test_an_array_is_taken_apart_as_a_decoder_would(value: list[Any]) -> None:
    """Each item as JSON."""
    for indent in (None, 2):
        found = nesting.items(json.dumps(value, indent=indent).encode())
        assert [json.loads(item) for item in found] == value


def test_the_outline_of_an_object_is_shallow_and_says_who_it_is() -> None:
    """Its managedFields are as deep as the object itself."""
    metadata = b'{"name":"a","managedFields":[{"fieldsV1":%s}],"uid":"u"}' % nested(5000)
    rest = b'"spec":{"x":%s},"status":{"phase":"Pending"}' % nested(5000)
    data = b'{"apiVersion":"v1","metadata":%s,%s}' % (metadata, rest)
    assert msgspec.json.decode(nesting.outline(data)) == {
        "metadata": {"name": "a", "uid": "u"},
        "status": {"phase": "Pending"},
    }
    assert nesting.outline(b"[]") == b"{}"
