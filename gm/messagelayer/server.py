"""The websocket server that edge nodes dial."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import resource

from gm.config import WebsocketConfig
from gm.errors import ConfigError
from gm.messagelayer.admission import Admission
from gm.messagelayer.allowance import Allowance
from gm.messagelayer.auth import Authenticator, HandshakeRefused, make_authenticator
from gm.messagelayer.connection import Connection
from gm.messagelayer.hub import Hub
from gm.messagelayer.session import Gate, NodeState, Session, Timing
from gm.messagelayer.session_v1 import V1Session
from gm.messagelayer.session_v2 import V2Session
from gm.messagelayer.tls import make_tls
from gm.messagelayer.tls_listener import TlsListener
from gm.messagelayer.v2 import SUBPROTOCOL

__all__ = ["Server"]

logger = logging.getLogger(__name__)

_SPARE_FILES = 256  # what the process needs beside its connections
_MAX_UNNAMED = 8192  # connections that have no session yet, or no more


class Server:
    """Serve ``hub``'s sessions on a port.

    Raises: ConfigError when a file that the settings name is missing or wrong.
    """

    def __init__(
        self,
        hub: Hub,
        settings: WebsocketConfig,
        *,
        timing: Timing | None = None,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.hub, self.settings = hub, settings
        self.timing = timing or Timing()
        self.authenticator = authenticator or make_authenticator(settings)
        self.refusals = Allowance(seconds=60)
        self._tls = make_tls(settings.tls)
        self._connections: set[Connection] = set()
        self._ready, self._empty = asyncio.Event(), asyncio.Event()
        self._empty.set()
        self._port = settings.port
        self._admission: Admission | None = None
        self._is_closing = False

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
        loop = asyncio.get_running_loop()
        self._admission = Admission(per_second=self.settings.connections_per_second, loop=loop)
        _raise_file_limit(self.settings.max_nodes)
        listener = await self._listen(loop)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.hub.record.run(), name="v1-record")
                group.create_task(self._reload(), name="reload")
                if isinstance(listener, TlsListener):
                    group.create_task(listener.run(), name="tls")
                self._announce()
                await loop.create_future()  # until cancelled, or the record fails
        finally:
            self._ready.clear()
            self._is_closing = True
            listener.close()
            self._admission.close()
            await self._close_all()

    # What connections ask (connection.Host).

    def joined(self, connection: Connection) -> None:
        """A TCP connection has been accepted."""
        self._connections.add(connection)
        self._empty.clear()
        if self._is_closing or len(self._connections) - self.hub.session_count > _MAX_UNNAMED:
            self.hub.counters["connections_dropped"] += 1
            connection.abort()

    def left(self, connection: Connection) -> None:
        """It is closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def make_session(self, node: str, subprotocol: str | None) -> Session:
        """A session for ``node``, attached to the hub."""

        def make(state: NodeState, gate: Gate) -> Session:
            speaks = V2Session if subprotocol == SUBPROTOCOL else V1Session
            return speaks(
                state, gate, max_frame_bytes=self.settings.max_frame_bytes, timing=self.timing
            )

        return self.hub.attach(node, make)

    def admit(self, connection: Connection, node: str) -> None:
        """Call ``connection.accept`` as soon as the limits allow, or raise HandshakeRefused."""
        assert self._admission is not None
        sessions = self.hub.session_count
        if sessions >= self.settings.max_nodes and not self.hub.is_connected(node):
            raise HandshakeRefused(
                503,
                f"{sessions} nodes are connected: websocket.maxNodes allows no more",
                retry_after_seconds=30,
            )
        if not self._admission.admit(connection.accept):
            raise HandshakeRefused(
                503,
                "too many connections at once: websocket.connectionsPerSecond allows no more",
                retry_after_seconds=5,
            )

    # Within.

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server | TlsListener:
        address, port = self.settings.address, self.settings.port

        def make() -> Connection:
            return Connection(self, loop)

        listener: asyncio.Server | TlsListener
        try:
            if self._tls is None:
                listener = await loop.create_server(make, address or None, port, backlog=4096)
            else:
                listener = TlsListener(
                    make,
                    self._tls.context,
                    per_second=self.settings.connections_per_second,
                    timing=self.timing,
                    counters=self.hub.counters,
                )
                await listener.listen(address, port)
        except (OSError, OverflowError) as exc:
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
            raise ConfigError(
                f"websocket.address {address!r}, websocket.port {port}: can not listen there:"
                f" {why}; set another GM_WEBSOCKET_PORT or stop the program that uses it"
            ) from exc
        self._port = listener.sockets[0].getsockname()[1]
        return listener

    def _announce(self) -> None:
        logger.info(
            "message layer listening",
            extra={"address": self.settings.address, "port": self._port},
        )
        settings = self.settings
        if settings.auth == "token" and self._tls is None and not _is_loopback(settings.address):
            logger.warning(
                "tokens go over the network in clear text: websocket.tls is not set",
                extra={"address": settings.address, "port": self._port},
            )
        if settings.auth == "none" and not _is_loopback(settings.address):
            logger.warning(
                "anybody who reaches this port can speak for any node: websocket.auth is none",
                extra={"address": self.settings.address, "port": self._port},
            )
        self._ready.set()

    async def _reload(self) -> None:
        """Follow certificates and tokens that are rotated."""
        while True:
            await asyncio.sleep(self.timing.reload_seconds)
            if self._tls is not None:
                self._tls.reload()
            if self.authenticator.reload():
                for connection in list(self._connections):
                    connection.check_proof()

    async def _close_all(self) -> None:
        """Say goodbye to everybody, then hang up on those who do not answer in time."""
        for connection in list(self._connections):
            connection.close(1001, "Global Manager is shutting down")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.timing.close_seconds + 1):
                await self._empty.wait()
        for connection in list(self._connections):
            connection.abort()
        await self._empty.wait()


def _is_loopback(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return address == "localhost"


def _raise_file_limit(max_nodes: int) -> None:
    """Let the process have a socket for each node, as far as the system allows, and tell if not."""
    wanted = max_nodes + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            soft = limit
        if soft < wanted:
            # nobody has asked for as many nodes as the default allows
            is_asked_for = max_nodes != WebsocketConfig().max_nodes
            logger.log(
                logging.WARNING if is_asked_for else logging.INFO,
                "fewer nodes than websocket.maxNodes can connect: too few files may be open",
                extra={
                    "nodes": max(0, soft - _SPARE_FILES),
                    "maxNodes": max_nodes,
                    "remedy": f"raise the hard limit, ulimit -Hn, to {wanted}",
                },
            )
