"""The loop that all controllers inside the server share: changes in, keys to reconcile out."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import ClassVar, Generic, TypeVar

from gm.devcluster.api import Api
from gm.devcluster.cursors import Feed
from gm.devcluster.status import StatusError
from gm.devcluster.store import Change

__all__ = ["Controller"]

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

_RETRY_SECONDS = 1.0


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Controller(abc.ABC, Generic[K]):
    """Brings the store to where it should be, one key at a time.

    Reading and writing the store never waits, so one reconcile is one step of the event loop.
    ``kinds`` are the tables that are followed; none means all.
    """

    kinds: ClassVar[tuple[str, ...]] = ()

    def __init__(self, api: Api) -> None:
        self.api, self.store = api, api.store
        self.clock: Callable[[], float] = _loop_time
        self._due: dict[K, float] = {}

    @property
    def name(self) -> str:
        """What tasks and log lines call it."""
        return type(self).__name__

    def now(self) -> float:
        """Seconds on a clock that nobody sets."""
        return self.clock()

    @abc.abstractmethod
    def observe(self, change: Change) -> Iterable[K]:
        """The keys that a change makes worth a look."""

    @abc.abstractmethod
    def reconcile(self, key: K) -> float | None:
        """Make things right for ``key``. Returns: seconds until the next look, None for none."""

    async def run(self) -> None:
        """Reconcile until cancelled. One object that fails does not stop the rest."""
        with Feed(self.store, *self.kinds) as feed:
            while True:
                changes = await feed.next(self._seconds_to_next())
                keys = dict.fromkeys(key for change in changes for key in self.observe(change))
                for key in self._overdue():
                    keys.setdefault(key)
                for key in keys:
                    self._due.pop(key, None)
                    after = self._attempt(key)
                    if after is not None:
                        self._due[key] = self.now() + after
                await asyncio.sleep(0)  # requests get their turn, however much there is to do

    def _seconds_to_next(self) -> float | None:
        return max(0.0, min(self._due.values()) - self.now()) if self._due else None

    def _overdue(self) -> list[K]:
        now = self.now()
        return [key for key, at in self._due.items() if at <= now]

    def _attempt(self, key: K) -> float | None:
        try:
            return self.reconcile(key)
        except StatusError as error:
            # Something else holds it back (a namespace that goes, a name that is taken).
            extra = {"controller": self.name, "object": str(key), "reason": error.message}
            logger.debug("reconcile was refused", extra=extra)
        except Exception:
            extra = {"controller": self.name, "object": str(key)}
            logger.exception("reconcile failed", extra=extra)
        return _RETRY_SECONDS
