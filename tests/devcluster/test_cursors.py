"""Readers of the store's logs."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gm.api.meta import Json, ObjectKey
from gm.devcluster.cursors import Cursor, Feed
from gm.devcluster.store import Store


def _key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def _obj(name: str) -> Json:
    return {"kind": "X", "metadata": {"name": name, "uid": f"u-{name}"}}


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.integers(1, 4))
def test_a_cursor_gives_every_change_once_and_in_order(done: list[str], limit: int) -> None:
    """However small the portions are."""
    table = Store(first=0).table("xs")
    cursor = Cursor(table, 0)
    for name in done:
        if table.get(_key(name)) is None:
            table.put(_key(name), _obj(name))
        else:
            table.remove(_key(name))
    taken: list[int] = []
    while portion := cursor.take(limit):
        assert len(portion) <= limit
        taken += [change.revision for change in portion]
    assert taken == [change.revision for change in table.changes(0)]


async def test_a_cursor_sleeps_until_its_kind_changes() -> None:
    """Other kinds do not wake it; leaving the block ends its interest."""
    store = Store(first=0)
    table, other = store.table("xs"), store.table("ys")
    with Cursor(table, 0) as cursor:
        assert cursor.take() == []
        other.put(_key("o"), _obj("o"))
        waiting = asyncio.ensure_future(cursor.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        table.put(_key("a"), _obj("a"))
        await waiting
        assert [c.record.key.name for c in cursor.take()] == ["a"]
        cursor.wake()
        await cursor.wait()
    table.put(_key("b"), _obj("b"))
    assert [c.record.key.name for c in cursor.take()] == ["b"]


async def test_a_feed_begins_with_all_objects_and_follows_new_kinds() -> None:
    """Without names, kinds that appear later are part of it."""
    store = Store(first=0)
    store.table("xs").put(_key("a"), _obj("a"))
    with Feed(store) as feed:
        assert [(c.type, c.table, c.record.key.name) for c in await feed.next()] == [
            ("ADDED", "xs", "a")
        ]
        store.table("ys").put(_key("b"), _obj("b"))
        store.table("xs").remove(_key("a"))
        assert [(c.type, c.table) for c in await feed.next()] == [
            ("ADDED", "ys"),
            ("DELETED", "xs"),
        ]
        assert await feed.next(0.001) == []


async def test_a_feed_with_names_ignores_other_kinds() -> None:
    """It wakes, finds nothing and sleeps on."""
    store = Store(first=0)
    with Feed(store, "xs") as feed:
        store.table("ys").put(_key("b"), _obj("b"))
        assert await feed.next(0.001) == []
        store.table("xs").put(_key("a"), _obj("a"))
        assert [c.table for c in await feed.next()] == ["xs"]


def test_a_feed_that_fell_behind_starts_again_with_what_exists() -> None:
    """What was deleted meanwhile is for the reader to find out."""
    store = Store(window=2, first=0)
    table = store.table("xs")
    feed = Feed(store, "xs")
    assert feed.take() == []
    for n in range(20):
        table.put(_key(f"n{n}"), _obj(f"n{n}"))
    table.remove(_key("n0"))
    changes = feed.take()
    assert {c.type for c in changes} == {"ADDED"}
    assert len(changes) == 19
    assert feed.take() == []
