"""Child processes that are started in order, kept alive, and stopped in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from gm.errors import GmError
from gm.local.lifeline import LIFELINE

__all__ = ["Program", "ProgramDied", "Supervisor", "last_words", "supervising"]

RESTART_SECONDS = 1.0  # first delay before a restart; doubles up to RESTART_MAX_SECONDS
RESTART_MAX_SECONDS = 30.0
STABLE_SECONDS = 10.0  # after this long a life the delay starts over
STOP_SECONDS = 10.0  # from SIGTERM to SIGKILL


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One child process: its command line, and the file that takes its output.

    The program calls :func:`gm.local.lifeline.adopt` early and the function that this returns once
    it is ready. The death of an ``essential`` program ends everything: what it held can not be
    had again.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    essential: bool = False


class ProgramDied(GmError):
    """A program failed to start, or an essential one died; the message says where its log is."""


class _LogLine(msgspec.Struct):
    level: str
    message: str
    reason: str = ""


def last_words(log: Path) -> str:
    """What a program that ended said last about it, at most 500 characters; empty if nothing.

    Of log records only errors count: what was going on before a ``kill -9`` explains nothing.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if line.startswith("{"):
        try:
            record = msgspec.json.decode(line, type=_LogLine)
        except msgspec.MsgspecError:
            return ""
        if record.level != "error":
            return ""
        line = ": ".join(filter(None, (record.message, record.reason)))
    return line[-500:]


def _ending(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


class Supervisor:
    """Starts programs one after another and restarts those that die.

    Made by :func:`supervising`. ``say`` is given one line for whatever a person should know.
    """

    def __init__(
        self,
        group: asyncio.TaskGroup,
        *,
        pid_file: Path,
        say: Callable[[str], None],
        restart_seconds: float = RESTART_SECONDS,
    ) -> None:
        self._group, self._pid_file, self._say = group, pid_file, say
        self._restart_seconds = restart_seconds
        self._started: list[tuple[asyncio.Task[None], ...]] = []
        self._pids: dict[str, int] = {}

    def pid(self, name: str) -> int | None:
        """Process id of the running program ``name``."""
        return self._pids.get(name)

    async def start(self, *programs: Program) -> None:
        """Start ``programs`` side by side; returns when all of them say that they are ready.

        Raises: ProgramDied if one ends before.
        """
        loop = asyncio.get_running_loop()
        readiness = [loop.create_future() for _ in programs]
        self._started.append(
            tuple(
                self._group.create_task(self._keep(program, ready), name=f"keep-{program.name}")
                for program, ready in zip(programs, readiness, strict=True)
            )
        )
        # All outcomes are looked at, so that a second failure is not lost without a trace.
        outcomes = await asyncio.gather(*readiness, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def stop(self) -> None:
        """Stop all programs, the last started first; those started together, together."""
        for tasks in reversed(self._started):
            for task in tasks:
                # A second cancellation would cut short the stopping that the first one began.
                if not task.cancelling():
                    task.cancel()
            await asyncio.wait(tasks)
        self._started.clear()

    async def _keep(self, program: Program, ready: asyncio.Future[None]) -> None:
        """Run ``program`` again and again; cancellation stops it."""
        loop = asyncio.get_running_loop()
        delay = self._restart_seconds
        while True:
            born = loop.time()
            code = await self._run_once(program, ready)
            if not ready.done():
                ready.set_exception(ProgramDied(self._why(program, code, "did not start: it ")))
                return
            if program.essential:
                raise ProgramDied(self._why(program, code, ""))
            if loop.time() - born >= STABLE_SECONDS:
                delay = self._restart_seconds
            self._say(self._why(program, code, "") + f"; restarting in {delay:g} s")
            await asyncio.sleep(delay)
            delay = min(delay * 2, RESTART_MAX_SECONDS)

    def _why(self, program: Program, code: int, verb: str) -> str:
        line = last_words(program.log)
        said = f", saying: {line}" if line else ""
        return f"{program.name} {verb}{_ending(code)}{said} (log: {program.log})"

    async def _run_once(self, program: Program, ready: asyncio.Future[None]) -> int:
        read_end, write_end = os.pipe()
        with program.log.open("ab") as log:
            try:
                # A session of its own: Ctrl-C reaches the supervisor alone, which then stops
                # everything in order.
                process = await asyncio.create_subprocess_exec(
                    *program.argv,
                    env={**os.environ, LIFELINE: f"{os.getpid()}:{write_end}"},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(write_end,),
                )
            except BaseException:
                os.close(read_end)
                raise
            finally:
                os.close(write_end)
        self._record(program.name, process.pid)
        try:
            # Closed without a word: the program is on its way out, and wait() says how.
            if await _wait_ready(read_end) and not ready.done():
                ready.set_result(None)
            return await process.wait()
        except asyncio.CancelledError:
            await _terminate(process)
            raise
        finally:
            self._record(program.name, None)

    def _record(self, name: str, pid: int | None) -> None:
        if pid is None:
            self._pids.pop(name, None)
        else:
            self._pids[name] = pid
        with contextlib.suppress(OSError):  # the directory may be gone when all ends
            self._pid_file.write_text("".join(f"{n} {p}\n" for n, p in self._pids.items()))


async def _wait_ready(read_end: int) -> bool:
    """True when the program wrote to its end of the pipe, False when it closed it silently."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(read_end, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        return bool(await reader.read(1))
    finally:
        transport.close()


async def _terminate(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def supervising(
    *, pid_file: Path, say: Callable[[str], None], restart_seconds: float = RESTART_SECONDS
) -> AsyncIterator[Supervisor]:
    """A supervisor for the body's lifetime; all programs are stopped when the body ends.

    Raises: ProgramDied (in an ExceptionGroup) if an essential program dies meanwhile.
    """
    async with asyncio.TaskGroup() as group:
        supervisor = Supervisor(group, pid_file=pid_file, say=say, restart_seconds=restart_seconds)
        try:
            yield supervisor
        finally:
            await supervisor.stop()
