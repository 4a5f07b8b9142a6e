"""Attempts: how many, and how long between them."""

from __future__ import annotations

import random

from gm.storage_init.settings import Settings

__all__ = ["Backoff", "Transient"]

MAX_ASKED_SECONDS = 120
"""The longest that a server's Retry-After is heeded."""


class Transient(Exception):
    """An attempt failed in a way that may be over soon; `Backoff` decides what comes of it."""

    def __init__(self, problem: str, advice: str = "", *, after_seconds: float = 0) -> None:
        super().__init__(problem)
        self.problem, self.after_seconds = problem, after_seconds
        self.advice = advice or "check that the server is up and can be reached from this node"


class Backoff:
    """Counts attempts of one operation that brought nothing new, in a row."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._failures, self._best = settings, 0, 0

    @property
    def failures(self) -> int:
        """Attempts since the last one that brought something new."""
        return self._failures

    def failed(self, *, size: int = 0, after_seconds: float = 0) -> float | None:
        """Seconds until the next attempt, or None if there should be none.

        ``size`` is how far the attempt came: only a new record counts as progress, so a server
        that starts over each time is not tried for ever.
        """
        if size > self._best:
            self._best, self._failures = size, 0
        self._failures += 1
        if self._failures >= self._settings.attempts:
            return None
        delay = self._settings.first_delay_seconds * 2.0 ** (self._failures - 1)
        delay = min(delay, self._settings.max_delay_seconds)
        # many pods start at the same moment: spread them
        delay *= 0.5 + random.random() / 2  # noqa: S311
        return max(delay, min(after_seconds, MAX_ASKED_SECONDS))
