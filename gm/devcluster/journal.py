"""Writes what happens in the store to the state file, many changes in one commit.

The store changes at once, in memory; the event loop never waits for the disk. What waits is
whatever leaves the server: an answer or a watch event goes out when everything that it can tell
of is on disk. So nobody has ever seen a state that a crash could take back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from gm.api.meta import ObjectKey
from gm.devcluster.statefile import Row, StateFile
from gm.devcluster.store import Change, Record

__all__ = ["Journal", "journaling"]


class _Batch:
    """What one commit will write; of several changes of an object the last."""

    def __init__(self) -> None:
        self.changes: dict[tuple[str, ObjectKey], tuple[int, Record | None]] = {}
        self.revision = 0
        self.committed = asyncio.Event()

    def rows(self) -> list[Row]:
        return [
            Row(table, key, revision, None if record is None else record.encoded)
            for (table, key), (revision, record) in self.changes.items()
        ]


class Journal:
    """Group commit over ``file``, whose writes run in ``thread``; `run` does the work."""

    def __init__(self, file: StateFile, thread: ThreadPoolExecutor) -> None:
        self._file, self._thread = file, thread
        self._open = _Batch()
        self._writing: _Batch | None = None
        self._wake = asyncio.Event()
        self._is_ending = False

    def add(self, change: Change) -> None:
        """Have a change written with the next commit."""
        record = None if change.type == "DELETED" else change.record
        self._open.changes[change.table, change.record.key] = (change.revision, record)
        self._open.revision = change.revision
        self._wake.set()

    async def settled(self) -> None:
        """Wait until everything that was added before this call is on disk."""
        batch = self._open if self._open.changes else self._writing
        if batch is not None:
            await batch.committed.wait()

    async def run(self) -> None:
        """Commit until `end` was called and nothing is left. Raises: StateFileError."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._open.changes:
                await self._commit()
            if self._is_ending:
                return

    def end(self) -> None:
        """Have `run` return once everything is on disk."""
        self._is_ending = True
        self._wake.set()

    async def _commit(self) -> None:
        batch, self._open = self._open, _Batch()
        self._writing = batch
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._file.write, batch.rows(), batch.revision)
        self._writing = None
        batch.committed.set()


@contextlib.asynccontextmanager
async def journaling(file: StateFile) -> AsyncIterator[Journal]:
    """A journal that works as long as the body; then all is on disk and the file is closed.

    If it can not go on, the body is cancelled. Raises: StateFileError, within an ExceptionGroup.
    """
    with contextlib.closing(file), ThreadPoolExecutor(1, "state-file") as thread:
        journal = Journal(file, thread)
        async with asyncio.TaskGroup() as group:
            group.create_task(journal.run(), name="journal")
            yield journal
            journal.end()
