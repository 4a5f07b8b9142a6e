"""Programs start in order, are restarted when they die, and never outlive their supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from gm.local.supervisor import Program, ProgramDied, last_words, supervising

READY = "from gm.local.lifeline import adopt; ready = adopt(); ready(); import time; "


def program(
    directory: Path, script: str, *, name: str = "worker", essential: bool = False
) -> Program:
    """A Python one-liner as a supervised program."""
    return Program(
        name=name,
        argv=(sys.executable, "-c", script),
        log=directory / f"{name}.log",
        essential=essential,
    )


async def wait_until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Look again and again until ``condition`` holds; the test's timeout bounds it."""
    while True:
        result = condition()
        if (await result) if isinstance(result, Awaitable) else result:
            return
        await asyncio.sleep(0.02)


async def test_a_program_that_dies_is_restarted_and_named(tmp_path: Path) -> None:
    """The death is told with its signal and log, and a new process takes the name."""
    said: list[str] = []
    async with supervising(
        pid_file=tmp_path / "pids", say=said.append, restart_seconds=0.01
    ) as supervisor:
        await supervisor.start(program(tmp_path, READY + "time.sleep(600)"))
        first = supervisor.pid("worker")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await wait_until(lambda: supervisor.pid("worker") not in (None, first))
        assert f"worker {supervisor.pid('worker')}\n" == (tmp_path / "pids").read_text()
    assert len(said) == 1
    assert "worker was killed by SIGKILL" in said[0]
    assert str(tmp_path / "worker.log") in said[0]


async def test_a_program_that_never_gets_ready_fails_the_start_with_its_last_words(
    tmp_path: Path,
) -> None:
    """The exception carries exit code, last line and log file."""
    with pytest.raises(ExceptionGroup) as caught:
        async with supervising(pid_file=tmp_path / "pids", say=print) as supervisor:
            await supervisor.start(
                program(tmp_path, "import sys; sys.exit('port 1 is in use')", name="api")
            )
    (error,) = caught.value.exceptions
    assert isinstance(error, ProgramDied)
    assert "api did not start: it ended with exit code 1, saying: port 1 is in use" in str(error)
    assert str(tmp_path / "api.log") in str(error)


async def test_the_death_of_an_essential_program_ends_everything(tmp_path: Path) -> None:
    """The body is cancelled, all others are stopped, and the reason surfaces."""
    others: list[int | None] = []

    async def body() -> None:
        async with supervising(pid_file=tmp_path / "pids", say=print) as supervisor:
            await supervisor.start(
                program(tmp_path, READY + "time.sleep(600)", name="api", essential=True)
            )
            await supervisor.start(program(tmp_path, READY + "time.sleep(600)"))
            others.append(supervisor.pid("worker"))
            os.kill(supervisor.pid("api") or 0, signal.SIGKILL)
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await body()
    assert any("api was killed by SIGKILL" in str(error) for error in caught.value.exceptions)
    assert others[0] is not None
    assert not psutil.pid_exists(others[0])


async def test_programs_are_stopped_in_reverse_order(tmp_path: Path) -> None:
    """What was started last is gone before what it may depend on."""
    script = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit("
        "open({log!r}, 'a').write({name!r}) and 0)); " + READY + "time.sleep(600)"
    )
    log = tmp_path / "order"
    async with supervising(pid_file=tmp_path / "pids", say=print) as supervisor:
        for name in ("a", "b", "c"):
            await supervisor.start(
                program(tmp_path, script.format(log=str(log), name=name), name=name)
            )
    assert log.read_text() == "cba"


async def test_programs_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """kill -9 of the supervisor leaves no program behind."""
    outer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from gm.local.supervisor import Program, supervising\n"
            "async def main():\n"
            "    d = Path(sys.argv[1])\n"
            "    async with supervising(pid_file=d / 'pids', say=print) as s:\n"
            f"        argv = (sys.executable, '-c', {READY + 'time.sleep(600)'!r})\n"
            "        await s.start(Program(name='w', argv=argv, log=d / 'w.log'))\n"
            "        print(s.pid('w'), flush=True)\n"
            "        await asyncio.Event().wait()\n"
            "asyncio.run(main())\n",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert outer.stdout is not None
    pid = int(await asyncio.to_thread(outer.stdout.readline))
    assert psutil.pid_exists(pid)
    outer.kill()
    outer.wait()
    outer.stdout.close()
    await wait_until(lambda: not psutil.pid_exists(pid))


def test_the_last_words_are_a_plain_line_or_an_error_record(tmp_path: Path) -> None:
    """Blank lines do not count, nor records of what went well; no file is no word."""
    log = tmp_path / "log"
    assert last_words(log) == ""
    log.write_text("first\nsecond  \n\n")
    assert last_words(log) == "second"
    log.write_text('{"level":"info","message":"child created"}\n')
    assert last_words(log) == ""
    log.write_text('{"level":"error","message":"can not go on","reason":"no disk"}\n')
    assert last_words(log) == "can not go on: no disk"
    log.write_text('{"cut off\n')
    assert last_words(log) == ""
