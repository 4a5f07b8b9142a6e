"""Says which failures are news: an API server that is down fails every request alike."""

from __future__ import annotations

import asyncio

__all__ = ["Causes"]

_SECONDS = 10.0  # those who ask the same server notice an outage within a few seconds


class Causes:
    """Causes of failures that were told a short while ago by any of those who share this."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}

    def is_news(self, problem: str) -> bool:
        """Whether the cause of ``problem`` has to be told: nobody has done so within 10 s.

        ``problem`` is text of a :class:`gm.errors.ServiceError`, "REQUEST failed: CAUSE"; text
        without a cause of that form is one by itself.
        """
        now = asyncio.get_running_loop().time()
        cause = problem.partition(" failed: ")[2] or problem
        recent = {what: at for what, at in self._told_at.items() if now - at < _SECONDS}
        self._told_at = {**recent, cause: recent.get(cause, now)}
        return cause not in recent
