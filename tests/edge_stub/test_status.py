"""``gm edge status``: of an LC that runs, of one that was killed, of none."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gm.edge_stub import status as status_module
from gm.edge_stub.controller import LocalController
from gm.edge_stub.status import (
    EdgeStatus,
    LinkStatus,
    ObjectStatus,
    ReportStatus,
    as_json,
    read_status,
    render,
)
from gm.edge_stub.store import Store, StoreError, peek
from gm.messagelayer import v2
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import post_round, until
from tests.edge_stub.test_main import NOWHERE, process
from tests.fakes.gm import FakeGM, dataset, job
from tests.messagelayer.support import desired, open_hub, serving

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
FL = ObjectStatus(kind="federatedlearningjob", namespace="default", name="fl1", uid="u1")


async def ask(edge: LocalController) -> EdgeStatus:
    """What another process would be told."""
    return await asyncio.to_thread(read_status, edge.settings.state)


async def test_running_lc_tells_link_objects_and_outbox_P1_049(start_edge: StartEdge) -> None:
    """As it is at this moment; nothing of what objects and reports contain."""
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        before = await ask(edge)
        assert before.link is not None
        assert (before.link.connected, before.link.in_step) == (True, False)
        await session.put(job("fl1"), "x")
        await session.send_v2(v2.Welcome(1_000_000, 8))
        await session.send_v2(v2.Synced())
        await until(lambda: edge.agent.status().in_step)
        await post_round(edge, 1)
        told = await ask(edge)
        assert (told.running, told.node, told.pid) == (True, "edge1", os.getpid())
        assert told.worker_api == f"127.0.0.1:{edge.port}"
        assert told.objects == (FL,)
        (report,) = told.outbox
        assert (report.name, report.worker) == ("fl1", "trainworker-1")
        assert report.bytes > 0
        assert told.link is not None
        assert (told.link.gm, told.link.connected, told.link.protocol) == (gm.url, True, "v2")
        assert told.link.in_step is True
        assert told.link.since is not None
        socket_path = edge.settings.state / status_module.SOCKET_NAME
        assert stat.S_IMODE(socket_path.stat().st_mode) == 0o600
    assert not socket_path.exists()


async def test_lc_without_gm_tells_why_and_when_it_tries_again(start_edge: StartEdge) -> None:
    """And that nobody is in step with anybody."""
    async with start_edge("ws://127.0.0.1:1/") as edge:
        await until(lambda: edge.agent.status().cause)
        link = (await ask(edge)).link
        assert link is not None
        assert (link.connected, link.cause, link.in_step) == (False, "Connection refused", None)
        assert link.retry_at is not None


async def test_v1_link_says_so_and_a_cut_one_begins_anew(start_edge: StartEdge) -> None:
    """Over v1 nobody can tell whether all has come."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await until(lambda: edge.agent.is_connected)
        link = (await ask(edge)).link
        assert link is not None
        assert (link.protocol, link.in_step, link.cause) == ("v1", None, "")
        session.abort()
        await gm.session()
        await until(lambda: edge.agent.is_connected)
        link = (await ask(edge)).link
        assert link is not None
        assert (link.cause, link.retry_at) == ("", None)


async def test_with_the_real_hub_it_gets_in_step(start_edge: StartEdge) -> None:
    """Which the hub says once, at the end of the first difference."""
    hub = open_hub()
    hub.put("edge1", desired("d"))
    async with serving(hub) as server, start_edge(f"ws://127.0.0.1:{server.port}/") as edge:
        await until(lambda: edge.agent.status().in_step)
        assert [o.name for o in (await ask(edge)).objects] == ["d"]


async def test_lc_that_was_killed_is_read_from_its_disk(tmp_path: Path) -> None:
    """Its socket is there still, and says nothing about it."""
    async with FakeGM() as gm, process(tmp_path, gm.url) as running:
        session = await gm.session()
        await session.send_v1("insert", dataset("d"))
        await session.round_trip()

        def held() -> int:
            return len(read_status(tmp_path).objects)

        while not await asyncio.to_thread(held):
            await asyncio.sleep(0.01)
        os.kill(running.pid, signal.SIGKILL)
        await running.wait()
    assert (tmp_path / status_module.SOCKET_NAME).exists()
    told = read_status(tmp_path)
    assert (told.running, told.link, told.node) == (False, None, None)
    assert [(o.kind, o.name) for o in told.objects] == [("dataset", "d")]
    async with process(tmp_path, NOWHERE):
        again = await asyncio.to_thread(read_status, tmp_path)
        assert again.running
        assert again.objects == told.objects


async def test_reports_that_wait_survive_and_are_told(start_edge: StartEdge) -> None:
    """Also those of which it is not known yet whose they are."""
    async with start_edge("ws://127.0.0.1:1/") as edge:
        await post_round(edge, 1)
        await post_round(edge, 2, ownerKind="default", ownerName="later")
        told = await ask(edge)
    after = read_status(edge.settings.state)
    assert told.outbox == after.outbox
    assert [(r.kind, r.name) for r in after.outbox] == [
        ("federatedlearningjob", "fl1"),
        ("default", "later"),
    ]


def test_directory_of_nobody_is_an_error_and_stays_as_it_is(tmp_path: Path) -> None:
    """Looking makes nothing."""
    with pytest.raises(StoreError, match="no local controller has kept anything there"):
        read_status(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="no local controller"):
        read_status(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"no database" * 1000, b""])
def test_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    """It is the LC that sets it aside, not a look at it."""
    path = tmp_path / "lc.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"lc\.db: (file is not a database|schema version 0)"):
        read_status(tmp_path)
    assert path.read_bytes() == content


async def test_lc_that_runs_but_does_not_answer_is_not_called_dead(tmp_path: Path) -> None:
    """Its database is locked: somebody lives there."""
    store = Store(tmp_path)
    await store.open()
    try:
        with pytest.raises(StoreError, match="runs, but it does not answer; look at its log"):
            await asyncio.to_thread(read_status, tmp_path)
    finally:
        await store.close()


async def test_looking_does_not_keep_an_lc_from_starting(tmp_path: Path) -> None:
    """The look takes moments, and the start waits that long."""
    store = Store(tmp_path)
    await store.open()
    await store.close()
    looking, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def look() -> int:
        def work(database: object) -> int:
            loop.call_soon_threadsafe(looking.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(20)
            return 1

        return peek(tmp_path, work)

    async with asyncio.TaskGroup() as group:
        looker = group.create_task(asyncio.to_thread(look))
        await looking.wait()
        group.create_task(store_opens(tmp_path))
        go_on.set()
    assert looker.result() == 1


async def store_opens(directory: Path) -> None:
    """Open and close the store, as an LC does."""
    store = Store(directory)
    await store.open()
    await store.close()


async def test_state_directory_may_lie_deep(start_edge: StartEdge, tmp_path: Path) -> None:
    """Deeper than a socket's address is long."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    async with start_edge("ws://127.0.0.1:1/", state=deep) as edge:
        assert (await ask(edge)).running


async def test_without_proc_the_plain_path_is_used(
    start_edge: StartEdge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is too long there is no socket, and the LC works all the same."""
    monkeypatch.setattr(status_module, "_PROC_DESCRIPTORS", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    async with start_edge("ws://127.0.0.1:1/", state=Path("state")) as edge:
        assert (await ask(edge)).running
    async with start_edge("ws://127.0.0.1:1/", state=tmp_path / ("d" * 120)) as edge:
        await post_round(edge, 1)
        with pytest.raises(StoreError, match="does not answer"):
            await ask(edge)


async def test_one_who_hangs_up_is_in_nobody_s_way(start_edge: StartEdge) -> None:
    """The next one is answered."""
    async with start_edge("ws://127.0.0.1:1/") as edge:
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as rude:
                rude.connect(str(edge.settings.state / status_module.SOCKET_NAME))
        assert (await ask(edge)).running


async def test_store_that_fails_gives_no_status(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """Rather than a wrong one; the LC goes on."""
    async with start_edge("ws://127.0.0.1:1/") as edge:

        async def broken(work: object) -> object:
            raise StoreError("the disk is full")

        working, edge.store.run = edge.store.run, broken  # type: ignore[method-assign,assignment]
        with pytest.raises(StoreError, match="does not answer"):
            await ask(edge)
        assert "status can not be told" in caplog.text
        edge.store.run = working  # type: ignore[method-assign]
        assert (await ask(edge)).running


def test_socket_of_another_user_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without saying that the LC is dead."""

    class Refusing(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(StoreError, match="run this as the local controller's user"):
        read_status(tmp_path)


def shown(**fields: object) -> list[str]:
    """Lines for people."""
    known: dict[str, object] = {"running": False, "objects": (), "outbox": ()}
    return render(EdgeStatus(**{**known, **fields}), NOW).splitlines()  # type: ignore[arg-type]


def link(**fields: object) -> str:
    """The line about a link."""
    known: dict[str, object] = {"gm": "ws://gm:9000", "connected": True, "protocol": "v2"}
    lines = shown(running=True, link=LinkStatus(**{**known, **fields}))  # type: ignore[arg-type]
    return next(line for line in lines if line.startswith("link")).partition(":")[2].strip()


def test_people_see_all_of_it_at_a_glance() -> None:
    """Objects and reports in columns."""
    data = ObjectStatus(kind="dataset", namespace="default", name="digits", uid="u2")
    report = ReportStatus(
        kind="federatedlearningjob", namespace="default", name="fl1", worker="w-1", bytes=312
    )
    count = ReportStatus(kind="dataset", namespace="default", name="digits", worker="", bytes=9)
    assert shown(
        running=True,
        node="edge1",
        pid=7,
        worker_api="127.0.0.1:9100",
        objects=(data, FL),
        outbox=(report, count),
    ) == [
        "node:              edge1",
        "local controller:  running (pid 7)",
        "worker API:        127.0.0.1:9100",
        "objects:           2",
        "  dataset               default/digits",
        "  federatedlearningjob  default/fl1",
        "outbox:            2 reports wait for GM",
        "  federatedlearningjob  default/fl1     w-1  312 bytes",
        "  dataset               default/digits  -    9 bytes",
    ]
    assert shown() == [
        "local controller:  not running; what follows is what lies on its disk",
        "objects:           none",
        "outbox:            no reports wait for GM",
    ]
    assert "outbox:            1 report waits for GM" in shown(outbox=(report,))


def test_link_is_told_in_a_sentence() -> None:
    """With ages as kubectl writes them."""
    since = NOW - timedelta(seconds=90)
    assert link(since=since, in_step=True) == "connected to ws://gm:9000 for 90s, v2, in step"
    since = NOW - timedelta(minutes=5)
    assert link(since=since, in_step=False).endswith("for 5m, v2, catching up")
    since = NOW - timedelta(hours=5)
    assert link(since=since, protocol="v1") == "connected to ws://gm:9000 for 5h, v1"
    assert link(since=NOW - timedelta(days=5)).endswith("for 5d, v2")
    away = {"connected": False, "since": NOW - timedelta(seconds=30)}
    assert link(**away) == "not connected to ws://gm:9000 for 30s"
    assert (
        link(**away, cause="Connection refused", retry_at=NOW + timedelta(seconds=12))
        == "not connected to ws://gm:9000 for 30s: Connection refused; next attempt in 12s"
    )
    assert link(connected=False, retry_at=NOW - timedelta(seconds=1)).endswith("in 0s")
    assert link().startswith("connected to ws://gm:9000 for 0s")


def test_programs_get_json() -> None:
    """What is not known is null or absent, never a guess."""
    told = json.loads(as_json(EdgeStatus(running=False, objects=(FL,), outbox=())))
    assert told == {
        "running": False,
        "objects": [
            {"kind": "federatedlearningjob", "namespace": "default", "name": "fl1", "uid": "u1"}
        ],
        "outbox": [],
        "node": None,
        "pid": None,
        "workerApi": None,
        "link": None,
    }
