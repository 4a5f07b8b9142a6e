"""Times as Go reads them: the layouts that Kubernetes uses, and what Go says of other texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from gm.devcluster.metadata import quoted

__all__ = ["MICRO", "WHOLE", "duration_problem", "in_utc", "time_problem", "timestamp"]

WHOLE = "2006-01-02T15:04:05Z07:00"
MICRO = "2006-01-02T15:04:05.000000Z07:00"
_ELEMENTS = re.compile(r"2006|01|02|15|04|05|\.000000|Z07:00|[-T:]")
_FORMS = {
    "2006": r"\d{4}",
    "01": r"\d\d",
    "02": r"\d\d",
    "15": r"\d\d?",
    "04": r"\d\d",
    "05": r"\d\d",
    ".000000": r"[.,]\d{6}",
    "Z07:00": r"Z|[+-]\d\d:\d\d",
}
_RANGES = {"01": (1, 12, "month"), "02": (1, 31, "day"), "15": (0, 23, "hour")}
_RANGES |= {"04": (0, 59, "minute"), "05": (0, 59, "second")}
_DURATION = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")
_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}


def time_problem(text: str, layout: str) -> str:
    """What Go says when it can not read ``text`` in a layout; empty when it can."""
    head = f"parsing time {quoted(text)}"
    rest, elements = text, _ELEMENTS.findall(layout)
    for index, element in enumerate(elements):
        found = re.match(_FORMS.get(element, re.escape(element)), rest)
        if found is None:
            return f"{head} as {quoted(layout)}: cannot parse {quoted(rest)} as {quoted(element)}"
        if element in _RANGES:
            low, high, name = _RANGES[element]
            if not low <= int(found[0]) <= high:
                return f"{head}: {name} out of range"
        rest = rest[found.end() :]
        if element == "05" and elements[index + 1] != ".000000":
            rest = re.sub(r"^[.,]\d+", "", rest)  # a fraction may always follow
    if rest:
        return f"{head}: extra text: {quoted(rest)}"
    try:
        _parsed(text)
    except ValueError:  # every part is in its range: that month is shorter, or there is no year 0
        return f"{head}: day out of range"
    return ""


def duration_problem(text: str) -> str:
    """What Go says when it can not read ``text`` as a duration such as ``1m30s``; else empty."""
    wrong = f"time: invalid duration {quoted(text)}"
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest in ("", "0"):
        return "" if rest else wrong
    nanoseconds = 0.0
    while rest:
        if (found := _DURATION.match(rest)) is None:
            return wrong
        number, unit = found.groups()
        if not unit:
            return f"time: missing unit in duration {quoted(text)}"
        if unit not in _UNITS:
            return f"time: unknown unit {quoted(unit)} in duration {quoted(text)}"
        nanoseconds += float(number) * _UNITS[unit]
        rest = rest[found.end() :]
    return wrong if nanoseconds >= 1 << 63 else ""


def _parsed(text: str) -> datetime:
    return datetime.fromisoformat(re.sub(r"T(\d):", r"T0\1:", text).replace(",", "."))


def in_utc(text: str, layout: str) -> str:
    """A text in which ``time_problem`` finds nothing, as Go writes it."""
    moment = _parsed(text).astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds" if layout == MICRO else "seconds") + "Z"


def timestamp(moment: datetime | None = None) -> str:
    """A moment, by default now, as ``metav1.Time``: RFC 3339 in whole seconds."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
