"""The parameters of a request, read as Go reads them, and in its words where they are odd."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from gm.devcluster.gotime import duration_problem
from gm.devcluster.metadata import quoted
from gm.devcluster.status import StatusError, bad_request

__all__ = [
    "Query",
    "check_timeout",
    "parse_bool",
    "parse_int",
    "parse_query",
    "parse_version",
    "unsigned_problem",
]

_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_SIGNED = re.compile("[-+]?[0-9]+")
_MAX_DIGITS = 20  # of a number of 64 bits
_OUT_OF_RANGE = "value out of range"
_NO_NUMBER = "invalid syntax"


class Query(dict[str, str]):
    """Parameters by name, each with the first value that it has; ``every`` gives all of them."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = [*pairs]
        super().__init__(reversed(self._pairs))

    def every(self, name: str) -> list[str]:
        """All values of a parameter, in order."""
        return [value for key, value in self._pairs if key == name]


def parse_query(raw: bytes) -> Query:
    """The part of a URL after the question mark, before anything is unescaped.

    What can not be read is left out, as Go does: pairs with a semicolon or a wrong escape.
    """
    parts = [p for p in raw.split(b"&") if p and b";" not in p and not _ESCAPE.search(p)]
    split = [part.partition(b"=") for part in parts]
    return Query((_plain(name), _plain(value)) for name, _, value in split)


def _plain(part: bytes) -> str:
    return unquote_to_bytes(part.replace(b"+", b" ")).decode(errors="replace")


def parse_bool(text: str | None) -> bool:
    """Whether a parameter is set: to whatever does not say no (``0``, ``False``)."""
    return text is not None and text.lower() not in ("0", "false")


def parse_int(query: Mapping[str, str], name: str) -> int | None:
    """A whole number of 64 bits; None if the parameter is not given. Raises: StatusError (400)."""
    if (text := query.get(name)) is None:
        return None
    if not _SIGNED.fullmatch(text):
        raise bad_request(f"strconv.ParseInt: parsing {quoted(text)}: {_NO_NUMBER}")
    if not _is_short(text) or not -(1 << 63) <= int(text) < 1 << 63:
        raise bad_request(f"strconv.ParseInt: parsing {quoted(text)}: {_OUT_OF_RANGE}")
    return int(text)


def parse_version(text: str) -> int:
    """A resourceVersion parameter; empty counts as 0. Raises: StatusError (500) as upstream."""
    if text and (problem := unsigned_problem(text)):
        raise StatusError(500, "", f"resourceVersion: Invalid value: {quoted(text)}: {problem}")
    return int(text or 0)


def unsigned_problem(text: str) -> str:
    """What Go says of a text that is no whole number of 64 bits without a sign; else empty."""
    if not (text.isascii() and text.isdecimal()):
        return f"strconv.ParseUint: parsing {quoted(text)}: {_NO_NUMBER}"
    if not _is_short(text) or int(text) >= 1 << 64:
        return f"strconv.ParseUint: parsing {quoted(text)}: {_OUT_OF_RANGE}"
    return ""


def _is_short(digits: str) -> bool:
    """Whether there are few enough digits to look at the number: Python refuses thousands."""
    return len(digits.lstrip("-+0")) <= _MAX_DIGITS


def check_timeout(query: Mapping[str, str]) -> None:
    """Raises: StatusError (400) if ``timeout`` is no duration; nothing here takes that long."""
    if (text := query.get("timeout")) and (problem := duration_problem(text)):
        raise bad_request(f"invalid timeout specified in the request URL - {problem}")
