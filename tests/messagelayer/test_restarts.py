"""Nodes and GM come back in any order, and take part again without anybody restarting the rest."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gm.config import TlsConfig
from gm.edge_stub.controller import LocalController
from gm.edge_stub.settings import EdgeSettings
from gm.messagelayer import Hub, Server, WireKey
from gm.pki import NODE_USER
from tests.messagelayer.pki import Authority
from tests.messagelayer.support import desired, key, open_hub, serving, until

NAMES = ("edge1", "edge2", "edge3")
REFUSED = "refused with http 403: the client certificate belongs to another"


class Fleet:
    """GM and machines on which nodes run; with mTLS a node's certificate lies on its machine."""

    def __init__(self, root: Path, auth: str) -> None:
        self.root = root
        self._auth = auth
        self._ca = Authority(root)
        self._server = self._ca.issue("gm")
        for name in NAMES:
            (root / name).mkdir()
            self.certify(name, self.new_certificate(name))

    def new_certificate(self, name: str) -> tuple[str, str]:
        """A certificate for node ``name``, whose key is new, and that key."""
        return self._ca.issue(NODE_USER + name)

    def certify(self, machine: str, certificate: tuple[str, str]) -> None:
        """Put a certificate where the node on ``machine`` looks for its own."""
        for path, file in zip(certificate, ("node.crt", "node.key"), strict=True):
            shutil.copy(path, self.root / machine / file)

    @contextlib.asynccontextmanager
    async def gm(self, hub: Hub, *, port: int = 0) -> AsyncIterator[Server]:
        """A GM that wants what ``hub`` says."""
        cert, private = self._server
        tls = TlsConfig(cert_file=cert, key_file=private, client_ca_file=str(self._ca.path))
        options: dict[str, Any] = {"tls": tls} if self._auth == "mtls" else {}
        async with serving(hub, port=port, auth=self._auth, **options) as server:
            yield server

    @contextlib.asynccontextmanager
    async def edge(
        self, port: int, name: str, *, machine: str = ""
    ) -> AsyncIterator[LocalController]:
        """An edge stub called ``name``, with what is on the disk of ``machine`` (default: its)."""
        disk = self.root / (machine or name)
        is_tls = self._auth == "mtls"
        controller = LocalController(
            EdgeSettings(
                node=name,
                gm=f"{'wss' if is_tls else 'ws'}://127.0.0.1:{port}",
                root=disk,
                state=disk,
                listen="127.0.0.1:0",
                ca_file=self._ca.path if is_tls else None,
                cert_file=disk / "node.crt" if is_tls else None,
                key_file=disk / "node.key" if is_tls else None,
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
    """Wait until every node holds exactly ``objects`` and its own; within 15 s (P2-105)."""
    wanted: list[set[WireKey]] = [
        {key(f"own-{controller.settings.node}"), *map(key, objects)} for controller in controllers
    ]
    await until(
        lambda: [set(controller.store.held) for controller in controllers] == wanted, seconds=15
    )


@pytest.mark.parametrize("auth", ["none", "mtls"])
async def test_every_node_takes_part_again_after_any_restart_P2_105(
    tmp_path: Path, auth: str
) -> None:
    """GM, then a node, then both; then two nodes come back under each other's name."""
    fleet = Fleet(tmp_path, auth)
    async with contextlib.AsyncExitStack() as others:
        async with fleet.gm(fleet_hub("job1")) as server:
            port = server.port
            second = await others.enter_async_context(fleet.edge(port, "edge2"))
            third = await others.enter_async_context(fleet.edge(port, "edge3"))
            async with fleet.edge(port, "edge1") as first:
                await all_hold([first, second, third], "job1")
                hub = server.hub
        async with fleet.edge(port, "edge1") as first, fleet.gm(hub, port=port):
            for name in NAMES:
                hub.put(name, desired("job2"))
            await all_hold([first, second, third], "job1", "job2")
        async with (  # both at once, and a GM that wants other objects
            fleet.gm(fleet_hub("job3"), port=port),
            fleet.edge(port, "edge1") as first,
        ):
            await all_hold([first, second, third], "job3")
    fleet.certify("edge1", fleet.new_certificate("edge2"))
    fleet.certify("edge2", fleet.new_certificate("edge1"))
    async with (
        fleet.gm(fleet_hub("job3", "job4"), port=port),
        fleet.edge(port, "edge1", machine="edge2") as first,
        fleet.edge(port, "edge2", machine="edge1") as second,
        fleet.edge(port, "edge3") as third,
    ):
        await all_hold([first, second, third], "job3", "job4")


async def test_nodes_that_swapped_certificates_take_part_once_they_have_their_own_P2_105(
    tmp_path: Path,
) -> None:
    """Until then they get nothing; then neither they nor GM, nor the third, need a restart."""
    fleet = Fleet(tmp_path, "mtls")
    hub = fleet_hub("job1")
    async with fleet.gm(hub) as server, fleet.edge(server.port, "edge3") as third:
        async with (
            fleet.edge(server.port, "edge1") as first,
            fleet.edge(server.port, "edge2") as second,
        ):
            await all_hold([first, second, third], "job1")
        own, other = fleet.new_certificate("edge1"), fleet.new_certificate("edge2")
        fleet.certify("edge1", other)
        fleet.certify("edge2", own)
        async with (
            fleet.edge(server.port, "edge1") as first,
            fleet.edge(server.port, "edge2") as second,
        ):
            for name in NAMES:
                hub.put(name, desired("job2"))
            await all_hold([third], "job1", "job2")
            nodes = (first, second)
            await until(lambda: all(n.agent.status().cause.startswith(REFUSED) for n in nodes))
            assert all(key("job2") not in node.store.held for node in nodes)
            fleet.certify("edge1", own)
            fleet.certify("edge2", other)
            await all_hold([first, second, third], "job1", "job2")
            for name in NAMES:
                hub.put(name, desired("job3"))
            await all_hold([first, second, third], "job1", "job2", "job3")
