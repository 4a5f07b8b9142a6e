"""What is wrong with a JSON text, in the words of the JSON decoder that clients know."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

__all__ = [
    "MAX_DEPTH",
    "NUMBERS",
    "explain",
    "fingerprint",
    "go_number",
    "go_text",
    "is_halved",
    "is_too_deep",
    "readable",
    "type_name",
]

MAX_DEPTH = 200
"""How deep an object may be nested: what walks through it calls itself."""

_KEY = "looking for beginning of object key string"
_CONTEXT = {
    "Expecting property name enclosed in double quotes": _KEY,
    "Expecting value": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Illegal trailing comma before end of object": _KEY,
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Unexpected UTF-8 BOM (decode using utf-8-sig)": "looking for beginning of value",
}
_REPLACEMENT = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")
# After an even number of backslashes: the escape of a pair of surrogates, or that of one alone.
_ESCAPED_SURROGATE = re.compile(
    r"(?<!\\)((?:\\\\)*)"
    r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_PAIR_LENGTH = len(r"\ud83d\ude00")


def readable(body: bytes) -> str:
    """JSON as text; U+FFFD for each byte that is no UTF-8 and for each surrogate without a mate.

    What is decoded from it can always be encoded again.
    """
    text = _SURROGATE.sub(_REPLACEMENT, body.decode(errors="surrogateescape"))
    return _ESCAPED_SURROGATE.sub(_mended, text) if "\\u" in text else text


def is_halved(text: str) -> bool:
    """Whether there are surrogates in ``text``, so that it can not be encoded."""
    return _SURROGATE.search(text) is not None


def _mended(match: re.Match[str]) -> str:
    before, escape = match.groups()
    return match[0] if len(escape) == _PAIR_LENGTH else before + _REPLACEMENT


def explain(body: bytes) -> str:
    """Why ``body`` is no JSON; empty if it is."""
    try:
        text = body.decode(errors="surrogateescape")
        json.loads(text)
    except RecursionError:
        return "exceeded max depth"
    except json.JSONDecodeError as error:
        return _explain(text, error)
    except ValueError:  # an integer of thousands of digits
        return ""
    return ""


def _integer(written: str) -> int | float:
    """Go has integers of 64 bits; what is larger is no integer to it."""
    if len(written) < 19 or (len(written) <= 20 and -(1 << 63) <= int(written) < 1 << 63):
        return int(written)
    return _finite(written)


def _number(written: str) -> int | float:
    """``2.0`` is the integer 2, as it is to Go's dynamic objects."""
    value = _finite(written)
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def _finite(written: str) -> float:
    value = float(written)
    if math.isinf(value):
        shown = written if len(written) < 40 else f"{written[:40]}..."
        raise ValueError(f"json: cannot unmarshal number {shown} into Go value of type float64")
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON value")


NUMBERS: dict[str, Any] = {
    "parse_int": _integer,
    "parse_float": _number,
    "parse_constant": _refuse,
}
"""Arguments for ``json.loads``: numbers as Go's dynamic objects hold them."""


def is_too_deep(value: Any) -> bool:
    """Whether ``value`` is nested deeper than objects may be."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(v for v in item.values() if isinstance(v, dict | list))
            elif isinstance(item, list):
                below.extend(v for v in item if isinstance(v, dict | list))
        if not below:
            return False
        level = below
    return True


def _explain(text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    if error.msg.startswith("Illegal trailing comma"):
        at = next((n for n in range(at + 1, len(text)) if not text[n].isspace()), len(text))
    if at >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    context = _CONTEXT.get(error.msg)
    if error.msg == "Expecting ',' delimiter":
        context = f"after {_innermost(text[:at])}"
    return f"invalid character {_quoted(text[at])} {context or 'in string literal'}"


def _innermost(text: str) -> str:
    """Whether ``text`` ends in an object or in an array."""
    depth: list[str] = []
    in_string = escaped = False
    for letter in text:
        if in_string:
            in_string = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            in_string = True
        elif letter in "{[":
            depth.append(letter)
        elif letter in "}]" and depth:
            depth.pop()
    return "object key:value pair" if depth[-1:] == ["{"] else "array element"


def _quoted(letter: str) -> str:
    if letter == "\ufeff" or _SURROGATE.match(letter):  # shown by its first byte, as Go does
        letter = chr(letter.encode(errors="surrogateescape")[0])
    return {"'": r"'\''", '"': "'\"'"}.get(letter, repr(letter))


def fingerprint(value: Any) -> bytes:
    """Something hashable that equal JSON values share: to compare many with many."""
    return msgspec.json.encode(value, order="sorted")


def type_name(value: Any) -> str:
    """The JSON type of a decoded value: object, array, string, number, bool, null."""
    if value is None:
        return "null"
    names = {bool: "bool", dict: "object", list: "array", str: "string"}
    return names.get(type(value), "number")


def go_number(value: int | float) -> str:
    """A decoded number as Go writes it: in full up to 21 digits."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def go_text(value: Any) -> str:
    """A decoded value as Go prints it: ``map[a:1 b:[x y]]``."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)
