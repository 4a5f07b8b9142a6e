"""A queue of keys for reconcilers, with client-go's semantics.

* A key is queued at most once, however often it is added.
* A key that a worker holds is never handed to a second one; an add in the meantime is remembered
  and queues the key again when the worker calls ``done``.
* ``add_after`` and ``add_rate_limited`` add later. A key waits at most once and the earliest wish
  wins: reconciling is level-based, so the earlier run does what the later one was for, and says
  again if it wants a later look. That is where this queue is stricter than client-go's, which
  would run the key a second time for nothing.

Everything but ``get`` is synchronous, and time is the event loop's: deterministic under a loop
with virtual time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ShutDown", "Workqueue"]

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):
    """The queue was shut down and everything in it has been handed out."""


class Workqueue(Generic[K]):
    """Keys waiting for a worker.

    ``base_seconds`` and ``max_seconds`` bound the back-off of ``add_rate_limited``: base, then
    doubling with each failure since the last ``forget``. Not thread-safe; use it from the event
    loop's thread. A worker's loop::

        key = await queue.get()
        try:
            ...
        finally:
            queue.done(key)
    """

    def __init__(self, *, base_seconds: float = 0.005, max_seconds: float = 360.0) -> None:
        if not 0 < base_seconds <= max_seconds:
            raise ValueError("0 < base_seconds <= max_seconds is required")
        self._base_seconds = base_seconds
        self._max_seconds = max_seconds
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()  # wants a run: in _ready, or held by a worker and added again
        self._processing: set[K] = set()
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._is_shut_down = False

    def __len__(self) -> int:
        """Keys ready for a worker; neither delayed nor held ones."""
        return len(self._ready)

    @property
    def is_shut_down(self) -> bool:
        """Whether ``shut_down`` was called."""
        return self._is_shut_down

    @property
    def processing_count(self) -> int:
        """Keys that workers hold now."""
        return len(self._processing)

    @property
    def delayed_count(self) -> int:
        """Keys that wait for their time."""
        return len(self._delayed)

    @property
    def failing_count(self) -> int:
        """Keys whose failures are remembered."""
        return len(self._failures)

    def add(self, key: K) -> None:
        """Queue ``key`` now, unless it is queued already; supersedes a delayed add."""
        if self._is_shut_down:
            return
        self._cancel_delayed(key)
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add ``key`` in ``seconds``, unless it is queued or waits for an earlier time."""
        if seconds <= 0:
            self.add(key)
            return
        if self._is_shut_down or key in self._dirty:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        waiting = self._delayed.get(key)
        if waiting is not None:
            if waiting.when() <= due:
                return
            waiting.cancel()
        self._delayed[key] = loop.call_at(due, self.add, key)

    def add_rate_limited(self, key: K, *, at_least_seconds: float = 0.0) -> None:
        """Count a failure of ``key`` and add it after its back-off, or later if so wished."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, max(self.backoff_seconds(failures), at_least_seconds))

    def backoff_seconds(self, failures: int) -> float:
        """Seconds that a key waits after ``failures`` failures in a row."""
        if failures < 1:
            raise ValueError("failures must be at least 1")
        # the exponent is capped: 2.0 ** 1024 would overflow for a key that fails for weeks
        return min(self._base_seconds * 2.0 ** min(failures - 1, 64), self._max_seconds)

    def forget(self, key: K) -> None:
        """Forget the failures of ``key``: after a success, or when its object is gone."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Failures of ``key`` in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for a key and hold it until ``done``; safe to cancel.

        Raises: ShutDown after ``shut_down``, once the ready keys are handed out.
        """
        while not self._ready:
            if self._is_shut_down:
                raise ShutDown
            await self._wait_ready()
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """Give ``key`` back; if it was added in the meantime it is queued again."""
        if key not in self._processing:
            raise ValueError("done() called for a key that nobody holds")
        self._processing.discard(key)
        if key in self._dirty:
            self._push(key)

    def shut_down(self) -> None:
        """Take no more keys, drop the delayed ones, let workers drain what is ready."""
        self._is_shut_down = True
        for handle in self._delayed.values():
            handle.cancel()
        self._delayed.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def _cancel_delayed(self, key: K) -> None:
        handle = self._delayed.pop(key, None)
        if handle is not None:
            handle.cancel()

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    async def _wait_ready(self) -> None:
        getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            woken = getter.done() and not getter.cancelled()
            if not woken:
                self._getters.remove(getter)
            elif self._ready:
                # cancelled after being woken for a key: the wake-up belongs to someone else
                self._wake_one()
            raise
