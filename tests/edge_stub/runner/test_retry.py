"""Growing pauses."""

from __future__ import annotations

from gm.edge_stub.runner import Tuning
from gm.edge_stub.runner.retry import Pause


async def test_pauses_double_up_to_a_limit() -> None:
    """So that what is missing for long costs little."""
    pause = Pause(Tuning(retry_seconds=0.001, retry_max_seconds=0.005))
    await pause.sleep()
    assert [pause.next() for _ in range(4)] == [0.002, 0.004, 0.005, 0.005]
