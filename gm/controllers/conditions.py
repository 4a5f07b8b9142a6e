"""Status as plain JSON: conditions, one per type, and the merge patch that writes a change."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from gm.api.meta import Json

__all__ = [
    "conflict_pause",
    "find_condition",
    "now",
    "parse_time",
    "remove_conditions",
    "set_condition",
    "status_of",
    "status_patch",
    "timestamp",
    "truncated",
]

_MAX_MESSAGE = 1024
_TIMES = "lastProbeTime", "lastHeartbeatTime"
_SAID = "status", "reason", "message"


def now() -> datetime:
    """The time, to the second: what Kubernetes stores of it."""
    return datetime.now(UTC).replace(microsecond=0)


def timestamp(moment: datetime) -> str:
    """``moment`` as Kubernetes writes it."""
    # not strftime, which writes the year 99 with two digits
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def parse_time(text: Any) -> datetime | None:
    """The moment that ``text``, a ``metav1.Time`` (RFC 3339), tells, in UTC; None if it tells none.

    A time without a zone tells none: nobody knows whose clock it was read from.
    """
    try:
        moment = msgspec.convert(text, datetime)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (msgspec.ValidationError, OverflowError):  # or it lies outside of the years 1 to 9999
        return None


def truncated(message: str, *, most: int = _MAX_MESSAGE) -> str:
    """``message``, cut off at ``most`` bytes: a status must stay small."""
    encoded = message.encode()
    if len(encoded) <= most:
        return message
    return encoded[: most - 3].decode(errors="ignore") + "..."


class _WithStatus(msgspec.Struct):
    status: Json | None = None


_decode = msgspec.json.Decoder(_WithStatus).decode


def status_of(raw: bytes) -> Json:
    """A fresh copy of the status in ``raw``, an object as JSON; empty if it has none."""
    return _decode(raw).status or {}


def find_condition(status: Mapping[str, Any], kind: str) -> Json | None:
    """The newest condition of type ``kind``."""
    conditions: list[Json] = status.get("conditions") or []
    return next((c for c in reversed(conditions) if c.get("type") == kind), None)


def set_condition(
    status: Json,
    kind: str,
    *,
    at: datetime,
    is_true: bool = True,
    reason: str | None = None,
    message: str | None = None,
) -> None:
    """Keep exactly one condition of type ``kind`` in ``status``, in place.

    Its times move only if it says something new, so that an unchanged status is not written.
    """
    conditions = status["conditions"] = list(status.get("conditions") or [])
    old = find_condition(status, kind)
    new: Json = {"type": kind, "status": "True" if is_true else "False"}
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = truncated(message)
    same = [i for i, c in enumerate(conditions) if c.get("type") == kind]
    if old is not None and len(same) == 1 and all(old.get(k) == new.get(k) for k in _SAID):
        return
    moment = timestamp(at)
    new |= dict.fromkeys(_TIMES, moment)
    changed = old is None or old.get("status") != new["status"]
    since = moment if changed or old is None else old.get("lastTransitionTime")
    new["lastTransitionTime"] = since or moment
    if not same:
        conditions.append(new)
        return
    conditions[same[0]] = new
    for surplus in reversed(same[1:]):  # a Sedna GM appended one per report
        del conditions[surplus]


def remove_conditions(status: Json, kinds: Iterable[str]) -> None:
    """Take the conditions of types ``kinds`` out of ``status``, in place."""
    gone = set(kinds)
    if any(c.get("type") in gone for c in status.get("conditions") or []):
        status["conditions"] = [c for c in status["conditions"] if c.get("type") not in gone]


def status_patch(old: Json, new: Json, *, resource_version: str) -> Json | None:
    """The merge patch that turns status ``old`` into ``new``; None if they are the same.

    It holds for exactly the version that ``new`` was computed from.
    """
    changed = {key: value for key, value in new.items() if key not in old or old[key] != value}
    # null takes a field away; maps are merged by the server, so what left them needs one too
    changed |= {key: None for key in old if key not in new}
    for key, value in changed.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            changed[key] = value | {name: None for name in old[key] if name not in value}
    if not changed:
        return None
    return {"metadata": {"resourceVersion": resource_version}, "status": changed}


def conflict_pause(attempt: int) -> float:
    """Seconds to wait before writing a status again after a 409; ``attempt`` counts from 0.

    None at first, since one conflict is no contest. Then at random, so that writers that meet again
    and again come out of step: up to 20 ms, doubling with each attempt, at most 1 s.
    """
    if attempt == 0:
        return 0.0
    return random.uniform(0, min(0.02 * 2.0 ** (attempt - 1), 1.0))  # noqa: S311
