"""Floods, slow readers and large objects cost bounded memory, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest
from websockets.frames import Frame, Opcode

from gm.messagelayer import Hub, v2
from tests.fakes.edge import Edge
from tests.messagelayer.dialling import NODE, dial, handshake, names
from tests.messagelayer.support import desired, key, open_hub, serving, until


@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_node_that_does_not_read_costs_little_and_is_closed_P0_030(protocol: str) -> None:
    """What waits for it stays in desired state, and the other node does not notice."""
    hub = open_hub()
    limits = {"ping_interval_seconds": 0.3, "ping_timeout_seconds": 0.3}
    async with serving(hub, **limits) as server, Edge.connected(server.port, "other") as other:
        offers = ["Sec-WebSocket-Protocol: gm.v2"] if protocol == "v2" else []
        _, writer, _ = await dial(server.port, *offers)
        writer.transport.pause_reading()
        if protocol == "v2":
            writer.write(Frame(Opcode.BINARY, v2.encode_v2(v2.Hello())).serialize(mask=True))
        most = 0
        for number in range(300):
            hub.put(NODE, desired(f"d{number}", padding=100 * 1024))
        hub.put("other", desired("d"))
        await other.wait_for(lambda: "d" in names(other), seconds=10)
        async with asyncio.timeout(20):
            while hub.nodes() != ["other"]:
                buffers = [c._transport.get_write_buffer_size() for c in server._connections]
                most = max(most, *buffers)
                await asyncio.sleep(0.005)
        assert most < 512 * 1024, "of 30 MiB that it lacks"
        assert hub.counters["sessions_dead"] == 1
        writer.transport.abort()
        async with Edge.connected(server.port, NODE) as edge:
            await edge.wait_for(lambda: len(edge.held) == 300)


FLOODS = {
    "pings": Frame(Opcode.PING, b"x" * 120).serialize(mask=True) * 100,
    "reports": b"".join(
        Frame(
            Opcode.BINARY, v2.encode_v2(v2.ReportFrame("dataset", "default", "no", number, b"{}"))
        ).serialize(mask=True)
        for number in range(100)
    ),
}


@pytest.mark.parametrize("kind", list(FLOODS))
async def test_answers_to_a_flood_that_nobody_reads_are_bounded_P0_030(kind: str) -> None:
    """Who sends what must be answered, and does not read the answers, is not read from either."""
    hub = open_hub()
    limits = {"ping_interval_seconds": 1, "ping_timeout_seconds": 1}
    async with serving(hub, **limits) as server, Edge.connected(server.port, "other") as other:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        reader, writer = await asyncio.open_connection(sock=client, limit=4096)
        writer.write(handshake(NODE, "Sec-WebSocket-Protocol: gm.v2"))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(Frame(Opcode.BINARY, v2.encode_v2(v2.Hello())).serialize(mask=True))
        writer.transport.pause_reading()
        await until(lambda: hub.is_connected(NODE))
        for connection in server._connections:  # megabytes by default
            served = connection._transport.get_extra_info("socket")
            served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        most = 0

        async def flood() -> None:
            nonlocal most
            with contextlib.suppress(OSError):
                while hub.is_connected(NODE):
                    writer.write(FLOODS[kind])
                    await writer.drain()

        async def watch() -> None:
            nonlocal most
            while hub.is_connected(NODE):
                for connection in server._connections:
                    most = max(most, connection._transport.get_write_buffer_size())
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            refusing = group.create_task(hub.next_report())
            async with asyncio.timeout(60), asyncio.TaskGroup() as flooding:
                flooding.create_task(flood())
                flooding.create_task(watch())
                hub.put("other", desired("d"))
                await other.wait_for(lambda: "d" in names(other))
                await until(lambda: not hub.is_connected(NODE), 50)
                writer.transport.abort()
            refusing.cancel()
        assert 0 < most < 1024 * 1024
        assert hub.counters["sessions_dead"] == 1
        assert hub.nodes() == ["other"]


async def test_slow_reader_is_read_from_again_when_it_has_read() -> None:
    """What it sent meanwhile is not lost."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server, Edge.connected(server.port, NODE, reads=False) as edge:
        await until(lambda: hub.is_connected(NODE))
        (connection,) = server._connections
        edge.connection.transport.pause_reading()
        flood = asyncio.ensure_future(send_pings(edge))
        await until(lambda: connection._is_deaf)
        edge.connection.transport.resume_reading()
        await flood
        assert not connection._is_deaf
        await edge.report("dataset", "default", "d", {"numberOfSamples": 1})
        assert (await hub.next_report()).key == key("d")


async def send_pings(edge: Edge) -> None:
    """So many that their pongs fill all buffers, and then the last one's pong."""
    for _ in range(100_000):
        await edge.connection.pong(b"x" * 120)  # unsolicited: no answer, but bytes
        edge.connection.protocol.send_ping(b"x" * 120)
    await (await edge.connection.ping())


async def test_object_of_over_a_mebibyte_passes_both_ways_P0_031() -> None:
    """The library's default limit of 1 MiB does not apply."""
    hub = open_hub()
    hub.put(NODE, desired("big", padding=1_200_000))
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        await edge.wait_for(lambda: "big" in names(edge))
        await edge.report("dataset", "default", "big", {"padding": "x" * 1_200_000})
        assert len((await hub.next_report()).content) > 1_200_000


async def test_object_beyond_the_limit_is_quarantined_and_the_others_arrive_P0_031(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The one object is named, until a version that fits comes; the session lives on."""
    hub = open_hub()
    for name, padding in (("a", 0), ("huge", 100_000), ("z", 0)):
        hub.put(NODE, desired(name, padding=padding))
    async with (
        serving(hub, max_frame_bytes=65536) as server,
        Edge.connected(server.port, NODE) as edge,
    ):
        await edge.wait_for(lambda: names(edge) == {"a", "z"})
        status = hub.status(NODE)
        assert status is not None
        assert list(status.quarantined) == [key("huge")]
        assert "65536 allowed" in status.quarantined[key("huge")]
        record = next(r for r in caplog.records if r.message == "object quarantined")
        assert (record.__dict__["node"], record.__dict__["object"]) == (NODE, str(key("huge")))
        hub.put(NODE, desired("huge", 2))
        await edge.wait_for(lambda: "huge" in names(edge))
        status = hub.status(NODE)
        assert status is not None
        assert status.quarantined == {}
        assert edge.closed is None


async def test_report_beyond_the_limit_closes_with_1009_P0_031() -> None:
    """The peer is told which limit it broke."""
    hub = open_hub()
    async with (
        serving(hub, max_frame_bytes=65536) as server,
        Edge.connected(server.port, NODE) as edge,
    ):
        await edge.send("x" * 70_000)
        assert (await edge.wait_closed())[0] == 1009


async def test_many_large_frames_to_one_node_stay_whole_P1_042() -> None:
    """One writer: frames do not interleave and come in order of the queue."""
    hub = open_hub()
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        await until(lambda: hub.is_connected(NODE))
        for number in range(300):
            hub.put(NODE, desired(f"d{number}", padding=200 * 1024))
        await edge.wait_for(lambda: len(edge.frames) == 300)
        order = [frame["header"]["resourceName"] for frame in edge.frames]
        assert order == [f"d{number}" for number in range(300)]


async def test_flooding_node_is_not_read_from_until_its_reports_are_taken() -> None:
    """Back-pressure instead of memory, and nothing is lost."""
    kind = "federatedlearningjob"
    hub = Hub()
    hub.expect([kind])
    hub.put(NODE, desired("fl", kind=kind))
    async with (
        serving(hub) as server,
        Edge.connected(server.port, NODE) as edge,
        asyncio.TaskGroup() as group,
    ):

        async def flood() -> None:
            for number in range(2000):
                await edge.report(kind, "default", "fl", {"n": number, "x": "x" * 4000})

        group.create_task(flood())
        await until(lambda: hub.waiting_reports >= 256)
        await asyncio.sleep(0.2)
        assert hub.waiting_reports < 400
        hub.complete(kind)
        for number in range(2000):
            assert json.loads((await hub.next_report()).content)["n"] == number
