"""The Local Controller stand-in: composes agent, store, worker API and dataset counting."""

from __future__ import annotations

import asyncio

from gm.edge_stub.settings import EdgeSettings

__all__ = ["LocalController"]


class LocalController:
    """Keeps what GM sends, answers the node's workers, and reports back; survives GM's absence."""

    def __init__(self, settings: EdgeSettings) -> None:
        self.settings = settings
        self._ready = asyncio.Event()

    async def wait_ready(self) -> None:
        """Return once the worker API listens."""
        await self._ready.wait()

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until ``stopping`` is set; raises ConfigError when the worker API's port is taken."""
        self._ready.set()
        await stopping.wait()
