"""Keeps a connection to GM: dials, dials again with back-off, and never gives up."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from gm.edge_stub.credentials import Credentials, is_loopback
from gm.edge_stub.keepalive import WatchedConnection, keep_alive
from gm.edge_stub.link import Applied, Link, LinkV1, LinkV2
from gm.edge_stub.outbox import Outbox
from gm.edge_stub.settings import EdgeSettings
from gm.edge_stub.status import LinkStatus
from gm.edge_stub.store import Store
from gm.messagelayer.v2 import SUBPROTOCOL

__all__ = ["Agent", "Backoff"]

logger = logging.getLogger(__name__)
# The library logs headers and frames, hence tokens and object bodies, at debug level.
_library_logger = logging.getLogger("gm.edge_stub.websockets")
_library_logger.setLevel(logging.ERROR)

GOING_AWAY = 1001
"""GM is shutting down in order: another one, or the same again, will be there soon."""

REPLACED = 4001
"""GM has a newer connection of this node. It is not ours, so another agent uses the name."""


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

    def longest_delay(self) -> float:
        """Seconds to wait when it makes no sense to be back soon."""
        return self._jitter(self._max / 2, self._max)


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
        self._credentials = Credentials(settings)
        self._link: Link | None = None
        self._since = _now()
        self._cause = ""
        self._retry_at: datetime | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to GM."""
        return self._link is not None

    def status(self) -> LinkStatus:
        """The connection as it is now."""
        link = self._link
        return LinkStatus(
            gm=self._settings.gm,
            connected=link is not None,
            protocol=link.protocol if link is not None else "",
            in_step=link.is_in_step if link is not None else None,
            since=self._since,
            cause=self._cause,
            retry_at=self._retry_at,
        )

    async def run(self) -> None:
        """Stay connected until cancelled; whatever GM or the network do, this goes on."""
        clock = asyncio.get_running_loop().time
        while True:
            lasted, code = 0.0, None
            try:
                async with self._dial() as connection:
                    assert isinstance(connection, WatchedConnection)
                    started = clock()
                    ended = await self._serve(connection)
                    lasted, cause = clock() - started, _describe(ended)
                    code = _close_code(ended)
            except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ValueError) as exc:
                cause = _describe(exc)
            delay = self._backoff.next_delay(lasted_seconds=lasted, going_away=code == GOING_AWAY)
            if code == REPLACED:
                delay = self._leave_to_the_newer()
            self._cause, self._retry_at = cause, _now() + timedelta(seconds=delay)
            logger.warning(
                "not connected to gm",
                extra={"gm": self._settings.gm, "cause": cause, "retry_seconds": round(delay, 2)},
            )
            await asyncio.sleep(delay)

    def _leave_to_the_newer(self) -> float:
        """How long: two agents of one name must not take the node from each other all the time."""
        logger.warning(
            "another agent has connected to gm under this node's name; if nobody meant that, "
            "give one of them another --name or stop it",
            extra={"node": self._settings.node},
        )
        return self._backoff.longest_delay()

    def _dial(self) -> connect:
        settings = self._settings
        headers, tls = self._credentials.current()
        name = settings.server_name or urlsplit(settings.gm).hostname
        return connect(
            settings.gm,
            additional_headers={"Node-Name": settings.node, **headers},
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            max_size=settings.max_frame_bytes,
            create_connection=WatchedConnection,
            ping_interval=None,  # see gm.edge_stub.keepalive
            close_timeout=2,
            open_timeout=10,
            ssl=tls,
            server_hostname=name if tls is not None else None,
            proxy=None if is_loopback(settings.gm) else True,
            logger=_library_logger,
        )

    async def _serve(self, connection: WatchedConnection) -> Exception | None:
        kind: type[Link] = LinkV2 if connection.subprotocol == SUBPROTOCOL else LinkV1
        logger.info("connected to gm", extra={"gm": self._settings.gm, "protocol": kind.protocol})
        link = kind(connection, store=self._store, outbox=self._outbox, applied=self._applied)
        self._link, self._since = link, _now()
        self._cause, self._retry_at = "", None
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(
                    keep_alive(
                        connection,
                        interval_seconds=self._settings.ping_interval_seconds,
                        timeout_seconds=self._settings.ping_timeout_seconds,
                    ),
                    name="keep-alive",
                )
                ended = await link.run()
                is_stalled = watch.done() and watch.result()
                watch.cancel()
            return TimeoutError("no progress on the link") if is_stalled else ended
        finally:
            self._link, self._since = None, _now()


def _now() -> datetime:
    """The time, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def _close_code(exc: Exception | None) -> int | None:
    """What GM said when it closed the connection; None if it said nothing."""
    return exc.rcvd.code if isinstance(exc, ConnectionClosed) and exc.rcvd is not None else None


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
        case ssl.SSLCertVerificationError():
            return f"the certificate of gm is not trusted: {exc.verify_message}"
        case ssl.SSLError():  # its errno is none of the system's
            return f"tls fails: {(exc.reason or str(exc)).replace('_', ' ').lower()}"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)  # asyncio's own text repeats the address
    return str(exc) or type(exc).__name__


def _first_line(exc: InvalidStatus) -> str:
    body = (exc.response.body or b"").decode(errors="replace").strip()
    return body.splitlines()[0][:200] if body else exc.response.reason_phrase
