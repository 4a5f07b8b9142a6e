"""List and watch of one kind into a cache, for as long as the program runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from gm.api.meta import ObjectKey, ObjectMeta, PartialObject, ResourceType
from gm.errors import (
    ApiError,
    Forbidden,
    NotFound,
    ResourceExpired,
    ServiceError,
    TooManyRequests,
    Unauthorized,
)
from gm.kube import nesting
from gm.kube.causes import Causes
from gm.kube.client import Client, WatchEvent
from gm.kube.lister import Event, EventType, Lister, Stored, View
from gm.kube.strip import without_managed_fields

__all__ = ["Handler", "Informer", "InformerSettings"]

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=View)

Handler = Callable[[Event[T]], Awaitable[None]]
"""Called with one event at a time; the next one waits until it returns."""


class InformerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and sizes; the defaults are for production, tests use small ones.

    A watch on which nothing comes for ``read_deadline_seconds`` is opened again, so nothing stays
    unnoticed for longer than that, whatever a proxy swallows.
    """

    page_size: int = 500
    watch_timeout_seconds: int = 120
    read_deadline_seconds: float = 130.0
    backoff_base_seconds: float = 0.5
    backoff_max_seconds: float = 30.0
    absent_retry_seconds: float = 3.0  # the kind is not installed, or may not be read
    healthy_watch_seconds: float = 1.0  # a watch that ends sooner, without events, is a failure


class _Seen(msgspec.Struct, Generic[T], frozen=True):
    """An object as it arrived; ``stored`` is None if it does not fit the view."""

    key: ObjectKey
    uid: str
    version: str
    stored: Stored[T] | None


_DEFAULTS = InformerSettings()
# after so many failures in a row the version itself is suspect
_FAILURES_UNTIL_LIST = 5
_decode_partial = msgspec.json.Decoder(PartialObject).decode


class Informer(Generic[T]):
    """Keeps ``lister`` current and tells handlers about each change, in order.

    Handlers are awaited one after the other, and while one of them waits nothing more is read
    from the server: back-pressure reaches the watch. What a handler raises ends ``run``.

    ``if_absent`` tells people what to do when the CRD of the kind is not installed. Of informers
    that share ``causes`` one warns of what stops all of them, and the others log it at debug.
    """

    def __init__(
        self,
        client: Client,
        resource: ResourceType,
        view: type[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        settings: InformerSettings = _DEFAULTS,
        jitter: Callable[[], float] = random.random,
        if_absent: str = "",
        causes: Causes | None = None,
    ) -> None:
        self.resource = resource
        self.lister: Lister[T] = Lister()
        self.problem: str | None = None
        """Why the cache may be behind: the last failure, until a list or watch succeeds."""
        self.undecodable: dict[ObjectKey, str] = {}
        """Objects whose newest version does not fit the view; the lister keeps the one before."""
        self.restarts = 0
        """How often list or watch was begun again after a failure."""
        self._client = client
        self._decode: Callable[[bytes], T] = msgspec.json.Decoder(view).decode
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._settings = settings
        self._jitter = jitter
        self._if_absent = if_absent
        self._causes = causes or Causes()
        self._handlers: list[Handler[T]] = []
        self._undecodable_handlers: list[Callable[[ObjectKey], None]] = []
        self._synced = asyncio.Event()
        self._version: str | None = None  # where to go on; None: list first
        self._failures = 0

    def add_handler(self, handler: Handler[T]) -> None:
        """Call ``handler`` with each event; add it before ``run``, or it misses some."""
        self._handlers.append(handler)

    def add_undecodable_handler(self, handler: Callable[[ObjectKey], None]) -> None:
        """Call ``handler`` with each key that comes to ``undecodable``, or for a new reason."""
        self._undecodable_handlers.append(handler)

    @property
    def is_synced(self) -> bool:
        """Whether the first list was handed to all handlers completely."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for ``is_synced``."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled; retries whatever the API server does, for ever."""
        while True:
            try:
                if self._version is None:
                    await self._relist()
                await self._watch(self._version or "")
            except ServiceError as exc:
                seconds = self._note(exc)
            else:
                # the server ends each watch in time; one that ended at once did not work
                seconds = self._backoff_seconds() if self._failures else 0.0
            if seconds:
                self.restarts += 1
                await asyncio.sleep(seconds)

    async def _relist(self) -> None:
        """Bring the cache to the state of a fresh list, telling handlers each difference."""
        listed: dict[ObjectKey, _Seen[T]] = {}
        version = ""
        pages = self._client.pages(
            self.resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=self._settings.page_size,
        )
        async with contextlib.aclosing(pages):
            async for page in pages:
                for item in page.items:
                    seen = self._read(item)
                    listed[seen.key] = seen
                version = page.resource_version
        self.problem = None
        for key in [key for key in self.lister if key not in listed]:
            await self._remove(key)
        for seen in listed.values():
            if seen.stored is not None:
                await self._put(seen.stored)
        for key in [key for key in self.undecodable if key not in listed]:
            del self.undecodable[key]
        self._version = version
        if not self.is_synced:
            await self._emit(Event(EventType.SYNCED, self.resource))
            self._synced.set()
            logger.info("informer synced", extra=self._what())

    async def _watch(self, version: str) -> None:
        """Follow changes after ``version`` until the server ends the watch."""
        loop = asyncio.get_running_loop()
        opened_at: float | None = None

        def opened() -> None:
            nonlocal opened_at
            opened_at = loop.time()
            self.problem = None

        events = self._client.watch(
            self.resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=version,
            timeout_seconds=self._settings.watch_timeout_seconds,
            read_deadline_seconds=self._settings.read_deadline_seconds,
            on_open=opened,
        )
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    await self._apply(event)
                    self._failures = 0
        except ApiError:
            # an ERROR event: going on at the same version could only bring it again
            if opened_at is not None:
                self._version = None
            raise
        finally:
            lasted = loop.time() - opened_at if opened_at is not None else -1.0
            if lasted >= self._settings.healthy_watch_seconds:
                self._failures = 0
        if lasted < self._settings.healthy_watch_seconds and self._version == version:
            self._failures += 1

    async def _apply(self, event: WatchEvent) -> None:
        seen = self._read(event.object)
        if event.type == "DELETED":
            await self._remove(seen.key, last=seen)
            self.undecodable.pop(seen.key, None)
        elif event.type != "BOOKMARK" and seen.stored is not None:
            await self._put(seen.stored)
        self._version = seen.version or self._version

    def _read(self, item: msgspec.Raw) -> _Seen[T]:
        """Decode an object; one that does not fit the view must not stop the others."""
        raw = bytes(item)
        if nesting.is_too_deep(raw):
            reason = f"is nested more than {nesting.MAX_DEPTH} levels deep"
            return self._unreadable(_decode_partial(nesting.outline(raw)).metadata, reason)
        try:
            view = self._decode(raw)
        except msgspec.MsgspecError as exc:
            return self._unreadable(_decode_partial(raw).metadata, str(exc))
        meta = view.metadata
        self.undecodable.pop(meta.key, None)
        known = self.lister.get(meta.key)
        if (
            known is not None
            and known.uid == meta.uid
            and known.resource_version == meta.resource_version
        ):
            stored = known
        else:
            stored = Stored(
                meta.key, meta.uid, meta.resource_version, view, without_managed_fields(raw)
            )
        return _Seen(meta.key, meta.uid, meta.resource_version, stored)

    def _unreadable(self, meta: ObjectMeta, reason: str) -> _Seen[T]:
        if self.undecodable.get(meta.key) != reason:
            self.undecodable[meta.key] = reason
            logger.warning(
                "object can not be read and is left as it was before",
                extra={
                    "kind": self.resource.qualified,
                    "object": str(meta.key),
                    "reason": reason,
                },
            )
            for handler in self._undecodable_handlers:
                handler(meta.key)
        return _Seen(meta.key, meta.uid, meta.resource_version, None)

    async def _put(self, new: Stored[T]) -> None:
        old = self.lister.get(new.key)
        if old is not None and old.uid != new.uid:
            await self._remove(new.key)
            old = None
        if old is None:
            self.lister.put(new)
            await self._emit(Event(EventType.ADDED, self.resource, new=new))
        elif old.resource_version != new.resource_version:
            self.lister.put(new)
            await self._emit(Event(EventType.MODIFIED, self.resource, new=new, old=old))

    async def _remove(self, key: ObjectKey, last: _Seen[T] | None = None) -> None:
        """Forget ``key``; ``last`` is its final state as a DELETED event told it."""
        old = self.lister.get(key)
        # a key that is not known was reported as deleted before, when a list lacked it; and a
        # deletion of an earlier incarnation must not remove the one that has its name now
        if old is None or (last is not None and last.uid != old.uid):
            return
        self.lister.remove(key)
        final = last.stored if last is not None and last.stored is not None else old
        await self._emit(Event(EventType.DELETED, self.resource, old=final))

    async def _emit(self, event: Event[T]) -> None:
        for handler in self._handlers:
            try:
                await handler(event)
            except ServiceError as exc:
                # it must not be taken for a failure of this informer's own requests
                raise RuntimeError(f"a handler of {self.resource.qualified} failed") from exc

    def _note(self, exc: ServiceError) -> float:
        """Take note of a failure; how many seconds to wait before the next attempt."""
        self._failures += 1
        if isinstance(exc, ResourceExpired):  # routine: the server drops old versions after minutes
            self._version = None
            return self._backoff_seconds()
        problem = self._problem(exc)
        if problem != self.problem:
            self.problem = problem
            logger.log(
                logging.WARNING if self._causes.is_news(problem) else logging.DEBUG,
                "list or watch fails, trying on",
                extra={**self._what(), "reason": problem},
            )
        if isinstance(exc, TooManyRequests):
            return exc.retry_after_seconds * (1 + 0.2 * self._jitter())
        if isinstance(exc, (NotFound, Forbidden, Unauthorized)):
            self._version = None
            return self._settings.absent_retry_seconds * (0.5 + 0.5 * self._jitter())
        if self._failures >= _FAILURES_UNTIL_LIST:
            self._version = None
        return self._backoff_seconds()

    def _what(self) -> dict[str, str]:
        """Fields of a log line: informers of one kind are told apart by what they select."""
        selector = self._label_selector or self._field_selector
        what = {"kind": self.resource.qualified}
        return {**what, "selector": selector} if selector else what

    def _problem(self, exc: ServiceError) -> str:
        name = self.resource.qualified
        if isinstance(exc, Forbidden):
            return f"forbidden: {exc.request}"
        if isinstance(exc, NotFound):
            if _is_custom(self.resource):
                what = f"{name}: the CRD is not installed"
                return f"{what}; {self._if_absent}" if self._if_absent else what
            return f"{name}: the API server does not serve {self.resource.api_version}"
        return str(exc)

    def _backoff_seconds(self) -> float:
        doublings = min(self._failures - 1, 16)
        seconds = self._settings.backoff_base_seconds * 2.0**doublings
        # jittered, so that the informers of many programs do not come back in step
        return min(seconds, self._settings.backoff_max_seconds) * (0.5 + 0.5 * self._jitter())


def _is_custom(resource: ResourceType) -> bool:
    """Whether a CRD defines it; Kubernetes' own groups have no dot, or end in k8s.io."""
    return "." in resource.group and not resource.group.endswith(".k8s.io")
