"""Dialling: back-off, causes, closing codes."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import serve

from gm.edge_stub.agent import Backoff
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import until
from tests.fakes.gm import FakeGM


def longest(low: float, high: float) -> float:
    """Jitter that is no surprise."""
    assert low == 0
    return high


def new_backoff() -> Backoff:
    """One with the default times."""
    return Backoff(first_seconds=1, max_seconds=60, stable_seconds=60, jitter=longest)


def test_backoff_doubles_up_to_its_limit_P1_046() -> None:
    """1 s to 60 s; full jitter draws from nothing up to that."""
    backoff = new_backoff()
    assert [backoff.next_delay() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_only_a_stable_session_starts_the_backoff_anew_P1_046() -> None:
    """A GM that accepts and dies at once is not hammered."""
    backoff = new_backoff()
    for _ in range(4):
        backoff.next_delay()
    assert backoff.next_delay(lasted_seconds=59) == 16
    assert backoff.next_delay(lasted_seconds=60) == 1


def test_gm_that_goes_away_is_tried_again_soon_P1_081() -> None:
    """Unless it does nothing else but going away."""
    backoff = new_backoff()
    for _ in range(6):
        backoff.next_delay()
    assert backoff.next_delay(lasted_seconds=5, going_away=True) == 1
    assert backoff.next_delay(lasted_seconds=0.1, going_away=True) == 60


@given(st.lists(st.floats(0, 1000), max_size=60))
def test_delay_is_always_within_its_bounds(sessions: list[float]) -> None:
    """Whatever sessions there were."""
    backoff = Backoff(first_seconds=1, max_seconds=60, stable_seconds=60)
    for lasted in sessions:
        assert 0 <= backoff.next_delay(lasted_seconds=lasted) <= 60


async def causes(start_edge: StartEdge, caplog: pytest.LogCaptureFixture, gm: str) -> str:
    """What an LC says about ``gm`` when it can not connect."""
    caplog.set_level(logging.WARNING)
    async with start_edge(gm):
        await until(lambda: "not connected to gm" in caplog.messages)
    record = next(r for r in caplog.records if r.message == "not connected to gm")
    return str(record.__dict__["cause"])


async def test_refused_connection_is_named(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody listens."""
    assert await causes(start_edge, caplog, "ws://127.0.0.1:1/") == "Connection refused"


async def test_refusal_of_the_handshake_is_named(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """Status and first line of the answer say what GM does not like."""
    async with serve(
        lambda _: asyncio.sleep(0),
        "127.0.0.1",
        0,
        process_request=lambda connection, _: connection.respond(403, "wrong node\n"),
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        cause = await causes(start_edge, caplog, f"ws://127.0.0.1:{port}/")
    assert cause == "refused with http 403: wrong node"


async def test_reason_of_a_close_is_named(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else uses this node's name."""
    async with FakeGM() as gm, start_edge(gm.url):
        session = await gm.session()
        await session.connection.close(4001, "replaced by a newer connection")
        await until(lambda: "not connected to gm" in caplog.messages)
        await gm.session()
    record = next(r for r in caplog.records if r.message == "not connected to gm")
    assert record.__dict__["cause"] == "closed by gm: 4001 replaced by a newer connection"


async def test_a_node_that_was_replaced_leaves_the_name_to_the_newer_for_long(
    start_edge: StartEdge, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise two agents of one name would take the node from each other every second."""
    async with FakeGM() as gm, start_edge(gm.url, backoff_max_seconds=60) as _:
        session = await gm.session()
        await session.connection.close(4001, "replaced by a newer connection")
        await until(lambda: "not connected to gm" in caplog.messages)
    record = next(r for r in caplog.records if r.message == "not connected to gm")
    assert 30 <= record.__dict__["retry_seconds"] <= 60
    assert any("another agent has connected" in message for message in caplog.messages)


async def test_half_open_link_is_found_P0_005(start_edge: StartEdge) -> None:
    """A peer that answers no pings is left; everything goes to the next session."""
    async with (
        FakeGM() as gm,
        start_edge(gm.url, ping_interval_seconds=0.1, ping_timeout_seconds=0.1),
    ):
        first = await gm.session()
        await first.wait_received(1)
        first.pause()
        await gm.session()
        first.abort()
