"""A whole federation as child processes on loopback, with means to hurt it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from gm.examples.federated.prepare import DATASET_URL, prepare

PATIENCE_SECONDS = 60


class Child:
    """One worker process; ``lines`` is what it has written so far."""

    def __init__(self, module: str, environ: Mapping[str, str]) -> None:
        self._module, self._environ = module, dict(environ)
        self.lines: list[str] = []
        self._news = asyncio.Condition()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        """Start it, or start it again as a kubelet would."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", f"gm.examples.federated.{self._module}"),
            env=self._environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reader = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for raw in process.stdout:
            async with self._news:
                self.lines.append(raw.decode().rstrip())
                self._news.notify_all()

    async def wait_line(self, pattern: str, *, count: int = 1) -> None:
        """Return once ``count`` of its lines match ``pattern``."""

        def seen() -> bool:
            return sum(bool(re.search(pattern, line)) for line in self.lines) >= count

        async with asyncio.timeout(PATIENCE_SECONDS), self._news:
            try:
                await self._news.wait_for(seen)
            except asyncio.CancelledError:
                sys.stderr.write(f"no {pattern!r} in {self.lines}\n")
                raise

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        """End it as an out-of-memory killer would."""
        self.process.kill()
        await self.process.wait()

    async def exit_code(self) -> int:
        """Its exit code, once it has ended by itself."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            code = await self.process.wait()
            assert self._reader is not None
            await self._reader
            return code

    async def clean_up(self) -> None:
        """Leave nothing behind."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._reader is not None:
            await self._reader
            # asyncio closes pipe transports only in a later turn of the loop.
            await asyncio.sleep(0)


class Federation:
    """An aggregator on ``cloud`` and a trainer on each edge, in the directory ``nodes``."""

    def __init__(self, nodes: Path, *, lc_server: str, participants: int = 2, rounds: int = 4):
        self.nodes, self.port = nodes, free_port()
        self.model = nodes / "cloud/models/fl/model.npz"
        self._lc_server = lc_server
        self._participants, self._rounds = participants, rounds
        self._children: list[Child] = []
        self.aggregator = self.new_aggregator()
        self.trainers = [self.new_trainer(f"edge{n}") for n in range(1, participants + 1)]

    def _environ(self, **more: str) -> dict[str, str]:
        # No more than a pod gets: a worker that leans on the developer's shell fails here.
        return {
            "PATH": os.environ["PATH"],
            "NAMESPACE": "default",
            "JOB_NAME": "fl",
            "PARTICIPANTS_COUNT": str(self._participants),
            "TRANSMITTER": "ws",
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }

    def new_aggregator(self, **more: str) -> Child:
        """An aggregator that is not started yet; ``more`` goes over its environment."""
        environ = self._environ(
            WORKER_NAME="aggworker-abcde",
            POD_IP="127.0.0.1",
            AGG_BIND_PORT=str(self.port),
            MODEL_URL=str(self.model),
            ROUNDS=str(self._rounds),
            COMPLETION_GRACE_SECONDS="30",
        )
        return self._child("aggregate", {**environ, **more})

    def new_trainer(self, node: str, **more: str) -> Child:
        """A trainer that is not started yet; ``more`` goes over its environment."""
        environ = self._environ(
            WORKER_NAME=f"trainworker-{node}",
            AGG_IP="127.0.0.1",
            AGG_PORT=str(self.port),
            NODE_NAME=node,
            MODEL_NAME="fl",
            MODEL_URL="/models/fl/model.npz",
            DATASET_NAME=f"digits-{node}",
            TRAIN_DATASET_URL=str(self.nodes / node) + DATASET_URL,
            LC_SERVER=self._lc_server,
        )
        return self._child("train", {**environ, **more})

    def _child(self, module: str, environ: Mapping[str, str]) -> Child:
        child = Child(module, environ)
        self._children.append(child)
        return child

    async def start(self) -> None:
        """Start all of them."""
        for child in (self.aggregator, *self.trainers):
            await child.start()

    async def exit_codes(self) -> list[int]:
        """Of the aggregator and the trainers, once they have ended."""
        return [await child.exit_code() for child in (self.aggregator, *self.trainers)]

    async def clean_up(self) -> None:
        """Leave nothing behind."""
        for child in self._children:
            await child.clean_up()


@contextlib.asynccontextmanager
async def federation(
    nodes: Path, *, lc_server: str, participants: int = 2, rounds: int = 4
) -> AsyncIterator[Federation]:
    """A prepared federation that is cleaned up in the end."""
    prepare(nodes, nodes=[f"edge{n}" for n in range(1, participants + 1)])
    made = Federation(nodes, lc_server=lc_server, participants=participants, rounds=rounds)
    try:
        yield made
    finally:
        await made.clean_up()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number
