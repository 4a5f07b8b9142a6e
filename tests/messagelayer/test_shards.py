"""The sharded record: batching, compare-and-swap, and several GMs over one store."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncIterator

import pytest

from gm.errors import ApiUnreachable
from gm.messagelayer import WireKey
from gm.messagelayer.record import Changes, Claim
from gm.messagelayer.shards import SHARDS, ShardConflict, ShardedRecord, shard_of
from tests.fakes.edge import Edge
from tests.messagelayer.support import desired, key, open_hub, serving


class Store:
    """Shards in memory, with the faults that a test asks for."""

    def __init__(self) -> None:
        self.shards: dict[int, tuple[bytes, str]] = {}
        self.reads = self.writes = self.conflicts = 0
        self.fails = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, shard: int) -> tuple[bytes, str]:
        await self._reached()
        self.reads += 1
        return self.shards.get(shard, (b"", ""))

    async def write(self, shard: int, content: bytes, version: str) -> str:
        await self._reached()
        if self.shards.get(shard, (b"", ""))[1] != version:
            self.conflicts += 1
            raise ShardConflict(f"shard {shard}")
        self.writes += 1
        self.shards[shard] = content, secrets.token_hex(4)
        return self.shards[shard][1]

    async def _reached(self) -> None:
        await self.gate.wait()
        await asyncio.sleep(0)
        if self.fails:
            self.fails -= 1
            raise ApiUnreachable("the API server does not answer")


class Session:
    """A holder that notes what it is told."""

    def __init__(self, record: ShardedRecord, node: str = "edge1") -> None:
        self.node = node
        self.told: list[dict[WireKey, int]] = []
        self.commits = 0
        self.is_superseded = False
        self.news = asyncio.Event()
        self.claim: Claim = record.claim(self)

    def recorded(self, keys: Changes) -> None:
        self.told.append(dict(keys))
        self.news.set()

    def committed(self) -> None:
        self.commits += 1
        self.news.set()

    def superseded(self) -> None:
        self.is_superseded = True
        self.news.set()

    async def hears(self) -> None:
        """Wait for the next thing that it is told."""
        async with asyncio.timeout(10):
            await self.news.wait()
        self.news.clear()

    async def commit(self, **identities: int) -> None:
        """Commit datasets by name."""
        self.claim.commit({key(name): identity for name, identity in identities.items()})
        await self.hears()


@contextlib.asynccontextmanager
async def running(store: Store, *, per_second: float = 10_000) -> AsyncIterator[ShardedRecord]:
    """A record at work."""
    record = ShardedRecord(
        store, window_seconds=0.001, per_second=per_second, retry_seconds=(0.001, 0.01)
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(record.run())
        yield record
        task.cancel()


async def held(record: ShardedRecord, node: str = "edge1") -> dict[WireKey, int]:
    """What a new session of the node is told."""
    session = Session(record, node)
    await session.hears()
    session.claim.release()
    return session.told[-1]


async def test_what_was_committed_is_told_to_the_next_session() -> None:
    """Also by another process; what was struck is gone."""
    store = Store()
    async with running(store) as record:
        session = Session(record)
        await session.hears()
        assert session.told == [{}]
        await session.commit(a=1, b=2, c=3)
        await session.commit(b=0)
        assert session.commits == 2
    async with running(store) as record:
        assert await held(record) == {key("a"): 1, key("c"): 3}
        assert await held(record, "edge2") == {}


async def test_entry_without_keys_leaves_nothing_behind() -> None:
    """Nodes that hold nothing cost nothing."""
    store = Store()
    async with running(store) as record:
        session = Session(record)
        await session.hears()
        await session.commit(a=1)
        full = len(store.shards[shard_of("edge1")][0])
        await session.commit(a=0)
        assert len(store.shards[shard_of("edge1")][0]) < full / 2
        assert await held(record) == {}


async def test_many_nodes_cost_few_reads_and_writes() -> None:
    """Those that come within a window share one of each per shard."""
    store = Store()
    async with running(store, per_second=100) as record:
        sessions = [Session(record, f"edge{number}") for number in range(2000)]
        for session in sessions:
            await session.hears()
            session.claim.commit({key("a"): 1, key("b"): 2})
        for session in sessions:
            await session.hears()
        assert all(session.commits == 1 for session in sessions)
        assert store.reads <= 2 * SHARDS
        assert store.writes <= 4 * SHARDS


async def test_first_commit_supersedes_a_session_elsewhere() -> None:
    """The older one's next change is dropped and it is told; the newer one's stay."""
    store = Store()
    async with running(store) as here, running(store) as there:
        older = Session(here)
        await older.hears()
        await older.commit(a=1)
        newer = Session(there)
        await newer.hears()
        assert newer.told == [{key("a"): 1}]
        await newer.commit()
        await older.commit(a=0, b=2)
        assert older.is_superseded
        assert await held(there) == {key("a"): 1}


async def test_session_learns_what_was_written_between_its_read_and_its_first_commit() -> None:
    """It has sent nothing yet, so it can still begin from there."""
    store = Store()
    async with running(store) as here, running(store) as there:
        older = Session(here)
        await older.hears()
        await older.commit(a=1, b=1)
        newer = Session(there)
        await newer.hears()
        await older.commit(a=0, c=3)
        await newer.commit(d=4)
        assert newer.told[-1] == {key("b"): 1, key("c"): 3}
        assert newer.commits == 1
        assert await held(here) == {key("b"): 1, key("c"): 3, key("d"): 4}


async def test_conflict_is_merged_node_by_node() -> None:
    """Two GMs that write the same shard for different nodes lose nothing."""
    store = Store()
    nodes = [name for n in range(2000) if shard_of(name := f"edge{n}") == 0][:6]
    async with running(store) as here, running(store) as there:
        sessions = [Session((here, there)[i % 2], node) for i, node in enumerate(nodes)]
        for session in sessions:
            await session.hears()
        for round_ in range(1, 6):
            await asyncio.gather(
                *(session.commit(**{f"d{round_}": round_}) for session in sessions)
            )
        assert store.conflicts > 0
        for node in nodes:
            assert await held(here, node) == {key(f"d{n}"): n for n in range(1, 6)}


async def test_api_server_away_means_later_not_never(caplog: pytest.LogCaptureFixture) -> None:
    """One line when it begins, one when it is over."""
    caplog.set_level("INFO")
    store = Store()
    store.fails = 5
    async with running(store) as record:
        session = Session(record)
        await session.hears()
        store.fails = 5
        await session.commit(a=1)
        assert await held(record) == {key("a"): 1}
    messages = [record.getMessage() for record in caplog.records]
    assert (
        messages
        == [
            "the v1 record can not be kept; new objects wait for it",
            "the v1 record can be kept again",
        ]
        * 2
    )


async def test_commit_of_an_ended_session_is_settled_before_the_next_one_reads() -> None:
    """Written or never, but not behind the next one's back."""
    store = Store()
    async with running(store) as record:
        first = Session(record)
        await first.hears()
        await first.commit(a=1)
        store.gate.clear()
        first.claim.commit({key("a"): 0})
        first.claim.release()
        second = Session(record)
        await asyncio.sleep(0.01)
        store.gate.set()
        await second.hears()
        told = second.told[-1]
        await second.commit()
        assert await held(record) == told
        assert first.commits == 1
        assert not first.is_superseded


async def test_unreadable_content_is_said_and_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A shard somebody has edited by hand does not stop GM."""
    store = Store()
    store.shards[shard_of("edge1")] = b"nonsense", "v1"
    async with running(store) as record:
        assert await held(record) == {}
        session = Session(record)
        await session.hears()
        await session.commit(a=1)
        content, version = store.shards[shard_of("edge1")]
        at = content.index(b"x\x9c")
        store.shards[shard_of("edge1")] = content[:at] + b"??" + content[at + 2 :], version
    async with running(store) as record:
        assert await held(record) == {}
    assert "shard of the v1 record is unreadable" in caplog.text
    assert "entry of the v1 record is unreadable" in caplog.text


async def test_delete_made_while_gm_was_down_reaches_the_node_P0_008() -> None:
    """GM dies without a word; the next one knows what the node may hold."""
    store = Store()
    hub = open_hub(record=ShardedRecord(store))
    for name in ("stays", "goes", "comes back"):
        hub.put("edge1", desired(name.replace(" ", "-")))
    async with serving(hub) as server, Edge.connected(server.port, "edge1") as edge:
        await edge.wait_for(lambda: len(edge.held) == 3)
        holds = edge.held
    hub = open_hub(record=ShardedRecord(store))
    hub.put("edge1", desired("stays"))
    hub.put("edge1", desired("comes-back", uid="u2"))
    async with serving(hub) as server, Edge.connected(server.port, "edge1", held=holds) as edge:
        await edge.wait_for(
            lambda: (
                {f"{k} {held['metadata']['uid']}" for k, held in holds.items()}
                == {"dataset default/stays u1", "dataset default/comes-back u2"}
            )
        )
        assert edge.overwritten == []


async def test_shards_hold_ten_thousand_nodes_with_a_hundred_keys() -> None:
    """Each within a ConfigMap's mebibyte, with names that do not repeat."""
    store, chance = Store(), random.Random(3)
    async with running(store) as record:
        nodes = [name for n in range(20_000) if shard_of(name := f"edge-{n:05}") == 7][:200]
        assert len(nodes) == 200  # more than ten thousand nodes give this shard
        sessions = [Session(record, node) for node in nodes]
        for session in sessions:
            await session.hears()
            session.claim.commit(
                {
                    key(f"camera-{chance.getrandbits(48):012x}-{n}"): chance.getrandbits(32)
                    for n in range(100)
                }
            )
        for session in sessions:
            await session.hears()
    size = len(store.shards[7][0])
    assert size < 1024 * 1024 * 0.75
