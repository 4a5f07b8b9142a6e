"""The Local Controller against the real hub and server, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gm.messagelayer import WireKey
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import post_round, uid_of, until
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
