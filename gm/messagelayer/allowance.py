"""How often something may happen within a time."""

from __future__ import annotations

__all__ = ["Allowance"]


class Allowance:
    """Counts what happens in windows of ``seconds``; a new one begins with the first event."""

    __slots__ = ("_count", "_seconds", "_since")

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._count, self._since = 0, 0.0

    def spend(self, now: float) -> int:
        """Count one more; gives how many there were in this window."""
        if not self._count or now - self._since >= self._seconds:
            self._count, self._since = 0, now
        self._count += 1
        return self._count
