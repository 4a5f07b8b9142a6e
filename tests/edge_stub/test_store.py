"""The database of held objects: all or nothing, in order, and never the end of the LC."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.edge_stub.objects import Held
from gm.edge_stub.store import Put, Remove, Store, StoreError
from gm.errors import ConfigError
from gm.messagelayer.message import WireKey

D = WireKey("dataset", "default", "d")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An open store."""
    opened = Store(tmp_path / "state")
    await opened.open()
    yield opened
    await opened.close()


def put(uid: str = "u1", digest: str = "x", key: WireKey = D, content: bytes = b"{}") -> Put:
    """A version of an object."""
    return Put(Held(key, uid, digest), content)


async def reopened(store: Store) -> dict[WireKey, Held]:
    """What another process would find on disk."""
    await store.close()
    again = Store(store.path.parent)
    await again.open()
    held = dict(again.held)
    await again.close()
    store.__init__(store.path.parent)  # type: ignore[misc]
    await store.open()
    return held


async def test_changes_are_durable_when_apply_returns(store: Store) -> None:
    """What is held is what is on disk."""
    await store.apply([put(), put(key=WireKey("model", "default", "m")), Remove(D, "u1")])
    assert await reopened(store) == dict(store.held)
    assert list(store.held) == [WireKey("model", "default", "m")]


async def test_apply_tells_which_changes_had_an_effect(store: Store) -> None:
    """A version that is held already, or the removal of what is not, have none."""
    assert await store.apply([put(), put(), Remove(D, "other"), put(digest="y")]) == [
        put(),
        put(digest="y"),
    ]
    assert await store.apply([Remove(WireKey("model", "default", "m"))]) == []
    assert await store.content(D) == b"{}"
    assert await store.content(WireKey("model", "default", "m")) is None


async def test_batch_that_the_disk_refuses_leaves_nothing_behind(store: Store) -> None:
    """All or none, in memory as on disk."""
    await store.apply([put()])
    await store.run(lambda database: database.execute("pragma query_only=on"))
    with pytest.raises(StoreError, match="readonly"):
        await store.apply([put(digest="y"), Remove(D)])
    await store.run(lambda database: database.execute("pragma query_only=off"))
    assert store.held[D].digest == "x"
    assert await reopened(store) == {D: Held(D, "u1", "x")}


KEYS = [WireKey("dataset", "default", name) for name in "ab"]
CHANGES = st.lists(
    st.one_of(
        st.builds(put, st.sampled_from("12"), st.sampled_from("xy"), st.sampled_from(KEYS)),
        st.builds(Remove, st.sampled_from(KEYS), st.sampled_from(["", "1", "2"])),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(st.lists(CHANGES, max_size=4))
async def test_any_batches_give_what_a_dict_would_give(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Put | Remove]]
) -> None:
    """Memory, disk and model agree after any changes."""
    store = Store(tmp_path_factory.mktemp("state"))
    await store.open()
    model: dict[WireKey, Held] = {}
    for batch in batches:
        await store.apply(batch)
        for change in batch:
            if isinstance(change, Put):
                model[change.held.key] = change.held
            elif change.key in model and change.uid in ("", model[change.key].uid):
                del model[change.key]
    assert dict(store.held) == model
    assert await reopened(store) == model
    await store.close()


async def test_database_of_another_schema_is_set_aside(tmp_path: Path) -> None:
    """A newer program's file is kept for it, and not guessed at."""
    path = tmp_path / "lc.db"
    with sqlite3.connect(path) as database:
        database.execute("pragma user_version=99")
    database.close()
    store = Store(tmp_path)
    await store.open()
    assert store.was_lost
    await store.close()
    assert len(list(tmp_path.glob("lc.db.bad-*"))) == 1


async def test_database_is_for_its_owner_only(store: Store) -> None:
    """Objects may carry credentials."""
    assert modes(store) == {"lc.db": 0o600, "lc.db-wal": 0o600}
    await store.close()
    store.path.chmod(0o644)  # by a hand, or an older version
    wal = store.path.with_name("lc.db-wal")
    wal.touch(mode=0o644)
    store.__init__(store.path.parent)  # type: ignore[misc]
    await store.open()
    assert modes(store) == {"lc.db": 0o600, "lc.db-wal": 0o600}


def modes(store: Store) -> dict[str, int]:
    """Permissions of the store's files."""
    return {path.name: path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()}


async def test_directory_that_can_not_be_used_is_a_clear_error(tmp_path: Path) -> None:
    """Not a broken database: nothing is set aside."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"--state {tmp_path}/file/state: "):
        await Store(tmp_path / "file/state").open()
    (tmp_path / "state/lc.db").mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"--state {tmp_path}/state: "):
        await Store(tmp_path / "state").open()
