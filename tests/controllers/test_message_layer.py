"""The message layer in a whole GM: floods, resyncs, secrets, where GM connects, how it ends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from websockets.frames import Frame, Opcode

from gm.api.meta import ResourceType
from gm.api.resources import (
    DATASETS,
    EDGE_NODES,
    EVENTS,
    FEDERATED_LEARNING_JOBS,
    LEASES,
    MODELS,
    PODS,
    SECRETS,
)
from gm.controllers.edgenodes import EdgeNodeSettings
from tests.cluster.cluster import Cluster
from tests.controllers.conftest import Site
from tests.controllers.rights import right_of
from tests.fakes.edge import Edge, EdgeV2

EMBEDDED = pytest.mark.parametrize("cluster", ["embedded"], indirect=True)


async def samples(cluster: Cluster, name: str) -> int | None:
    """What the API server has of a Dataset's count."""
    found = await cluster.get(DATASETS, name)
    number: int | None = ((found or {}).get("status") or {}).get("numberOfSamples")
    return number


async def test_a_flood_of_one_node_delays_no_other_P0_028(site: Site) -> None:
    """Another node's report is in the API within two seconds; node by node, not one line."""
    await site.nodes("edge0", "edge1")
    for number in range(20):
        await site.dataset(f"flood{number}", "edge0")
    await site.dataset("other", "edge1")
    clock = asyncio.get_running_loop().time
    async with site.gm() as manager, site.edge("edge0") as noisy, site.edge("edge1") as quiet:
        await noisy.wait_for(lambda: len(noisy.held) == 20)
        await quiet.wait_for(lambda: len(quiet.held) == 1)

        async def flood() -> None:
            number = 0
            while True:
                number += 1
                name = f"flood{number % 20}"
                await noisy.report("dataset", site.namespace, name, {"numberOfSamples": number})
                await asyncio.sleep(0)  # node and GM share a loop here

        async with asyncio.TaskGroup() as group:
            flooding = group.create_task(flood())
            await site.cluster.wait_for(lambda: manager.hub.counters["reports"] > 500)
            for round_ in (1, 2, 3):
                began, before = clock(), manager.hub.counters["reports"]
                content = {"numberOfSamples": round_}
                await quiet.report("dataset", site.namespace, "other", content)

                async def is_there(wanted: int = round_) -> bool:
                    return await samples(site.cluster, "other") == wanted

                await site.cluster.wait_for(is_there)
                assert clock() - began < 2
                assert manager.hub.counters["reports"] > before + 1, "the flood went on"
            flooding.cancel()


async def test_lists_anew_send_nothing_to_nodes_that_have_it_P1_087(site: Site) -> None:
    """Each edge holds it already; what changed while GM saw nothing is sent, and only that."""
    await site.nodes("edge0", "edge1")
    for number in range(60):
        await site.dataset(f"d{number}", f"edge{number % 2}")
    async with (
        site.gm() as manager,
        site.edge("edge0") as edge0,
        EdgeV2.connected(manager.websocket_port, site.node("edge1")) as edge1,
    ):
        await edge0.wait_for(lambda: len(edge0.held) == 30)
        await edge1.wait_for(lambda: len(edge1.held) == 30)
        await site.settled()
        frames = (len(edge0.frames), len(edge1.frames))
        for _ in range(3):
            async with site.faults.blind("Dataset"):
                pass
            await site.settled()
        await (await edge0.connection.ping())
        await (await edge1.connection.ping())
        assert (len(edge0.frames), len(edge1.frames)) == frames
        async with site.faults.blind("Dataset"):
            await site.patch(DATASETS, "d1", {"spec": {"url": "/data/other.txt"}})
        await edge1.wait_for(lambda: len(edge1.frames) == frames[1] + 1)
        await site.settled()
        assert (len(edge0.frames), len(edge1.frames)) == (frames[0], frames[1] + 1)


async def test_nodes_that_come_and_go_cost_no_lists_P1_046(site: Site) -> None:
    """The API server is listed by GM's start, not by each node's; caches serve them all."""
    lists: list[str] = []
    observe = site._observe

    def note(method: str, target: str, status: int) -> None:
        observe(method, target, status)
        if right_of(method, target).right.verb == "list":
            lists.append(target)

    site._observe = note  # type: ignore[method-assign]
    await site.nodes("edge0")
    await site.dataset("d0", "edge0")
    async with site.gm() as manager:
        await site.settled()
        before = len(lists)
        assert before
        for number in range(40):
            wire: type[Edge] | type[EdgeV2] = (Edge, EdgeV2)[number % 2]
            async with wire.connected(manager.websocket_port, site.node("edge0")) as edge:
                await edge.wait_for(lambda e=edge: bool(e.held))  # type: ignore[misc]
        assert lists[before:] == []


SECRET, HALF = "AKIATEST123", "half-of-a-secret"


async def test_credentials_are_in_no_log_event_status_or_counter_P2_093(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """At debug, with GM told to send them; a Secret that is no use is not echoed either."""
    caplog.set_level(logging.DEBUG)
    for name in ("websockets", "websockets.client"):  # the test's own end
        caplog.set_level(logging.CRITICAL, logger=name)
    websocket = msgspec.structs.replace(site.config.websocket, credentials="always")
    site.config = msgspec.structs.replace(site.config, websocket=websocket)
    site.edge_nodes = EdgeNodeSettings(settle_seconds=0.05)
    await site.nodes("cloud", "edge0")
    good = {"s3-endpoint": "h:9000"}
    keys = {"ACCESS_KEY_ID": SECRET, "SECRET_ACCESS_KEY": SECRET}
    bad = {"s3-endpoint": HALF + "\n://"}
    for name, marks, data in (
        ("good", good, keys),
        ("bad", bad, {"ACCESS_KEY_ID": HALF}),
    ):
        metadata = {"name": name, "annotations": marks}
        await site.create(SECRETS, {"metadata": metadata, "stringData": data})
    await site.model("m", url="s3://b/m", credentialName="good")
    await site.dataset("d0", "edge0", url="s3://b/d", credentialName="good")
    await site.dataset("d1", "edge0", url="s3://b/d", credentialName="bad")
    async with site.gm() as manager, site.edge("edge0") as edge:
        await edge.wait_for(lambda: any(SECRET in json.dumps(h) for h in edge.held.values()))
        await site.run_job(trainers=1)
        await site.submit("spoiled", trainers=2)
        await edge.send(json.dumps({"header": SECRET}))
        await edge.report("dataset", site.namespace, "d0", {"numberOfSamples": SECRET})

        def is_seen() -> bool:
            counters = manager.hub.counters
            return counters["frames_malformed_shape"] == 1 and counters["reports_refused"] == 1

        await site.cluster.wait_for(is_seen)
        await site.settled()
        told = [caplog.text, str(manager.hub.counters), str(manager.problems())]
    told += [str(vars(record)) for record in caplog.records]
    kinds: tuple[ResourceType, ...] = (
        *(EVENTS, DATASETS, MODELS, FEDERATED_LEARNING_JOBS, PODS),
        EDGE_NODES,
    )
    for kind in kinds:
        told += [json.dumps(found) for found in await site.cluster.list(kind)]
    assert any("spoiled" in text for text in told)
    encoded = base64.b64encode(SECRET.encode()).decode().rstrip("=")
    for secret in (SECRET, HALF, encoded):
        assert not [text[:300] for text in told if secret in text]


class Polite(asyncio.Protocol):
    """A websocket that says nothing but goodbye, and notes with which code it was told to go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.buffer = b""
        self.code: int | None = None
        self.is_open = asyncio.Event()
        self.is_lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(
            "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n"
            f"Node-Name: {self.name}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.is_open.is_set() and b"\r\n\r\n" in self.buffer:
            assert b" 101 " in self.buffer
            self.is_open.set()
            self.buffer = self.buffer.partition(b"\r\n\r\n")[2]
        if self.is_open.is_set() and self.buffer[:1] == b"\x88" and self.code is None:
            self.code = int.from_bytes(self.buffer[2:4])
            self.transport.write(Frame(Opcode.CLOSE, self.buffer[2:4]).serialize(mask=True))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost.set()


@contextlib.asynccontextmanager
async def program(
    site: Site, directory: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """``gm run`` in a process of its own, and the port of its websocket."""
    settings = {
        "kubeConfig": site.cluster.kubeconfig,
        "namespace": site.namespace,
        "stateNamespace": site.namespace,
        "websocket": {"address": "127.0.0.1", "port": 0, "connectionsPerSecond": 5000},
        "health": {"address": "127.0.0.1", "port": 0},
        "leaderElection": {"enabled": True},
        "log": {"format": "json", "level": "info"},
    }
    config = directory / "gm.yaml"
    config.write_text(json.dumps(settings))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gm", "run", "--config", str(config)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=2**20,
    )
    assert process.stdout is not None
    out = process.stdout
    try:
        async with asyncio.timeout(60):
            while (told := json.loads(await out.readline()))["message"] != "ready":
                pass
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(out.read())
            yield process, told["websocket_port"]
            reading.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@EMBEDDED
async def test_sigterm_with_a_thousand_nodes_loses_no_report_and_ends_in_time_P1_081(
    site: Site, tmp_path: Path
) -> None:
    """All hear 1001, what was reported is written, the lease is free, the exit code is 0."""
    await site.nodes("edge0")
    for number in range(20):
        await site.dataset(f"d{number}", "edge0")
    loop = asyncio.get_running_loop()
    async with program(site, tmp_path) as (process, port):
        nodes = []
        for number in range(1000):
            _, node = await loop.create_connection(
                lambda n=number: Polite(f"{site.namespace}-n{n}"),  # type: ignore[misc]
                "127.0.0.1",
                port,
            )
            nodes.append(node)
        for node in nodes:
            await asyncio.wait_for(node.is_open.wait(), 30)
        async with Edge.connected(port, site.node("edge0")) as edge:
            await edge.wait_for(lambda: len(edge.held) == 20)
            for number in range(20):
                content = {"numberOfSamples": number}
                await edge.report("dataset", site.namespace, f"d{number}", content)
            await (await edge.connection.ping())  # GM has read them
            began = loop.time()
            process.send_signal(signal.SIGTERM)
            assert (await edge.wait_closed())[0] == 1001
            assert await asyncio.wait_for(process.wait(), 30) == 0
            assert loop.time() - began <= 10
        for node in nodes:
            await asyncio.wait_for(node.is_lost.wait(), 10)
        assert {node.code for node in nodes} == {1001}
    for number in range(20):
        assert await samples(site.cluster, f"d{number}") == number
    (lease,) = await site.cluster.list(LEASES)
    assert not lease["spec"].get("holderIdentity")


@EMBEDDED
async def test_gm_connects_to_the_api_server_only_P1_049(site: Site, tmp_path: Path) -> None:
    """Through a whole job: edges behind NAT or a firewall dial, and are never dialled."""
    await site.references()
    dialled: set[tuple[str, int]] = set()
    async with program(site, tmp_path) as (process, port):
        watched = psutil.Process(process.pid)

        async def watch() -> None:
            while True:
                for each in watched.net_connections("tcp"):
                    if each.raddr and each.laddr.port != port:
                        dialled.add((each.raddr.ip, each.raddr.port))
                await asyncio.sleep(0.02)

        async with (
            asyncio.TaskGroup() as group,
            Edge.connected(port, site.node("edge0")) as edge0,
            EdgeV2.connected(port, site.node("edge1")) as edge1,
        ):
            watching = group.create_task(watch())
            await edge0.wait_for(lambda: bool(edge0.held))
            await edge1.wait_for(lambda: bool(edge1.held))
            await site.run_job()
            await edge0.report("dataset", site.namespace, "d0", {"numberOfSamples": 3})

            async def is_counted() -> bool:
                return await samples(site.cluster, "d0") == 3

            await site.cluster.wait_for(is_counted)
            await site.set_phase("Succeeded")
            await site.wait_phase("Succeeded")
            watching.cancel()
    url: Any = site.cluster.read_kubeconfig()["clusters"][0]["cluster"]["server"]
    host, _, api_port = url.removeprefix("https://").rpartition(":")
    assert dialled == {(host, int(api_port))}
