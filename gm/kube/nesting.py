"""JSON that is nested deeper than decoders take: noticed, and taken apart without recursion.

An API server stores objects of thousands of levels where a CRD keeps unknown fields. A decoder
recurses; one such object must not end the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["MAX_DEPTH", "fields", "is_too_deep", "items", "outline"]

MAX_DEPTH = 200
"""Levels that an object may have: far more than any honest one, far fewer than decoders take."""

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_STRINGS = re.compile(_STRING)
_TOKENS = re.compile(_STRING + rb"|[\[\]{},]")
_KEY = re.compile(rb"\s*(" + _STRING + rb")\s*:")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_TO_BRACES = bytes.maketrans(b"[]", b"{}")


def is_too_deep(data: bytes) -> bool:
    """Whether the JSON ``data`` has more than MAX_DEPTH levels."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    brackets = _STRINGS.sub(b"", data).translate(_TO_BRACES, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"{}", b"")  # the innermost level
        if not brackets:
            return False
    return True


def fields(data: bytes) -> dict[str, bytes]:
    """The fields of the JSON object ``data``, each value as JSON."""
    found = {}
    for member in _members(data):
        key = _KEY.match(member)
        if key is not None:
            found[key[1][1:-1].decode(errors="replace")] = member[key.end() :].strip()
    return found


def items(data: bytes) -> list[bytes]:
    """The items of the JSON array ``data``, each as JSON."""
    return [member.strip() for member in _members(data)]


def outline(data: bytes) -> bytes:
    """What of the object ``data`` says who it is and how it is: metadata and status.

    ``managedFields``, which are as deep as the object itself, are left out.
    """
    parts = fields(data)
    if "metadata" in parts:
        metadata = fields(parts["metadata"])
        metadata.pop("managedFields", None)
        parts["metadata"] = _joined(metadata)
    return _joined({name: parts[name] for name in ("metadata", "status") if name in parts})


def _joined(parts: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(b'"%s":%s' % (k.encode(), v) for k, v in parts.items()) + b"}"


def _members(data: bytes) -> Iterator[bytes]:
    """What stands between the outermost brackets, split at its commas."""
    depth = start = 0
    for token in _TOKENS.finditer(data):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth == 1:
                    start = token.end()
            case b"}" | b"]":
                depth -= 1
                if depth == 0:
                    if last := data[start : token.start()].strip():
                        yield last
                    return
            case b"," if depth == 1:
                yield data[start : token.start()]
                start = token.end()
