"""What GM has sent, on disk: SQLite in a thread of its own, made again if it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from gm.edge_stub.objects import Held
from gm.edge_stub.workers import drop_reports_of_others
from gm.errors import ConfigError, GmError
from gm.messagelayer.message import WireKey

__all__ = ["Put", "Remove", "Store", "StoreBusy", "StoreError", "peek"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

FILE_NAME = "lc.db"
_SCHEMA_VERSION = 1
_SCHEMA = """
create table objects (
    kind text not null, namespace text not null, name text not null,
    uid text not null, digest text not null, content blob not null,
    primary key (kind, namespace, name)
) without rowid;
create table outbox (
    id integer primary key autoincrement,
    kind text not null, namespace text not null, name text not null,
    worker text not null, content blob not null
);
create index outbox_object on outbox (kind, namespace, name);
"""
# Apart from the schema: databases that were made before it was needed get it, too.
_WORKERS = """
create table if not exists workers (
    kind text not null, namespace text not null, name text not null,
    worker text not null, uid text not null, seen integer not null,
    primary key (kind, namespace, name, worker)
);
"""
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# None: our own checks; SQLITE_ERROR: tables or columns are not what they should be
_UNUSABLE = {*_CORRUPT, sqlite3.SQLITE_ERROR, None}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class StoreError(GmError):
    """The disk did not take a change; nothing of the batch is kept."""


class StoreBusy(StoreError):
    """A Local Controller has the database open, and nobody else may look into it."""


class Put(msgspec.Struct, frozen=True):
    """Hold this version of an object."""

    held: Held
    content: bytes


class Remove(msgspec.Struct, frozen=True):
    """Hold an object no more; a ``uid`` restricts that to this incarnation."""

    key: WireKey
    uid: str = ""


class Store:
    """The node's objects. ``held`` is what is durable; only `apply` changes it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        self.was_lost = False
        """Whether there was no usable database: what it held comes again with the next sync."""
        self._held: dict[WireKey, Held] = {}
        self.held: Mapping[WireKey, Held] = MappingProxyType(self._held)
        # One thread: SQLite connections do not travel, and order is kept for free.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the database, or set a broken one aside and start a new one.

        Raises: ConfigError when the directory can not be used.
        """
        try:
            await self._in_thread(self._open_or_replace)
        except OSError as exc:
            raise ConfigError(f"--state {self.path.parent}: {exc.strerror or exc}") from None
        except sqlite3.Error as exc:
            raise ConfigError(f"--state {self.path.parent}: {_advice(exc)}") from None

    async def close(self) -> None:
        """Close the database; pending work is done first."""
        await self._in_thread(self._close)
        self._thread.shutdown()

    async def apply(self, changes: Sequence[Put | Remove]) -> list[Put | Remove]:
        """Make ``changes`` durable in their order, all or none; gives those that had an effect.

        A removal of another uid than the one that is held has none.
        Raises: StoreError.
        """
        held = dict(self._held)
        effective = [change for change in changes if _simulate(held, change)]
        if effective:
            await self.run(lambda database: _write(database, effective))
            self._held.clear()
            self._held.update(held)
        return effective

    async def content(self, key: WireKey) -> bytes | None:
        """The JSON of an object, None if it is not held. Raises: StoreError."""
        row = await self.run(
            lambda database: database.execute(
                "select content from objects where kind=? and namespace=? and name=?", _row(key)
            ).fetchone()
        )
        return None if row is None else bytes(row[0])

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of ``work`` in a transaction, off the event loop. Raises: StoreError."""
        try:
            return await self._in_thread(lambda: self._transaction(work))
        except sqlite3.Error as exc:
            if getattr(exc, "sqlite_errorcode", None) in _CORRUPT:
                await self._replace_broken(exc)
            raise StoreError(f"{self.path}: {_advice(exc)}") from exc

    async def _replace_broken(self, exc: sqlite3.Error) -> None:
        logger.error("the database is damaged", extra={"file": str(self.path), "cause": str(exc)})
        self._held.clear()
        try:
            await self._in_thread(self._replace)
        except (OSError, sqlite3.Error) as problem:
            raise StoreError(f"{self.path}: {problem}") from problem

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # In the thread

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._database is None:
            raise sqlite3.OperationalError("the database is closed")
        with self._database:
            return work(self._database)

    def _open_or_replace(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.was_lost = not self.path.exists()
        try:
            self._connect()
        except sqlite3.DatabaseError as exc:
            if getattr(exc, "sqlite_errorcode", None) not in _UNUSABLE:
                raise
            logger.warning(
                "the database can not be read; starting with a new one",
                extra={"file": str(self.path), "cause": str(exc)},
            )
            self._replace()

    def _replace(self) -> None:
        """Set the database aside, for whoever wants to look at it, and make a new one."""
        self._close()
        aside = self.path.with_name(f"{FILE_NAME}.bad-{time.strftime('%Y%m%d-%H%M%S')}")
        if self.path.exists():
            self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(FILE_NAME + suffix).unlink(missing_ok=True)
        self.was_lost = True
        self._connect()

    def _connect(self) -> None:
        self._protect()
        database = sqlite3.connect(self.path, timeout=1, check_same_thread=False)
        try:
            # Exclusive: a second LC on the same directory is told so, and no shm file is needed.
            database.execute("pragma locking_mode=exclusive")
            database.execute("pragma journal_mode=wal")
            # A power cut may take the last moments: GM hears what we hold when we connect. But
            # what is acknowledged must not be lost, hence not "normal".
            database.execute("pragma synchronous=full")
            database.execute("pragma cache_size=-512")
            database.execute("pragma secure_delete=on")  # objects may carry credentials
            problem = database.execute("pragma quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            self._prepare(database)
            rows = database.execute("select kind, namespace, name, uid, digest from objects")
            held = [Held(WireKey(*row[:3]), row[3], row[4]) for row in rows]
        except BaseException:
            database.close()
            raise
        self._database = database
        self._held.update((item.key, item) for item in held)

    def _protect(self) -> None:
        """Let nobody else read what is held, nor the log, which SQLite makes like the file."""
        self.path.touch(mode=0o600)
        for path in (self.path, self.path.with_name(f"{FILE_NAME}-wal")):
            with contextlib.suppress(FileNotFoundError):
                path.chmod(0o600)

    @staticmethod
    def _prepare(database: sqlite3.Connection) -> None:
        (version,) = database.execute("pragma user_version").fetchone()
        if version == 0:
            database.executescript(
                f"begin; {_SCHEMA} pragma user_version={_SCHEMA_VERSION}; commit"
            )
        elif version != _SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"schema version {version}, want {_SCHEMA_VERSION}")
        database.execute(_WORKERS)

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def peek(directory: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """The result of ``work`` on the database of a Local Controller that does not run.

    Raises: StoreBusy when it does run; StoreError when there is no database, or it is unusable.
    """
    path = directory / FILE_NAME
    if not path.exists():
        raise StoreError(f"--state {directory}: no local controller has kept anything there")
    try:
        # Never created, never changed; but where a process was killed, SQLite has to mend it.
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0.2)
        with contextlib.closing(database):
            database.execute("pragma query_only=on")
            (version,) = database.execute("pragma user_version").fetchone()
            if version != _SCHEMA_VERSION:
                raise sqlite3.DatabaseError(f"schema version {version}, want {_SCHEMA_VERSION}")
            return work(database)
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", None) in _BUSY:
            raise StoreBusy(f"--state {directory}: {_advice(exc)}") from exc
        raise StoreError(f"{path}: {exc}") from exc


def _simulate(held: dict[WireKey, Held], change: Put | Remove) -> bool:
    """Do ``change`` to ``held``; whether that changed anything worth writing."""
    if isinstance(change, Put):
        known = held.get(change.held.key)
        held[change.held.key] = change.held
        return not change.held.digest or known != change.held
    current = held.get(change.key)
    if current is None or (change.uid and current.uid and change.uid != current.uid):
        return False
    del held[change.key]
    return True


def _write(database: sqlite3.Connection, changes: Sequence[Put | Remove]) -> None:
    for change in changes:
        if isinstance(change, Put):
            held = change.held
            _forget_reports(database, held.key, unless_uid=held.uid)
            drop_reports_of_others(database, held.key, held.uid)
            database.execute(
                "insert or replace into objects values (?,?,?,?,?,?)",
                (*_row(held.key), held.uid, held.digest, change.content),
            )
        else:
            _forget_reports(database, change.key)
            database.execute(
                "delete from objects where kind=? and namespace=? and name=?", _row(change.key)
            )


def _forget_reports(
    database: sqlite3.Connection, key: WireKey, *, unless_uid: str | None = None
) -> None:
    """Reports on an object that is gone must not become status of its successor."""
    row = database.execute(
        "select uid from objects where kind=? and namespace=? and name=?", _row(key)
    ).fetchone()
    if row is not None and row[0] != unless_uid:
        database.execute("delete from outbox where kind=? and namespace=? and name=?", _row(key))


def _row(key: WireKey) -> tuple[str, str, str]:
    return key.kind, key.namespace, key.name


def _advice(exc: sqlite3.Error) -> str:
    code = getattr(exc, "sqlite_errorcode", None)
    if code in _BUSY:
        return "another process uses this state directory; give each edge node its own"
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full"
    return str(exc)
