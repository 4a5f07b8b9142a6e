"""Idle sessions: proxies that cut what is quiet, and what a connection costs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.fakes.edge import Edge, EdgeV2
from tests.fakes.proxy import Proxy
from tests.messagelayer.support import desired, open_hub, serving

NODE = "edge1"
IDLE_SECONDS = 0.75  # 30 s, forty times faster
CONNECTIONS = 2000


class ImpatientProxy(Proxy):
    """Cuts all connections when nothing has passed for ``IDLE_SECONDS``."""

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.cuts = 0
        self._passed_at = 0.0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ImpatientProxy]:
        async with super().running(), asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch())
            yield self
            watch.cancel()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_down: bool
    ) -> None:
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self._passed_at = clock()
                writer.write(data)

    async def _watch(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(0.02)
            if self._writers and clock() - self._passed_at > IDLE_SECONDS:
                self.cuts += 1
                self.cut()
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("wire", [Edge, EdgeV2])
async def test_idle_session_survives_an_impatient_proxy_P1_045(
    wire: type[Edge] | type[EdgeV2],
) -> None:
    """GM's pings go out well before the proxy loses patience, for ten times its patience."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    interval = 20 / 30 * IDLE_SECONDS  # the default, as much faster
    async with (
        serving(hub, ping_interval_seconds=interval, ping_timeout_seconds=5) as server,
        ImpatientProxy(server.port).running() as proxy,
        wire.connected(proxy.port, NODE) as edge,
    ):
        await edge.wait_for(lambda: len(edge.held) == 1)
        await asyncio.sleep(10 * IDLE_SECONDS)
        assert (edge.closed, proxy.cuts) == (None, 0)
        hub.put(NODE, desired("e"))
        await edge.wait_for(lambda: len(edge.held) == 2)


@pytest.mark.parametrize("wire", [Edge, EdgeV2])
async def test_nothing_is_lost_when_a_proxy_cuts_an_idle_session_P1_045(
    wire: type[Edge] | type[EdgeV2],
) -> None:
    """As with a proxy that is quicker than the ping interval."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    held: dict[str, Any] = {}
    async with serving(hub) as server, ImpatientProxy(server.port).running() as proxy:
        async with wire.connected(proxy.port, NODE, held=held) as edge:
            await edge.wait_for(lambda: len(held) == 1)
            await edge.wait_closed()
            assert proxy.cuts == 1
        hub.put(NODE, desired("e"))
        hub.remove(NODE, desired("d").key)
        async with wire.connected(proxy.port, NODE, held=held) as edge:
            await edge.wait_for(lambda: list(held) == ["dataset default/e"])


async def test_compression_is_not_taken_up_P1_044() -> None:
    """An offered permessage-deflate would cost every connection its buffers."""
    async with (
        serving(open_hub()) as server,
        connect(
            f"ws://127.0.0.1:{server.port}/",
            additional_headers={"Node-Name": NODE},
            compression="deflate",
            proxy=None,
        ) as connection,
    ):
        assert connection.response is not None
        assert "Sec-WebSocket-Extensions" not in connection.response.headers


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many sockets as the test below needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * CONNECTIONS:
        pytest.skip(f"{hard} open files are allowed, {2 * CONNECTIONS} needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * CONNECTIONS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


_SERVER = """
import asyncio, os, sys
from gm.config import WebsocketConfig
from gm.messagelayer import Hub, Server

async def main():
    hub = Hub()
    hub.complete("dataset")
    server = Server(hub, WebsocketConfig(address="127.0.0.1", port=0, connections_per_second=5000))
    running = asyncio.ensure_future(server.run())
    await server.wait_ready()
    print(server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    running.cancel()

asyncio.run(main())
"""


async def test_idle_connection_costs_little_memory_P1_044(many_files: None) -> None:
    """2,000 nodes that hold nothing, each less than 100 KiB of the server's memory."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SERVER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    writers: list[asyncio.StreamWriter] = []
    try:
        port = int(await process.stdout.readline())
        before = _resident_kib(process.pid)
        for number in range(CONNECTIONS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            writer.write(
                b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n"
                b"Node-Name: edge%d\r\n\r\n" % number
            )
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        assert (_resident_kib(process.pid) - before) / CONNECTIONS < 100
    finally:
        for writer in writers:
            writer.transport.abort()
        process.kill()
        await process.wait()


def _resident_kib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024
