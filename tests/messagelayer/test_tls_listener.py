"""TLS handshakes cost CPU time and memory before anything is known of the client: both bounded."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from gm.config import TlsConfig
from gm.messagelayer import Timing
from gm.messagelayer.tls import ReloadingTls
from gm.messagelayer.tls_listener import TlsListener
from tests.messagelayer.pki import Authority
from tests.messagelayer.support import until

Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


class Greeter(asyncio.Protocol):
    """Says hello as soon as it may."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        stream.write(b"hello")
        stream.close()


class Rig:
    """A listener, and clients that mean well or not."""

    def __init__(self, listener: TlsListener, counters: Counter[str], trust: ssl.SSLContext):
        self.listener, self.counters, self._trust = listener, counters, trust
        self.port: int = listener.sockets[0].getsockname()[1]
        self._silent: list[asyncio.StreamWriter] = []

    async def greeting(self) -> bytes:
        """What an honest client hears."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self._trust, server_hostname="localhost"
        )
        with contextlib.closing(writer):
            return await reader.read()

    async def silent(self) -> asyncio.StreamReader:
        """A client that connects and says nothing, once it has been accepted."""
        before = len(self.listener._handshakes) + self.counters["tls_dropped"]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._silent.append(writer)
        await until(lambda: len(self.listener._handshakes) + self.counters["tls_dropped"] > before)
        return reader

    def hang_up(self) -> None:
        """End all silent ones."""
        for writer in self._silent:
            writer.transport.abort()


def run(loop: Loop, scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario on one of the loops that GM runs on."""
    with asyncio.Runner(loop_factory=loop) as runner:

        async def main() -> None:
            async with asyncio.timeout(60):
                await scenario()

        runner.run(main())


@contextlib.asynccontextmanager
async def rig(
    directory: Path,
    *,
    per_second: float = 1000,
    max_handshakes: int = 100,
    handshake_seconds: float = 30,
) -> AsyncIterator[Rig]:
    """A listener at work."""
    ca = Authority(directory)
    cert, key = ca.issue("gm", stem="server")
    tls = ReloadingTls(TlsConfig(cert_file=cert, key_file=key))
    counters: Counter[str] = Counter()
    listener = TlsListener(
        Greeter,
        tls.context,
        per_second=per_second,
        timing=Timing(handshake_seconds=handshake_seconds, close_seconds=1),
        counters=counters,
        max_handshakes=max_handshakes,
    )
    await listener.listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(listener.run())
        made = Rig(listener, counters, ssl.create_default_context(cafile=str(ca.path)))
        try:
            yield made
        finally:
            made.hang_up()
            listener.close()
            task.cancel()


@LOOPS
def test_oldest_of_too_many_handshakes_makes_room(loop: Loop, tmp_path: Path) -> None:
    """However many clients connect and say nothing, an honest one gets in."""

    async def scenario() -> None:
        async with rig(tmp_path, max_handshakes=3) as made:
            readers = [await made.silent() for _ in range(5)]
            for reader in readers[:2]:
                assert await reader.read() == b""
            assert await made.greeting() == b"hello"
            assert await readers[2].read() == b""
            assert made.counters["tls_dropped"] == 3
            assert not readers[4].at_eof()
            assert len(made.listener._handshakes) <= 3

    run(loop, scenario)


@LOOPS
def test_handshake_that_fails_or_takes_too_long_is_counted(loop: Loop, tmp_path: Path) -> None:
    """Neither disturbs the listener."""

    async def scenario() -> None:
        async with rig(tmp_path, handshake_seconds=0.5) as made:
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()
            await until(lambda: made.counters["tls_failed"] == 1)
            assert await (await made.silent()).read() == b""
            await until(lambda: made.counters["tls_failed"] == 2)
            assert await made.greeting() == b"hello"

    run(loop, scenario)


@LOOPS
def test_connections_beyond_the_rate_wait_before_their_handshake(
    loop: Loop, tmp_path: Path
) -> None:
    """In the kernel, where they cost nothing."""

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        async with rig(tmp_path, per_second=20) as made:
            began = clock()
            assert set(await asyncio.gather(*(made.greeting() for _ in range(30)))) == {b"hello"}
            assert clock() - began >= 0.4

    run(loop, scenario)


async def test_failing_accept_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No descriptor is free: later there will be."""
    monkeypatch.setattr("gm.messagelayer.tls_listener._RETRY_SECONDS", 0.01)
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(24, "Too many open files")]

    async def fail_once(listener: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise failures.pop()
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", fail_once)
    async with rig(tmp_path) as made:
        assert await made.greeting() == b"hello"
    (record,) = (r for r in caplog.records if r.message == "a connection can not be accepted")
    assert record.__dict__["cause"] == "Too many open files"


async def test_address_in_use_leaves_no_socket_behind(tmp_path: Path) -> None:
    """The caller names the setting."""
    async with rig(tmp_path) as made:
        other = TlsListener(
            Greeter,
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
            per_second=1,
            timing=Timing(),
            counters=Counter(),
        )
        with pytest.raises(OSError, match="in use"):
            await other.listen("127.0.0.1", made.port)
        assert all(each.fileno() == -1 for each in other.sockets)
