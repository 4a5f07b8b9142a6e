"""An event loop whose time jumps: hours of back-off pass in milliseconds, always the same way."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualTimeLoop", "run_in_virtual_time"]

R = TypeVar("R")


class _JumpingSelector(selectors.DefaultSelector):
    """Does not wait for the next timer but moves the clock to it. For loops without I/O."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("deadlock: nothing is scheduled and nothing can happen")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, which starts at 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_in_virtual_time(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run ``coroutine`` in a loop of its own, in which waiting takes no time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(coroutine)
