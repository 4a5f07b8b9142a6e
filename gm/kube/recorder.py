"""Kubernetes Events about objects, few enough to be read.

One Event object for each (object, type, reason, message but for numbers and times that change in
it): what happens again raises its ``count``. Its name is computed from what it is about, so a
restarted program goes on with it, without listing anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import heapq
import logging
import re
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from gm.api.meta import ObjectKey
from gm.api.resources import EVENTS
from gm.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Forbidden,
    NotFound,
    ServiceError,
    TooManyRequests,
)
from gm.kube.client import Client

__all__ = ["EventRecorder", "ObjectRef"]

logger = logging.getLogger(__name__)

_MESSAGE_CHARACTERS = 1024  # the API's limit
_RETRY_SECONDS = 1.0
_RETRY_MAX_SECONDS = 30.0

# What differs between two messages that say the same: UUIDs, times, durations, plain numbers.
# Digits within a name ("train-0", "v1") tell things apart and stay.
_VOLATILE = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<![\w.-])\d[\d.,:]*(?:[a-zµ]{1,2}\d*)*(?![\w-])"
)


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str
    uid: str = ""
    resource_version: str = ""


class _Identity(msgspec.Struct, frozen=True):
    """What one Event object stands for; ``text`` is "" for all further messages of a reason."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    text: str = ""

    @property
    def group(self) -> _Identity:
        return msgspec.structs.replace(self, text="")


class _Aggregate:
    """One Event object: what is to be written, and what was."""

    __slots__ = (
        "before",
        "count",
        "exists",
        "first",
        "identity",
        "involved",
        "is_pending",
        "last",
        "message",
        "next_write",
        "was_tried",
    )

    def __init__(self, involved: ObjectRef, identity: _Identity, now: datetime) -> None:
        self.involved = involved
        self.identity = identity
        self.message = ""
        self.first = self.last = now
        self.count = 0
        self.before = 0  # what an earlier process had counted
        self.next_write = 0.0
        self.exists = self.was_tried = self.is_pending = False

    @property
    def key(self) -> ObjectKey:
        """Events about cluster-scoped objects lie in ``default``, as the API demands."""
        about = self.identity
        digest = hashlib.sha256(msgspec.json.encode(about)).hexdigest()[:16]
        return ObjectKey(about.namespace or "default", f"{about.name[:230]}.{digest}")


class EventRecorder:
    """Writes Events in the background; never blocks its callers and never raises into them.

    An Event object is written when it first happens, then at most every ``interval_seconds``.
    Beyond ``max_messages`` different messages for one object and reason, further ones share one
    Event. Memory: the ``max_events`` that happened last.
    """

    def __init__(
        self,
        client: Client,
        *,
        component: str = "gm",
        interval_seconds: float = 10.0,
        max_messages: int = 5,
        max_events: int = 4096,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._component = component
        self._instance = socket.gethostname()
        self._interval_seconds = interval_seconds
        self._max_messages = max_messages
        self._max_events = max_events
        self._now = now
        self._aggregates: OrderedDict[_Identity, _Aggregate] = OrderedDict()
        self._messages: Counter[_Identity] = Counter()  # Event objects for each group
        self._due: list[tuple[float, int, _Aggregate]] = []
        self._sequence = 0
        self._wake = asyncio.Event()
        self._retry_seconds = _RETRY_SECONDS
        self._refused: set[str] = set()

    def __len__(self) -> int:
        """Event objects remembered."""
        return len(self._aggregates)

    def event(
        self,
        involved: ObjectRef,
        *,
        type: Literal["Normal", "Warning"],  # noqa: A002  # the API's word
        reason: str,
        message: str,
    ) -> None:
        """Say that something happened to ``involved``; call it from the event loop's thread."""
        identity = _Identity(
            involved.kind,
            involved.namespace,
            involved.name,
            involved.uid,
            type,
            reason,
            _VOLATILE.sub("#", message),
        )
        if (
            identity not in self._aggregates
            and self._messages[identity.group] >= self._max_messages
        ):
            identity = identity.group
            message = f"(combined from similar events): {message}"
        aggregate = self._aggregate(involved, identity)
        aggregate.message = message[:_MESSAGE_CHARACTERS]
        aggregate.last = self._now()
        aggregate.count += 1
        self._schedule(aggregate)

    async def run(self) -> None:
        """Write Events until cancelled; survives whatever the API server does."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            wait = self._due[0][0] - loop.time() if self._due else None
            if wait is None or wait > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
            elif (failure := await self._write_next()) is not None:
                await self._pause(failure)

    async def flush(self) -> None:
        """Write what has never been written, or is due; for use after ``run`` has ended."""
        loop = asyncio.get_running_loop()
        while self._due and self._due[0][0] <= loop.time():
            if await self._write_next() is not None:
                return

    def _aggregate(self, involved: ObjectRef, identity: _Identity) -> _Aggregate:
        aggregate = self._aggregates.get(identity)
        if aggregate is None:
            aggregate = self._aggregates[identity] = _Aggregate(involved, identity, self._now())
            self._messages[identity.group] += 1
            while len(self._aggregates) > self._max_events:
                self._forget(next(iter(self._aggregates)))
        self._aggregates.move_to_end(identity)
        aggregate.involved = involved
        return aggregate

    def _forget(self, identity: _Identity) -> None:
        del self._aggregates[identity]
        group = identity.group
        self._messages[group] -= 1
        if not self._messages[group]:
            del self._messages[group]

    def _schedule(self, aggregate: _Aggregate) -> None:
        if not aggregate.is_pending:
            aggregate.is_pending = True
            self._push(aggregate)

    def _push(self, aggregate: _Aggregate) -> None:
        self._sequence += 1  # heapq compares it before it would compare aggregates
        heapq.heappush(self._due, (aggregate.next_write, self._sequence, aggregate))
        if len(self._due) > 2 * self._max_events:
            self._due = [entry for entry in self._due if self._is_known(entry[2])]
            heapq.heapify(self._due)
        self._wake.set()

    def _is_known(self, aggregate: _Aggregate) -> bool:
        return self._aggregates.get(aggregate.identity) is aggregate

    async def _write_next(self) -> ServiceError | None:
        """Write the Event that is due; gives the failure if the API server can't take it now."""
        loop = asyncio.get_running_loop()
        _, _, aggregate = heapq.heappop(self._due)
        if not self._is_known(aggregate):
            return None
        count = aggregate.count
        # it stays pending meanwhile: what happens during the write is written an interval later
        try:
            await self._write(aggregate)
        except (BadRequest, Forbidden, NotFound) as exc:
            self._refuse(exc)  # the namespace is going or gone, or roles do not allow it
        except ServiceError as exc:
            aggregate.next_write = loop.time()  # behind what waits already
            self._push(aggregate)
            return exc
        except asyncio.CancelledError:
            self._push(aggregate)  # flush may write it yet
            raise
        self._retry_seconds = _RETRY_SECONDS
        aggregate.next_write = loop.time() + self._interval_seconds
        aggregate.is_pending = False
        if aggregate.count > count:
            self._schedule(aggregate)
        return None

    async def _write(self, aggregate: _Aggregate) -> None:
        if not aggregate.exists:
            try:
                was_tried, aggregate.was_tried = aggregate.was_tried, True
                await self._client.create(EVENTS, aggregate.key.namespace, self._new(aggregate))
                aggregate.exists = True
                return
            except AlreadyExists:
                if not was_tried:  # else it is our own, and only the answer was lost
                    await self._adopt(aggregate)
                aggregate.exists = True
        try:
            await self._client.patch(EVENTS, aggregate.key, _changes(aggregate))
        except NotFound:  # events live for an hour
            aggregate.exists = aggregate.was_tried = False
            await self._client.create(EVENTS, aggregate.key.namespace, self._new(aggregate))
            aggregate.exists = True

    async def _adopt(self, aggregate: _Aggregate) -> None:
        """Go on counting where the process before us stopped."""
        with contextlib.suppress(NotFound, msgspec.MsgspecError):
            found = _decode_counted(await self._client.get(EVENTS, aggregate.key))
            aggregate.before = found.count or 0

    def _new(self, aggregate: _Aggregate) -> dict[str, Any]:
        key, about = aggregate.key, aggregate.identity
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": key.namespace, "name": key.name},
            "involvedObject": {
                name: value
                for name, value in msgspec.to_builtins(aggregate.involved).items()
                if value
            },
            "type": about.type,
            "reason": about.reason,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": _timestamp(aggregate.first),
            **_changes(aggregate),
        }

    def _refuse(self, exc: ApiError) -> None:
        if exc.reason not in self._refused:
            self._refused.add(exc.reason)
            logger.warning("an event was refused", extra={"reason": str(exc)})

    async def _pause(self, exc: ServiceError) -> None:
        seconds = self._retry_seconds
        if isinstance(exc, TooManyRequests):
            seconds = max(seconds, exc.retry_after_seconds)
        self._retry_seconds = min(self._retry_seconds * 2, _RETRY_MAX_SECONDS)
        await asyncio.sleep(seconds)


class _Counted(msgspec.Struct, frozen=True):
    count: int | None = None


_decode_counted = msgspec.json.Decoder(_Counted).decode


def _changes(aggregate: _Aggregate) -> dict[str, Any]:
    return {
        "count": aggregate.before + aggregate.count,
        "lastTimestamp": _timestamp(aggregate.last),
        "message": aggregate.message,
    }


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
