"""The Local Controller as a whole, against a scripted GM over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gm.api.worker_names import worker_name
from gm.edge_stub.controller import LocalController
from gm.errors import ConfigError
from gm.messagelayer import v2
from gm.messagelayer.message import WireKey
from tests.edge_stub.conftest import StartEdge
from tests.fakes.gm import FakeGM, Session, dataset, job

D = WireKey("dataset", "default", "d")


async def until(condition: Any) -> None:
    """Return once ``condition()`` holds; for state that has no event to wait for."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def uid_of(edge: LocalController, key: WireKey) -> str | None:
    """Of the object that the edge holds."""
    held = edge.store.held.get(key)
    return None if held is None else held.uid


async def post(edge: LocalController, worker: str, **fields: Any) -> int:
    """A worker's report; gives the answer's status."""
    body = {
        "name": worker,
        "namespace": "default",
        "ownerName": "fl1",
        "ownerKind": "federatedlearningjob",
        "kind": "train",
        "status": "running",
        "results": None,
        "ownerInfo": None,
    }
    url = f"http://127.0.0.1:{edge.port}/sedna/workers/{worker}/info"
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, data=json.dumps({**body, **fields})) as answer,
    ):
        return answer.status


async def post_round(edge: LocalController, number: int, **fields: Any) -> None:
    """A report of round ``number``."""
    status = await post(edge, "trainworker-1", ownerInfo={"currentRound": number}, **fields)
    assert status == 200


def rounds(session: Session) -> list[int]:
    """The rounds that GM has heard of, without repetitions."""
    numbers = [content["output"]["ownerInfo"]["currentRound"] for _, content in session.reports()]
    return sorted(set(numbers))


async def test_hello_and_headers_are_those_of_the_go_lc(start_edge: StartEdge) -> None:
    """The first frame is a bare header, the node is named in a header of the handshake."""
    async with FakeGM() as gm, start_edge(gm.url):
        session = await gm.session()
        assert session.headers["Node-Name"] == "edge1"
        assert await session.wait_received(1) == [
            {"namespace": "", "resourceKind": "", "resourceName": "", "operation": ""}
        ]


async def test_inserts_are_kept_and_deletes_take_them_away(start_edge: StartEdge) -> None:
    """Insert is an upsert."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v1("insert", dataset("d"))
        await session.send_v1("insert", dataset("d", url="/data/other.csv"))
        await until(lambda: uid_of(edge, D) == "u1")
        content = await edge.store.content(D)
        assert content is not None
        await session.send_v1("delete", dataset("d"))
        await until(lambda: D not in edge.store.held)


async def test_frames_of_one_key_are_handled_in_their_order_P0_027(start_edge: StartEdge) -> None:
    """Insert, delete, insert of a new incarnation, back to back a thousand times."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        for number in range(1000):
            await session.send_v1("insert", dataset("d", uid=f"a{number}"))
            await session.send_v1("delete", dataset("d", uid=f"a{number}"))
            await session.send_v1("insert", dataset("d", uid=f"b{number}"))
            if number % 100 == 0:
                await until(lambda: uid_of(edge, D) == f"b{number}")  # noqa: B023
        await until(lambda: uid_of(edge, D) == "b999")
        await session.send_v1("insert", dataset("last"))
        await until(lambda: WireKey("dataset", "default", "last") in edge.store.held)
        assert uid_of(edge, D) == "b999"


async def test_late_delete_of_an_older_incarnation_is_ignored_P0_008(start_edge: StartEdge) -> None:
    """A delete that carries another uid than what is held does nothing."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v1("insert", dataset("d", uid="new"))
        await session.send_v1("delete", dataset("d", uid="old"))
        await session.send_v1("insert", dataset("other"))
        await until(lambda: len(edge.store.held) == 2)
        assert uid_of(edge, D) == "new"
        nameless = dataset("d")
        del nameless["metadata"]["uid"]
        await session.send_v1("delete", nameless)
        await until(lambda: D not in edge.store.held)


async def test_nonsense_from_gm_costs_nothing_but_itself(start_edge: StartEdge) -> None:
    """The session goes on and what follows is taken."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        stranger = dataset("d")
        stranger["metadata"]["name"] = "somebody-else"
        for frame in ("", "{", "[]", "null", '{"header":{}}', b"\xff\x00", "[" * 100_000):
            await session.connection.send(frame)
        await session.send_v1("update", dataset("d"))
        await session.send_v1("insert", dataset("d"))
        await until(lambda: uid_of(edge, D) == "u1")
        assert len(gm.sessions) == 1


async def test_samples_are_counted_and_reported_once_for_each_change_P0_025(
    start_edge: StartEdge, tmp_path: Path
) -> None:
    """Also when GM sends the Dataset again and again."""
    data = tmp_path / "root/data/d.csv"
    data.parent.mkdir(parents=True)
    data.write_text("a,b\n" + "1,2\n" * 100)
    async with FakeGM() as gm, start_edge(gm.url):
        session = await gm.session()
        for _ in range(20):
            await session.send_v1("insert", dataset("d"))
        assert await session.wait_reports(1) == [("dataset/d", {"numberOfSamples": 100})]
        with data.open("a") as file:
            file.write("1,2\n")
        await session.wait_reports(2)
        data.touch()  # the same samples
        with data.open("a") as file:
            file.write("3,4\n")
        await session.wait_reports(3)
        assert [content["numberOfSamples"] for _, content in session.reports()] == [100, 101, 102]


async def test_missing_dataset_file_is_said_once_and_counted_when_it_comes(
    start_edge: StartEdge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line says what to do."""
    async with FakeGM() as gm, start_edge(gm.url):
        session = await gm.session()
        await session.send_v1("insert", dataset("d"))
        await until(lambda: "samples can not be counted" in caplog.messages)
        await asyncio.sleep(0.2)  # several looks later
        assert caplog.messages.count("samples can not be counted") == 1
        (record,) = (r for r in caplog.records if r.message == "samples can not be counted")
        assert "put the file there or correct the url" in record.__dict__["cause"]
        data = tmp_path / "root/data/d.csv"
        data.parent.mkdir(parents=True)
        data.write_text("a\n1\n2\n")
        assert await session.wait_reports(1) == [("dataset/d", {"numberOfSamples": 2})]


async def test_reports_cut_off_in_flight_are_sent_again_P0_004(start_edge: StartEdge) -> None:
    """TCP is cut while GM has read some of ten reports; after the next connect it has all."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        first = await gm.session()
        await first.wait_received(1)
        for number in range(1, 5):
            await post_round(edge, number, name="trainworker-1")
            await first.wait_reports(number)
        first.pause()
        # Each from a worker of its own: only the newest of one worker's reports waits.
        for number in range(5, 11):
            body = {"name": f"w{number}", "ownerInfo": {"currentRound": number}}
            assert await post(edge, f"w{number}", **body) == 200
        first.abort()
        second = await gm.session()
        await second.wait_reports(6)
        heard = set(rounds(first)) | set(rounds(second))
        assert heard == set(range(1, 11))
        await second.round_trip()
        await until(lambda: not edge.outbox._in_flight)
        assert await edge.outbox.count() == 0


async def test_report_stays_on_disk_until_gm_has_read_it(start_edge: StartEdge) -> None:
    """A GM whose host has stalled has taken nothing: the pong is what counts."""
    async with FakeGM() as gm:
        async with start_edge(gm.url, shutdown_seconds=0.1) as edge:
            session = await gm.session()
            await session.wait_received(1)
            session.pause()
            await post_round(edge, 1)
            await until(lambda: edge.outbox._in_flight)
            assert await edge.outbox.count() == 1
        session.abort()
        async with start_edge(gm.url):
            session = await gm.session()
            await session.wait_reports(1)
            assert rounds(session) == [1]


async def test_restart_without_gm_keeps_objects_and_reports_P1_048(
    start_edge: StartEdge, tmp_path: Path
) -> None:
    """Objects are there again, samples are counted, reports of that time reach GM later."""
    gm = FakeGM()
    await gm.start()
    async with start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v1("insert", dataset("d"))
        await session.send_v1("insert", job("fl1"))
        await until(lambda: len(edge.store.held) == 2)
        await gm.crash()
        for number in range(1, 4):
            await post_round(edge, number)
    data = tmp_path / "root/data/d.csv"
    data.parent.mkdir(parents=True)
    data.write_text("a\n1\n")
    async with start_edge(gm.url) as edge:
        assert uid_of(edge, D) == "u1"
        await post_round(edge, 4)
        await gm.start()
        session = await gm.session()
        reports = dict(await session.wait_reports(2))
        assert reports["dataset/d"] == {"numberOfSamples": 1}
        assert reports["federatedlearningjob/fl1"]["output"]["ownerInfo"]["currentRound"] == 4
    await gm.stop()


@pytest.mark.parametrize("damage", ["intact", "truncated", "garbage", "missing"])
async def test_start_with_any_database_P1_035(
    start_edge: StartEdge, tmp_path: Path, damage: str
) -> None:
    """A database that can not be read is set aside; the next sync brings everything again."""
    database = tmp_path / "state/lc.db"
    async with FakeGM() as gm:
        async with start_edge(gm.url) as edge:
            session = await gm.session()
            for number in range(50):
                await session.send_v1("insert", dataset(f"d{number}", url="/" + "x" * 500))
            await until(lambda: len(edge.store.held) == 50)
        if damage == "truncated":
            database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])
        elif damage == "garbage":
            database.write_bytes(b"no database at all" * 1000)
        elif damage == "missing":
            database.unlink()
        async with start_edge(gm.url) as edge:
            assert len(edge.store.held) == (50 if damage == "intact" else 0)
            assert edge.store.was_lost == (damage != "intact")
            session = await gm.session()
            for number in range(50):
                await session.send_v1("insert", dataset(f"d{number}"))
            await until(lambda: len(edge.store.held) == 50)
        aside = [p.name for p in database.parent.glob("lc.db.bad-*")]
        assert len(aside) == (damage in ("truncated", "garbage"))


@pytest.mark.parametrize("damage", ["intact", "garbage", "missing"])
async def test_inventory_asks_for_what_was_lost_with_the_database_P1_035(
    start_edge: StartEdge, tmp_path: Path, damage: str
) -> None:
    """Over v2 an LC says what it has; the job that it then gets again goes on."""
    database = tmp_path / "state/lc.db"
    async with FakeGM(speaks_v2=True) as gm:
        async with start_edge(gm.url) as edge:
            session = await gm.session()
            await session.send_v2(v2.Welcome(max_frame_bytes=1_000_000, report_window=8))
            await session.put(job("fl1"), "x")
            await session.wait_received(2)
        if damage == "garbage":
            database.write_bytes(b"no database at all" * 1000)
        elif damage == "missing":
            database.unlink()
        async with start_edge(gm.url) as edge:
            session = await gm.session()
            (hello,) = await session.wait_received(1)
            kept = (v2.Holding("federatedlearningjob", "default", "fl1", "u1", "x"),)
            assert hello.inventory == (kept if damage == "intact" else ())
            await session.send_v2(v2.Welcome(max_frame_bytes=1_000_000, report_window=8))
            if damage != "intact":
                await session.put(job("fl1"), "x")
            await session.send_v2(v2.Synced())
            await until(lambda: edge.agent.status().in_step)
            await post_round(edge, 2)
            await until(lambda: isinstance(session.received[-1], v2.ReportFrame))
            assert session.received[-1].uid == "u1"


async def test_database_damaged_while_running_is_set_aside_and_filled_by_the_next_sync(
    start_edge: StartEdge,
) -> None:
    """The session ends, the next one starts from nothing."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        first = await gm.session()
        await first.send_v1("insert", dataset("d"))
        await until(lambda: D in edge.store.held)
        size = edge.store.path.stat().st_size

        def spoil(database: Any) -> None:
            database.execute("pragma wal_checkpoint(truncate)")

        await edge.store.run(spoil)
        with edge.store.path.open("r+b") as file:
            file.write(b"\xff" * max(size, 8192))
        await edge.store.run(lambda database: database.execute("pragma cache_size=0"))
        await first.send_v1("insert", dataset("e"))
        await first.send_v1("insert", dataset("f"))
        second = await gm.session()
        assert not edge.store.held
        await second.send_v1("insert", dataset("d"))
        await until(lambda: D in edge.store.held)


async def test_offline_flood_is_delivered_as_the_newest_of_each_object_P0_028(
    start_edge: StartEdge,
) -> None:
    """1,000 updates over 10 objects while GM is away: at most 10 messages, the newest."""
    gm = FakeGM()
    await gm.start()
    await gm.stop()
    async with start_edge(gm.url) as edge:
        for number in range(1, 101):
            for name in range(10):
                await edge.outbox.add(
                    WireKey("federatedlearningjob", "default", f"fl{name}"),
                    json.dumps(
                        {
                            "phase": "train",
                            "status": "running",
                            "output": {
                                "models": [{"metrics": {f"m{number % 3}": number}}],
                                "ownerInfo": {"currentRound": number},
                            },
                        }
                    ).encode(),
                    worker="w",
                )
        await gm.start()
        session = await gm.session()
        await session.wait_reports(10)
        await session.round_trip()
        assert len(session.reports()) == 10
        for _, content in session.reports():
            assert content["output"]["ownerInfo"]["currentRound"] == 100
            # What older ones said about other metrics is not lost.
            assert content["output"]["models"][0]["metrics"] == {"m0": 99, "m1": 100, "m2": 98}
    await gm.stop()


async def test_stages_of_incremental_learning_are_all_kept_in_order(start_edge: StartEdge) -> None:
    """They are history: none of them may swallow another."""
    gm = FakeGM()
    await gm.start()
    await gm.stop()
    async with start_edge(gm.url) as edge:
        for number in range(20):
            await post(
                edge,
                "w",
                ownerKind="incrementallearningjob",
                ownerName="il",
                status=f"s{number}",
            )
        await gm.start()
        session = await gm.session()
        reports = await session.wait_reports(20)
        assert [content["status"] for _, content in reports] == [f"s{n}" for n in range(20)]
    await gm.stop()


async def test_owner_kind_default_is_resolved_by_the_workers_name(start_edge: StartEdge) -> None:
    """Also when the job comes only after its worker's first report."""
    worker = worker_name("u-job", "train", 1)
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        assert await post(edge, worker, ownerKind="default", ownerName="whoever") == 200
        assert await post(edge, "trainworker-zzzzz", ownerKind="default", ownerName="fl2") == 200
        await session.send_v1("insert", job("fl1", uid="u-job"))
        assert [key for key, _ in await session.wait_reports(1)] == ["federatedlearningjob/fl1"]
        await session.send_v1("insert", job("fl2", uid="u-other"))
        await session.wait_reports(2)
        assert await post(edge, worker, ownerKind="default", status="completed") == 200
        reports = await session.wait_reports(3)
        assert [key for key, _ in reports] == [
            "federatedlearningjob/fl1",
            "federatedlearningjob/fl2",
            "federatedlearningjob/fl1",
        ]


async def test_port_in_use_is_a_clear_error(start_edge: StartEdge) -> None:
    """Address and remedy, no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ExceptionGroup) as caught:
            async with start_edge("ws://127.0.0.1:1/", listen=f"127.0.0.1:{port}"):
                pass
        (error,) = flatten(caught.value)
        assert isinstance(error, ConfigError)
        assert str(error).startswith(f"--listen 127.0.0.1:{port}: in use; stop the other")


def flatten(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    """The exceptions that are no groups."""
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += flatten(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


async def test_state_directory_in_use_is_a_clear_error(start_edge: StartEdge) -> None:
    """Two LCs on one directory would fight over it."""
    async with start_edge("ws://127.0.0.1:1/"):
        with pytest.raises(ExceptionGroup) as caught:
            async with start_edge("ws://127.0.0.1:1/"):
                pass
    (error,) = flatten(caught.value)
    assert isinstance(error, ConfigError)
    assert "another process uses this state directory" in str(error)


async def test_lc_answers_workers_and_probes_while_gm_can_not_be_reached_P1_047(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """DNS fails: a line for each attempt, with its cause; never an exit."""
    async with start_edge("ws://gm.invalid:9000/") as edge:
        await until(lambda: caplog.messages.count("not connected to gm") >= 3)
        causes = {r.__dict__["cause"] for r in caplog.records if r.message == "not connected to gm"}
        assert all("name of gm can not be resolved" in cause for cause in causes)
        await post_round(edge, 1)
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{edge.port}/healthz") as answer,
        ):
            assert answer.status == 200


async def test_gm_that_comes_late_is_found_P1_047(start_edge: StartEdge) -> None:
    """After refused connections it connects and syncs as if nothing had been."""
    gm = FakeGM()
    await gm.start()
    await gm.stop()
    async with start_edge(gm.url) as edge:
        await asyncio.sleep(0.1)
        await gm.start()
        session = await gm.session()
        await session.send_v1("insert", dataset("d"))
        await until(lambda: D in edge.store.held)
    await gm.stop()


async def test_reports_reach_gm_before_the_lc_stops(start_edge: StartEdge) -> None:
    """A last report of a pod that is stopped with its node is not left lying."""
    async with FakeGM() as gm:
        async with start_edge(gm.url, shutdown_seconds=10) as edge:
            session = await gm.session()
            await session.wait_received(1)
            await post_round(edge, 1)
        assert rounds(session) == [1]
