"""One node with much to sync, over an API server that is slow, delays nobody else."""

from __future__ import annotations

import asyncio
import functools
import secrets

import pytest

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
