"""Logging: constant messages, values as fields, human lines on a terminal and JSON elsewhere."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

__all__ = ["configure", "log_fields"]

_fields: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar(
    "log_fields", default=None
)
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


@contextlib.contextmanager
def log_fields(**fields: Any) -> Iterator[None]:
    """Add ``fields`` to every record logged in the body, also by the tasks that it starts."""
    token = _fields.set({**(_fields.get() or {}), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


def _record_fields(record: logging.LogRecord) -> dict[str, Any]:
    own = {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
    return {**(_fields.get() or {}), **own}


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_record_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        fields = "".join(f" {k}={v}" for k, v in _record_fields(record).items())
        line = f"{time} {record.levelname.lower():7} {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure(*, format: str = "auto", level: str = "info", stream: TextIO | None = None) -> None:  # noqa: A002
    """Send all records to ``stream``, by default standard error.

    ``format`` is ``human``, ``json`` or ``auto``: human on a terminal, JSON elsewhere.
    """
    stream = stream or sys.stderr
    human = format == "human" or (format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Human() if human else _Json())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
