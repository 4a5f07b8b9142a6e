"""Wire v2 over real sockets: the same behaviours, and what only it can give."""

from __future__ import annotations

import json
import logging

import msgspec
import pytest
from websockets.asyncio.client import connect

from gm.messagelayer import Timing, v2
from gm.messagelayer.session import REPLACED
from gm.messagelayer.session_v2 import REPORT_WINDOW, V2Session
from tests.fakes.edge import EdgeV2
from tests.fakes.proxy import Proxy
from tests.messagelayer.support import desired, key, open_hub, serving, until

NODE = "edge1"


def names(edge: EdgeV2) -> set[str]:
    """Names of the objects that the edge holds."""
    return {held.rpartition("/")[2] for held in edge.held}


async def test_only_the_difference_to_the_inventory_is_sent() -> None:
    """What the node has in this version is not sent, what it should not have is deleted."""
    hub = open_hub()
    hub.put(NODE, desired("same"))
    hub.put(NODE, desired("changed", 2))
    hub.put(NODE, desired("new"))
    held = {
        f"dataset default/{name}": (version.uid, version.digest, version.content)
        for name in ("same", "changed", "gone")
        for version in [desired(name)]
    }
    held["lifelonglearningjob default/foreign"] = ("u1", "x", b"{}")
    async with serving(hub) as server, EdgeV2.connected(server.port, NODE, held=held) as edge:
        await edge.wait_for(lambda: bool(edge.came(v2.Synced)))
        assert sorted(frame.name for frame in edge.came(v2.Put)) == ["changed", "new"]
        assert [(frame.name, frame.uid) for frame in edge.came(v2.Delete)] == [("gone", "u1")]
        assert isinstance(edge.frames[0], v2.Welcome)
        assert isinstance(edge.frames[-1], v2.Synced)
        assert names(edge) == {"same", "changed", "new", "foreign"}
        await until(lambda: (status := hub.status(NODE)) is not None and status.pending == 0)
        status = hub.status(NODE)
        assert status is not None
        assert status.protocol == "v2"
        assert {held.name for held in status.held} == names(edge)


async def test_client_that_offers_another_subprotocol_only_is_v1() -> None:
    """Nobody is refused for it."""
    hub = open_hub()
    async with (
        serving(hub) as server,
        connect(
            f"ws://127.0.0.1:{server.port}",
            additional_headers={"Node-Name": NODE},
            subprotocols=["chat"],  # type: ignore[list-item]
            proxy=None,
        ) as connection,
    ):
        assert connection.subprotocol is None
        await until(lambda: hub.is_connected(NODE))
        status = hub.status(NODE)
        assert status is not None
        assert status.protocol == "v1"


async def test_newer_connection_replaces_the_older_P0_001() -> None:
    """Also of the other protocol version."""
    hub = open_hub()
    async with (
        serving(hub) as server,
        EdgeV2.connected(server.port, NODE) as first,
        EdgeV2.connected(server.port, NODE) as second,
    ):
        assert (await first.wait_closed())[0] == REPLACED
        hub.put(NODE, desired("d"))
        await second.wait_for(lambda: names(second) == {"d"})


async def test_everything_arrives_through_cuts_P0_004() -> None:
    """Sent but not acknowledged is not delivered."""
    hub = open_hub()
    held: dict[str, tuple[str, str, bytes]] = {}
    for number in range(200):
        hub.put(NODE, desired(f"d{number}"))
    async with serving(hub) as server:
        while len(held) < 200:
            async with EdgeV2.connected(server.port, NODE, held=held) as edge:
                enough = min(200, len(held) + 50)
                await edge.wait_for(lambda n=enough: len(held) >= n)  # type: ignore[misc]
                edge.cut()
        assert hub.counters["frames_out"] < 450


async def test_report_is_sent_again_until_it_is_acknowledged_P0_004() -> None:
    """Acknowledged only when upstream says so; the number comes back."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server:
        async with EdgeV2.connected(server.port, NODE) as edge:
            await edge.report(7, "Dataset", "default", "d", {"numberOfSamples": 1}, uid="u1")
            report = await hub.next_report()
            assert (report.ids, report.uid) == ((7,), "u1")
            edge.cut()
        hub.acknowledge(report)  # nobody hears it
        async with EdgeV2.connected(server.port, NODE) as edge:
            await edge.report(7, "dataset", "default", "d", {"numberOfSamples": 1}, uid="u1")
            await edge.report(8, "dataset", "default", "other", {"numberOfSamples": 1})
            hub.acknowledge(await hub.next_report())
            await edge.report(9, "dataset", "default", "d", {"numberOfSamples": 2})
            assert (await hub.next_report()).ids == (9,)  # and 8 was looked at before
            await edge.wait_for(lambda: len(edge.came(v2.ReportAck)) == 2)
            acks = {ack.id: ack.error for ack in edge.came(v2.ReportAck)}
            assert acks[7] == ""
            assert "does not hold" in acks[8]


async def test_half_open_link_is_found_P0_005() -> None:
    """And a large object over a slow link is not taken for one."""
    hub = open_hub()
    hub.put(NODE, desired("big", padding=1_500_000))
    limits = {"ping_interval_seconds": 0.4, "ping_timeout_seconds": 0.4}
    async with serving(hub, **limits) as server, Proxy(server.port).running() as proxy:
        proxy.bytes_per_second = 1_500_000
        async with EdgeV2.connected(proxy.port, NODE) as edge:
            await edge.wait_for(lambda: names(edge) == {"big"})
            assert hub.counters["sessions_dead"] == 0
            proxy.is_black_hole = True
            await until(lambda: not hub.nodes(), seconds=3)
            proxy.cut()
            await edge.wait_closed()


async def test_agent_that_acknowledges_nothing_gets_a_window_only_P0_030() -> None:
    """Memory for it stays bounded, and a newer version of what waits is what it gets later."""
    hub = open_hub()
    for number in range(500):
        hub.put(NODE, desired(f"d{number}", padding=4000))
    async with (
        serving(hub) as server,
        EdgeV2.connected(server.port, NODE, answers=False) as edge,
    ):
        await edge.wait_for(lambda: len(edge.came(v2.Put)) == 32)
        for number in range(500):
            hub.put(NODE, desired(f"d{number}", 2))
        status = hub.status(NODE)
        assert status is not None
        assert status.pending == 500
        assert status.held == ()
        first, edge.answers = edge.came(v2.Put), True
        for put in first:
            await edge.send(v2.Ack(put.kind, put.namespace, put.name, put.uid, put.digest))
        await edge.wait_for(lambda: len(edge.came(v2.Put)) == 532)
        await until(lambda: (s := hub.status(NODE)) is not None and s.pending == 0)
        assert {digest for _, digest, _ in edge.held.values()} == {"2-"}


async def test_refused_version_is_named_and_not_sent_again() -> None:
    """A newer one is."""
    hub = open_hub()
    async with serving(hub) as server, EdgeV2.connected(server.port, NODE) as edge:
        edge.refuses = {"d"}
        hub.put(NODE, desired("d"))
        hub.put(NODE, desired("e"))
        await edge.wait_for(lambda: len(edge.came(v2.Put)) == 2)
        await until(
            lambda: (
                (s := hub.status(NODE)) is not None
                and s.quarantined == {key("d"): "refused by the node: no room"}
            )
        )
        edge.refuses = set()
        hub.put(NODE, desired("d", 2))
        await edge.wait_for(lambda: names(edge) == {"d", "e"})


async def test_malformed_frames_are_answered_and_the_session_kept_P1_050() -> None:
    """The agent hears what was wrong."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server, EdgeV2.connected(server.port, NODE) as edge:
        for frame in (b"", b"\xc1", b"\x81\xa4type\xa3put", v2.encode_v2(v2.Hello()), "text"):
            await edge.connection.send(frame)
        await edge.send(v2.ReportFrame("gadget", "default", "d", 1, b"{}"))
        await edge.send(v2.Ack("dataset", "default", "never-sent", "u", "h"))
        await edge.send(v2.ReportFrame("dataset", "default", "d", 1, b"{nonsense"))
        await edge.send(v2.Error("you make no sense\n"))
        await edge.report(1, "dataset", "default", "d", {"numberOfSamples": 1})
        assert json.loads((await hub.next_report()).content) == {"numberOfSamples": 1}
        await edge.wait_for(lambda: len(edge.came(v2.Error)) == 7)
        assert edge.closed is None
        for _ in range(101):
            await edge.connection.send(b"\xc1")
        assert (await edge.wait_closed())[0] == 1008


async def test_frames_of_unknown_types_are_ignored_however_many_come_P1_050(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A newer agent is not thrown out, nor told off; the log has it once for each session."""
    caplog.set_level(logging.DEBUG, "gm.messagelayer")
    hub = open_hub()
    hub.put(NODE, desired("d"))
    renewed = msgspec.msgpack.encode({"type": "renewed", "until": 1})
    async with serving(hub) as server:
        for session in (1, 2):
            async with EdgeV2.connected(server.port, NODE) as edge:
                for _ in range(150):
                    await edge.connection.send(renewed)
                await edge.report(1, "dataset", "default", "d", {"numberOfSamples": session})
                await hub.next_report()
                await edge.wait_for(lambda e=edge: names(e) == {"d"})  # type: ignore[misc]
                assert edge.came(v2.Error) == []
                assert edge.closed is None
    assert hub.counters["frames_unknown"] == 300
    assert not [name for name in hub.counters if name.startswith("frames_malformed")]
    told = [record for record in caplog.records if record.message == "frame ignored"]
    assert [(record.levelname, record.__dict__["reason"]) for record in told] == 2 * [
        ("DEBUG", "frames of type 'renewed' are unknown here")
    ]


async def test_report_id_out_of_range_is_told_with_its_field(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is no report: nobody could acknowledge it."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server, EdgeV2.connected(server.port, NODE) as edge:
        for number in (0, 2**63):
            await edge.report(number, "dataset", "default", "d", {"numberOfSamples": 1})
        await edge.report(1, "dataset", "default", "d", {"numberOfSamples": 2})
        assert (await hub.next_report()).ids == (1,)
        await edge.wait_for(lambda: len(edge.came(v2.Error)) == 2)
        assert [error.message.partition("message: ")[2] for error in edge.came(v2.Error)] == [
            "Expected `int` >= 1 - at `$.id`",
            "Expected `int` <= 9223372036854775807 - at `$.id`",
        ]
        assert hub.counters["frames_malformed_shape"] == 2


async def test_agent_without_hello_is_closed() -> None:
    """It would hold a session that can not do anything."""
    hub = open_hub()
    async with (
        serving(hub, timing=Timing(hello_seconds=0.2)) as server,
        EdgeV2.connected(server.port, NODE, says_hello=False) as edge,
    ):
        await edge.send(v2.Ack("dataset", "default", "d", "u", "h"))
        assert await edge.wait_closed() == (1002, "no hello")


async def test_welcome_tells_the_limits() -> None:
    """So that an agent can keep to them."""
    async with (
        serving(open_hub(), max_frame_bytes=65536) as server,
        EdgeV2.connected(server.port, NODE) as edge,
    ):
        await edge.wait_for(lambda: bool(edge.frames))
        (welcome,) = edge.came(v2.Welcome)
        assert (welcome.max_frame_bytes, welcome.report_window) == (65536, REPORT_WINDOW)


async def test_object_beyond_the_limit_is_quarantined_P0_031(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As over v1."""
    hub = open_hub()
    hub.put(NODE, desired("huge", padding=100_000))
    hub.put(NODE, desired("z"))
    async with (
        serving(hub, max_frame_bytes=65536) as server,
        EdgeV2.connected(server.port, NODE) as edge,
    ):
        await edge.wait_for(lambda: names(edge) == {"z"})
        assert "object quarantined" in caplog.text
        assert edge.closed is None


async def test_bug_in_a_session_closes_its_socket_P0_006(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session without socket, no socket without session."""
    hub = open_hub()
    async with serving(hub) as server, EdgeV2.connected(server.port, NODE) as edge:
        await edge.wait_for(lambda: bool(edge.frames))
        monkeypatch.setattr(V2Session, "poll", lambda *_, **__: 1 / 0)
        hub.put(NODE, desired("d"))
        assert (await edge.wait_closed(seconds=1))[0] == 1011


async def test_agent_that_reads_and_never_acknowledges_is_closed_P0_030() -> None:
    """It answers pings, so its link is alive; what it did not take is sent to the next session."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    timing = Timing(hello_seconds=5, handshake_seconds=5, close_seconds=1, ack_seconds=0.2)
    async with serving(hub, timing=timing) as server:
        async with EdgeV2.connected(server.port, NODE, answers=False) as edge:
            assert await edge.wait_closed() == (1011, "no acknowledgement of what was sent")
            assert "d" in names(edge)
        async with EdgeV2.connected(server.port, NODE) as edge:
            await edge.wait_for(lambda: names(edge) == {"d"})


async def test_inventory_that_lists_a_finished_job_makes_gm_send_its_delete_P1_060() -> None:
    """The job was deleted while the node was away, and GM was started anew since."""
    hub = open_hub()
    hub.expect(["federatedlearningjob"])
    hub.complete("federatedlearningjob")
    held = {"federatedlearningjob default/gone": ("u1", "1-", b"{}")}
    async with (
        serving(hub) as server,
        EdgeV2.connected(server.port, NODE, held=held) as edge,
    ):
        await edge.wait_for(lambda: not held)
        await edge.wait_for(lambda: bool(edge.came(v2.Synced)))
        (delete,) = edge.came(v2.Delete)
        assert (delete.name, delete.uid) == ("gone", "u1")
