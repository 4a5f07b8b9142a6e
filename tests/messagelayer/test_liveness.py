"""A link is alive while it makes progress, and found dead within interval and timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from gm.messagelayer.liveness import MIN_PROGRESS_BYTES, Liveness, Verdict, unsent_bytes


def test_quiet_link_is_probed_and_then_dead() -> None:
    """After interval and timeout."""
    link = Liveness(100, interval=20, timeout=20)
    assert link.deadline == 120
    assert link.check(119, gone_out=0) is Verdict.ALIVE
    assert link.check(120, gone_out=0) is Verdict.PROBE
    assert link.deadline == 140
    assert link.check(139, gone_out=0) is Verdict.ALIVE
    assert link.check(140, gone_out=0) is Verdict.DEAD


def test_anything_that_comes_in_keeps_it_alive() -> None:
    """Before the probe and after."""
    link = Liveness(100, interval=20, timeout=20)
    link.heard(110)
    assert link.check(120, gone_out=0) is Verdict.ALIVE
    assert link.check(130, gone_out=0) is Verdict.PROBE
    link.heard(149)
    assert link.silent_seconds(151) == 2
    assert link.check(150, gone_out=0) is Verdict.ALIVE
    assert link.deadline == 169


def test_enough_that_goes_out_moves_the_deadline() -> None:
    """Each timeout anew; a byte less than enough does not count."""
    link = Liveness(100, interval=20, timeout=20)
    assert link.check(120, gone_out=1000) is Verdict.PROBE
    assert link.check(140, gone_out=1000 + MIN_PROGRESS_BYTES) is Verdict.ALIVE
    assert link.deadline == 160
    assert link.check(160, gone_out=1000 + 2 * MIN_PROGRESS_BYTES - 1) is Verdict.DEAD


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_closed_link_has_nothing_unsent(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Also one whose socket nobody has asked for before: uvloop knows it no more."""

    async def run() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.transport.abort()
            for _ in range(3):  # until the loop has done with it
                await asyncio.sleep(0)
            assert unsent_bytes(writer.transport) == 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
