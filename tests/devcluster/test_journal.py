"""The journal: nothing is settled before it is on disk, and what waits shares a commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from gm.api.meta import Json, ObjectKey
from gm.devcluster.journal import journaling
from gm.devcluster.statefile import Row, StateFile, StateFileError
from gm.devcluster.store import Store


class SlowFile(StateFile):
    """Counts commits; each waits for ``gate``."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gate, self.begun = threading.Event(), threading.Event()
        self.commits: list[list[Row]] = []
        self.fails = False

    def write(self, rows: Iterable[Row], revision: int) -> None:
        """Wait, then write or fail."""
        rows = list(rows)
        self.begun.set()
        self.gate.wait()
        if self.fails:
            raise StateFileError("the disk is full")
        self.commits.append(rows)
        super().write(rows, revision)


def _obj(name: str, value: int) -> Json:
    return {"kind": "X", "metadata": {"name": name}, "spec": {"n": value}}


def _key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


async def test_without_changes_nothing_waits(tmp_path: Path) -> None:
    """A server at rest answers at once."""
    async with journaling(StateFile(tmp_path)) as journal:
        await journal.settled()


async def test_nothing_is_settled_before_it_is_on_disk(tmp_path: Path) -> None:
    """Not while it waits for its commit, and not during the commit."""
    file = SlowFile(tmp_path)
    async with journaling(file) as journal:
        store = Store(first=0, journal=journal)
        table = store.table("xs")
        table.put(_key("a"), _obj("a", 1))
        first = asyncio.ensure_future(store.settled())
        await asyncio.to_thread(file.begun.wait)  # the commit of a has begun
        table.put(_key("b"), _obj("b", 1))
        second = asyncio.ensure_future(store.settled())
        done, _ = await asyncio.wait([first, second], timeout=0.05)
        assert not done
        assert file.commits == []
        file.gate.set()
        await first
        assert len(file.commits) >= 1
        await second
        assert [[row.key.name for row in rows] for rows in file.commits] == [["a"], ["b"]]
        await store.settled()


async def test_what_comes_during_a_commit_shares_the_next(tmp_path: Path) -> None:
    """However many there are; of several versions of an object the last is written."""
    file = SlowFile(tmp_path)
    async with journaling(file) as journal:
        store = Store(first=0, journal=journal)
        table = store.table("xs")
        table.put(_key("first"), _obj("first", 0))
        await asyncio.to_thread(file.begun.wait)
        for n in range(50):
            table.put(_key("a"), _obj("a", n))
            table.put(_key(f"gone{n}"), _obj("gone", n))
            table.remove(_key(f"gone{n}"))
        file.gate.set()
        await store.settled()
        assert len(file.commits) == 2
        assert len(file.commits[1]) == 51
    saved = StateFile(tmp_path)
    revision, objects = saved.load()
    saved.close()
    assert revision == store.revision
    assert [(o.key.name, o.object["spec"]["n"]) for o in objects] == [("a", 49), ("first", 0)]


async def test_the_end_waits_for_what_nobody_waited_for(tmp_path: Path) -> None:
    """What the controllers wrote last is there, too."""
    async with journaling(StateFile(tmp_path)) as journal:
        Store(first=0, journal=journal).table("xs").put(_key("a"), _obj("a", 1))
    file = StateFile(tmp_path)
    assert [o.key for o in file.load().objects] == [_key("a")]
    file.close()


async def test_whoever_gives_up_waiting_disturbs_nobody(tmp_path: Path) -> None:
    """A client that goes away takes no other's answer along."""
    file = SlowFile(tmp_path)
    async with journaling(file) as journal:
        store = Store(first=0, journal=journal)
        store.table("xs").put(_key("a"), _obj("a", 1))
        gone, stays = (asyncio.ensure_future(store.settled()) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        file.gate.set()
        await stays
        assert gone.cancelled()


async def test_a_disk_that_fails_ends_everything_and_nothing_is_settled(tmp_path: Path) -> None:
    """Nobody is told that something is kept which is not."""
    file = SlowFile(tmp_path)
    file.fails = True
    settled = []

    async def life() -> None:
        async with journaling(file) as journal:
            store = Store(first=0, journal=journal)
            store.table("xs").put(_key("a"), _obj("a", 1))
            file.gate.set()
            await store.settled()
            settled.append(True)

    with pytest.raises(ExceptionGroup) as caught:
        await life()
    assert caught.group_contains(StateFileError, match="the disk is full")
    assert settled == []
