"""Which job a worker reports for, when jobs of one name follow each other."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gm.api.worker_names import AGGREGATION, TRAIN, worker_name
from gm.edge_stub import workers
from gm.edge_stub.objects import Held
from gm.edge_stub.store import Put, Remove, Store
from gm.messagelayer.message import WireKey
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import post, uid_of, until
from tests.fakes.gm import FakeGM, job

JOB = WireKey("federatedlearningjob", "default", "fl1")
OLD, NEW = worker_name("u1", TRAIN, 0), worker_name("u2", TRAIN, 0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An open store."""
    opened = Store(tmp_path)
    await opened.open()
    yield opened
    await opened.close()


async def hold(store: Store, uid: str) -> None:
    """Hold the job in this incarnation."""
    await store.apply([Put(Held(JOB, uid, uid), b"{}")])


async def admitted(store: Store, worker: str, named_by: str = "") -> bool:
    """Whether a report is taken."""
    return await store.run(lambda database: workers.admit(database, JOB, worker, named_by=named_by))


async def known(store: Store) -> list[Any]:
    """The workers that are remembered."""
    rows = await store.run(
        lambda database: database.execute("select worker from workers order by worker").fetchall()
    )
    return [name for (name,) in rows]


async def test_a_worker_belongs_to_the_job_under_which_it_came_up(store: Store) -> None:
    """Also if its name says nothing; one of no known job is taken for whatever comes."""
    assert await admitted(store, "early")
    await hold(store, "u1")
    assert await admitted(store, "random")
    await hold(store, "u2")
    assert not await admitted(store, "random")
    assert await admitted(store, "other")
    await store.apply([Remove(JOB)])
    assert await admitted(store, "random")
    await hold(store, "u1")
    assert await admitted(store, "random")
    assert not await admitted(store, "other")


async def test_the_job_that_gave_the_name_counts_more_than_what_is_remembered(
    store: Store,
) -> None:
    """Names of two jobs may be equal by chance."""
    await hold(store, "u1")
    assert await admitted(store, OLD, named_by="u1")
    await hold(store, "u2")
    assert not await admitted(store, OLD, named_by="u1")
    assert await admitted(store, OLD, named_by="u2")


async def test_an_object_without_uid_takes_all_reports(store: Store) -> None:
    """Nothing can be told apart then."""
    await hold(store, "")
    assert await admitted(store, "w")
    assert await known(store) == []


async def test_memory_of_workers_is_bounded_and_ends_when_they_are_silent(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest silent goes first; a month without a report, and nobody comes back."""
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(workers, "MAX_WORKERS", 3)
    await hold(store, "u1")
    for name in "abcd":
        now += 10
        await admitted(store, name)
    assert await known(store) == ["b", "c", "d"]
    now += 4000
    await admitted(store, "b")
    await admitted(store, "e")
    assert await known(store) == ["b", "d", "e"]
    now += 31 * 24 * 3600
    await admitted(store, "f")
    assert await known(store) == ["f"]


async def test_orphans_of_a_deleted_job_do_not_report_for_its_successor(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """They are told 200, since they would go on for ever otherwise, and one warning is written."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v1("insert", job("fl1"))
        await until(lambda: uid_of(edge, JOB) == "u1")
        for worker in (OLD, "adopted"):
            assert await post(edge, worker, ownerInfo={"of": worker}) == 200
        await session.wait_reports(2)
        await session.send_v1("delete", job("fl1"))
        await session.send_v1("insert", job("fl1", uid="u2"))
        await until(lambda: uid_of(edge, JOB) == "u2")
        # The last has never reported while its job was there.
        silent = worker_name("u1", AGGREGATION)
        for _ in range(3):
            for worker in (OLD, "adopted", silent):
                assert await post(edge, worker, ownerInfo={"of": worker}) == 200
            assert await post(edge, OLD, ownerKind="default", ownerInfo={"of": OLD}) == 200
        assert await post(edge, NEW, ownerInfo={"of": NEW}) == 200
        assert await post(edge, "fresh", ownerInfo={"of": "fresh"}) == 200
        reports = await session.wait_reports(4)
        assert [r[1]["output"]["ownerInfo"]["of"] for r in reports] == [
            OLD,
            "adopted",
            NEW,
            "fresh",
        ]
    warned = [r.__dict__["worker"] for r in caplog.records if "earlier job" in r.message]
    assert sorted(warned) == sorted([OLD, "adopted", silent])


async def test_orphans_are_known_after_restarts_and_edits_that_were_missed(
    start_edge: StartEdge,
) -> None:
    """The LC was away when the job was replaced; one that has never reported is known, too."""
    async with FakeGM() as gm:
        async with start_edge(gm.url) as edge:
            session = await gm.session()
            await session.send_v1("insert", job("fl1"))
            await until(lambda: uid_of(edge, JOB) == "u1")
            assert await post(edge, "adopted") == 200
        async with start_edge(gm.url) as edge:
            session = await gm.session()
            await session.send_v1("insert", job("fl1", uid="u2"))
            await until(lambda: uid_of(edge, JOB) == "u2")
        async with start_edge(gm.url) as edge:
            session = await gm.session()
            for worker in ("adopted", OLD, NEW):
                assert await post(edge, worker, ownerInfo={"of": worker}) == 200
            reports = await session.wait_reports(1)
            assert {r[1]["output"]["ownerInfo"]["of"] for r in reports} == {NEW}


async def test_what_orphans_report_between_two_jobs_does_not_wait_for_the_second(
    start_edge: StartEdge,
) -> None:
    """GM is away, so that everything waits; of unknown kind and of known."""
    gm = FakeGM()
    await gm.start()
    async with start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v1("insert", job("fl1"))
        await until(lambda: uid_of(edge, JOB) == "u1")
        assert await post(edge, OLD) == 200
        await session.wait_reports(1)
        await session.send_v1("delete", job("fl1"))
        await until(lambda: not edge.store.held)
        await gm.crash()
        await until(lambda: not edge.agent.is_connected)
        assert await post(edge, OLD) == 200
        assert await post(edge, OLD, ownerKind="default") == 200
        assert await edge.outbox.count() == 1
        content = json.dumps(job("fl1", uid="u2")).encode()
        await edge._take_changes(await edge.store.apply([Put(Held(JOB, "u2"), content)]))
        assert await edge.outbox.count() == 0
        (left,) = await edge.store.run(
            lambda database: database.execute("select count(*) from outbox").fetchone()
        )
        assert left == 0
    await gm.stop()


async def test_databases_of_before_get_the_table_and_keep_what_they_hold(tmp_path: Path) -> None:
    """An upgrade loses nothing."""
    for is_old in (True, False):
        store = Store(tmp_path)
        await store.open()
        if is_old:
            await hold(store, "u1")
            await store.run(lambda database: database.execute("drop table workers"))
        else:
            assert list(store.held) == [JOB]
            assert await admitted(store, "w")
            assert await known(store) == ["w"]
        await store.close()
