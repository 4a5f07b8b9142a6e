"""What is wrong with a JSON text."""

from __future__ import annotations

import json

import pytest

from gm.devcluster import gojson
from gm.devcluster.gojson import explain, type_name


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}", ""),
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'{"a', "unexpected end of JSON input"),
        (b"{bad", "invalid character 'b' looking for beginning of object key string"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b"nope", "invalid character 'n' looking for beginning of value"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b'["a]" x]', "invalid character 'x' after array element"),
        (b'{"a":[1],"b\\"":{} c}', "invalid character 'c' after object key:value pair"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"{\"a\":'b'}", "invalid character '\\'' looking for beginning of value"),
        (b'"\x01"', "invalid character '\\x01' in string literal"),
        (b"\xff", "invalid character 'ÿ' looking for beginning of value"),
        (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_the_place_and_the_character_are_named(body: bytes, message: str) -> None:
    """In the words that Kubernetes' clients know."""
    assert explain(body) == message


def test_json_types_have_names() -> None:
    """As messages about wrong types name them."""
    values: list[object] = [None, True, 1, 1.5, "", [], {}]
    assert [type_name(v) for v in values] == [
        "null",
        "bool",
        "number",
        "number",
        "string",
        "array",
        "object",
    ]


def test_newer_decoders_find_trailing_commas_themselves() -> None:
    """Python 3.13 points at the comma, not at what follows."""
    for text, kind, expected in (
        ('{"a":1 , }', "object", "'}' looking for beginning of object key string"),
        ("[1,]", "array", "']' looking for beginning of value"),
    ):
        message = f"Illegal trailing comma before end of {kind}"
        error = json.JSONDecodeError(message, text, text.index(","))
        assert gojson._explain(text, error) == f"invalid character {expected}"
