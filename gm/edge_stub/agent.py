"""Keeps a connection to GM: dials, dials again with back-off, and never gives up."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from gm.edge_stub.link import Applied, Link, LinkV1, LinkV2
from gm.edge_stub.outbox import Outbox
from gm.edge_stub.settings import EdgeSettings
from gm.edge_stub.store import Store
from gm.errors import ConfigError
from gm.messagelayer.v2 import SUBPROTOCOL

__all__ = ["Agent", "Backoff"]

logger = logging.getLogger(__name__)

GOING_AWAY = 1001
"""GM is shutting down in order: another one, or the same again, will be there soon."""


class Backoff:
    """Exponential back-off with full jitter: nodes that lost GM together come back apart."""

    def __init__(
        self,
        *,
        first_seconds: float,
        max_seconds: float,
        stable_seconds: float,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._first, self._max, self._stable = first_seconds, max_seconds, stable_seconds
        self._jitter = jitter
        self._failures = 0

    def next_delay(self, *, lasted_seconds: float = 0, going_away: bool = False) -> float:
        """Seconds to wait after a session that lasted so long; 0 when there was none.

        Only a session that was stable starts the back-off anew: a GM that accepts and dies
        must not be hammered. One that says it goes away is tried again soon.
        """
        if lasted_seconds >= self._stable:
            self._failures = 0
        if going_away and lasted_seconds >= self._first:
            return self._jitter(0, self._first)
        longest = min(self._max, self._first * 2 ** min(self._failures, 30))
        self._failures += 1
        return self._jitter(0, longest)


class Agent:
    """The LC's side of the message layer."""

    def __init__(
        self, settings: EdgeSettings, *, store: Store, outbox: Outbox, applied: Applied
    ) -> None:
        self._settings, self._store, self._outbox = settings, store, outbox
        self._applied = applied
        self._backoff = Backoff(
            first_seconds=settings.backoff_first_seconds,
            max_seconds=settings.backoff_max_seconds,
            stable_seconds=settings.stable_seconds,
        )
        self.is_connected = False
        self._tls = _tls(settings)

    async def run(self) -> None:
        """Stay connected until cancelled; whatever GM or the network do, this goes on."""
        clock = asyncio.get_running_loop().time
        while True:
            lasted, going_away = 0.0, False
            try:
                async with self._dial() as connection:
                    started = clock()
                    ended = await self._serve(connection)
                    lasted, cause = clock() - started, _describe(ended)
                    going_away = _is_going_away(ended)
            except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ValueError) as exc:
                cause = _describe(exc)
            delay = self._backoff.next_delay(lasted_seconds=lasted, going_away=going_away)
            logger.warning(
                "not connected to gm",
                extra={"gm": self._settings.gm, "cause": cause, "retry_seconds": round(delay, 2)},
            )
            await asyncio.sleep(delay)

    def _dial(self) -> connect:
        settings = self._settings
        headers = {"Node-Name": settings.node}
        if settings.token_file is not None:
            headers["Authorization"] = f"Bearer {settings.token_file.read_text().strip()}"
        return connect(
            settings.gm,
            additional_headers=headers,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            max_size=settings.max_frame_bytes,
            ping_interval=settings.ping_interval_seconds,
            ping_timeout=settings.ping_timeout_seconds,
            close_timeout=2,
            open_timeout=10,
            ssl=self._tls,
            proxy=None if _is_loopback(settings.gm) else True,
        )

    async def _serve(self, connection: ClientConnection) -> Exception | None:
        kind: type[Link] = LinkV2 if connection.subprotocol == SUBPROTOCOL else LinkV1
        logger.info(
            "connected to gm",
            extra={"gm": self._settings.gm, "protocol": "v2" if kind is LinkV2 else "v1"},
        )
        link = kind(connection, store=self._store, outbox=self._outbox, applied=self._applied)
        self.is_connected = True
        try:
            return await link.run()
        finally:
            self.is_connected = False


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(settings: EdgeSettings) -> ssl.SSLContext | None:
    """How to check who GM is, and to show who we are. Raises: ConfigError."""
    if urlsplit(settings.gm).scheme != "wss":
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as exc:  # ssl.SSLError too
        raise ConfigError(f"tls files of --gm {settings.gm}: {exc.strerror or exc}") from None
    return context


def _is_going_away(exc: Exception | None) -> bool:
    return (
        isinstance(exc, ConnectionClosed) and exc.rcvd is not None and exc.rcvd.code == GOING_AWAY
    )


def _describe(exc: Exception | None) -> str:
    """Why there is no connection, in one line and without secrets."""
    match exc:
        case ConnectionClosed(rcvd=None):
            return "connection lost"
        case ConnectionClosed(rcvd=close) if close is not None:
            return f"closed by gm: {close.code} {close.reason}".rstrip()
        case InvalidStatus():
            return f"refused with http {exc.response.status_code}: {_first_line(exc)}"
        case socket.gaierror():
            return f"the name of gm can not be resolved: {exc.strerror}"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)  # asyncio's own text repeats the address
    return str(exc) or type(exc).__name__


def _first_line(exc: InvalidStatus) -> str:
    body = (exc.response.body or b"").decode(errors="replace").strip()
    return body.splitlines()[0][:200] if body else exc.response.reason_phrase
