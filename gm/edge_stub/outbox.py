"""Status reports that wait for GM, on disk and bounded.

Reports on stages are history and kept in order. Others say how things are: of those only the
newest waits, per object or, for federated learning, per worker; its metrics take over what older
ones said about other metrics, so that nothing is lost that GM would still show.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from gm.edge_stub.objects import FEDERATED, JobIndex, JobWorkers
from gm.edge_stub.store import Store
from gm.edge_stub.workers import MAX_WORKERS, admit, remember
from gm.messagelayer.message import WireKey

__all__ = ["UNRESOLVED", "Outbox", "Waiting"]

logger = logging.getLogger(__name__)

UNRESOLVED = "default"
"""What stands for the kind while the owner of a worker is not known yet, as workers write it."""

INCREMENTAL = "incrementallearningjob"
LIFELONG = "lifelonglearningjob"
_HISTORY = frozenset({INCREMENTAL, LIFELONG})


class Waiting(msgspec.Struct, frozen=True):
    """A report that GM has not taken yet; ``id`` counts up, also across restarts."""

    id: int
    key: WireKey
    worker: str
    content: bytes


class Outbox:
    """Reports in the `Store`'s database."""

    def __init__(self, store: Store, *, max_reports: int = 10_000) -> None:
        self._store, self._max_reports = store, max_reports
        self._in_flight: set[int] = set()
        self._refused: set[tuple[WireKey, str]] = set()
        self._news, self._taken = asyncio.Event(), asyncio.Event()

    async def add(
        self, key: WireKey, content: bytes, *, worker: str = "", named_by: str = ""
    ) -> None:
        """Keep a report until GM has taken it, unless the worker is not one of what we hold.

        ``named_by`` is the uid of the job that gave the worker its name, if one did.
        Raises: StoreError.
        """
        busy = frozenset(self._in_flight)

        def work(database: sqlite3.Connection) -> bool:
            # In one transaction: the job may be replaced at any moment.
            if worker and not admit(database, key, worker, named_by=named_by):
                return False
            _add(database, key, worker, content, busy, self._max_reports)
            return True

        if await self._store.run(work):
            self._news.set()
        else:
            self._warn_once(key, worker)

    def _warn_once(self, key: WireKey, worker: str) -> None:
        if (key, worker) in self._refused:
            return
        if len(self._refused) >= MAX_WORKERS:
            self._refused.clear()
        self._refused.add((key, worker))
        logger.warning(
            "a worker of an earlier job of this name still reports, which is dropped; "
            "delete its pod if nobody needs it",
            extra={"job": str(key), "worker": worker},
        )

    async def remember(self, jobs: Collection[JobWorkers]) -> None:
        """Keep in mind whose workers these were, now that the jobs are gone. Raises: StoreError."""

        def work(database: sqlite3.Connection) -> None:
            for job in jobs:
                remember(database, job.key, job.uid, job.names)

        await self._store.run(work)

    async def resolve(self, jobs: JobIndex) -> None:
        """Give reports whose owner was unknown to it, now that ``jobs`` knows more."""
        for waiting in await self._select(unresolved=True, limit=1000):
            owner = jobs.owner(
                namespace=waiting.key.namespace, worker=waiting.worker, owner=waiting.key.name
            )
            if owner is not None:
                await self.done([waiting.id])
                named_by = jobs.named_by(owner, waiting.worker)
                await self.add(owner, waiting.content, worker=waiting.worker, named_by=named_by)

    async def take(self, limit: int) -> list[Waiting]:
        """The oldest reports that are not in flight; they are, until `done` or `put_back`."""
        self._news.clear()
        waiting = await self._select(unresolved=False, limit=limit + len(self._in_flight))
        taken = [item for item in waiting if item.id not in self._in_flight][:limit]
        self._in_flight.update(item.id for item in taken)
        return taken

    async def done(self, ids: Collection[int]) -> None:
        """GM has taken these (or will never): forget them."""
        rows = [(number,) for number in ids]
        await self._store.run(
            lambda database: database.executemany("delete from outbox where id=?", rows)
        )
        self._in_flight.difference_update(ids)
        self._news.set()
        self._taken.set()

    def put_back(self) -> None:
        """The link is gone: what was in flight waits again."""
        self._in_flight.clear()
        self._news.set()
        self._taken.set()

    async def wait_news(self) -> None:
        """Return when there may be something to `take`."""
        await self._news.wait()

    async def drain(self, *, going_on: Callable[[], bool]) -> None:
        """Return once nothing waits any more, or ``going_on`` says that nobody takes anything.

        Raises: StoreError.
        """
        while going_on():
            self._taken.clear()
            if not await self.count():
                return
            await self._taken.wait()

    async def count(self) -> int:
        """How many reports wait or are in flight, those without known owner aside."""
        return len(await self._select(unresolved=False, limit=self._max_reports))

    async def _select(self, *, unresolved: bool, limit: int) -> list[Waiting]:
        operator = "=" if unresolved else "<>"
        rows = await self._store.run(
            lambda database: database.execute(
                "select id, kind, namespace, name, worker, content from outbox "  # noqa: S608
                f"where kind {operator} ? order by id limit ?",
                (UNRESOLVED, limit),
            ).fetchall()
        )
        return [Waiting(r[0], WireKey(r[1], r[2], r[3]), r[4], bytes(r[5])) for r in rows]


def _add(
    database: sqlite3.Connection,
    key: WireKey,
    worker: str,
    content: bytes,
    in_flight: Collection[int],
    max_reports: int,
) -> None:
    if key.kind not in _HISTORY and key.kind != UNRESOLVED:
        content = _absorb(database, key, worker, content, in_flight)
    database.execute(
        "insert into outbox (kind, namespace, name, worker, content) values (?,?,?,?,?)",
        (key.kind, key.namespace, key.name, worker, content),
    )
    (excess,) = database.execute("select count(*) - ? from outbox", (max_reports,)).fetchone()
    if excess > 0:
        logger.warning("too many reports wait for GM; the oldest are dropped")
        database.execute(
            "delete from outbox where id in (select id from outbox order by id limit ?)", (excess,)
        )


def _absorb(
    database: sqlite3.Connection,
    key: WireKey,
    worker: str,
    content: bytes,
    in_flight: Collection[int],
) -> bytes:
    """``content`` with what older waiting reports add to it; those are deleted."""
    where = "kind=? and namespace=? and name=? and worker=?"
    older = database.execute(
        f"select id, content from outbox where {where} order by id desc",  # noqa: S608
        (key.kind, key.namespace, key.name, worker),
    ).fetchall()
    for number, previous in older:
        if number not in in_flight:
            database.execute("delete from outbox where id=?", (number,))
            if key.kind == FEDERATED:
                content = merge_metrics(bytes(previous), content)
    return content


def merge_metrics(older: bytes, newer: bytes) -> bytes:
    """``newer``, its first model with the metrics that only ``older``'s has."""
    try:
        before, after = msgspec.json.decode(older), msgspec.json.decode(newer)
        kept = _metrics(before)
        if not kept:
            return newer
        models = after["output"]["models"]
        if not models:
            after["output"]["models"] = before["output"]["models"]
        else:
            models[0]["metrics"] = {**kept, **(models[0].get("metrics") or {})}
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return newer
    return msgspec.json.encode(after)


def _metrics(report: Any) -> dict[str, Any]:
    models = report["output"]["models"]
    return dict(models[0].get("metrics") or {}) if models else {}
