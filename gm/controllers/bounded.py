"""A job's status, small enough for the API server whatever workers and reports say."""

from __future__ import annotations

import msgspec

from gm.api.meta import Json
from gm.controllers.conditions import truncated

__all__ = ["most_bytes", "shrink"]

# etcd takes objects of up to 1.5 MiB: half of that is left to spec and metadata.
_BASE, _PER_WORKER, _MOST = 32 * 1024, 2 * 1024, 768 * 1024

# What each worker keeps, from step to step less: metrics, characters of their keys and values,
# bytes of its message.
_STEPS = ((32, 256, 1024), (16, 128, 512), (8, 64, 256), (4, 64, 128), (2, 64, 64), (0, 0, 64))

_encode = msgspec.json.Encoder().encode


def most_bytes(status: Json) -> int:
    """Size as JSON that the status of a federated job may have, by its number of workers."""
    return min(_BASE + _PER_WORKER * len(status.get("workers") or []), _MOST)


def shrink(status: Json, *, most: int | None = None) -> None:
    """Take metrics and words from the workers in ``status``, in place, until it is small enough.

    What GM itself has to remember (phases, restarts, nodes) stays in any case. ``most``: bytes of
    JSON, by default as many as :func:`most_bytes` says. Shrinking a second time changes nothing.
    """
    limit = most_bytes(status) if most is None else most
    for metrics, characters, message_bytes in _STEPS:
        if len(_encode(status)) <= limit:
            return
        status["workers"] = [
            _less(worker, metrics, characters, message_bytes)
            for worker in status.get("workers") or []
        ]


def _less(worker: Json, metrics: int, characters: int, message_bytes: int) -> Json:
    less = dict(worker)
    kept = [
        {field: str(entry.get(field, ""))[:characters] for field in ("key", "value")}
        for entry in (less.pop("metrics", None) or [])[:metrics]
    ]
    if kept:
        less["metrics"] = kept
    if less.get("message"):
        less["message"] = truncated(str(less["message"]), most=message_bytes)
    return less
