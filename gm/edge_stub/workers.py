"""Whose workers report: each worker's job, by uid, is remembered on disk.

Pods can outlive their job (deleted with ``--cascade=orphan``), and go on to report under its
name. When there is a job of that name again, it is another one, and not theirs.

A worker is known by the job that gave it its name, or else, since a job may have taken over pods
whose names say nothing, by the job that was held when it first reported.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable

from gm.messagelayer.message import WireKey

__all__ = ["MAX_WORKERS", "admit", "drop_reports_of_others", "remember"]

MAX_WORKERS = 10_000
_KEEP_SECONDS = 30 * 24 * 3600
_NOTE_SECONDS = 3600
"""How exact the time of the last report is: a write for each report would cost too much."""

_ONE = "kind=? and namespace=? and name=? and worker=?"


def admit(database: sqlite3.Connection, key: WireKey, worker: str, *, named_by: str) -> bool:
    """Whether ``worker`` may report on what is held as ``key``, if anything is.

    ``named_by`` is the uid of the job that gave the worker its name, empty if none is known to
    have.
    """
    held = _held_uid(database, key)
    if not held:
        return True
    row = database.execute(
        f"select uid, seen from workers where {_ONE}",  # noqa: S608
        (*_row(key), worker),
    ).fetchone()
    known, seen = row or ("", 0)
    uid = held if named_by == held or not known else known
    if uid != known or not 0 <= time.time() - seen < _NOTE_SECONDS:
        remember(database, key, uid, [worker])
    return bool(uid == held)


def remember(database: sqlite3.Connection, key: WireKey, uid: str, workers: Iterable[str]) -> None:
    """Note that ``workers`` belong to the incarnation ``uid`` of ``key``, as of now."""
    now = int(time.time())
    database.executemany(
        "insert or replace into workers (kind, namespace, name, worker, uid, seen) "
        "values (?,?,?,?,?,?)",
        [(*_row(key), worker, uid, now) for worker in workers],
    )
    database.execute("delete from workers where seen < ?", (now - _KEEP_SECONDS,))
    database.execute(
        "delete from workers where rowid in "
        "(select rowid from workers order by seen desc, rowid desc limit -1 offset ?)",
        (MAX_WORKERS,),
    )


def drop_reports_of_others(database: sqlite3.Connection, key: WireKey, uid: str) -> None:
    """Forget what waits of workers that belong to another incarnation of ``key`` than ``uid``."""
    if uid:
        database.execute(
            "delete from outbox where kind=? and namespace=? and name=? and worker in ("
            "select worker from workers where kind=? and namespace=? and name=? and uid<>?)",
            (*_row(key), *_row(key), uid),
        )


def _held_uid(database: sqlite3.Connection, key: WireKey) -> str:
    row = database.execute(
        "select uid from objects where kind=? and namespace=? and name=?", _row(key)
    ).fetchone()
    return "" if row is None else str(row[0])


def _row(key: WireKey) -> tuple[str, str, str]:
    return key.kind, key.namespace, key.name
