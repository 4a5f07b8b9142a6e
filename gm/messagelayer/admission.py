"""How many connections may become sessions per second; the others wait a little."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Admission"]

_TICK_SECONDS = 0.02


class Admission:
    """A token bucket with a line of at most ``patience_seconds`` before it.

    A whole fleet that reconnects after a restart is let in evenly instead of being refused, and
    what the rest of GM does meanwhile is not delayed.
    """

    def __init__(
        self, *, per_second: float, loop: asyncio.AbstractEventLoop, patience_seconds: float = 5.0
    ) -> None:
        self._per_second, self._loop = per_second, loop
        self._max_waiting = max(1, int(per_second * patience_seconds))
        self._tokens = float(max(1.0, per_second))
        self._counted_at = loop.time()
        self._waiting: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def admit(self, admitted: Callable[[], None]) -> bool:
        """Call ``admitted`` when it is its turn, maybe at once; False: the line is too long."""
        self._count()
        if not self._waiting and self._tokens >= 1:
            self._tokens -= 1
            admitted()
            return True
        if len(self._waiting) >= self._max_waiting:
            return False
        self._waiting.append(admitted)
        self._schedule()
        return True

    def close(self) -> None:
        """Admit nobody any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _count(self) -> None:
        now = self._loop.time()
        self._tokens += (now - self._counted_at) * self._per_second
        self._tokens = min(self._tokens, max(1.0, self._per_second))
        self._counted_at = now

    def _schedule(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = self._loop.call_later(
                max(_TICK_SECONDS, (1 - self._tokens) / self._per_second), self._tick
            )

    def _tick(self) -> None:
        self._timer = None
        self._count()
        while self._waiting and self._tokens >= 1:
            self._tokens -= 1
            self._waiting.popleft()()
        self._schedule()
