"""A burst is let in at once, what comes beyond the rate waits, and not without bound."""

from __future__ import annotations

import asyncio

from gm.messagelayer.admission import Admission


async def test_burst_is_admitted_at_once_and_the_rest_in_order() -> None:
    """A second's worth goes in, the others follow at the rate."""
    loop = asyncio.get_running_loop()
    admission = Admission(per_second=10, loop=loop, patience_seconds=1)
    admitted: list[int] = []
    done = asyncio.Event()

    def take(number: int) -> None:
        admitted.append(number)
        if number == 12:
            done.set()

    began = loop.time()
    for number in range(13):
        assert admission.admit(lambda number=number: take(number))  # type: ignore[misc]
    assert admitted == list(range(10))
    assert len(admission) == 3
    await done.wait()
    assert admitted == list(range(13))
    assert loop.time() - began >= 0.2


async def test_line_has_an_end() -> None:
    """Who would wait for longer than the patience is turned away."""
    admission = Admission(per_second=1, loop=asyncio.get_running_loop(), patience_seconds=2)
    assert [admission.admit(lambda: None) for _ in range(4)] == [True, True, True, False]
    admission.close()
    admission.close()
    assert len(admission) == 0
