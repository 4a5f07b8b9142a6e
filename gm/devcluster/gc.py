"""Garbage collection along ``ownerReferences``: background, foreground and orphaning."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.controller import Controller
from gm.devcluster.deletion import FOREGROUND, ORPHAN, DeleteOptions, delete
from gm.devcluster.info import ResourceInfo
from gm.devcluster.store import Change, Record

__all__ = ["GarbageCollector"]

_MAX_GONE = 10_000


class _Place(NamedTuple):
    """Where an object is."""

    table: str
    key: ObjectKey


class _Owner(enum.Enum):
    SOLID = "it exists and stays"
    WAITING = "it goes, once its dependents have gone"
    GONE = "it does not exist (any more)"
    UNKNOWN = "its kind is not served, so nobody can tell"


class GarbageCollector(Controller[_Place]):
    """Deletes what has lost all its owners, and lets go of owners that wait for that."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._dependents: dict[str, set[_Place]] = {}  # owner's uid -> who names it
        self._named: dict[_Place, tuple[str, ...]] = {}  # the same, the other way round
        # Uids that were seen to go: also of kinds that are not served any more.
        self._gone: dict[str, None] = {}

    def observe(self, change: Change) -> Iterable[_Place]:
        """An object with owners, or an owner that waits, or the dependents of what has gone."""
        record, place = change.record, _Place(change.table, change.record.key)
        self._index(place, () if change.type == "DELETED" else _owner_uids(record))
        if change.type == "DELETED":
            self._remember(record.uid)
            yield from sorted(self._dependents.get(record.uid, ()))
        elif record.is_deleting or record.meta.get("ownerReferences"):
            yield place
        if change.type == "DELETED" or record.is_deleting:
            yield from self._owners(record)  # they may have waited for this

    def reconcile(self, key: _Place) -> float | None:
        """Collect one object, or finish one that waits for its dependents."""
        record = self.store.table(key.table).get(key.key)
        if record is None or self.api.of_table(key.table) is None:
            return None
        if not record.is_deleting:
            self._collect(key, record)
        elif ORPHAN in (record.meta.get("finalizers") or ()):
            self._orphan(key, record)
        elif FOREGROUND in (record.meta.get("finalizers") or ()):
            self._foreground(key, record)
        return None

    # -- what is known --------------------------------------------------------------------

    def _index(self, place: _Place, uids: tuple[str, ...]) -> None:
        before = self._named.pop(place, ())
        for uid in before:
            if uid not in uids:
                dependents = self._dependents[uid]
                dependents.discard(place)
                if not dependents:
                    del self._dependents[uid]
        for uid in uids:
            self._dependents.setdefault(uid, set()).add(place)
        if uids:
            self._named[place] = uids

    def _remember(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > _MAX_GONE:
            del self._gone[next(iter(self._gone))]

    def _place(self, reference: Json, namespace: str) -> _Place | None:
        group, _, version = reference["apiVersion"].rpartition("/")
        info = self.api.registry.kind(group, reference["kind"], version)
        if info is None or (info.resource.namespaced and not namespace):
            return None
        space = namespace if info.resource.namespaced else ""
        return _Place(info.storage.qualified, ObjectKey(space, reference["name"]))

    def _owner(self, reference: Json, namespace: str) -> _Owner:
        if reference["uid"] in self._gone:
            return _Owner.GONE
        place = self._place(reference, namespace)
        if place is None:
            return _Owner.UNKNOWN
        owner = self.store.table(place.table).get(place.key)
        if owner is None or owner.uid != reference["uid"]:
            return _Owner.GONE
        waits = owner.is_deleting and FOREGROUND in (owner.meta.get("finalizers") or ())
        return _Owner.WAITING if waits else _Owner.SOLID

    def _owners(self, record: Record) -> Iterator[_Place]:
        for reference in record.meta.get("ownerReferences") or ():
            place = self._place(reference, record.key.namespace)
            if place is not None:
                yield place

    def _records(self, uid: str) -> list[tuple[_Place, Record]]:
        found = []
        for place in sorted(self._dependents.get(uid, ())):
            record = self.store.table(place.table).get(place.key)
            is_served = self.api.of_table(place.table) is not None
            if record is not None and is_served and uid in _owner_uids(record):
                found.append((place, record))
        return found

    # -- what is done ---------------------------------------------------------------------

    def _collect(self, place: _Place, record: Record) -> None:
        references = record.meta.get("ownerReferences") or []
        states = [self._owner(r, record.key.namespace) for r in references]
        if not references or _Owner.UNKNOWN in states:
            return
        if _Owner.SOLID in states:
            kept = [r for r, s in zip(references, states, strict=True) if s is _Owner.SOLID]
            if len(kept) < len(references):
                self._set(place, record, "ownerReferences", kept)
            return
        policy = "Background"
        if _Owner.WAITING in states and self._dependents.get(record.uid):
            policy = "Foreground"
        self._delete(place, record, policy)

    def _foreground(self, place: _Place, record: Record) -> None:
        for dependent_place, dependent in self._records(record.uid):
            if not dependent.is_deleting:
                self._collect(dependent_place, dependent)
        if not any(_blocks(dependent, record.uid) for _, dependent in self._records(record.uid)):
            self._lift(place, FOREGROUND)

    def _orphan(self, place: _Place, record: Record) -> None:
        for dependent_place, dependent in self._records(record.uid):
            references = dependent.meta.get("ownerReferences") or []
            kept = [r for r in references if r["uid"] != record.uid]
            self._set(dependent_place, dependent, "ownerReferences", kept)
        self._lift(place, ORPHAN)

    def _lift(self, place: _Place, finalizer: str) -> None:
        # Read again: what was done to its dependents may have changed it, if it is one of them.
        record = self.api.get(self._info(place), place.key)
        kept = [f for f in record.meta.get("finalizers") or () if f != finalizer]
        self._set(place, record, "finalizers", kept)

    def _info(self, place: _Place) -> ResourceInfo:
        info = self.api.of_table(place.table)
        assert info is not None, "asked before anything is done"
        return info

    def _set(self, place: _Place, record: Record, field: str, values: list[object]) -> None:
        meta = {k: v for k, v in record.meta.items() if k != field}
        if values:
            meta[field] = values
        self.api.commit(self._info(place), record, {**record.object, "metadata": meta})

    def _delete(self, place: _Place, record: Record, policy: str) -> None:
        finalizers = record.meta.get("finalizers") or ()
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            policy = ""  # what the object says itself goes first
        options = DeleteOptions(propagation_policy=policy, uid=record.uid)
        delete(self.api, self._info(place), place.key, options)


def _owner_uids(record: Record) -> tuple[str, ...]:
    return tuple(r["uid"] for r in record.meta.get("ownerReferences") or ())


def _blocks(dependent: Record, owner_uid: str) -> bool:
    references = dependent.meta.get("ownerReferences") or ()
    return any(r["uid"] == owner_uid and r.get("blockOwnerDeletion") for r in references)
