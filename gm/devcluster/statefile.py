"""The file that keeps objects from one life of the server to the next: SQLite, a row each.

Everything here blocks; one thread at a time may use a file.

``synchronous=FULL``: what was acknowledged survives a power cut, not only the death of the
process. The price is one fsync for each commit, and a commit holds whatever came in meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from gm.api.meta import Json, ObjectKey
from gm.errors import ConfigError, GmError

__all__ = ["FILE_NAME", "Row", "Saved", "SavedObject", "StateFile", "StateFileError"]

FILE_NAME = "objects.db"
"""What the file is called in the directory that ``--state`` names."""

_MAGIC = b"SQLite format 3\0"
_APPLICATION = 0x676D6F62  # "gmob", in the file's header: `file objects.db` shows it
_FORMAT = 1
_SCHEMA = """
CREATE TABLE objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    rv INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
);
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_PUT = """
INSERT INTO objects (resource, namespace, name, rv, body) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (resource, namespace, name) DO UPDATE SET rv = excluded.rv, body = excluded.body
"""
_REMOVE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_RAISE = """
INSERT INTO meta (key, value) VALUES ('revision', ?)
ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)
"""
_ELSEWHERE = "name another directory with --state"


class StateFileError(GmError):
    """The file can not be written any more; nothing that was not written was acknowledged."""


class Row(NamedTuple):
    """The newest state of one object; ``body`` is None if it was deleted."""

    table: str
    key: ObjectKey
    revision: int
    body: bytes | None


class SavedObject(NamedTuple):
    """One object as an earlier life of the server left it."""

    table: str
    key: ObjectKey
    revision: int
    object: Json


class Saved(NamedTuple):
    """All that an earlier life left; ``revision`` is the newest resource version it told."""

    revision: int
    objects: list[SavedObject]


class StateFile:
    """The file in ``directory``; made if it is missing, with its directory.

    Raises: ConfigError if another process uses it, if it was not made by this program or by a
    newer version of it, or if it is damaged. It is left as it is then.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Secrets lie in it: nobody else may read it, nor the log beside it, which takes over
            # its mode.
            with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
                head = file.read(len(_MAGIC))
        except OSError as exc:
            raise ConfigError(
                f"can not use {self.path}: {exc.strerror or exc}; {_ELSEWHERE}"
            ) from None
        if head not in (b"", _MAGIC):  # SQLite would take a file of one byte for an empty one
            raise self._foreign()
        self._database = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            with self._explained():
                self._open()
        except BaseException:
            self._database.close()
            raise

    def load(self) -> Saved:
        """Everything that is kept, in order of resource, namespace and name.

        Raises: ConfigError if it is damaged.
        """
        with self._explained():
            (revision,) = self._one("SELECT coalesce(max(value), 0) FROM meta") or (0,)
            rows = self._database.execute(
                "SELECT resource, namespace, name, rv, body FROM objects "
                "ORDER BY resource, namespace, name"
            )
            objects = [
                SavedObject(table, ObjectKey(namespace, name), rv, _decode(body))
                for table, namespace, name, rv, body in rows
            ]
        return Saved(max([revision, *(saved.revision for saved in objects)]), objects)

    def write(self, rows: Iterable[Row], revision: int) -> None:
        """Write rows in one transaction; on disk when it returns.

        ``revision`` is the newest resource version that anybody was given.
        Raises: StateFileError; none of them is written then.
        """
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    self._apply(row)
                self._database.execute(_RAISE, (revision,))
                self._database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # the first error is the one to tell
                    self._database.execute("ROLLBACK")
                raise
        except sqlite3.Error as exc:
            raise StateFileError(f"can not write {self.path}: {exc}") from exc

    def close(self) -> None:
        """Let another process use it."""
        self._database.close()

    def _apply(self, row: Row) -> None:
        place = (row.table, row.key.namespace, row.key.name)
        if row.body is None:
            self._database.execute(_REMOVE, place)
        else:
            self._database.execute(_PUT, (*place, row.revision, row.body))

    def _open(self) -> None:
        # Held from the first read to the end: two servers must not write one file.
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        is_new = self._check()  # before anything is written: it may be somebody else's
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("PRAGMA journal_size_limit = 67108864")
        self._database.execute("BEGIN IMMEDIATE")
        if is_new:
            for statement in _SCHEMA.split(";"):
                self._database.execute(statement)
            self._database.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._database.execute(f"PRAGMA user_version = {_FORMAT}")
        self._database.execute("COMMIT")

    def _check(self) -> bool:
        """Whether the file is empty. Raises: ConfigError if it is not what we made."""
        (application,) = self._one("PRAGMA application_id") or (0,)
        (version,) = self._one("PRAGMA user_version") or (0,)
        (tables,) = self._one("SELECT count(*) FROM sqlite_master") or (0,)
        if (application, version, tables) == (0, 0, 0):
            return True
        if application != _APPLICATION:
            raise self._foreign()
        if version != _FORMAT:
            raise ConfigError(
                f"{self.path} has format {version}, this gm reads {_FORMAT}: use the gm that wrote "
                f"it, or {_ELSEWHERE}"
            )
        (problem,) = self._one("PRAGMA quick_check(1)") or ("",)
        if problem != "ok":
            raise self._damaged(str(problem).splitlines()[-1])
        return False

    def _one(self, query: str) -> tuple[int, ...] | None:
        row: tuple[int, ...] | None = self._database.execute(query).fetchone()
        return row

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of SQLite as a person can use them."""
        try:
            yield
        except sqlite3.OperationalError as exc:
            if "locked" in str(exc):
                why = "is in use by another API server; stop it, or"
                raise ConfigError(f"{self.path} {why} {_ELSEWHERE}") from None
            raise ConfigError(f"can not use {self.path}: {exc}; {_ELSEWHERE}") from None
        except (sqlite3.DatabaseError, msgspec.DecodeError) as exc:
            raise self._damaged(str(exc)) from None

    def _foreign(self) -> ConfigError:
        return ConfigError(f"{self.path} is no state file of gm; {_ELSEWHERE}")

    def _damaged(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self.path} is damaged ({why}); put a copy of it in its place, or {_ELSEWHERE}"
        )


def _decode(body: bytes) -> Json:
    decoded: Json = msgspec.json.decode(body, type=dict)
    return decoded
