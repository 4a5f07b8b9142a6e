"""Events do not stay for ever."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.controller import Controller
from gm.devcluster.store import Change

__all__ = ["EventExpiry"]


class EventExpiry(Controller[ObjectKey]):
    """Removes Events ``ttl_seconds`` after they were last written."""

    kinds = ("events",)

    def __init__(self, api: Api, *, ttl_seconds: float) -> None:
        super().__init__(api)
        self._ttl_seconds = ttl_seconds
        self._written: dict[ObjectKey, float] = {}

    def observe(self, change: Change) -> Iterable[ObjectKey]:
        """Every event that is written."""
        self._written[change.record.key] = self.now()
        return [change.record.key]

    def reconcile(self, key: ObjectKey) -> float | None:
        """Remove it if its time is over. Returns: when that is."""
        if self.store.table("events").get(key) is None:
            self._written.pop(key, None)
            return None
        left = self._written[key] + self._ttl_seconds - self.now()
        if left > 0:
            return left
        del self._written[key]
        self.api.remove(self.api.builtin("events"), key)
        return None
