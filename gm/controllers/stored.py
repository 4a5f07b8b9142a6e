"""Objects as the API server answers them, in the form that listers keep."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from gm.api.meta import ObjectKey
from gm.kube.lister import Stored, View
from gm.kube.strip import without_managed_fields

__all__ = ["OwnWrites", "stored"]

T = TypeVar("T", bound=View)


def stored(raw: bytes, view: type[T]) -> Stored[T]:
    """``raw``, one object as JSON, seen as ``view``."""
    decoded = msgspec.json.decode(raw, type=view)
    meta = decoded.metadata
    return Stored(meta.key, meta.uid, meta.resource_version, decoded, without_managed_fields(raw))


class OwnWrites(Generic[T]):
    """What our own last writes left behind, until the cache shows it.

    So that a second write soon after does not start from an old version, only to be refused.
    """

    def __init__(self) -> None:
        self._newer: dict[ObjectKey, tuple[str, Stored[T]]] = {}

    def note(self, written: Stored[T], cached: Stored[T] | None) -> None:
        """``written`` is what a write answered, while the cache still showed ``cached``."""
        if cached is not None:
            self._newer[written.key] = cached.resource_version, written

    def newest(self, cached: Stored[T] | None) -> Stored[T] | None:
        """``cached``, or what we wrote since; versions are opaque, so only its own tells."""
        if cached is None:
            return None
        since, newer = self._newer.get(cached.key, ("", cached))
        if since == cached.resource_version and newer.uid == cached.uid:
            return newer
        self._newer.pop(cached.key, None)
        return cached

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._newer.pop(key, None)
