"""Half-open links are found, slow ones are kept, whatever is on its way over them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from gm.edge_stub.controller import LocalController
from gm.edge_stub.store import Put, Remove
from gm.messagelayer import v2
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import post, until
from tests.fakes.gm import FakeGM, dataset, job
from tests.fakes.proxy import Proxy
from tests.messagelayer.support import desired, key, open_hub, serving

PINGS = {"ping_interval_seconds": 0.6, "ping_timeout_seconds": 0.6}
LARGE = "x" * 700_000  # what the scripted GM takes over v1, too


async def test_large_object_comes_down_a_slow_link_P0_005(start_edge: StartEdge) -> None:
    """Three seconds long no pong passes it, yet neither side gives up. Here both are real."""
    hub = open_hub()
    hub.put("edge1", desired("big", padding=1_500_000))
    async with (
        serving(hub, **PINGS) as server,
        Proxy(server.port).running() as proxy,
        start_edge(f"ws://127.0.0.1:{proxy.port}", **PINGS) as edge,
    ):
        proxy.bytes_per_second = 500_000
        await until(lambda: key("big") in edge.store.held)
        assert hub.counters["sessions_dead"] == 0
        assert hub.counters["sessions_replaced"] == 0
        assert edge.agent.is_connected


async def test_large_object_comes_down_a_slow_link_over_v1_P0_005(start_edge: StartEdge) -> None:
    """In one frame, as Sedna's GM sends it: no ping of the other side comes between."""
    async with (
        FakeGM() as gm,
        Proxy(gm.port).running() as proxy,
        start_edge(f"ws://127.0.0.1:{proxy.port}", **PINGS) as edge,
    ):
        session = await gm.session()
        proxy.bytes_per_second = 500_000
        await session.send_v1("insert", dataset("big", url="/" + "x" * 1_100_000))
        await until(lambda: key("big") in edge.store.held)
        assert len(gm.sessions) == 1


@pytest.mark.parametrize("speaks_v2", [True, False], ids=["v2", "v1"])
async def test_large_reports_go_up_a_slow_link_P0_005(
    start_edge: StartEdge, speaks_v2: bool
) -> None:
    """Nothing comes in meanwhile, not even a pong; but what is written leaves."""
    async with (
        FakeGM(speaks_v2=speaks_v2) as gm,
        Proxy(gm.port).running() as proxy,
        start_edge(f"ws://127.0.0.1:{proxy.port}", **PINGS) as edge,
    ):
        session = await gm.session()
        proxy.upload_bytes_per_second = 1_000_000
        if speaks_v2:
            await session.send_v2(v2.Welcome(max_frame_bytes=8_000_000, report_window=8))
        for number in range(3):
            assert await post(edge, f"w{number}", ownerInfo={"filler": LARGE}) == 200
        hello = 1
        received = await session.wait_received(hello + 3)
        assert len(received) == hello + 3
        assert len(gm.sessions) == 1


@contextlib.asynccontextmanager
async def stalled(
    start_edge: StartEdge, gm: FakeGM, **changes: Any
) -> AsyncIterator[tuple[LocalController, Proxy]]:
    """An LC that has more to send than buffers take, on a link that takes nothing."""
    async with Proxy(gm.port).running() as proxy:
        try:
            async with start_edge(f"ws://127.0.0.1:{proxy.port}", **changes) as edge:
                session = await gm.session()
                await session.wait_received(1)
                for number in range(16):
                    assert await post(edge, f"w{number}", ownerInfo={"filler": LARGE}) == 200
                link = edge.agent._link
                assert link is not None
                proxy.holds_uploads = True
                await session.send_v2(v2.Welcome(max_frame_bytes=8_000_000, report_window=32))
                # Above the library's limit: whoever writes has to wait from now on.
                transport = link._connection.transport
                await until(lambda: transport.get_write_buffer_size() > 64 * 1024)
                yield edge, proxy
        finally:
            proxy.holds_uploads = False


async def test_half_open_link_is_found_while_reports_are_stuck_in_it_P0_005(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """A ping can't even be written; the next session gets them all."""
    caplog.set_level(logging.WARNING)
    async with FakeGM(speaks_v2=True) as gm, stalled(start_edge, gm, **PINGS) as (edge, proxy):
        await until(lambda: "not connected to gm" in caplog.messages)
        record = next(r for r in caplog.records if r.message == "not connected to gm")
        assert record.__dict__["cause"] == "no progress on the link"
        proxy.holds_uploads = False
        second = await gm.session()
        await second.send_v2(v2.Welcome(max_frame_bytes=8_000_000, report_window=32))
        hello = 1
        await second.wait_received(hello + await edge.outbox.count())


async def test_lc_stops_although_its_link_takes_nothing(start_edge: StartEdge) -> None:
    """A goodbye that can't be written is waited for a moment only."""
    clock = asyncio.get_running_loop().time
    async with FakeGM(speaks_v2=True) as gm:
        async with stalled(start_edge, gm):
            began = clock()
        assert clock() - began < 20  # half a second for reports, three for the goodbye


async def test_slow_disk_is_not_taken_for_a_dead_link_P0_005(
    start_edge: StartEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While what has come waits for the disk nothing is read, so GM's silence proves nothing."""
    slow = {"ping_interval_seconds": 0.2, "ping_timeout_seconds": 0.2}
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url, **slow) as edge:
        session = await gm.session()
        await session.send_v2(v2.Welcome(1_000_000, 8))
        goes_on, apply = asyncio.Event(), edge.store.apply

        async def wait_and_apply(changes: Sequence[Put | Remove]) -> list[Put | Remove]:
            await goes_on.wait()
            return await apply(changes)

        monkeypatch.setattr(edge.store, "apply", wait_and_apply)
        for number in range(200):
            await session.put(job(f"fl{number}"), "x")
        await until(lambda: edge.agent.is_connected)
        link = edge.agent._link
        assert link is not None
        await until(lambda: not link._connection.transport.is_reading())
        await asyncio.sleep(1)  # more than interval and timeout, several times
        assert len(gm.sessions) == 1
        goes_on.set()
        await until(lambda: len(edge.store.held) == 200)
        assert len(gm.sessions) == 1
