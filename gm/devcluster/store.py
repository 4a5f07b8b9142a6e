"""Objects in memory, with the history that watches are served from.

One table for each kind, each with an event log of its own, so that a busy kind can not expire
the watches of a quiet one. Resource versions come from one counter for all kinds. A stored
object is never changed in place: every write makes a new ``Record``, whose encoded bytes are
made once and shared by everybody who sends them.

Who follows a table (``gm.devcluster.cursors``) has no queue but a position in its log.

With a journal every change is also written to disk (``gm.devcluster.journal``), and ``settled``
waits for that; without one everything is in memory.
"""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Protocol

import msgspec

from gm.api.meta import ObjectKey

__all__ = [
    "Change",
    "Expired",
    "Journal",
    "Record",
    "Store",
    "Table",
    "event_line",
    "first_revision",
]

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Reader = Callable[[dict[str, Any]], dict[str, Any]]
"""Shows a stored object as one of its resources does; leaves it as it is."""

_EPOCH = 1_700_000_000.0
_LOG_BYTES = 32 * 1024 * 1024
"""How much JSON the log of a kind holds, unless its newest changes alone are more.

With the decoded objects and the watch events made of it, memory is some three times that.
"""
_LEAST_CHANGES = 10
_encode = msgspec.json.Encoder(decimal_format="number").encode


def first_revision() -> int:
    """Where the counter starts: higher than any that an earlier life of the server gave out.

    A client that comes back with a version of an earlier life must be told 410, not be left
    waiting for a future that never comes; so the counter follows the clock (milliseconds).
    """
    return int((time.time() - _EPOCH) * 1000)


class Expired(Exception):
    """The history since ``after`` is not complete any more; ``oldest`` is the first that is."""

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {after} ({oldest})")
        self.after, self.oldest = after, oldest


class Record:
    """One version of one object. Read only, and so is everything that ``object`` holds."""

    __slots__ = ("_encoded", "_view", "key", "object", "revision")

    def __init__(self, key: ObjectKey, obj: dict[str, Any], revision: int) -> None:
        self.key, self.object, self.revision = key, obj, revision
        self._encoded: bytes | None = None
        self._view: tuple[Reader, dict[str, Any]] | None = None

    @property
    def encoded(self) -> bytes:
        """The object as JSON; encoded once."""
        if self._encoded is None:
            self._encoded = _encode(self.object)
        return self._encoded

    def view(self, reader: Reader) -> dict[str, Any]:
        """What ``reader`` makes of the object, which may be the object itself; asked once."""
        if self._view is None or self._view[0] is not reader:
            self._view = reader, reader(self.object)
        return self._view[1]

    def is_seen_as(self, reader: Reader) -> None:
        """``reader`` has nothing to change: the object was written under its rules."""
        self._view = reader, self.object

    @property
    def meta(self) -> dict[str, Any]:
        """The object's metadata."""
        meta: dict[str, Any] = self.object["metadata"]
        return meta

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.object["metadata"].get("uid", ""))

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels."""
        return self.object["metadata"].get("labels") or {}

    @property
    def is_deleting(self) -> bool:
        """Whether deletion has begun."""
        return "deletionTimestamp" in self.object["metadata"]

    def copy(self) -> dict[str, Any]:
        """The object as a new tree that may be changed."""
        copied: dict[str, Any] = msgspec.json.decode(self.encoded)
        return copied


class Change:
    """One entry of a table's log.

    ``record`` of a deletion is the object's last state with a new version.
    """

    __slots__ = ("_line", "previous", "record", "revision", "table", "type")

    def __init__(
        self, kind: ChangeType, table: str, record: Record, previous: Record | None = None
    ) -> None:
        self.type, self.table, self.record, self.previous = kind, table, record, previous
        self.revision = record.revision
        self._line: bytes | None = None

    @property
    def line(self) -> bytes:
        """The watch event as it is sent to whoever watches without a selector."""
        if self._line is None:
            self._line = event_line(self.type, self.record.encoded)
        return self._line


def event_line(kind: str, encoded: bytes) -> bytes:
    """A watch event: one line of JSON."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), encoded)


class Journal(Protocol):
    """Takes every change, in order."""

    def add(self, change: Change) -> None:
        """Take one change."""

    async def settled(self) -> None:
        """Wait until everything that was added before this call is safe."""


class Table:
    """All objects of one kind and their recent history."""

    def __init__(self, store: Store, name: str, *, window: int) -> None:
        self.name = name
        self._store, self._window = store, window
        self._records: dict[ObjectKey, Record] = {}
        self._keys: list[ObjectKey] = []  # sorted
        self._log: list[Change] = []
        self._log_bytes = 0
        self._compacted = store.first  # every change after this revision is in the log
        self._listeners: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def revision(self) -> int:
        """The revision of the newest change of this kind."""
        return self._log[-1].revision if self._log else self._compacted

    def get(self, key: ObjectKey) -> Record | None:
        """The newest version of an object."""
        return self._records.get(key)

    def records(self, namespace: str = "") -> Iterator[Record]:
        """All objects, or those of one namespace, in order of namespace and name."""
        for key in self.keys(namespace):
            yield self._records[key]

    def keys(self, namespace: str = "") -> list[ObjectKey]:
        """The keys of all objects, or of those of one namespace, in order."""
        return _within(self._keys, namespace)

    def at(self, revision: int, namespace: str = "") -> list[Record]:
        """The objects as they were at ``revision``, in order.

        Raises: Expired if the log does not reach back that far.
        """
        undone = self.changes(revision)
        if not undone:
            return list(self.records(namespace))
        state = dict(self._records)
        for change in reversed(undone):
            if change.previous is None:
                state.pop(change.record.key, None)
            else:
                state[change.record.key] = change.previous
        return [state[key] for key in _within(sorted(state), namespace)]

    def changes(self, after: int, limit: int | None = None) -> list[Change]:
        """What happened after ``after``, oldest first.

        Raises: Expired if the log does not reach back that far.
        """
        if after < self._compacted:
            raise Expired(after, self._compacted)
        start = bisect.bisect_right(self._log, after, key=lambda change: change.revision)
        return self._log[start : None if limit is None else start + limit]

    def put(self, key: ObjectKey, obj: dict[str, Any]) -> Record:
        """Store a new version of an object; its resourceVersion is set here.

        The caller gives the object away: it must not change it, or anything in it, afterwards.
        """
        revision = self._store.next_revision()
        meta = {**obj["metadata"], "resourceVersion": str(revision)}
        record = _encodable(Record(key, {**obj, "metadata": meta}, revision))
        previous = self._records.get(key)
        if previous is None:
            bisect.insort(self._keys, key)
        self._records[key] = record
        self._append(Change("MODIFIED" if previous else "ADDED", self.name, record, previous))
        return record

    def remove(self, key: ObjectKey, last: dict[str, Any] | None = None) -> Record:
        """Delete an object. ``last`` is the state that watchers see, by default the stored one."""
        previous = self._records[key]
        revision = self._store.next_revision()
        obj = previous.object if last is None else last
        meta = {**obj["metadata"], "resourceVersion": str(revision)}
        record = _encodable(Record(key, {**obj, "metadata": meta}, revision))
        del self._records[key]
        del self._keys[bisect.bisect_left(self._keys, key)]
        self._append(Change("DELETED", self.name, record, previous))
        return record

    def restore(self, records: Iterable[Record], revision: int) -> None:
        """Take over what an earlier life of the server left; only for a table that is new.

        ``revision`` is where history begins now: whoever follows the table from before is told
        that its beginning is not known any more, and is given these objects instead.
        """
        self._records = {record.key: record for record in records}
        self._keys = sorted(self._records)
        self._compacted = revision

    def listen(self, wake: asyncio.Event) -> None:
        """Set ``wake`` at every change from now on, until ``forget``."""
        self._listeners.add(wake)

    def forget(self, wake: asyncio.Event) -> None:
        """Stop setting ``wake``."""
        self._listeners.discard(wake)

    def _append(self, change: Change) -> None:
        self._log.append(change)
        self._log_bytes += len(change.record.encoded)
        self._store.keep(change)
        self._trim()
        for wake in self._listeners:
            wake.set()
        self._store.notify()

    def _trim(self) -> None:
        """Forget old changes; in large steps, as cutting the head off a list costs its length."""
        surplus = 0
        if len(self._log) >= 2 * self._window:
            surplus = len(self._log) - self._window
        if self._log_bytes > _LOG_BYTES:
            surplus = max(surplus, self._too_large())
        if surplus:
            self._compacted = self._log[surplus - 1].revision
            self._log_bytes -= sum(len(c.record.encoded) for c in self._log[:surplus])
            del self._log[:surplus]

    def _too_large(self) -> int:
        """How many of the oldest changes must go for the others to be half of what is allowed."""
        size, surplus = self._log_bytes, 0
        while size > _LOG_BYTES // 2 and surplus < len(self._log) - _LEAST_CHANGES:
            size -= len(self._log[surplus].record.encoded)
            surplus += 1
        return surplus


def _encodable(record: Record) -> Record:
    """Encodes ``record``, before anything is changed: what fails here must never be stored."""
    _ = record.encoded
    return record


def _within(keys: list[ObjectKey], namespace: str) -> list[ObjectKey]:
    if not namespace:
        return list(keys)
    start = bisect.bisect_left(keys, ObjectKey(namespace, ""))
    end = bisect.bisect_left(keys, ObjectKey(namespace + "\0", ""))
    return keys[start:end]


class Store:
    """All tables, and the counter of resource versions.

    ``window`` is how many changes of a kind a watch can be behind.
    """

    def __init__(
        self, *, window: int = 1000, first: int | None = None, journal: Journal | None = None
    ) -> None:
        self.first = first_revision() if first is None else first
        self._journal = journal
        self._revision = self.first
        self._window = window
        self._tables: dict[str, Table] = {}
        self._listeners: set[asyncio.Event] = set()

    @property
    def revision(self) -> int:
        """The newest resource version."""
        return self._revision

    def next_revision(self) -> int:
        """A resource version higher than all before."""
        self._revision += 1
        return self._revision

    def table(self, name: str) -> Table:
        """The table of a kind by its qualified plural (``pods``, ``datasets.sedna.io``)."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(self, name, window=self._window)
        return table

    def tables(self) -> list[Table]:
        """All tables that were ever asked for."""
        return list(self._tables.values())

    def listen(self, wake: asyncio.Event) -> None:
        """Set ``wake`` at every change of any kind from now on, until ``forget``."""
        self._listeners.add(wake)

    def forget(self, wake: asyncio.Event) -> None:
        """Stop setting ``wake``."""
        self._listeners.discard(wake)

    def keep(self, change: Change) -> None:
        """Have a change written to disk, if anything is."""
        if self._journal is not None:
            self._journal.add(change)

    async def settled(self) -> None:
        """Wait until all that can be seen now would survive a crash; at once without a journal.

        Whatever tells of the store waits for this before it leaves the server.
        """
        if self._journal is not None:
            await self._journal.settled()

    def notify(self) -> None:
        """Wake whoever listens to all kinds."""
        for wake in self._listeners:
            wake.set()
