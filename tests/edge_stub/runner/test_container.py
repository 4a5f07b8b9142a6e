"""Containers as processes under their shim; real processes throughout."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from gm.edge_stub.runner.container import (
    MARKER,
    NEVER_STARTED,
    Backoff,
    ContainerProcess,
    Order,
    kill_marked,
    should_restart,
)
from tests.edge_stub.runner.support import is_alive, marked_pids, pids_in, wait_dead

Make = Callable[..., Order]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """An order for a command line."""

    def order(*argv: str, log_max_bytes: int = 1 << 20, **env: str) -> Order:
        return Order(
            argv=argv,
            env={"PATH": os.environ["PATH"], **env},
            cwd=tmp_path,
            log=tmp_path / "log",
            log_max_bytes=log_max_bytes,
            marker=f"test-{tmp_path}",
        )

    return order


FAMILY = """
sleep 1000 & echo $! >> pids
sh -c 'sleep 1000 & echo $! >> pids; sleep 1000' & echo $! >> pids
(setsid sleep 1000 & echo $! >> pids) &
echo $$ >> pids
sleep 1000
"""
FAMILY_SIZE = 5


async def test_exit_codes_output_and_times(make: Make) -> None:
    """What a container printed and how it ended."""
    process = await ContainerProcess.start(make("sh", "-c", "echo out; echo err >&2; exit 3"))
    ended = await process.wait()
    assert (ended.code, ended.reason) == (3, "Error")
    assert ended.started_at is not None
    assert ended.finished_at is not None
    assert ended.started_at <= ended.finished_at
    assert ended.ran_seconds == (ended.finished_at - ended.started_at).total_seconds()
    lines = (make().log).read_text().splitlines()
    assert sorted(line.split(" ", 1)[1] for line in lines) == ["stderr F err", "stdout F out"]
    assert await process.wait() == ended, "and it stays so"


async def test_success_is_completed(make: Make) -> None:
    """Exit code 0."""
    ended = await (await ContainerProcess.start(make("true"))).wait()
    assert (ended.code, ended.reason) == (0, "Completed")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL])
async def test_a_signal_is_128_and_its_number(make: Make, signum: signal.Signals) -> None:
    """As container runtimes tell it."""
    process = await ContainerProcess.start(make("sh", "-c", f"kill -{int(signum)} $$"))
    ended = await process.wait()
    assert ended.code == 128 + signum


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("no-such-program",), 'exec: "no-such-program": executable file not found in $PATH'),
        (("/no/such/program",), "no such file or directory"),
        (("/etc",), "permission denied"),
    ],
)
async def test_what_can_not_be_executed_is_a_start_error(
    make: Make, argv: tuple[str, ...], message: str
) -> None:
    """Reason, code and message are there without anything having run."""
    process = await ContainerProcess.start(make(*argv))
    assert not process.is_running
    ended = await process.wait()
    assert (ended.code, ended.reason) == (128, "StartError")
    assert (ended.started_at, ended.ran_seconds) == (NEVER_STARTED, 0)
    assert message in ended.message


async def test_a_missing_working_directory_is_a_start_error(make: Make, tmp_path: Path) -> None:
    """And names it."""
    order = msgspec.structs.replace(make("true"), cwd=tmp_path / "gone")
    ended = await (await ContainerProcess.start(order)).wait()
    assert ended.reason == "StartError"
    assert str(tmp_path / "gone") in ended.message


async def test_sigterm_reaches_the_main_process_only_and_its_code_is_told(
    make: Make, tmp_path: Path
) -> None:
    """A program that ends cleanly on SIGTERM has the code it chose."""
    script = "trap 'exit 7' TERM; echo $$ > pids; while :; do sleep 0.05; done"
    process = await ContainerProcess.start(make("sh", "-c", script))
    await pids_in(tmp_path / "pids", 1)
    ended = await process.stop(20)
    assert ended.code == 7


async def test_after_the_grace_period_comes_sigkill(make: Make, tmp_path: Path) -> None:
    """For a program that ignores SIGTERM."""
    process = await ContainerProcess.start(
        make("sh", "-c", "trap '' TERM; echo $$ > pids; sleep 1000")
    )
    await pids_in(tmp_path / "pids", 1)
    ended = await process.stop(0.1)
    assert ended.code == 137


async def test_when_the_main_process_ends_everything_below_it_ends(
    make: Make, tmp_path: Path
) -> None:
    """Grandchildren, and those that left for a session of their own."""
    script = FAMILY.rstrip().removesuffix("sleep 1000")
    process = await ContainerProcess.start(
        make("sh", "-c", script + 'while [ "$(wc -w < pids)" -lt 5 ]; do sleep 0.01; done')
    )
    ended = await process.wait()
    assert ended.code == 0
    for pid in await pids_in(tmp_path / "pids", FAMILY_SIZE):
        assert not is_alive(pid)


async def test_kill_ends_everything_at_once(make: Make, tmp_path: Path) -> None:
    """Whatever it is doing."""
    process = await ContainerProcess.start(make("sh", "-c", FAMILY))
    pids = await pids_in(tmp_path / "pids", FAMILY_SIZE)
    process.kill()
    ended = await process.wait()
    assert ended.code == 137
    assert not any(is_alive(pid) for pid in pids)


async def test_a_shim_that_is_killed_takes_its_container_along(make: Make, tmp_path: Path) -> None:
    """Its main process by the kernel's hand, grandchildren by the runner's."""
    process = await ContainerProcess.start(make("sh", "-c", FAMILY))
    pids = await pids_in(tmp_path / "pids", FAMILY_SIZE)
    shim = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(shim, signal.SIGKILL)
    ended = await process.wait()
    assert (ended.code, ended.reason) == (137, "Error")
    assert "supervisor" in ended.message
    await wait_dead(*pids)


NODE = """
import asyncio, sys
from pathlib import Path
from gm.edge_stub.runner.container import ContainerProcess, Order

async def main() -> None:
    directory = Path(sys.argv[1])
    await ContainerProcess.start(Order(
        argv=("sh", "-c", sys.argv[2]), env={"PATH": "/usr/bin:/bin"}, cwd=directory,
        log=directory / "log", log_max_bytes=1000, marker=f"test-{directory}"))
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("script", ["sleep 1000 & echo $! >> pids; sleep 1000", FAMILY])
async def test_a_node_that_is_killed_leaves_nothing_behind(tmp_path: Path, script: str) -> None:
    """Not even grandchildren: kill -9 gives the node no chance to clean up."""
    node = subprocess.Popen([sys.executable, "-c", NODE, str(tmp_path), script])
    try:
        pids = await pids_in(tmp_path / "pids", script.count(">> pids"))
        assert all(is_alive(pid) for pid in pids)
    finally:
        node.kill()
        node.wait()
    await wait_dead(*pids)
    async with asyncio.timeout(20):
        while marked_pids(f"test-{tmp_path}"):
            await asyncio.sleep(0.01)


async def test_a_shim_whose_parent_is_not_the_expected_one_runs_nothing(tmp_path: Path) -> None:
    """The parent died before the shim could ask for a signal."""
    from gm.edge_stub.runner import shim

    done = subprocess.run(
        [sys.executable, "-I", "-S", shim.__file__, "1"],
        input=b'{"argv": ["touch", "made"], "env": {}, "cwd": "."}\n',
        cwd=tmp_path,
        capture_output=True,
        timeout=20,
    )
    assert done.stdout == b""
    assert not (tmp_path / "made").exists()


async def test_a_large_environment_arrives(make: Make) -> None:
    """More than a pipe holds."""
    big = "x" * 100_000
    order = make("sh", "-c", "echo ${#A} ${#B}", A=big, B=big)
    await (await ContainerProcess.start(order)).wait()
    assert order.log.read_text().endswith("stdout F 100000 100000\n")


async def test_environment_and_arguments_are_exactly_those_of_the_order(make: Make) -> None:
    """Nothing is inherited; a marker tells whose process it is."""
    order = make("env")
    await (await ContainerProcess.start(order)).wait()
    lines = {line.split(" ", 3)[3] for line in order.log.read_text().splitlines()}
    assert lines == {f"PATH={os.environ['PATH']}", f"{MARKER}={order.marker}"}


async def test_long_lines_are_split_and_the_log_is_rotated(make: Make) -> None:
    """Partial entries are marked; at most two files of the size exist."""
    order = make(
        "sh", "-c", "head -c 40000 /dev/zero | tr '\\0' x; echo; printf end", log_max_bytes=20000
    )
    await (await ContainerProcess.start(order)).wait()
    files = [order.log.with_name("log.1"), order.log]
    entries = [line.split(" ", 3) for f in files for line in f.read_text().splitlines()]
    assert entries[-1][2:] == ["P", "end"], "a line that never ended"
    assert all(file.stat().st_size <= 20000 for file in files)
    assert {entry[2] for entry in entries} == {"P", "F"}


async def test_cancelling_a_wait_loses_nothing(make: Make, tmp_path: Path) -> None:
    """The next one gets the result."""
    process = await ContainerProcess.start(make("sh", "-c", "echo $$ > pids; sleep 1000"))
    await pids_in(tmp_path / "pids", 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await process.wait()
    assert process.is_running
    assert (await process.stop(20)).code == 143


async def test_a_process_that_is_killed_is_collected_however_often_that_is_cancelled(
    make: Make,
) -> None:
    """A probe that took too long, of a pod that is stopped at the same time."""
    before = {*psutil.Process().children()}
    process = await ContainerProcess.start(make("sleep", "1000"))
    assert {*psutil.Process().children()} - before
    killing = asyncio.ensure_future(process.kill_and_wait())
    await asyncio.sleep(0)
    while not killing.done():
        killing.cancel()
        await asyncio.sleep(0)
    assert killing.cancelled()
    assert not {*psutil.Process().children()} - before
    assert (await process.wait()).code == 137


async def test_a_cancelled_start_leaves_no_process(make: Make, tmp_path: Path) -> None:
    """At whichever moment the cancellation comes."""
    for turns in range(0, 40, 3):
        starting = asyncio.ensure_future(ContainerProcess.start(make("sleep", "1000")))
        for _ in range(turns):
            await asyncio.sleep(0)
        if starting.done():
            await starting.result().stop(0)
        starting.cancel()
        await asyncio.wait([starting])
    async with asyncio.timeout(20):
        while marked_pids(f"test-{tmp_path}"):
            await asyncio.sleep(0.01)


def test_marked_processes_are_found_and_killed() -> None:
    """What an earlier run left, wherever it hangs in the process tree."""
    marker = f"test-{os.getpid()}-left"
    left = subprocess.Popen(["sleep", "1000"], env={**os.environ, MARKER: f"{marker}/c/0"})
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, MARKER: "test-other/c/0"})
    try:
        assert kill_marked(f"{marker}/") >= 1
        assert left.wait(20) == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_the_first_restart_is_immediate_then_waits_double() -> None:
    """Up to a limit, and from the start again after a long run."""
    backoff = Backoff(first_seconds=10, max_seconds=300)
    assert [backoff.next(1) for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert backoff.next(599) == 300
    assert [backoff.next(601), backoff.next(1)] == [0, 10]


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policies(policy: str, code: int, expected: bool) -> None:
    """All of them."""
    assert should_restart(policy, code) is expected
