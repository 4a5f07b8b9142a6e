"""Readers of the store's logs: a watch's cursor, a controller's feed.

Neither has a queue. A position in the log is all there is, so that replaying history and
following what comes are the same, a slow reader costs nothing and holds up nobody, and falls off
the end of the window (``Expired``) when it is too slow.
"""

from __future__ import annotations

import asyncio

from gm.devcluster.store import Change, Expired, Store, Table

__all__ = ["Cursor", "Feed"]


class Cursor:
    """A reader of one table's log; a context manager.

    ``after`` is the revision of the last change that was taken.
    """

    def __init__(self, table: Table, after: int) -> None:
        self._table, self.after = table, after
        self._wake = asyncio.Event()

    def __enter__(self) -> Cursor:
        self._table.listen(self._wake)
        return self

    def __exit__(self, *exc: object) -> None:
        self._table.forget(self._wake)

    def take(self, limit: int = 100) -> list[Change]:
        """The next changes, without waiting. Raises: Expired."""
        self._wake.clear()
        changes = self._table.changes(self.after, limit)
        if changes:
            self.after = changes[-1].revision
        return changes

    def wake(self) -> None:
        """End a ``wait`` although there may be nothing to take."""
        self._wake.set()

    async def wait(self) -> None:
        """Wait until there may be something to take."""
        await self._wake.wait()


class Feed:
    """What a controller inside the server reads: every change of some kinds, from the first.

    Without names it is about all kinds, also those that appear later. If the beginning is not
    known any more, or if it falls behind the window, it gives all objects instead; deletions that
    it missed are then missing, so whoever reads it must compare with the store.
    """

    def __init__(self, store: Store, *names: str) -> None:
        self._store = store
        self._named = [store.table(name) for name in names]
        self._after: dict[Table, int] = {}
        self._wake = asyncio.Event()

    def __enter__(self) -> Feed:
        self._store.listen(self._wake)
        return self

    def __exit__(self, *exc: object) -> None:
        self._store.forget(self._wake)

    def take(self) -> list[Change]:
        """Everything new, in order of revision, without waiting."""
        self._wake.clear()
        changes: list[Change] = []
        for table in self._named or self._store.tables():
            # From its beginning: what came and went before this look was a change, too.
            after = self._after.get(table, self._store.first)
            self._after[table] = table.revision
            try:
                changes += table.changes(after)
            except Expired:
                changes += [Change("ADDED", table.name, record) for record in table.records()]
        changes.sort(key=lambda change: change.revision)
        return changes

    async def next(self, timeout_seconds: float | None = None) -> list[Change]:
        """Wait for something new, at most ``timeout_seconds``; then it is empty."""
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True
            self._wake.set()

        loop = asyncio.get_running_loop()
        alarm = None if timeout_seconds is None else loop.call_later(timeout_seconds, end)
        try:
            while not (changes := self.take()) and not is_over:
                await self._wake.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
        return changes
