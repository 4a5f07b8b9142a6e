"""What an informer has seen: read-only snapshots by key, namespace and owner."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from gm.api.meta import ObjectKey, ObjectMeta, ResourceType, controller_of

__all__ = ["Event", "EventType", "Lister", "Stored", "View"]


class View(Protocol):
    """A typed, read-only view of an object: anything with ``metadata``."""

    @property
    def metadata(self) -> ObjectMeta:
        """Identity and owners."""
        ...


T = TypeVar("T", bound=View)


class Stored(msgspec.Struct, Generic[T], frozen=True):
    """One version of an object: a typed view, and its JSON without managedFields."""

    key: ObjectKey
    uid: str
    resource_version: str
    view: T
    raw: bytes


class EventType(enum.Enum):
    """What happened to an object; SYNCED comes once, when the first list was handed out."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    SYNCED = "SYNCED"


class Event(msgspec.Struct, Generic[T], frozen=True):
    """A change seen by an informer.

    ADDED has ``new``; MODIFIED both; DELETED ``old``, the last known state; SYNCED neither. An
    object that was deleted and made again under its name is always a DELETED and an ADDED.
    """

    type: EventType
    resource: ResourceType
    new: Stored[T] | None = None
    old: Stored[T] | None = None


class Lister(Generic[T]):
    """Objects of one kind, kept current by an informer; only it calls ``put`` and ``remove``."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, Stored[T]] = {}
        self._by_owner: dict[str, dict[ObjectKey, Stored[T]]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._objects)

    def get(self, key: ObjectKey) -> Stored[T] | None:
        """The newest version seen of the object under ``key``."""
        return self._objects.get(key)

    def list(self, namespace: str = "") -> list[Stored[T]]:
        """All objects, or those of ``namespace``."""
        if not namespace:
            return list(self._objects.values())
        return [stored for key, stored in self._objects.items() if key.namespace == namespace]

    def owned_by(self, uid: str) -> list[Stored[T]]:  # type: ignore[valid-type]  # `list` is a method here
        """Objects whose controller owner has ``uid``."""
        return list(self._by_owner.get(uid, {}).values())

    def put(self, stored: Stored[T]) -> None:
        """Keep ``stored`` as the newest version of its key."""
        self.remove(stored.key)
        self._objects[stored.key] = stored
        owner = controller_of(stored.view.metadata)
        if owner is not None:
            self._by_owner.setdefault(owner.uid, {})[stored.key] = stored

    def remove(self, key: ObjectKey) -> None:
        """Forget the object under ``key``."""
        stored = self._objects.pop(key, None)
        owner = controller_of(stored.view.metadata) if stored is not None else None
        if owner is not None:
            owned = self._by_owner[owner.uid]
            del owned[key]
            if not owned:
                del self._by_owner[owner.uid]
