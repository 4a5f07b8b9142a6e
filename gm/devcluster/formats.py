"""The formats of texts that kube-apiserver checks in custom resources.

Source: go-openapi/strfmt, whose patterns are wider or narrower than the standards here and there.
"""

from __future__ import annotations

import email.utils
import ipaddress
import re
from collections.abc import Callable
from datetime import date

from gm.devcluster.gotime import WHOLE, time_problem

__all__ = ["CHECKS", "KNOWN"]

_HEX = "[0-9a-fA-F]"
_GO_DURATION = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|[-+]?0"
_UNITS = (
    "nanos?|nanoseconds?|ns|micros?|microseconds?|us|µs|millis?|milliseconds?|ms|secs?|seconds?|s|"
    "mins?|minutes?|m|hrs?|hours?|h|days?|d|weeks?|wks?|w"
)
_LETTER = "[a-zA-Z0-9]"


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str = _HEX, variant: str = _HEX) -> Callable[[str], bool]:
    return _matches(
        f"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?{_HEX}{{12}}"
    )


def _date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _date_time(text: str) -> bool:
    return not time_problem(text.upper(), WHOLE)


def _email(text: str) -> bool:
    address = email.utils.parseaddr(text)[1]
    return re.fullmatch(r"[^\s@<>]+@[^\s@<>]+", address) is not None and text.strip().endswith(
        (address, f"<{address}>")
    )


def _hostname(text: str) -> bool:
    label = f"{_LETTER}(?:[a-zA-Z0-9-]{{0,61}}{_LETTER})?"
    return len(text) <= 255 and bool(re.fullmatch(rf"{label}|(?:{label}\.)+[a-zA-Z]{{2,63}}", text))


def _ipv4(text: str) -> bool:
    return _matches(r"\d{1,3}(\.\d{1,3}){3}")(text) and all(int(n) < 256 for n in text.split("."))


def _ipv6(text: str) -> bool:
    try:
        return "%" not in text and bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _cidr(text: str) -> bool:
    try:
        return re.search(r"/\d+$", text) is not None and bool(
            ipaddress.ip_network(text, strict=False)
        )
    except ValueError:
        return False


_BASE64 = "[A-Za-z0-9+/]"
CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _matches(f"({_BASE64}{{4}})*({_BASE64}{{2}}==|{_BASE64}{{3}}=|{_BASE64}{{4}})"),
    "cidr": _cidr,
    "date": _date,
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _matches(rf"{_GO_DURATION}|(?:\d+\s*(?:{_UNITS})\s*)+"),
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "mac": _matches(
        rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}|{_HEX}{{2}}([:-]{_HEX}{{2}}){{7}}"
        rf"|{_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}(\.{_HEX}{{4}})?"
    ),
    "uri": _matches(r"[A-Za-z][A-Za-z0-9+.-]*:\S*|/\S*"),
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
}
"""By name: whether a text has the format."""

KNOWN = frozenset(CHECKS) | {
    *("bsonobjectid", "creditcard", "hexcolor", "isbn", "isbn10", "isbn13", "password"),
    *("rgbcolor", "ssn"),
}
"""Also those that kube-apiserver checks and we do not."""
