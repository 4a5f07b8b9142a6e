"""Nodes and GM come back in any order, and take part again without anybody restarting the rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from gm.edge_stub.controller import LocalController
from gm.edge_stub.settings import EdgeSettings
from gm.messagelayer import Hub, WireKey
from tests.messagelayer.support import desired, key, open_hub, serving

NAMES = ("edge1", "edge2", "edge3")


@contextlib.asynccontextmanager
async def edge(port: int, name: str, disk: Path) -> AsyncIterator[LocalController]:
    """An edge stub called ``name``, with what is on ``disk``."""
    controller = LocalController(
        EdgeSettings(
            node=name,
            gm=f"ws://127.0.0.1:{port}",
            root=disk,
            state=disk,
            listen="127.0.0.1:0",
            backoff_first_seconds=0.02,
            backoff_max_seconds=0.2,
            shutdown_seconds=0.3,
        )
    )
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(stopping))
        try:
            yield controller
        finally:
            stopping.set()


def fleet_hub(*objects: str) -> Hub:
    """A hub that wants ``objects`` on every node, and one of its own on each."""
    hub = open_hub()
    for name in NAMES:
        hub.put(name, desired(f"own-{name}"))
        for each in objects:
            hub.put(name, desired(each))
    return hub


async def all_hold(controllers: list[LocalController], *objects: str) -> None:
    """Wait until every node holds exactly ``objects`` and its own."""
    async with asyncio.timeout(15):
        for controller in controllers:
            wanted: set[WireKey] = {key(f"own-{controller.settings.node}"), *map(key, objects)}
            while set(controller.store.held) != wanted:
                await asyncio.sleep(0.01)


async def test_every_node_takes_part_again_after_any_restart_P2_105(tmp_path: Path) -> None:
    """GM, then a node, then both; then two nodes come back under each other's name."""
    disks = {name: tmp_path / name for name in NAMES}
    for disk in disks.values():
        disk.mkdir()
    async with contextlib.AsyncExitStack() as others:
        async with serving(fleet_hub("job1")) as server:
            port = server.port
            second = await others.enter_async_context(edge(port, "edge2", disks["edge2"]))
            third = await others.enter_async_context(edge(port, "edge3", disks["edge3"]))
            async with edge(port, "edge1", disks["edge1"]) as first:
                await all_hold([first, second, third], "job1")
                hub = server.hub
        async with edge(port, "edge1", disks["edge1"]) as first, serving(hub, port=port):
            for name in NAMES:
                hub.put(name, desired("job2"))
            await all_hold([first, second, third], "job1", "job2")
        async with (  # both at once, and a GM that wants other objects
            serving(fleet_hub("job3"), port=port),
            edge(port, "edge1", disks["edge1"]) as first,
        ):
            await all_hold([first, second, third], "job3")
    async with (
        serving(fleet_hub("job3", "job4"), port=port),
        edge(port, "edge1", disks["edge2"]) as first,
        edge(port, "edge2", disks["edge1"]) as second,
        edge(port, "edge3", disks["edge3"]) as third,
    ):
        await all_hold([first, second, third], "job3", "job4")
