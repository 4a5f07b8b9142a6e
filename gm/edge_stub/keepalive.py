"""Finds a half-open link to GM without giving up a slow one.

The library's own pings would do neither: a pong waits behind a large object that comes down a slow
link, and a ping that can not be written, on a link that takes nothing, is waited for without end.
So is a close.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from gm.messagelayer.liveness import Liveness, Verdict, unsent_bytes

__all__ = ["WatchedConnection", "keep_alive"]

T = TypeVar("T", str, bytes)

_CLOSE_SECONDS = 3.0
_FRAGMENT_BYTES = 128 * 1024


class WatchedConnection(ClientConnection):
    """Notes when something came in (loop time), and how much has been written (bytes)."""

    heard_at = 0.0
    written = 0

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        self.heard_at = self.loop.time()
        super().data_received(data)

    async def write(self, frame: T) -> None:
        """Send ``frame``, as :meth:`send` does; a large one in fragments with pings between.

        Their pongs show that GM gets on with it, also where a proxy on the way, or its kernel,
        has swallowed everything at once.
        """
        self.written += len(frame)
        await self.send(frame if len(frame) <= _FRAGMENT_BYTES else self._fragments(frame))

    async def _fragments(self, frame: T) -> AsyncIterator[T]:
        for start in range(0, len(frame), _FRAGMENT_BYTES):
            if start:
                await self.ping()
            yield frame[start : start + _FRAGMENT_BYTES]

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """See :class:`ClientConnection`; a link that takes nothing is cut."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await super().close(code, reason)
        except TimeoutError:
            self.transport.abort()
            await self.wait_closed()


async def keep_alive(
    connection: WatchedConnection, *, interval_seconds: float, timeout_seconds: float
) -> bool:
    """Ping a quiet link; cut it, and return True, when it makes no progress any more.

    Progress is what :class:`Liveness` says it is. Returns False when the connection ends.
    """
    clock = connection.loop.time
    liveness = Liveness(clock(), interval=interval_seconds, timeout=timeout_seconds)
    heard_at = 0.0
    while True:
        await asyncio.sleep(liveness.deadline - clock())
        now = clock()
        if not connection.transport.is_reading():
            liveness.heard(now)  # the disk is slower than GM, so silence proves nothing
        elif connection.heard_at > heard_at:
            heard_at = connection.heard_at
            liveness.heard(heard_at)
        gone_out = connection.written - unsent_bytes(connection.transport)
        match liveness.check(now, gone_out=gone_out):
            case Verdict.PROBE:
                try:
                    await _ping(connection, liveness.deadline)
                except ConnectionClosed:
                    return False
            case Verdict.DEAD:
                connection.transport.abort()
                return True


async def _ping(connection: ClientConnection, until: float) -> None:
    """Send a ping; that it can not be written is no reason to wait beyond ``until``."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await connection.ping()
