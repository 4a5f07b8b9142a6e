"""Wire v2 as the agent speaks it, against a scripted GM."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from gm.messagelayer import v2
from gm.messagelayer.message import WireKey
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import post, post_round, uid_of, until
from tests.fakes.gm import FakeGM, Session, dataset, job

D = WireKey("dataset", "default", "d")
WELCOME = v2.Welcome(max_frame_bytes=1_000_000, report_window=2)


def reports(session: Session) -> list[v2.ReportFrame]:
    """The reports among what came."""
    return [frame for frame in session.received if isinstance(frame, v2.ReportFrame)]


async def test_hello_tells_what_the_node_holds_and_puts_are_acknowledged(
    start_edge: StartEdge,
) -> None:
    """The inventory of the next session is what this one acknowledged, also after a restart."""
    async with FakeGM(speaks_v2=True) as gm:
        async with start_edge(gm.url) as edge:
            session = await gm.session()
            (hello,) = await session.wait_received(1)
            assert isinstance(hello, v2.Hello)
            assert hello.inventory == ()
            await session.send_v2(WELCOME)
            await session.put(dataset("d"), "digest-1")
            await session.put(dataset("e"), "digest-2")
            await session.send_v2(v2.Delete("dataset", "default", "e", uid="u1"))
            await session.send_v2(v2.Synced())
            answers = (await session.wait_received(4))[1:]
            assert answers == [
                v2.Ack("dataset", "default", "d", "u1", "digest-1"),
                v2.Ack("dataset", "default", "e", "u1", "digest-2"),
                v2.Ack("dataset", "default", "e", "u1"),
            ]
            # An acknowledgement means durable.
            assert edge.store.held.keys() == {D}
        async with start_edge(gm.url):
            (hello,) = await (await gm.session()).wait_received(1)
            assert hello.inventory == (v2.Holding("dataset", "default", "d", "u1", "digest-1"),)


async def test_delete_of_an_older_incarnation_is_acknowledged_and_does_nothing(
    start_edge: StartEdge,
) -> None:
    """What GM wants gone is gone; its successor stays."""
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v2(WELCOME)
        await session.put(dataset("d", uid="new"), "x")
        await session.send_v2(v2.Delete("dataset", "default", "d", uid="old"))
        answers = (await session.wait_received(3))[1:]
        assert answers[1] == v2.Ack("dataset", "default", "d", "old")
        assert uid_of(edge, D) == "new"


async def test_content_that_is_no_object_is_refused_with_the_reason(start_edge: StartEdge) -> None:
    """GM sends that version no more; the session goes on."""
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v2(WELCOME)
        await session.send_v2(v2.Put("dataset", "default", "d", "u", "x", b"[1]"))
        await session.connection.send("text")
        await session.connection.send(b"\xc1")
        await session.put(dataset("d"), "good")
        answers = (await session.wait_received(5))[1:]
        assert isinstance(answers[0], v2.Refused)
        assert "content is no object" in answers[0].reason
        assert [type(answer) for answer in answers[1:]] == [v2.Error, v2.Error, v2.Ack]
        assert D in edge.store.held


async def test_frames_of_unknown_types_are_ignored_and_not_answered_P1_050(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer GM would count each `error`; the log has it once."""
    caplog.set_level(logging.DEBUG, "gm.edge_stub")
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url):
        session = await gm.session()
        await session.send_v2(WELCOME)
        for number in range(3):
            frame = {"type": "renewed", "number": number}
            await session.connection.send(msgspec.msgpack.encode(frame))
        await session.put(dataset("d"), "digest")
        assert (await session.wait_received(2))[1:] == [
            v2.Ack("dataset", "default", "d", "u1", "digest")
        ]
    told = [record for record in caplog.records if record.message == "a frame from gm is ignored"]
    assert [(record.levelname, record.__dict__["cause"]) for record in told] == [
        ("DEBUG", "frames of type 'renewed' are unknown here")
    ]


async def test_object_of_an_unknown_kind_is_kept_like_any_other(start_edge: StartEdge) -> None:
    """GM is newer than the agent, and waits for an acknowledgement."""
    gadget = {**dataset("g"), "kind": "Gadget"}
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v2(WELCOME)
        await session.put(gadget, "x")
        await session.put(dataset("d"), "y")
        answers = (await session.wait_received(3))[1:]
        assert [type(answer) for answer in answers] == [v2.Ack, v2.Ack]
        assert WireKey("gadget", "default", "g") in edge.store.held


async def test_reports_wait_for_their_acknowledgement_within_the_window(
    start_edge: StartEdge,
) -> None:
    """GM asked for two at a time; what is not acknowledged comes again in the next session."""
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        first = await gm.session()
        await first.send_v2(WELCOME)
        await first.put(job("fl1", uid="u-job"), "x")
        await first.wait_received(2)
        for number in range(1, 6):
            await post(edge, f"w{number}", ownerInfo={"currentRound": number})
        await until(lambda: len(reports(first)) == 2)
        await first.round_trip()
        assert len(reports(first)) == 2
        assert {report.uid for report in reports(first)} == {"u-job"}
        await first.send_v2(v2.ReportAck(reports(first)[0].id))
        await until(lambda: len(reports(first)) == 3)
        acknowledged = reports(first)[0].id
        sent = [report.id for report in reports(first)]
        assert sent == sorted(sent)
        await until(lambda: acknowledged not in edge.outbox._in_flight)
        first.abort()

        second = await gm.session()
        await second.send_v2(WELCOME)
        seen: set[int] = set()
        while len(seen) < 4:
            await until(lambda: any(r.id not in seen for r in reports(second)))
            for report in reports(second):
                if report.id not in seen:
                    seen.add(report.id)
                    await second.send_v2(v2.ReportAck(report.id))
        assert acknowledged not in seen
        async with asyncio.timeout(20):
            await edge.outbox.drain(going_on=lambda: True)


async def test_report_that_gm_refuses_for_good_is_forgotten(start_edge: StartEdge) -> None:
    """Its reason is logged; the next one follows."""
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v2(v2.Welcome(max_frame_bytes=1_000_000, report_window=1))
        await post(edge, "w1")
        await until(lambda: len(reports(session)) == 1)
        await session.send_v2(v2.ReportAck(reports(session)[0].id, "not your object"))
        await post(edge, "w2")
        await until(lambda: len(reports(session)) == 2)


async def test_report_that_gm_takes_later_waits_on_disk_and_holds_up_no_other(
    start_edge: StartEdge,
) -> None:
    """It leaves the window, not the outbox; GM takes it up by itself, or with the next session."""
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        first = await gm.session()
        await first.send_v2(v2.Welcome(max_frame_bytes=1_000_000, report_window=1))
        for worker in ("w1", "w2", "w3"):
            await post(edge, worker)
        for number in range(2):
            await until(lambda n=number: len(reports(first)) == n + 1)  # type: ignore[misc]
            await first.send_v2(v2.ReportAck(reports(first)[number].id, later=True))
        await until(lambda: len(reports(first)) == 3)
        assert await edge.outbox.count() == 3
        one, two, three = (report.id for report in reports(first))
        await first.send_v2(v2.ReportAck(one))
        await first.send_v2(v2.ReportAck(three))
        await until(lambda: edge.outbox._in_flight == {two})
        assert await edge.outbox.count() == 1
        first.abort()
        second = await gm.session()
        await second.send_v2(WELCOME)
        await until(lambda: [report.id for report in reports(second)] == [two])


async def test_report_beyond_gms_limit_is_dropped_and_does_not_end_the_link_P0_031(
    start_edge: StartEdge,
) -> None:
    """Over v2 GM tells its limit; over v1 it closes with 1009."""
    async with FakeGM(speaks_v2=True) as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.send_v2(v2.Welcome(max_frame_bytes=1000, report_window=8))
        await post(edge, "w1", ownerInfo={"filler": "x" * 2000})
        await post(edge, "w2")
        await until(lambda: len(reports(session)) == 1)
        assert len(gm.sessions) == 1

    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.wait_received(1)
        session.connection.protocol.max_message_size = 1000
        await post(edge, "w1", ownerInfo={"filler": "x" * 2000})
        second = await gm.session()
        await post_round(edge, 3)
        reported = await second.wait_reports(1)
        assert all("filler" not in (c["output"]["ownerInfo"] or {}) for _, c in reported)
