"""Lines that say how far the downloads are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Progress", "size_text"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(count: float) -> str:
    """``count`` bytes for people: ``512 B``, ``1.5 GiB``."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{int(count)} B"


class Progress:
    """Counts files and bytes, and tells them: at most one line each ``interval_seconds``."""

    def __init__(self, say: Callable[[str], None], *, interval_seconds: float) -> None:
        self.say = say
        self._interval_seconds = interval_seconds
        self.found = self.downloaded = self.present = self.failed = self.received_bytes = 0

    async def run(self) -> None:
        """Say how far it is, while anything moves, until cancelled."""
        before = -1
        while True:
            await asyncio.sleep(self._interval_seconds)
            if self.received_bytes != before:
                before = max(before, 0)
                rate = (self.received_bytes - before) / self._interval_seconds
                self.say(f"{self}, {size_text(rate)}/s")
                before = self.received_bytes

    def __str__(self) -> str:
        done = self.downloaded + self.present
        text = f"{done} of {self.found} files, {size_text(self.received_bytes)} downloaded"
        if self.present:
            text += f", {self.present} were already there"
        return f"{text}, {self.failed} failed" if self.failed else text
