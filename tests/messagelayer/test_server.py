"""The server over real sockets: who may come in, what may be said, how it starts and ends."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import subprocess
import sys
from contextlib import AsyncExitStack

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode

from gm.config import WebsocketConfig
from gm.errors import ConfigError
from gm.messagelayer import Hub, Server, Timing
from tests.fakes.edge import HELLO, Edge, status_frame
from tests.messagelayer.dialling import NODE, dial, handshake, names, status_of, versions
from tests.messagelayer.support import desired, key, open_hub, serving, until

MALFORMED: dict[str, str | bytes] = {
    "json": "{nonsense",
    "binary": b"\x00\x01",
    "shape": "[1, 2]",
    "header": '{"content": ""}',
    "kind": json.dumps(status_frame("gadget", "default", "d", {})),
    "operation": json.dumps(status_frame("dataset", "default", "d", {})).replace(
        '"status"', '"delete"'
    ),
    "base64": json.dumps(status_frame("dataset", "default", "d", {})).replace("e30=", "%%%%"),
    "content": json.dumps(status_frame("dataset", "default", "d", {})).replace("e30=", "e30"),
    "name": json.dumps(status_frame("dataset", "../x", "d", {})),
    "nesting": '{"header":' * 10_000 + "1" + "}" * 10_000,
}


async def test_malformed_frames_are_counted_and_the_session_kept_P1_050() -> None:
    """Also the bare header, the hello, is no error, wherever it comes."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        for frame in MALFORMED.values():
            await edge.send(frame)
        await edge.send(HELLO)
        await edge.report("dataset", "default", "d", {"numberOfSamples": 1})
        assert (await hub.next_report()).key == key("d")
        assert edge.closed is None
        malformed = {
            name.removeprefix("frames_malformed_"): count
            for name, count in hub.counters.items()
            if name.startswith("frames_malformed_")
        }
        assert sum(malformed.values()) == len(MALFORMED)
        assert set(malformed) == set(MALFORMED) - {"content"}  # that one is no base64, too


async def test_too_many_malformed_frames_close_with_1008_P1_050() -> None:
    """More than 100 a minute is no accident."""
    hub = open_hub()
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        for _ in range(101):
            await edge.send("{")
        assert await edge.wait_closed() == (1008, "too many malformed frames")


async def test_only_insert_and_delete_in_lower_case_are_ever_sent_P1_051() -> None:
    """An edited JointInferenceService comes as insert: the Go LC knows no update."""
    hub = Hub()
    hub.expect(["jointinferenceservice"])
    hub.complete("jointinferenceservice")
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        for version in (1, 2):
            hub.put(NODE, desired("ji", version, kind="jointinferenceservice"))
            await edge.wait_for(lambda v=version: versions(edge, "ji")[-1:] == [v])  # type: ignore[misc]
        hub.remove(NODE, key("ji", "jointinferenceservice"))
        await edge.wait_for(lambda: not edge.held)
        assert [frame["header"]["operation"] for frame in edge.frames] == [
            "insert",
            "insert",
            "delete",
        ]
        assert {f["header"]["resourceKind"] for f in edge.frames} == {"jointinferenceservice"}


async def test_shutdown_closes_all_connections_with_1001_P1_081() -> None:
    """Also one that never answers does not hold it up for longer than the closing time."""
    hub = open_hub()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        async with serving(hub) as server:
            edges = [
                await stack.enter_async_context(Edge.connected(server.port, f"edge{number}"))
                for number in range(300)
            ]
            _, writer, _ = await dial(server.port, node="deaf")
            await until(lambda: hub.session_count == 301)
            began = loop.time()
        assert loop.time() - began < 10
        for edge in edges:
            assert (await edge.wait_closed())[0] == 1001
        writer.transport.abort()


@pytest.mark.parametrize(
    "node",
    [None, "", "-x", "a b", "a\x01b", "ä", "x" * 254, "edge1\r\nNode-Name: edge2"],
    ids=["missing", "empty", "dash", "space", "control", "latin1", "long", "twice"],
)
async def test_bad_node_name_is_refused_with_400_P0_032(node: str | None) -> None:
    """No session comes of it."""
    hub = open_hub()
    async with serving(hub) as server:
        assert await status_of(server.port, node) == "400"
        await until(lambda: hub.counters["handshakes_refused_400"] == 1)
        assert hub.nodes() == []


async def test_refusals_are_counted_but_fill_no_log_P1_040(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody who tries names or tokens all day gets some lines a minute, not gigabytes."""
    hub = open_hub()
    async with serving(hub) as server:
        for _ in range(150):
            assert await status_of(server.port, "-x") == "400"
    assert hub.counters["handshakes_refused_400"] == 150
    told = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert told.count("connection refused") == 100
    assert len(told) == 101


async def test_what_is_no_websocket_is_told_so() -> None:
    """A browser gets 426, other rubbish 400."""
    async with serving(open_hub()) as server:
        for request, status in (
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"426"),
            (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"4"),
            (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
            (b"GET /" + b"x" * 20_000 + b"\r\n", b"4"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request)
            assert (await reader.read()).split()[1].startswith(status)
            writer.close()


@pytest.mark.parametrize("early", [b"\x89", b"\x89\x80\0\0\0\0"], ids=["part", "whole"])
async def test_frames_before_the_answer_are_refused_with_400(early: bytes) -> None:
    """No client may do that, and an answer to them would come before the handshake's."""
    async with serving(open_hub()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(handshake(NODE) + early)
        assert (await reader.read()).split()[1] == b"400"
        writer.close()


async def test_handshake_may_come_byte_by_byte() -> None:
    """And a report in fragments, with a ping between them."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    async with serving(hub) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for byte in handshake(NODE):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        report = json.dumps(status_frame("dataset", "default", "d", {"numberOfSamples": 1}))
        half = len(report) // 2
        for frame in (
            Frame(Opcode.TEXT, report[:half].encode(), fin=False),
            Frame(Opcode.PING, b"between"),
            Frame(Opcode.CONT, report[half:].encode()),
        ):
            writer.write(frame.serialize(mask=True))
        assert (await hub.next_report()).key == key("d")
        await reader.readuntil(b"between")
        writer.close()


async def test_too_many_waiting_connections_are_refused_with_503() -> None:
    """The line before the gate has an end."""
    hub = open_hub()
    async with serving(hub, connections_per_second=1) as server, AsyncExitStack() as stack:
        await stack.enter_async_context(Edge.connected(server.port, "first"))
        waiting = []
        for number in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            waiting.append(writer)
            writer.write(handshake(f"waiting{number}"))
        await until(lambda: server._admission is not None and len(server._admission) >= 4)
        statuses = [await status_of(server.port, f"late{number}") for number in range(3)]
        assert "503" in statuses
        for writer in waiting:
            writer.transport.abort()


async def test_node_may_not_report_on_what_it_does_not_hold_P0_033(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The report is refused and counted, the session kept."""
    hub = open_hub()
    hub.put("node-a", desired("d"))
    hub.put("node-b", desired("mine"))
    async with serving(hub) as server, Edge.connected(server.port, "node-b") as edge:
        await edge.report("dataset", "default", "d", {"numberOfSamples": 1})
        await edge.report("federatedlearningjob", "default", "fl", {"phase": "train"})
        await edge.report("dataset", "default", "mine", {"numberOfSamples": 2})
        assert (await hub.next_report()).key == key("mine")
        assert hub.counters["reports_refused"] == 2
        assert edge.closed is None
    assert "report refused" in caplog.text


async def test_nothing_is_sent_before_desired_state_is_full() -> None:
    """Until then a session lives, pings are answered, and reports wait."""
    hub = Hub()
    hub.expect(["dataset", "model"])
    hub.put(NODE, desired("d"))
    hub.complete("dataset")
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        await (await edge.connection.ping())
        await edge.report("dataset", "default", "d", {"numberOfSamples": 1})
        await until(lambda: hub.waiting_reports == 1)
        assert edge.frames == []
        hub.hold_back("model")
        await edge.wait_for(lambda: "d" in names(edge))
        assert (await hub.next_report()).key == key("d")


async def test_port_in_use_is_a_setting_to_mend() -> None:
    """The message names address, port and setting."""
    async with serving(open_hub()) as server:
        settings = WebsocketConfig(address="127.0.0.1", port=server.port)
        with pytest.raises(ConfigError, match=rf"websocket\.port {server.port}.*GM_WEBSOCKET_PORT"):
            await Server(open_hub(), settings).run()


async def test_address_of_another_machine_is_a_setting_to_mend() -> None:
    """The message names the address."""
    settings = WebsocketConfig(address="203.0.113.1", port=0)
    with pytest.raises(ConfigError, match=r"websocket\.address '203\.0\.113\.1'"):
        await Server(open_hub(), settings).run()


LIMITED = """
import logging, resource, sys
from gm.messagelayer.server import _raise_file_limit

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(nodes)d %(maxNodes)d %(remedy)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 1000))
_raise_file_limit(int(sys.argv[1]))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("max_nodes", "soft", "told"),
    [
        (40, 300, ""),
        (100, 356, ""),
        (744, 1000, ""),
        (745, 1000, "WARNING 744 745 raise the hard limit, ulimit -Hn, to 1001\n"),
        (20000, 1000, "INFO 744 20000 raise the hard limit, ulimit -Hn, to 20256\n"),
    ],
)
async def test_limit_on_open_files_is_raised_as_far_as_it_goes(
    max_nodes: int, soft: int, told: str
) -> None:
    """It warns only where somebody has asked for more nodes than there can be."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LIMITED, str(max_nodes)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (out.decode(), err.decode()) == (f"{soft} 1000\n", told)


async def test_more_nodes_than_allowed_are_refused_with_503() -> None:
    """A node that is connected already may replace its own session."""
    hub = open_hub()
    async with serving(hub, max_nodes=1) as server, Edge.connected(server.port, NODE):
        with pytest.raises(InvalidStatus) as refusal:
            await connect(
                f"ws://127.0.0.1:{server.port}",
                additional_headers={"Node-Name": "edge2"},
                proxy=None,
            )
        assert refusal.value.response.status_code == 503
        assert refusal.value.response.headers["Retry-After"] == "30"
        async with Edge.connected(server.port, NODE):
            assert hub.nodes() == [NODE]


async def test_connections_beyond_the_rate_wait_their_turn() -> None:
    """They are not refused, only later."""
    hub = open_hub()
    loop = asyncio.get_running_loop()
    async with serving(hub, connections_per_second=20) as server, AsyncExitStack() as stack:
        began = loop.time()
        await asyncio.gather(
            *(
                stack.enter_async_context(Edge.connected(server.port, f"edge{number}"))
                for number in range(30)
            )
        )
        assert loop.time() - began >= 0.4
        assert hub.session_count == 30


async def test_listening_beyond_loopback_without_authentication_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is Sedna's way, but nobody should have it without knowing."""
    async with serving(open_hub(), address="0.0.0.0"):
        assert "anybody who reaches this port" in caplog.text
    caplog.clear()
    async with serving(open_hub()):
        assert "anybody" not in caplog.text


async def test_object_bodies_are_not_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """The library would log frames."""
    caplog.set_level(logging.DEBUG, logger="gm")
    hub = open_hub()
    hub.put(NODE, desired("d", url="AKIATEST123"))
    body = base64.b64encode(hub._nodes[NODE].desired[key("d")].content).decode()
    async with serving(hub) as server, Edge.connected(server.port, NODE) as edge:
        await edge.wait_for(lambda: "d" in names(edge))
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("gm.")]
    assert ours
    assert not any(body[:20] in line or "AKIATEST123" in line for line in ours)


async def test_silent_connection_is_closed() -> None:
    """A handshake that never comes does not hold a socket."""
    timing = Timing(handshake_seconds=0.1)
    async with serving(open_hub(), timing=timing) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await reader.read() == b""
        writer.close()
