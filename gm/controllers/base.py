"""The worker loop that every controller shares."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from gm.errors import ServiceError, TerminalError, TooManyRequests
from gm.kube.workqueue import ShutDown, Workqueue
from gm.logs import log_fields

__all__ = ["Controller", "Reconciler", "Result", "patience"]

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What follows a reconcile: nothing, another look in a while, or a retry with back-off.

    Of a look and a retry, the earlier one comes. ``patience_seconds``: the API server asked not to
    be tried again before that.
    """

    requeue_after_seconds: float | None = None
    retry: bool = False
    patience_seconds: float = 0.0


class Reconciler(Protocol[K_contra]):
    """Makes the cluster match one object."""

    async def reconcile(self, key: K_contra) -> Result:
        """Do it; safe at any time and any number of times."""
        ...


def patience(error: ServiceError) -> float:
    """Seconds that the API server asked for in ``error``; 0 if it did not."""
    return error.retry_after_seconds if isinstance(error, TooManyRequests) else 0.0


class Controller(Generic[K]):
    """Takes keys off a workqueue and has them reconciled, several at a time.

    ``grace_seconds`` bounds how long reconciles that run may take once stopping has begun.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[K],
        queue: Workqueue[K],
        *,
        workers: int = 4,
        grace_seconds: float = 5.0,
    ) -> None:
        self.name = name
        self._reconciler = reconciler
        self._queue = queue
        self._worker_count = workers
        self._grace_seconds = grace_seconds
        self._ids = itertools.count(1)

    async def run(self, stopping: asyncio.Event) -> None:
        """Reconcile until ``stopping`` is set, then drain for at most the grace period."""
        try:
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as workers:
                for number in range(self._worker_count):
                    workers.create_task(self._work(), name=f"{self.name}-worker-{number}")
                await stopping.wait()
                self._queue.shut_down()
                deadline.reschedule(asyncio.get_running_loop().time() + self._grace_seconds)
        except TimeoutError:
            # level-based: what was cut off is seen and done after the next start
            logger.warning("reconciles were cut off", extra={"controller": self.name})

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except ShutDown:
                return
            try:
                # a key that stands for all of them names no object
                about = {"object": str(key)} if str(key) else {}
                with log_fields(controller=self.name, **about, reconcile_id=next(self._ids)):
                    await self._reconcile(key)
            except asyncio.CancelledError:
                # leadership may come back to this process, and with it what was cut off
                self._queue.add(key)
                raise
            finally:
                self._queue.done(key)

    async def _reconcile(self, key: K) -> None:
        started = time.perf_counter()
        try:
            result = await self._reconciler.reconcile(key)
        except TerminalError as exc:
            logger.error("reconcile gave up", extra={"reason": str(exc)})
            self._queue.forget(key)
            return
        except ServiceError as exc:
            # what the API server did is no fault of ours: a line, not a traceback
            logger.warning("reconcile failed, trying again", extra={"reason": str(exc)})
            self._queue.add_rate_limited(key, at_least_seconds=patience(exc))
            return
        except Exception:
            logger.exception("reconcile failed")
            self._queue.add_rate_limited(key)
            return
        logger.debug("reconcile finished", extra={"seconds": time.perf_counter() - started})
        if result.retry:
            self._queue.add_rate_limited(key, at_least_seconds=result.patience_seconds)
        else:
            self._queue.forget(key)
        if result.requeue_after_seconds is not None:
            self._queue.add_after(key, result.requeue_after_seconds)
