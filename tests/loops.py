"""Event loops of tests, which end what they have begun to close."""

from __future__ import annotations

import asyncio
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from asyncio.sslproto import SSLProtocol
from typing import Any

__all__ = ["close_late_connections", "end_closing_connections"]


def close_late_connections() -> None:
    """From now on a connection that is accepted in the turn in which its server is closed ends.

    asyncio begins to make a transport of it, fails, and leaves it to the garbage collector.
    """
    accept = BaseSelectorEventLoop._accept_connection2  # type: ignore[attr-defined]

    async def accept_if_open(
        loop: BaseSelectorEventLoop,
        protocol_factory: Any,
        connection: socket.socket,
        extra: Any,
        sslcontext: Any = None,
        server: asyncio.Server | None = None,
        *more: Any,
    ) -> None:
        if server is not None and not server.sockets:
            connection.close()
        else:
            await accept(loop, protocol_factory, connection, extra, sslcontext, server, *more)

    BaseSelectorEventLoop._accept_connection2 = accept_if_open  # type: ignore[attr-defined]


def end_closing_connections() -> None:
    """From now on a loop that is closed first aborts the TLS connections that are about to close.

    Such a connection waits for its peer's close_notify. Nobody waits for it when asyncio closes
    it, for a connection attempt that was cancelled when its handshake had just been done; and the
    loop of a test is closed soon after. Then its socket would be found by the garbage collector,
    during somebody else's test, although nobody has lost it.
    """
    close = BaseSelectorEventLoop.close

    def close_in_order(loop: BaseSelectorEventLoop) -> None:
        if not loop.is_closed() and not loop.is_running():
            _abort_closing(loop)
        close(loop)

    BaseSelectorEventLoop.close = close_in_order  # type: ignore[assignment, method-assign]


def _abort_closing(loop: BaseSelectorEventLoop) -> None:
    transports: list[Any] = list(loop._transports.values())  # type: ignore[attr-defined]
    closing = [transport for transport in transports if _is_closing_tls(transport.get_protocol())]
    for transport in closing:
        transport.abort()
    if closing:
        loop.run_until_complete(asyncio.sleep(0))  # the sockets are closed in the next turn


def _is_closing_tls(protocol: asyncio.BaseProtocol) -> bool:
    if not isinstance(protocol, SSLProtocol):
        return False
    tls = protocol._app_transport
    return bool(tls) and tls.is_closing()
