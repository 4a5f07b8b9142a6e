"""GM as a child process that can be killed at any moment and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from gm.local.lifeline import LIFELINE

__all__ = ["KilledGm"]


class KilledGm:
    """GM as a child that is killed and started again."""

    def __init__(self, config: Path, log: Path) -> None:
        self._config, self._log = config, log
        self._process: asyncio.subprocess.Process | None = None
        self.ready = asyncio.Event()
        self.began = 0.0
        self.starts = 0

    async def start(self) -> None:
        """Start it; ``ready`` is set when it says that it is."""
        self.ready = ready = asyncio.Event()
        read_end, write_end = os.pipe()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "gm", "run", "--config", str(self._config)),
                env={**os.environ, LIFELINE: f"{os.getpid()}:{write_end}"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(write_end,),
            )
        os.close(write_end)
        self.began, self.starts = time.monotonic(), self.starts + 1
        loop = asyncio.get_running_loop()

        def spoke() -> None:
            loop.remove_reader(read_end)
            if os.read(read_end, 1):
                ready.set()
            os.close(read_end)

        loop.add_reader(read_end, spoke)

    async def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        assert self._process is not None
        if self._process.returncode is not None:
            raise SystemExit(
                f"GM ended by itself with exit code {self._process.returncode}: {self.last_word}"
            )
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        return await self._process.wait()

    @property
    def last_word(self) -> str:
        """The last line of its log, at most 500 characters."""
        lines = self._log.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")[-500:]
