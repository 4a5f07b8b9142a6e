"""The JSONPath of printer columns: kubectl's dialect, as far as CRDs use it.

``.a.b``, ``['a']``, ``[0]``, ``[-1]``, ``[1:3]``, ``[*]``, ``.*`` and filters that compare a field
with a literal: ``[?(@.type=="Ready")]``. A dot in a key is written ``\\.``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

__all__ = ["JsonPathError", "compile_path", "text"]

_KEY = re.compile(r"\.((?:[^.\[\]\\]|\\.)+)")
_BRACKET = re.compile(
    r"""\[(?:
      (?P<star>\*) |
      '(?P<quoted>[^']*)' | "(?P<double>[^"]*)" |
      (?P<slice>-?\d*:-?\d*(?::-?\d+)?) |
      (?P<index>-?\d+) |
      \?\(\s*@(?P<field>(?:\.[\w\-/]+|\[\s*'[^']*'\s*\])+)\s*
          (?:(?P<op>==|!=|>=|<=|>|<)\s*(?P<literal>"[^"]*"|'[^']*'|[\w.+-]+)\s*)?\)
    )\]""",
    re.VERBOSE,
)
_FIELD = re.compile(r"\.([\w\-/]+)|\[\s*'([^']*)'\s*\]")
_Step = Callable[[Any], Iterator[Any]]


class JsonPathError(ValueError):
    """A path that can not be read; the message says where."""


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """A function from an object to all values at ``path``; missing keys give none.

    Raises: JsonPathError for what is not this dialect.
    """
    inner = path.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    steps = [*_steps(inner.removeprefix("$"))]

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [item for one in found for item in step(one)]
        return found

    return find


def text(value: Any) -> str:
    """A value as a table's cell of type string has it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    return msgspec.json.encode(value).decode()


def _steps(path: str) -> Iterator[_Step]:
    at = 0
    while at < len(path):
        rest = path[at:]
        if rest.startswith(".."):
            raise JsonPathError(f"recursive descent is not supported: {path!r}")
        if rest == ".":
            return
        if rest.startswith(".*"):
            yield _all
            at += 2
        elif rest.startswith(".["):
            at += 1
        elif match := _KEY.match(rest):
            yield _key(re.sub(r"\\(.)", r"\1", match[1]))
            at += match.end()
        elif match := _BRACKET.match(rest):
            yield _bracket(match)
            at += match.end()
        else:
            raise JsonPathError(f"can not read {rest!r} in the path {path!r}")


def _bracket(match: re.Match[str]) -> _Step:
    if match["star"]:
        return _all
    if match["slice"] is not None:
        return _slice(match["slice"])
    if match["index"] is not None:
        return _index(int(match["index"]))
    if match["field"] is not None:
        return _filter(match["field"], match["op"] or "", match["literal"])
    return _key(match["quoted"] if match["quoted"] is not None else match["double"])


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _key(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(index: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(written: str) -> _Step:
    bounds = slice(*(int(part) if part else None for part in written.split(":")))

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[bounds]

    return step


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _filter(field: str, operator: str, literal: str | None) -> _Step:
    steps = [_key(plain or quoted) for plain, quoted in _FIELD.findall(field)]
    wanted = _literal(literal) if literal is not None else None

    def matches(item: Any) -> bool:
        found = [item]
        for step in steps:
            found = [value for one in found for value in step(one)]
        if not found or not operator:
            return bool(found)
        try:
            return _COMPARE[operator](found[0], wanted)
        except TypeError:  # a number against a text
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if matches(item))

    return step


def _literal(written: str) -> Any:
    if written[0] in "\"'":
        return written[1:-1]
    try:
        return msgspec.json.decode(written)
    except msgspec.DecodeError:
        return written
