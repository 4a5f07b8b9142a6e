"""The server over real sockets, by the ids of the behaviours that it has to show."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import random
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import uvloop
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from gm.config import WebsocketConfig
from gm.errors import ConfigError
from gm.messagelayer import Hub, Server, Timing, v2
from gm.messagelayer.session import REPLACED, Action
from gm.messagelayer.session_v1 import V1Session
from tests.fakes.edge import HELLO, Edge, EdgeV2, status_frame
from tests.fakes.proxy import Proxy
from tests.messagelayer.support import desired, key, open_hub, serving

NODE = "edge1"
LOOSE_KEY = base64.b64encode(b"0123456789abcdef").decode()


def versions(edge: Edge, name: str) -> list[int]:
    """The versions of an object in the order in which they came."""
    return [
        frame["content"]["spec"]["version"]
        for frame in edge.frames
        if frame["header"]["resourceName"] == name and frame["header"]["operation"] == "insert"
    ]


def names(edge: Edge) -> set[str]:
    """Names of the objects that the edge holds."""
    return {held["metadata"]["name"] for held in edge.held.values()}


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Return when ``condition`` holds, of something that gives no sign when it changes."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def handshake(node: str | None, *headers: str) -> bytes:
    """The bytes of a request."""
    lines = [
        "GET / HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {LOOSE_KEY}",
        "Sec-WebSocket-Version: 13",
        *([f"Node-Name: {node}"] if node is not None else []),
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def dial(
    port: int, *headers: str, node: str | None = NODE
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """A raw handshake: what comes back up to the empty line is the third of what is returned."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    writer.write(handshake(node, *headers))
    answer = await reader.readuntil(b"\r\n\r\n")
    return reader, writer, answer.decode()


async def status_of(port: int, node: str | None, *headers: str) -> str:
    """The status of the answer to a handshake, which is expected not to succeed."""
    reader, writer, answer = await dial(port, *headers, node=node)
    await reader.read()
    writer.close()
    return answer.split()[1]


async def test_newer_connection_replaces_the_older_and_gets_the_message_once_P0_001() -> None:
    """The older one is closed with a reason; its cleanup leaves the newer session alone."""
    hub, chance = open_hub(), random.Random(1)
    async with serving(hub) as server, AsyncExitStack() as stack:
        current = await stack.enter_async_context(Edge.connected(server.port, NODE))
        for round_ in range(50):
            older = current
            current = await stack.enter_async_context(Edge.connected(server.port, NODE))
            await asyncio.sleep(chance.uniform(0, 0.02))
            hub.put(NODE, desired("d", round_))
            edge, version = current, round_
            await edge.wait_for(lambda e=edge, v=version: versions(e, "d")[-1:] == [v])  # type: ignore[misc]
            assert await older.wait_closed() == (
                REPLACED,
                "replaced by a newer connection of this node",
            )
            await (await edge.connection.ping())  # a second copy would have come before
            assert versions(edge, "d").count(version) == 1
            assert hub.nodes() == [NODE]
        assert hub.counters["sessions_replaced"] == 50


@pytest.mark.parametrize("wire", [Edge, EdgeV2])
async def test_restarts_in_quick_succession_end_with_one_session_P0_001(
    wire: type[Edge] | type[EdgeV2],
) -> None:
    """An agent that crashes in a loop; its old connections die before, with or after the next."""
    hub = open_hub()
    async with serving(hub) as server, AsyncExitStack() as stack:
        connections: list[Edge | EdgeV2] = []
        for number in range(5):
            edge = await stack.enter_async_context(wire.connected(server.port, NODE))
            connections.append(edge)
            if number % 2:
                connections[number - 1].cut()
        newest = connections[-1]
        hub.put(NODE, desired("d"))
        await newest.wait_for(lambda: len(newest.held) == 1)
        await (await newest.connection.ping())
        assert len([frame for frame in newest.frames if _is_about(frame, "d")]) == 1
        assert not any(_is_about(frame, "d") for edge in connections[:-1] for frame in edge.frames)
        assert (hub.nodes(), hub.session_count) == ([NODE], 1)
        assert newest.closed is None


def _is_about(frame: Any, name: str) -> bool:
    """Whether a frame of either wire is about an object."""
    found: str | None = (
        frame["header"]["resourceName"] if isinstance(frame, dict) else getattr(frame, "name", None)
    )
    return found == name


async def test_message_after_a_dead_connection_reaches_the_next_one_P0_002() -> None:
    """No reader or writer of a dead connection can take a message with it, and none stays."""
    hub = open_hub()
    async with serving(hub) as server:
        async with Edge.connected(server.port, NODE) as first:
            await until(lambda: hub.is_connected(NODE))
            first.cut()
            async with Edge.connected(server.port, NODE) as second:
                hub.put(NODE, desired("m1"))
                await second.wait_for(lambda: "m1" in names(second), seconds=1)
        before = len(asyncio.all_tasks())
        for _ in range(1000):
            _, writer, answer = await dial(server.port)
            assert answer.split()[1] == "101"
            writer.transport.abort()
        await until(lambda: not hub.nodes())
        assert abs(len(asyncio.all_tasks()) - before) <= 5


async def test_version_put_while_an_older_one_is_being_written_arrives_P0_003() -> None:
    """The newest version of each key arrives, whatever is put while the writer runs."""
    hub, chance = open_hub(), random.Random(2)
    async with serving(hub) as server, Edge.connected(server.port, NODE, reads=False) as edge:
        hub.put(NODE, desired("d", 1))
        await until(lambda: hub.counters["frames_out"] == 1)  # now it is in flight
        hub.put(NODE, desired("d", 2))
        hub.put(NODE, desired("d", 3))
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(edge.read())
            await edge.wait_for(lambda: versions(edge, "d") == [1, 3])
            newest: dict[str, int] = {}
            for version in range(10_000):
                name = f"d{chance.randrange(100)}"
                newest[name] = version
                hub.put(NODE, desired(name, version))
                if version % 50 == 0:
                    await asyncio.sleep(0)
            await edge.wait_for(
                lambda: all(versions(edge, n)[-1:] == [v] for n, v in newest.items())
            )
            reading.cancel()


async def test_message_in_flight_when_the_link_breaks_is_sent_again_P0_004() -> None:
    """After a cut in the middle of ten messages the node holds all ten."""
    hub = open_hub()
    for number in range(10):
        hub.put(NODE, desired(f"d{number}"))
    async with serving(hub) as server:
        async with Edge.connected(server.port, NODE) as first:
            await first.wait_for(lambda: len(first.frames) >= 5)
            first.cut()
            held = first.held
        async with Edge.connected(server.port, NODE, held=held) as second:
            await second.wait_for(lambda: names(second) == {f"d{n}" for n in range(10)})


@pytest.mark.parametrize("wire", [Edge, EdgeV2])
@pytest.mark.parametrize("most_bytes", range(400, 4400, 330))  # beyond the answer to the handshake
async def test_cut_at_any_byte_loses_nothing_P0_004(
    wire: type[Edge] | type[EdgeV2], most_bytes: int
) -> None:
    """In a header, in the middle of a frame, between a frame and its ping; then once more."""
    hub = open_hub()
    for number in range(10):
        hub.put(NODE, desired(f"d{number}", padding=200))
    held: dict[str, Any] = {}
    async with serving(hub) as server, Proxy(server.port).running() as proxy:
        for most in (most_bytes, 800, None):
            proxy.most_bytes = most
            with contextlib.suppress(ConnectionClosed):  # before the hello is out
                async with wire.connected(proxy.port, NODE, held=held) as edge:
                    await edge.wait_for(lambda e=edge: len(held) == 10 or e.closed is not None)  # type: ignore[misc]
    assert {name.rpartition("/")[2] for name in held} == {f"d{n}" for n in range(10)}


async def test_report_survives_the_cut_after_it_P0_004() -> None:
    """A report that GM has read is handed out although its session is gone."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server:
        async with Edge.connected(server.port, NODE) as edge:
            await edge.report("Dataset", "default", "d", {"numberOfSamples": 3})
            await until(lambda: hub.waiting_reports == 1)
            edge.cut()
        report = await hub.next_report()
        assert (report.node, report.key) == (NODE, key("d"))
        assert json.loads(report.content) == {"numberOfSamples": 3}


async def test_half_open_link_is_found_and_nothing_is_lost_P0_005() -> None:
    """A link that swallows everything is closed within ping interval and timeout."""
    hub = open_hub()
    limits = {"ping_interval_seconds": 0.3, "ping_timeout_seconds": 0.3}
    async with serving(hub, **limits) as server, Proxy(server.port).running() as proxy:
        async with Edge.connected(proxy.port, NODE) as edge:
            await until(lambda: hub.is_connected(NODE))
            proxy.is_black_hole = True
            hub.put(NODE, desired("d"))
            await until(lambda: not hub.nodes(), seconds=3)
            assert hub.counters["sessions_dead"] == 1
            proxy.cut()
            await edge.wait_closed()
        proxy.is_black_hole = False
        async with Edge.connected(proxy.port, NODE) as edge:
            await edge.wait_for(lambda: "d" in names(edge))


async def test_session_ends_with_the_end_of_what_comes_in_P0_006() -> None:
    """Also when the peer takes nothing: what waits to be sent would keep the connection for ever.

    Found by benchmarks/chaos_edges.py: pings and frames after it failed in their callbacks.
    """
    hub = open_hub()
    hub.put(NODE, desired("big", padding=5_000_000))
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with serving(hub, ping_interval_seconds=0.1, ping_timeout_seconds=60) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(handshake(NODE))
        await reader.readuntil(b"\r\n\r\n")
        await until(lambda: hub.counters["frames_out"] > 0)
        writer.write_eof()
        await until(lambda: not hub.nodes(), seconds=5)
        hub.put(NODE, desired("more"))
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                await asyncio.sleep(1.5)  # close_seconds: the server has hung up without us reading
                while await reader.read(65536):
                    pass
        writer.transport.abort()
    assert not faults


async def test_idle_but_answering_link_is_kept_P0_005() -> None:
    """Pongs are progress enough."""
    hub = open_hub()
    limits = {"ping_interval_seconds": 0.1, "ping_timeout_seconds": 0.1}
    async with serving(hub, **limits) as server, Edge.connected(server.port, NODE) as edge:
        await asyncio.sleep(1)
        assert hub.nodes() == [NODE]
        hub.put(NODE, desired("d"))
        await edge.wait_for(lambda: "d" in names(edge))


async def test_large_object_over_a_slow_link_arrives_P0_005() -> None:
    """Its pong takes longer than a timeout, but pongs to pings between its fragments come."""
    hub = open_hub()
    limits = {"ping_interval_seconds": 0.4, "ping_timeout_seconds": 0.4}
    async with serving(hub, **limits) as server, Proxy(server.port).running() as proxy:
        proxy.bytes_per_second = 1_000_000
        async with Edge.connected(proxy.port, NODE) as edge:
            hub.put(NODE, desired("big", padding=1_500_000))
            await edge.wait_for(lambda: "big" in names(edge))
            assert hub.counters["sessions_dead"] == 0


@pytest.mark.parametrize("method", ["poll", "receive"])
async def test_bug_in_a_session_closes_its_socket_P0_006(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """TCP open but no session is a state that does not exist."""
    hub = open_hub()

    def explode(*_: object, **__: object) -> list[Action]:
        raise RuntimeError("boom")

    async with serving(hub) as server:
        async with Edge.connected(server.port, NODE, says_hello=False) as edge:
            await until(lambda: hub.is_connected(NODE))
            with monkeypatch.context() as patch:
                patch.setattr(V1Session, method, explode)
                hub.put(NODE, desired("d"))
                await edge.send(HELLO)
                code, _ = await edge.wait_closed(seconds=1)
            assert code == 1011
            assert hub.nodes() == []
        async with Edge.connected(server.port, NODE) as edge:
            await edge.wait_for(lambda: "d" in names(edge))
    assert "connection failed" in caplog.text


async def test_object_recreated_while_offline_replaces_the_old_one_P0_008() -> None:
    """The node gets the delete first, then the new incarnation, never an insert over the old."""
    hub = open_hub()
    hub.put(NODE, desired("x", uid="uid1"))
    async with serving(hub) as server:
        async with Edge.connected(server.port, NODE) as edge:
            await edge.wait_for(lambda: "x" in names(edge))
            held = edge.held
        await until(lambda: not hub.nodes())
        hub.remove(NODE, key("x"))
        hub.put(NODE, desired("x", uid="uid2"))
        async with Edge.connected(server.port, NODE, held=held) as edge:
            await edge.wait_for(
                lambda: (
                    (held.get("dataset default/x") or {}).get("metadata", {}).get("uid") == "uid2"
                )
            )
            assert [f["header"]["operation"] for f in edge.frames] == ["delete", "insert"]
            assert edge.overwritten == []
            hub.remove(NODE, key("x"))
            hub.put(NODE, desired("x", uid="uid3"))
            hub.remove(NODE, key("x"))
            await edge.wait_for(lambda: not held)


async def test_delete_made_while_offline_arrives_until_it_is_confirmed_P0_008() -> None:
    """A delete that was read just before a cut is sent again; one that lasted is not."""
    hub = open_hub()
    hub.put(NODE, desired("x"))
    async with serving(hub) as server:
        async with Edge.connected(server.port, NODE) as edge:
            await edge.wait_for(lambda: "x" in names(edge))
        hub.remove(NODE, key("x"))
        for _ in range(2):
            async with Edge.connected(server.port, NODE) as edge:
                await edge.wait_for(lambda e=edge: len(e.frames) == 1)  # type: ignore[misc]
                assert edge.frames[0]["header"]["operation"] == "delete"
        async with Edge.connected(server.port, NODE) as edge:
            await edge.wait_for(lambda: len(edge.frames) == 1)
            await until(lambda: (status := hub.status(NODE)) is not None and not status.held)
        async with Edge.connected(server.port, NODE) as edge:
            hub.put(NODE, desired("y"))
            await edge.wait_for(lambda: bool(edge.frames))
            assert [f["header"]["operation"] for f in edge.frames] == ["insert"]


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


@pytest.mark.parametrize("wire", [Edge, EdgeV2])
async def test_reinstalled_node_gets_everything_again_P1_036(
    wire: type[Edge] | type[EdgeV2],
) -> None:
    """Whatever was delivered and acknowledged before: it holds nothing now, and says so."""
    hub = open_hub()
    hub.put(NODE, desired("a"))
    hub.put(NODE, desired("b"))
    async with serving(hub) as server:
        for _ in range(2):
            async with wire.connected(server.port, NODE) as edge:
                await edge.wait_for(lambda e=edge: len(e.held) == 2, seconds=5)  # type: ignore[misc]
                await until(lambda: (s := hub.status(NODE)) is not None and s.pending == 0)


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


MALFORMED: dict[str, str | bytes] = {
    "json": "{nonsense",
    "binary": b"\x00\x01",
    "shape": "[1, 2]",
    "header": '{"content": ""}',
    "kind": json.dumps(status_frame("gadget", "default", "d", {})),
    "operation": json.dumps(status_frame("dataset", "default", "d", {})).replace(
        '"status"', '"delete"'
    ),
    "base64": json.dumps(status_frame("dataset", "default", "d", {})).replace("e30=", "%%%%"),
    "content": json.dumps(status_frame("dataset", "default", "d", {})).replace("e30=", "e30"),
    "name": json.dumps(status_frame("dataset", "../x", "d", {})),
    "nesting": '{"header":' * 10_000 + "1" + "}" * 10_000,
}


async def test_malformed_frames_are_counted_and_the_session_kept_P1_050() -> None:
    """Also the bare header, the hello, is no error, wherever it comes."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        for frame in MALFORMED.values():
            await edge.send(frame)
        await edge.send(HELLO)
        await edge.report("dataset", "default", "d", {"numberOfSamples": 1})
        assert (await hub.next_report()).key == key("d")
        assert edge.closed is None
        malformed = {
            name.removeprefix("frames_malformed_"): count
            for name, count in hub.counters.items()
            if name.startswith("frames_malformed_")
        }
        assert sum(malformed.values()) == len(MALFORMED)
        assert set(malformed) == set(MALFORMED) - {"content"}  # that one is no base64, too


async def test_too_many_malformed_frames_close_with_1008_P1_050() -> None:
    """More than 100 a minute is no accident."""
    hub = open_hub()
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        for _ in range(101):
            await edge.send("{")
        assert await edge.wait_closed() == (1008, "too many malformed frames")


async def test_only_insert_and_delete_in_lower_case_are_ever_sent_P1_051() -> None:
    """An edited JointInferenceService comes as insert: the Go LC knows no update."""
    hub = Hub()
    hub.expect(["jointinferenceservice"])
    hub.complete("jointinferenceservice")
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        for version in (1, 2):
            hub.put(NODE, desired("ji", version, kind="jointinferenceservice"))
            await edge.wait_for(lambda v=version: versions(edge, "ji")[-1:] == [v])  # type: ignore[misc]
        hub.remove(NODE, key("ji", "jointinferenceservice"))
        await edge.wait_for(lambda: not edge.held)
        assert [frame["header"]["operation"] for frame in edge.frames] == [
            "insert",
            "insert",
            "delete",
        ]
        assert {f["header"]["resourceKind"] for f in edge.frames} == {"jointinferenceservice"}


async def test_shutdown_closes_all_connections_with_1001_P1_081() -> None:
    """Also one that never answers does not hold it up for longer than the closing time."""
    hub = open_hub()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        async with serving(hub) as server:
            edges = [
                await stack.enter_async_context(Edge.connected(server.port, f"edge{number}"))
                for number in range(300)
            ]
            _, writer, _ = await dial(server.port, node="deaf")
            await until(lambda: hub.session_count == 301)
            began = loop.time()
        assert loop.time() - began < 10
        for edge in edges:
            assert (await edge.wait_closed())[0] == 1001
        writer.transport.abort()


@pytest.mark.parametrize(
    "node",
    [None, "", "-x", "a b", "a\x01b", "ä", "x" * 254, "edge1\r\nNode-Name: edge2"],
    ids=["missing", "empty", "dash", "space", "control", "latin1", "long", "twice"],
)
async def test_bad_node_name_is_refused_with_400_P0_032(node: str | None) -> None:
    """No session comes of it."""
    hub = open_hub()
    async with serving(hub) as server:
        assert await status_of(server.port, node) == "400"
        await until(lambda: hub.counters["handshakes_refused_400"] == 1)
        assert hub.nodes() == []


async def test_refusals_are_counted_but_fill_no_log_P1_040(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody who tries names or tokens all day gets some lines a minute, not gigabytes."""
    hub = open_hub()
    async with serving(hub) as server:
        for _ in range(150):
            assert await status_of(server.port, "-x") == "400"
    assert hub.counters["handshakes_refused_400"] == 150
    told = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert told.count("connection refused") == 100
    assert len(told) == 101


async def test_what_is_no_websocket_is_told_so() -> None:
    """A browser gets 426, other rubbish 400."""
    async with serving(open_hub()) as server:
        for request, status in (
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"426"),
            (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"4"),
            (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
            (b"GET /" + b"x" * 20_000 + b"\r\n", b"4"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request)
            assert (await reader.read()).split()[1].startswith(status)
            writer.close()


@pytest.mark.parametrize("early", [b"\x89", b"\x89\x80\0\0\0\0"], ids=["part", "whole"])
async def test_frames_before_the_answer_are_refused_with_400(early: bytes) -> None:
    """No client may do that, and an answer to them would come before the handshake's."""
    async with serving(open_hub()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(handshake(NODE) + early)
        assert (await reader.read()).split()[1] == b"400"
        writer.close()


async def test_handshake_may_come_byte_by_byte() -> None:
    """And a report in fragments, with a ping between them."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for byte in handshake(NODE):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        report = json.dumps(status_frame("dataset", "default", "d", {"numberOfSamples": 1}))
        half = len(report) // 2
        for frame in (
            Frame(Opcode.TEXT, report[:half].encode(), fin=False),
            Frame(Opcode.PING, b"between"),
            Frame(Opcode.CONT, report[half:].encode()),
        ):
            writer.write(frame.serialize(mask=True))
        assert (await hub.next_report()).key == key("d")
        await reader.readuntil(b"between")
        writer.close()


async def test_too_many_waiting_connections_are_refused_with_503() -> None:
    """The line before the gate has an end."""
    hub = open_hub()
    async with serving(hub, connections_per_second=1) as server, AsyncExitStack() as stack:
        await stack.enter_async_context(Edge.connected(server.port, "first"))
        waiting = []
        for number in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            waiting.append(writer)
            writer.write(handshake(f"waiting{number}"))
        await until(lambda: server._admission is not None and len(server._admission) >= 4)
        statuses = [await status_of(server.port, f"late{number}") for number in range(3)]
        assert "503" in statuses
        for writer in waiting:
            writer.transport.abort()


async def test_node_may_not_report_on_what_it_does_not_hold_P0_033(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The report is refused and counted, the session kept."""
    hub = open_hub()
    hub.put("node-a", desired("d"))
    hub.put("node-b", desired("mine"))
    async with serving(hub) as server, Edge.connected(server.port, "node-b") as edge:
        await edge.report("dataset", "default", "d", {"numberOfSamples": 1})
        await edge.report("federatedlearningjob", "default", "fl", {"phase": "train"})
        await edge.report("dataset", "default", "mine", {"numberOfSamples": 2})
        assert (await hub.next_report()).key == key("mine")
        assert hub.counters["reports_refused"] == 2
        assert edge.closed is None
    assert "report refused" in caplog.text


async def test_nothing_is_sent_before_desired_state_is_full() -> None:
    """Until then a session lives, pings are answered, and reports wait."""
    hub = Hub()
    hub.expect(["dataset", "model"])
    hub.put(NODE, desired("d"))
    hub.complete("dataset")
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        await (await edge.connection.ping())
        await edge.report("dataset", "default", "d", {"numberOfSamples": 1})
        await until(lambda: hub.waiting_reports == 1)
        assert edge.frames == []
        hub.hold_back("model")
        await edge.wait_for(lambda: "d" in names(edge))
        assert (await hub.next_report()).key == key("d")


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


async def test_port_in_use_is_a_setting_to_mend() -> None:
    """The message names address, port and setting."""
    async with serving(open_hub()) as server:
        settings = WebsocketConfig(address="127.0.0.1", port=server.port)
        with pytest.raises(ConfigError, match=rf"websocket\.port {server.port}.*GM_WEBSOCKET_PORT"):
            await Server(open_hub(), settings).run()


async def test_address_of_another_machine_is_a_setting_to_mend() -> None:
    """The message names the address."""
    settings = WebsocketConfig(address="203.0.113.1", port=0)
    with pytest.raises(ConfigError, match=r"websocket\.address '203\.0\.113\.1'"):
        await Server(open_hub(), settings).run()


async def test_more_nodes_than_allowed_are_refused_with_503() -> None:
    """A node that is connected already may replace its own session."""
    hub = open_hub()
    async with serving(hub, max_nodes=1) as server, Edge.connected(server.port, NODE):
        with pytest.raises(InvalidStatus) as refusal:
            await connect(
                f"ws://127.0.0.1:{server.port}",
                additional_headers={"Node-Name": "edge2"},
                proxy=None,
            )
        assert refusal.value.response.status_code == 503
        assert refusal.value.response.headers["Retry-After"] == "30"
        async with Edge.connected(server.port, NODE):
            assert hub.nodes() == [NODE]


async def test_connections_beyond_the_rate_wait_their_turn() -> None:
    """They are not refused, only later."""
    hub = open_hub()
    loop = asyncio.get_running_loop()
    async with serving(hub, connections_per_second=20) as server, AsyncExitStack() as stack:
        began = loop.time()
        await asyncio.gather(
            *(
                stack.enter_async_context(Edge.connected(server.port, f"edge{number}"))
                for number in range(30)
            )
        )
        assert loop.time() - began >= 0.4
        assert hub.session_count == 30


async def test_listening_beyond_loopback_without_authentication_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is Sedna's way, but nobody should have it without knowing."""
    async with serving(open_hub(), address="0.0.0.0"):
        assert "anybody who reaches this port" in caplog.text
    caplog.clear()
    async with serving(open_hub()):
        assert "anybody" not in caplog.text


async def test_object_bodies_are_not_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """The library would log frames."""
    caplog.set_level(logging.DEBUG, logger="gm")
    hub = open_hub()
    hub.put(NODE, desired("d", url="AKIATEST123"))
    body = base64.b64encode(hub._nodes[NODE].desired[key("d")].content).decode()
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        await edge.wait_for(lambda: "d" in names(edge))
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("gm.")]
    assert ours
    assert not any(body[:20] in line or "AKIATEST123" in line for line in ours)


async def test_silent_connection_is_closed() -> None:
    """A handshake that never comes does not hold a socket."""
    timing = Timing(handshake_seconds=0.1)
    async with serving(open_hub(), timing=timing) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await reader.read() == b""
        writer.close()


def test_the_same_under_uvloop() -> None:
    """The loop that long-running processes use: pacing, a large object, a half-open link."""

    async def scenario() -> None:
        hub = open_hub()
        hub.put(NODE, desired("big", padding=1_500_000))
        limits = {"ping_interval_seconds": 0.4, "ping_timeout_seconds": 0.4}
        async with serving(hub, **limits) as server, Proxy(server.port).running() as proxy:
            async with Edge.connected(proxy.port, NODE) as edge:
                await edge.wait_for(lambda: "big" in names(edge))
                hub.remove(NODE, key("big"))
                await edge.wait_for(lambda: not edge.held)
                proxy.is_black_hole = True
                await until(lambda: not hub.nodes(), seconds=3)
                proxy.cut()
                await edge.wait_closed()
            assert hub.counters["sessions_dead"] == 1

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


def test_deadline_that_has_passed_harms_no_connection_under_uvloop_P0_006() -> None:
    """A loop that was busy for long: uvloop's handle of a timer that is due knows no time.

    Found by benchmarks/chaos_edges.py.
    """

    async def late() -> None:
        hub = open_hub()
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        async with (
            serving(hub, ping_interval_seconds=0.1, ping_timeout_seconds=5) as server,
            Edge.connected(server.port, NODE) as edge,
        ):
            await until(lambda: bool(hub.nodes()))
            (connection,) = server._connections
            for _ in range(5):
                time.sleep(0.15)  # the ping is overdue when what has come is looked at
                if connection._timer is not None:
                    connection._timer.cancel()
                connection._arm()
                connection._arm()
                await (await edge.connection.ping())
            hub.put(NODE, desired("d"))
            await edge.wait_for(lambda: "d" in names(edge))
        assert not faults

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(late())
