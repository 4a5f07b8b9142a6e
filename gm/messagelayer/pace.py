"""A bounded rate for what must all happen, only not all at once."""

from __future__ import annotations

import asyncio

__all__ = ["Pace"]


class Pace:
    """Lets ``burst`` callers through at once, then ``per_second``, in the order of their coming."""

    def __init__(self, *, per_second: float, burst: float) -> None:
        self._interval, self._credit_seconds = 1 / per_second, burst / per_second
        self._next = 0.0  # when the next one may go, were the credit used up

    async def wait(self) -> None:
        """Return when it is the caller's turn."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._credit_seconds) + self._interval
        delay = self._next - now
        if delay > 0:
            await asyncio.sleep(delay)
