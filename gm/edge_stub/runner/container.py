"""One run of one container: a process under a shim, how it ended, and when to run it again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gm.edge_stub.runner import shim

__all__ = [
    "NEVER_STARTED",
    "Backoff",
    "ContainerProcess",
    "Exit",
    "Order",
    "kill_marked",
    "should_restart",
]

MARKER = "GM_RUNNER_CONTAINER"
"""Environment variable that every process of a container carries."""

NEVER_STARTED = datetime.fromtimestamp(0, UTC)
"""What container runtimes say of when a container started that could not."""

_REPORT_BYTES = 1 << 20


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to execute: ``env`` is the whole environment, ``log`` the file for its output.

    ``marker`` tells the processes of this container from all others on the machine. ``mounts``
    maps mount paths to the real ones that ``argv`` and ``env`` have already.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    log: Path
    log_max_bytes: int
    marker: str
    mounts: dict[str, str] = {}


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a container ended; ``started_at`` is `NEVER_STARTED` where nothing could be executed.

    ``finished_at`` None is for a container that was never there. ``identity`` is the container's
    in the API, empty as long as nobody has said which it was.
    """

    code: int
    reason: str
    message: str = ""
    started_at: datetime | None
    finished_at: datetime | None
    identity: str = ""

    @property
    def ran_seconds(self) -> float:
        """How long it ran."""
        if not self.started_at or not self.finished_at or self.started_at == NEVER_STARTED:
            return 0.0
        return (self.finished_at - self.started_at).total_seconds()


class Backoff:
    """When a container that ended may start again, as a kubelet counts it.

    The first restart is immediate; then it waits, doubling from ``first_seconds`` up to
    ``max_seconds``. A run of more than twice ``max_seconds`` starts the count over.
    Source: client-go's flowcontrol.Backoff as the kubelet uses it.
    """

    def __init__(self, *, first_seconds: float, max_seconds: float) -> None:
        self._first_seconds, self._max_seconds = first_seconds, max_seconds
        self._seconds = 0.0

    def next(self, ran_seconds: float) -> float:
        """Seconds to wait now, after a run of ``ran_seconds``."""
        if ran_seconds > 2 * self._max_seconds:
            self._seconds = 0.0
        wait = self._seconds
        self._seconds = min(wait * 2 or self._first_seconds, self._max_seconds)
        return wait


def should_restart(policy: str, code: int) -> bool:
    """Whether restartPolicy ``policy`` wants a container back that exited with ``code``."""
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


class ContainerProcess:
    """A container's processes; made by `start`, collected by `wait`."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        reports: asyncio.StreamReader,
        read_transport: asyncio.ReadTransport,
        orders: asyncio.WriteTransport,
        order: Order,
    ) -> None:
        self._popen, self._reports = popen, reports
        self._read_transport, self._orders, self._order = read_transport, orders, order
        self._started = False
        self._exit: Exit | None = None
        self.pid = 0
        self.started_at = datetime.now(UTC)

    @classmethod
    async def start(cls, order: Order) -> ContainerProcess:
        """Start ``order`` and return once it runs, or once it is known that it can not.

        In the second case `wait` tells why, with reason ``StartError``. Must be called on the
        thread that outlives the container: its end would kill the shim (see prctl(2)).
        """
        # Popen and not asyncio's: the pipes tell when the shim ends, and no child watcher, which
        # may be a thread, gets between fork and wait.
        popen = subprocess.Popen(  # noqa: S603, ASYNC220 - the order is what the pod asks for
            [sys.executable, "-I", "-S", shim.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={MARKER: order.marker, **_loader_environment()},
            start_new_session=True,
        )
        try:
            self = await cls._connect(popen, order)
        except BaseException:
            # It was not told what to run yet.
            popen.kill()
            with popen:
                raise
        try:
            self._orders.write(_encode(order))
            await self._next_report()
        except BaseException:
            self.kill()
            self._close()
            raise
        return self

    @classmethod
    async def _connect(cls, popen: subprocess.Popen[bytes], order: Order) -> ContainerProcess:
        loop = asyncio.get_running_loop()
        reports = asyncio.StreamReader(limit=_REPORT_BYTES)
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reports), popen.stdout
        )
        try:
            writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, popen.stdin)
        except BaseException:
            reading.close()
            raise
        return cls(popen, reports, reading, writing, order)

    @property
    def is_running(self) -> bool:
        """Whether the main process was started and has not been seen to end."""
        return self._started and self._exit is None

    def terminate(self) -> None:
        """Send SIGTERM to the main process."""
        if self._exit is None:
            self._popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill everything below, at once."""
        if self._exit is None:
            self._popen.send_signal(shim.KILL_ALL)

    async def wait(self) -> Exit:
        """How it ended, once all its processes are gone; may be cancelled and called again."""
        while self._exit is None:
            await self._next_report()
        self._close()
        return self._exit

    async def kill_and_wait(self) -> Exit:
        """Kill everything below and collect it, also when cancelled meanwhile, if need be again.

        Soon done: the shim kills at once. Raises: asyncio.CancelledError, but only then.
        """
        self.kill()
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                ended = await self.wait()
            except asyncio.CancelledError as exc:
                cancelled = exc
            else:
                break
        if cancelled is not None:
            raise cancelled
        return ended

    async def stop(self, grace_seconds: float) -> Exit:
        """SIGTERM, and after ``grace_seconds`` SIGKILL; returns how it ended."""
        self.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        return await self.kill_and_wait()

    async def _next_report(self) -> None:
        line = await self._reports.readline()
        if not line:
            self._shim_is_gone()
            return
        report: dict[str, dict[str, Any]] = msgspec.json.decode(line)
        if "started" in report:
            self._started = True
            self.pid = report["started"]["pid"]
            self.started_at = _moment(report["started"]["at"])
        elif "failed" in report:
            self.started_at = NEVER_STARTED
            self._end(128, "StartError", report["failed"]["message"], datetime.now(UTC))
        else:
            ended = report["exited"]
            reason = "Completed" if ended["code"] == 0 else "Error"
            self._end(ended["code"], reason, "", _moment(ended["at"]))

    def _shim_is_gone(self) -> None:
        """Only a SIGKILL ends a shim without a report; its main process died with it."""
        kill_marked(self._order.marker)
        self._end(137, "Error", "killed together with its supervisor", datetime.now(UTC))

    def _end(self, code: int, reason: str, message: str, finished_at: datetime) -> None:
        self._exit = Exit(
            code=code,
            reason=reason,
            message=message,
            started_at=self.started_at,
            finished_at=finished_at,
        )

    def _close(self) -> None:
        if not self._orders.is_closing():
            self._orders.abort()
        self._read_transport.close()
        self._popen.wait()  # short: the shim has reported its last, or was told to kill and leave


def _encode(order: Order) -> bytes:
    return (
        msgspec.json.encode(
            {
                "argv": order.argv,
                "env": {**order.env, MARKER: order.marker},
                "cwd": str(order.cwd),
                "log": str(order.log),
                "log_max_bytes": order.log_max_bytes,
            }
        )
        + b"\n"
    )


def _loader_environment() -> dict[str, str]:
    """What a Python that was built with a shared library may need to start at all."""
    path = os.environ.get("LD_LIBRARY_PATH")
    return {} if path is None else {"LD_LIBRARY_PATH": path}


def kill_marked(prefix: str) -> int:
    """Kill every process whose marker begins with ``prefix``; returns how many there were.

    For what a killed shim leaves behind: its main process dies with it, grandchildren do not.
    """
    killed: set[int] = set()
    while found := _marked(f"{MARKER}={prefix}".encode()):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= found  # again: one may have forked meanwhile
    return len(killed)


def _marked(wanted: bytes) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            environ = (entry / "environ").read_bytes().split(b"\0")
            if any(item.startswith(wanted) for item in environ):
                found.add(int(entry.name))
    return found
