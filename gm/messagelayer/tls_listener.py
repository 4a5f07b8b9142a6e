"""A listener that takes TLS connections no faster, and no more at a time, than GM can bear.

A TLS handshake costs the server a millisecond of CPU time and, while the client is slow about it,
memory, before anything is known of the client. The library of the event loop bounds its time only.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable

from gm.messagelayer.pace import Pace
from gm.messagelayer.session import Timing

__all__ = ["MAX_HANDSHAKES", "TlsListener"]

logger = logging.getLogger(__name__)

MAX_HANDSHAKES = 1024
"""Handshakes at a time. Beyond it the oldest makes room: an honest client is done in a second."""

_BACKLOG = 4096
_RETRY_SECONDS = 1.0


class TlsListener:
    """Calls ``make`` for each connection; its protocol is told of it when the handshake is done.

    Beyond ``per_second`` connections wait in the kernel's backlog. ``counters`` learn of handshakes
    that fail (``tls_failed``) or had to make room (``tls_dropped``).
    """

    def __init__(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        *,
        per_second: float,
        timing: Timing,
        counters: Counter[str],
        max_handshakes: int = MAX_HANDSHAKES,
    ) -> None:
        self._make, self._context, self._timing = make, context, timing
        self._pace = Pace(per_second=per_second, burst=per_second)
        self._counters, self._max_handshakes = counters, max_handshakes
        self._handshakes: dict[asyncio.Task[None], None] = {}  # oldest first
        self.sockets: list[socket.socket] = []

    async def listen(self, address: str, port: int) -> None:
        """Bind ``address``, all that it resolves to. Raises: OSError, OverflowError."""
        found = await asyncio.get_running_loop().getaddrinfo(
            address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _, _, _, where in dict.fromkeys(found):
                self.sockets.append(_listening(family, where))
        except BaseException:
            self.close()
            raise

    async def run(self) -> None:
        """Accept until cancelled."""
        async with asyncio.TaskGroup() as group:
            for listener in self.sockets:
                group.create_task(self._accept(listener, group), name="tls-accept")

    def close(self) -> None:
        """Listen no more."""
        for listener in self.sockets:
            listener.close()

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._pace.wait()
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as exc:  # the peer has gone already, or no descriptor is free
                logger.warning("a connection can not be accepted", extra={"cause": exc.strerror})
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if len(self._handshakes) >= self._max_handshakes:
                self._make_room()
            task = group.create_task(self._shake_hands(accepted), name="tls-handshake")
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    def _make_room(self) -> None:
        oldest = next(iter(self._handshakes))
        del self._handshakes[oldest]
        oldest.cancel()
        self._counters["tls_dropped"] += 1

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._timing.handshake_seconds,
                ssl_shutdown_timeout=self._timing.close_seconds,
            )
        except OSError as exc:  # of TLS, of the connection, or that time is up
            self._counters["tls_failed"] += 1
            logger.debug("tls handshake failed", extra={"cause": str(exc)})


def _listening(family: int, where: Iterable[object]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(tuple(where))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
