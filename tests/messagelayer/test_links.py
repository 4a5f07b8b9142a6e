"""Connections that are replaced, cut, half open or slow lose nothing, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest
import uvloop
from websockets.exceptions import ConnectionClosed

from gm.messagelayer.session import REPLACED, Action
from gm.messagelayer.session_v1 import V1Session
from tests.fakes.edge import HELLO, Edge, EdgeV2
from tests.fakes.proxy import Proxy
from tests.messagelayer.dialling import NODE, dial, handshake, names, versions
from tests.messagelayer.support import desired, key, open_hub, serving, until


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
