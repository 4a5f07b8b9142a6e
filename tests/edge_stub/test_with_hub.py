"""The Local Controller against the real hub and server, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gm.config import WebsocketConfig
from gm.edge_stub.settings import EdgeSettings
from gm.messagelayer import WireKey
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import post_round, uid_of, until
from tests.fakes.proxy import Proxy
from tests.messagelayer.support import desired, key, open_hub, serving


async def test_edge_gets_its_desired_state_and_reports_reach_the_hub(
    start_edge: StartEdge, tmp_path: Path
) -> None:
    """Put, change, remove and re-creation come down; a count and a round go up."""
    data = tmp_path / "root/data/d.csv"
    data.parent.mkdir(parents=True)
    data.write_text("a\n1\n2\n3\n")
    hub = open_hub()
    hub.expect(["federatedlearningjob"])
    hub.complete("federatedlearningjob")
    async with serving(hub) as server, start_edge(f"ws://127.0.0.1:{server.port}/") as edge:
        hub.put("edge1", desired("d", url="/data/d.csv"))
        report = await asyncio.wait_for(hub.next_report(), 20)
        assert (report.node, report.key) == ("edge1", key("d"))
        assert report.content == b'{"numberOfSamples":3}'
        hub.acknowledge(report)

        hub.put("edge1", desired("fl1", kind="federatedlearningjob"))
        job = WireKey("federatedlearningjob", "default", "fl1")
        await until(lambda: job in edge.store.held)
        await post_round(edge, 1)
        report = await asyncio.wait_for(hub.next_report(), 20)
        assert report.key == job
        hub.acknowledge(report)

        hub.put("edge1", desired("d", uid="u2", url="/data/d.csv"))
        await until(lambda: uid_of(edge, key("d")) == "u2")
        hub.remove("edge1", key("d"))
        await until(lambda: key("d") not in edge.store.held)


async def test_edge_comes_back_to_a_gm_that_was_started_anew(start_edge: StartEdge) -> None:
    """What changed while GM was away is there in the end; port and node are the same."""
    hub = open_hub()
    async with serving(hub) as server:
        port = server.port
        hub.put("edge1", desired("a"))
        edge_context: Any = start_edge(f"ws://127.0.0.1:{port}/")
        edge = await edge_context.__aenter__()
        await until(lambda: key("a") in edge.store.held)
    try:
        hub = open_hub()
        hub.put("edge1", desired("a", version=2))
        hub.put("edge1", desired("b"))
        async with serving(hub, port=port):
            await until(lambda: key("b") in edge.store.held)
            content = await edge.store.content(key("a"))
            assert content == desired("a", version=2).content
    finally:
        await edge_context.__aexit__(None, None, None)


async def test_both_ends_find_a_black_hole_and_nothing_is_lost_in_it_P0_005(
    start_edge: StartEdge,
) -> None:
    """No FIN, no RST: each declares the other dead, and after healing all goes both ways."""
    pings = {"ping_interval_seconds": 0.3, "ping_timeout_seconds": 0.3}
    kind = "federatedlearningjob"
    job = WireKey(kind, "default", "fl1")
    hub = open_hub()
    hub.expect([kind])
    hub.complete(kind)
    hub.put("edge1", desired("fl1", kind=kind))
    async with (
        serving(hub, **pings) as server,
        Proxy(server.port).running() as proxy,
        start_edge(f"ws://127.0.0.1:{proxy.port}", **pings) as edge,
    ):
        await until(lambda: job in edge.store.held)
        proxy.is_black_hole = True
        hub.put("edge1", desired("d"))
        await post_round(edge, 1)
        async with asyncio.timeout(15):  # 0.6 s, and what a slow machine needs
            while hub.nodes() or edge.agent.is_connected:
                await asyncio.sleep(0.005)
        assert hub.counters["sessions_dead"] == 1
        assert (hub.session_count, key("d") in edge.store.held) == (0, False)
        assert await edge.outbox.count() == 1
        proxy.is_black_hole = False
        await until(lambda: key("d") in edge.store.held)
        report = await asyncio.wait_for(hub.next_report(), 20)
        assert report.key == job
        hub.acknowledge(report)
        async with asyncio.timeout(20):
            await edge.outbox.drain(going_on=lambda: True)


def test_a_dead_link_is_found_within_45_seconds_by_default_P0_005(tmp_path: Path) -> None:
    """By either side."""
    gm = WebsocketConfig()
    lc = EdgeSettings(node="edge1", gm="ws://gm.example:9000", root=tmp_path, state=tmp_path)
    for side in (gm, lc):
        assert side.ping_interval_seconds + side.ping_timeout_seconds <= 45


async def test_lc_is_back_soon_after_a_cut_and_has_lost_nothing_P1_045(
    start_edge: StartEdge,
) -> None:
    """With its own times: a second at most, by chance, before the first attempt."""
    hub = open_hub()
    hub.put("edge1", desired("d"))
    clock = asyncio.get_running_loop().time
    async with (
        serving(hub) as server,
        Proxy(server.port).running() as proxy,
        start_edge(
            f"ws://127.0.0.1:{proxy.port}", backoff_first_seconds=1.0, backoff_max_seconds=60.0
        ) as edge,
    ):
        await until(lambda: key("d") in edge.store.held)
        began = clock()
        proxy.cut()
        hub.put("edge1", desired("e"))
        await until(lambda: key("e") in edge.store.held)
        assert clock() - began < 5  # 1 s at most, and what a slow machine needs
