"""Waiting between attempts."""

from __future__ import annotations

import asyncio

from gm.edge_stub.runner.settings import Tuning

__all__ = ["Pause"]


class Pause:
    """Growing waits between attempts at what may come yet."""

    def __init__(self, tuning: Tuning) -> None:
        self._seconds, self._max_seconds = tuning.retry_seconds, tuning.retry_max_seconds

    def next(self) -> float:
        """Seconds to wait now; each time twice as long, up to a limit."""
        seconds = self._seconds
        self._seconds = min(seconds * 2, self._max_seconds)
        return seconds

    async def sleep(self) -> None:
        """Wait that long."""
        await asyncio.sleep(self.next())
