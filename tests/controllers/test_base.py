"""The worker loop."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest

from gm import logs
from gm.controllers.base import Controller, Result
from gm.errors import ApiUnreachable, TerminalError, TooManyRequests
from gm.kube.workqueue import Workqueue
from tests.kube.virtual_time import virtual_time


class Scripted:
    """A reconciler that does as told, per key and call."""

    def __init__(self, **script: list[Result | Exception]) -> None:
        self.script = script
        self.calls: list[str] = []
        self.times: list[float] = []
        self.news = asyncio.Event()

    async def reconcile(self, key: str) -> Result:
        """The next thing in the script of ``key``."""
        self.calls.append(key)
        self.times.append(asyncio.get_running_loop().time())
        self.news.set()
        steps = self.script.get(key) or [Result()]
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if isinstance(step, Exception):
            raise step
        return step

    async def wait_calls(self, count: int) -> None:
        """Until it was called so often."""
        async with asyncio.timeout(3600):
            while len(self.calls) < count:
                self.news.clear()
                await self.news.wait()


async def run(reconciler: Scripted, calls: int, *keys: str) -> Workqueue[str]:
    """Run a controller until there were ``calls``; then stop it in order."""
    queue: Workqueue[str] = Workqueue(base_seconds=0.01)
    controller = Controller("test", reconciler, queue, workers=2)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(stopping))
        for key in keys:
            queue.add(key)
        await reconciler.wait_calls(calls)
        await asyncio.sleep(0.02)
        stopping.set()
    return queue


@virtual_time
async def test_a_failure_is_retried_and_forgotten_after_success() -> None:
    """Whatever was raised."""
    reconciler = Scripted(a=[ApiUnreachable("x"), RuntimeError("y"), Result(retry=True), Result()])
    queue = await run(reconciler, 4, "a")
    assert reconciler.calls == ["a"] * 4
    assert queue.failures("a") == 0


BUSY = TooManyRequests("list", code=429, reason="TooManyRequests", retry_after_seconds=60)


@pytest.mark.parametrize("step", [BUSY, Result(retry=True, patience_seconds=60)])
@virtual_time
async def test_the_servers_wish_for_patience_is_heeded_P1_080(step: Result | Exception) -> None:
    """Raised or handed on: not before its time."""
    reconciler = Scripted(a=[step, Result()])
    await run(reconciler, 2, "a")
    assert reconciler.times == [0, 60]


@virtual_time
async def test_a_terminal_error_is_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    """Until the object changes."""
    reconciler = Scripted(a=[TerminalError("no way")])
    queue = await run(reconciler, 1, "a")
    assert reconciler.calls == ["a"]
    assert queue.failures("a") == 0
    assert "reconcile gave up" in caplog.text


@virtual_time
async def test_lines_name_the_object_where_there_is_one() -> None:
    """A key that stands for all objects is empty."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs._Json())
    logging.getLogger("gm.controllers.base").addHandler(handler)
    try:
        reconciler = Scripted(**{"a": [TerminalError("no")], "": [TerminalError("no")]})
        await run(reconciler, 2, "a", "")
    finally:
        logging.getLogger("gm.controllers.base").removeHandler(handler)
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("object") for line in told] == ["a", None]
    assert {line["controller"] for line in told} == {"test"}


@virtual_time
async def test_a_failing_key_does_not_stop_the_others() -> None:
    """One object's fault is its own."""
    reconciler = Scripted(a=[RuntimeError("always")])
    await run(reconciler, 3, "a", "b")
    assert "b" in reconciler.calls


@virtual_time
async def test_another_look_comes_when_it_was_asked_for() -> None:
    """Without an event."""
    reconciler = Scripted(a=[Result(requeue_after_seconds=0.02), Result()])
    await run(reconciler, 2, "a")
    assert reconciler.calls == ["a", "a"]


@virtual_time
async def test_a_reconcile_that_does_not_end_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """After the grace period; it is done again after the next start."""

    class Stuck:
        async def reconcile(self, key: str) -> Result:
            await asyncio.Event().wait()
            return Result()

    queue: Workqueue[str] = Workqueue()
    controller = Controller("test", Stuck(), queue, grace_seconds=0.05)
    stopping = asyncio.Event()
    caplog.set_level(logging.WARNING)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(controller.run(stopping))
        queue.add("a")
        await asyncio.sleep(0.01)
        stopping.set()
    assert "cut off" in caplog.text
