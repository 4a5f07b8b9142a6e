"""The edge stub as a whole, composed; and what it costs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gm.edge_stub import main
from gm.edge_stub.main import run_edge
from gm.edge_stub.settings import EdgeSettings, RunnerSettings

NOWHERE = "ws://127.0.0.1:1/"


def settings(tmp_path: Path, **changes: Any) -> EdgeSettings:
    """An LC that finds no GM."""
    return EdgeSettings(
        node="edge1", gm=NOWHERE, root=tmp_path, state=tmp_path, listen="127.0.0.1:0", **changes
    )


async def test_plain_lc_is_ready_and_stops_when_told(tmp_path: Path) -> None:
    """GM's absence changes nothing about either."""
    stopping, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(run_edge(settings(tmp_path), stopping, ready=ready.set))
        await ready.wait()
        stopping.set()


class FakeRunner:
    """Plays a node without a cluster; ``log`` tells what happened when."""

    log: list[str] = []  # noqa: RUF012
    crashes = False

    def __init__(self, settings: RunnerSettings) -> None:
        self.settings = settings
        self._ready = asyncio.Event()

    async def wait_ready(self) -> None:
        """Return once the node is registered."""
        await self._ready.wait()

    async def run(self, stopping: asyncio.Event) -> None:
        """Play it."""
        self.log.append("runner starts")
        if self.crashes:
            raise RuntimeError("runner is broken")
        self._ready.set()
        await stopping.wait()
        self.log.append("runner stops")


@pytest.fixture
def fake_runner(monkeypatch: pytest.MonkeyPatch) -> type[FakeRunner]:
    """Stands in for the runner, whose cluster is tested elsewhere."""
    from gm.edge_stub import runner

    FakeRunner.log, FakeRunner.crashes = [], False
    monkeypatch.setattr(runner, "Runner", FakeRunner)

    class Watched(main.LocalController):
        async def run(self, stopping: asyncio.Event) -> None:
            FakeRunner.log.append("lc starts")
            await super().run(stopping)
            FakeRunner.log.append("lc stops")

    monkeypatch.setattr(main, "LocalController", Watched)
    return FakeRunner


def with_runner(tmp_path: Path) -> EdgeSettings:
    """Settings in runner mode."""
    runner = RunnerSettings(node="edge1", root=tmp_path, state=tmp_path, address="127.0.0.1")
    return settings(tmp_path, runner=runner)


async def test_runner_starts_after_the_lc_and_stops_before_it(
    tmp_path: Path, fake_runner: type[FakeRunner]
) -> None:
    """Pods that end still have somebody to report to."""
    stopping, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(run_edge(with_runner(tmp_path), stopping, ready=ready.set))
        await ready.wait()
        stopping.set()
    assert fake_runner.log == ["lc starts", "runner starts", "runner stops", "lc stops"]


async def test_crash_of_the_runner_ends_the_lc(
    tmp_path: Path, fake_runner: type[FakeRunner]
) -> None:
    """Never half alive."""
    fake_runner.crashes = True
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(run_edge(with_runner(tmp_path), asyncio.Event()), 20)
    assert caught.group_contains(RuntimeError, match="runner is broken")


PROGRAM = """
import asyncio, sys
from pathlib import Path
from gm.edge_stub.main import run_edge
from gm.edge_stub.settings import EdgeSettings

async def body():
    state = Path(sys.argv[1])
    settings = EdgeSettings(
        node="edge1", gm=sys.argv[2], root=state, state=state, listen="127.0.0.1:0"
    )
    await run_edge(settings, asyncio.Event(), ready=lambda: print("ready", flush=True))

asyncio.run(body())
"""


@contextlib.asynccontextmanager
async def process(state: Path, gm: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A plain LC in a process of its own."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(state), gm), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert started.stdout is not None
        assert await asyncio.wait_for(started.stdout.readline(), 30) == b"ready\n"
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def test_plain_lc_is_small_and_knows_no_kubernetes(tmp_path: Path) -> None:
    """48 MiB at most; on an edge device there are other things to run."""
    async with process(tmp_path, NOWHERE) as running:
        status = Path(f"/proc/{running.pid}/status").read_text()
        resident = int(status.split("VmRSS:")[1].split()[0])
        maps = Path(f"/proc/{running.pid}/maps").read_text()
    assert resident <= 48 * 1024
    assert "kubernetes" not in maps
    checked = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c"),
        "import sys, gm.edge_stub.main; "
        "sys.exit(any(m.startswith(('kubernetes', 'gm.kube')) for m in sys.modules))",
    )
    assert await checked.wait() == 0


async def test_kill_9_in_the_middle_of_a_sync_loses_nothing_P1_035(tmp_path: Path) -> None:
    """What was acknowledged before is held afterwards; the rest comes with the next sync."""
    from gm.messagelayer import v2
    from tests.fakes.gm import FakeGM, dataset

    async with FakeGM(speaks_v2=True) as gm:
        async with process(tmp_path, gm.url) as running:
            session = await gm.session()
            await session.send_v2(v2.Welcome(1_000_000, 8))
            for number in range(200):
                await session.put(dataset(f"d{number}"), "x")
            await session.wait_received(50)
            os.kill(running.pid, signal.SIGKILL)
            await session.ended.wait()
        acknowledged = {f.name for f in session.received if isinstance(f, v2.Ack)}
        async with process(tmp_path, gm.url):
            (hello,) = await (await gm.session()).wait_received(1)
        assert acknowledged <= {holding.name for holding in hello.inventory}
