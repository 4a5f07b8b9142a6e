"""One node with much to sync over a slow API server, or with much to say, delays nobody else."""

from __future__ import annotations

import asyncio
import functools
import secrets
import sys
from collections.abc import Callable

import pytest
import uvloop

from gm.messagelayer.shards import ShardConflict, ShardedRecord
from tests.fakes.edge import Edge, EdgeV2
from tests.messagelayer.support import desired, open_hub, serving

API_SECONDS = 0.3
OBJECTS = 5000


class SlowStore:
    """Shards in an API server that takes its time."""

    def __init__(self) -> None:
        self.shards: dict[int, tuple[bytes, str]] = {}

    async def read(self, shard: int) -> tuple[bytes, str]:
        await asyncio.sleep(API_SECONDS)
        return self.shards.get(shard, (b"", ""))

    async def write(self, shard: int, content: bytes, version: str) -> str:
        await asyncio.sleep(API_SECONDS)
        if self.shards.get(shard, (b"", ""))[1] != version:
            raise ShardConflict(f"shard {shard}")
        self.shards[shard] = content, secrets.token_hex(4)
        return self.shards[shard][1]


def has(edge: Edge, version: int) -> bool:
    """Whether the last that came is ``version``."""
    found: int = edge.frames[-1]["content"]["spec"]["version"]
    return found == version


@pytest.mark.parametrize("big", [Edge, EdgeV2])
async def test_big_first_sync_with_a_slow_api_delays_nobody_P0_029(
    big: type[Edge] | type[EdgeV2],
) -> None:
    """Updates and pings of another node and reports of a third stay quick meanwhile."""
    hub = open_hub(record=ShardedRecord(SlowStore()))
    for number in range(OBJECTS):
        hub.put("big", desired(f"d{number}", padding=900))
    hub.put("quick", desired("q"))
    hub.put("reporter", desired("r"))
    clock = asyncio.get_running_loop().time
    async with (
        serving(hub) as server,
        Edge.connected(server.port, "quick") as quick,
        Edge.connected(server.port, "reporter") as reporter,
    ):
        await quick.wait_for(lambda: bool(quick.held))
        await reporter.wait_for(lambda: bool(reporter.held))
        async with big.connected(server.port, "big") as busy:
            delays, pongs, reports = [], [], []
            version = 1
            amid = 0  # rounds that ended before the other's sync did
            while len(busy.held) < OBJECTS:
                version += 1
                began = clock()
                hub.put("quick", desired("q", version))
                await quick.wait_for(functools.partial(has, quick, version))
                delays.append(clock() - began)
                began = clock()
                await (await quick.connection.ping())
                pongs.append(clock() - began)
                began = clock()
                await reporter.report("dataset", "default", "r", {"numberOfSamples": version})
                report = await hub.next_report()
                hub.acknowledge(report)
                reports.append(clock() - began)
                amid += len(busy.held) < OBJECTS
            assert sorted(delays)[int(len(delays) * 0.99) - 1] < 1
            assert max(pongs) < 1
            assert max(reports) < 2
            assert amid > 1, "the others were served before it was done"


_FLOOD = """
import asyncio, base64, json, sys
from websockets.frames import Frame, Opcode

async def flood(port, node):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((
        "GET / HTTP/1.1\\r\\nHost: x\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\\r\\nSec-WebSocket-Version: 13\\r\\n"
        "Node-Name: %s\\r\\n\\r\\n" % node).encode())
    await reader.readuntil(b"\\r\\n\\r\\n")
    header = {"namespace": "default", "resourceKind": "dataset", "resourceName": "d",
              "operation": "status"}
    content = base64.b64encode(b'{"numberOfSamples": 1}').decode()
    report = json.dumps({"header": header, "content": content}).encode()
    frames = Frame(Opcode.TEXT, report).serialize(mask=True) * 200
    while True:
        writer.write(frames)
        await writer.drain()

async def main():
    await asyncio.gather(*(flood(int(sys.argv[1]), f"flood{n}") for n in range(int(sys.argv[2]))))

asyncio.run(main())
"""


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_nodes_that_flood_delay_nobody_P0_028(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Five send reports as fast as they can; updates of a sixth, and its reports, stay quick.

    uvloop, which reads megabytes from one socket before it turns to the next, took 3 s.
    """
    floods = 5

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        hub = open_hub()
        for number in range(floods):
            hub.put(f"flood{number}", desired("d"))
        hub.put("quiet", desired("q"))
        heard: list[float] = []

        async def upstream() -> None:
            while True:
                report = await hub.next_report()
                hub.acknowledge(report)
                if report.node == "quiet":
                    heard.append(clock())

        async with (
            serving(hub) as server,
            EdgeV2.connected(server.port, "quiet") as quiet,
            asyncio.TaskGroup() as group,
        ):
            await quiet.wait_for(lambda: bool(quiet.held))
            writing = group.create_task(upstream())
            flood = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _FLOOD, str(server.port), str(floods))
            )
            try:
                async with asyncio.timeout(60):
                    while hub.counters["reports"] < 20_000:
                        await asyncio.sleep(0.01)
                delays = []
                for version in range(2, 12):
                    before, began = hub.counters["reports"], clock()
                    hub.put("quiet", desired("q", version))
                    await quiet.wait_for(functools.partial(_has_digest, quiet, f"{version}-"))
                    count = len(heard)
                    await quiet.report(version, "dataset", "default", "q", {"numberOfSamples": 1})
                    while len(heard) == count:
                        await asyncio.sleep(0.001)
                    delays.append(clock() - began)
                    assert hub.counters["reports"] > before + 1, "the flood went on"
                assert sorted(delays)[len(delays) // 2] < 1
            finally:
                flood.kill()
                await flood.wait()
                writing.cancel()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


def _has_digest(edge: EdgeV2, digest: str) -> bool:
    """Whether the one object that it holds is of that version."""
    return [held[1] for held in edge.held.values()] == [digest]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("wire", [Edge, EdgeV2])
def test_node_with_four_mebibyte_objects_delays_nobody_P0_029(
    wire: type[Edge] | type[EdgeV2], loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Down as objects and up as reports, one after the other, while another node gets updates."""

    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        hub = open_hub()
        hub.put("big", desired("b0", padding=4 * 1024 * 1024))
        hub.put("quick", desired("q"))
        async with (
            serving(hub) as server,
            wire.connected(server.port, "big") as big,
            EdgeV2.connected(server.port, "quick") as quick,
            asyncio.TaskGroup() as group,
        ):
            await quick.wait_for(lambda: bool(quick.held))

            async def upload() -> None:
                report = {"padding": "x" * (4 * 1024 * 1024)}
                for number in range(1_000_000):
                    if isinstance(big, EdgeV2):
                        await big.report(number, "dataset", "default", "b0", report)
                    else:
                        await big.report("dataset", "default", "b0", report)
                    hub.acknowledge(await hub.next_report())

            uploading = group.create_task(upload())
            delays = []
            for version in range(2, 12):
                hub.put("big", desired(f"b{version}", padding=4 * 1024 * 1024))
                began = clock()
                hub.put("quick", desired("q", version))
                await quick.wait_for(functools.partial(_has_digest, quick, f"{version}-"))
                delays.append(clock() - began)
            assert sorted(delays)[len(delays) // 2] < 1
            await big.wait_for(lambda: len(big.held) == 11, seconds=60)
            uploading.cancel()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
