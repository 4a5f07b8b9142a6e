"""GM's client with faults: requests that fail or wait, as a test plans them."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import msgspec

from gm.api.meta import Json, ObjectKey, ResourceType
from gm.errors import ApiUnreachable, ResourceExpired, ServiceError
from gm.kube.client import MERGE_PATCH, Client, ListResult, WatchEvent

__all__ = ["Call", "Faults", "FaultyClient"]


class Call(msgspec.Struct, frozen=True):
    """A write that GM has sent."""

    verb: str
    kind: str
    name: str
    subresource: str = ""

    @property
    def is_job_status(self) -> bool:
        """Not that of an EdgeNode or of a Model, which GM writes meanwhile."""
        return self.kind == "FederatedLearningJob" and self.subresource == "status"


_JOB_KINDS = frozenset({"Pod", "Service", "FederatedLearningJob"})


async def _once(kind: str, event: WatchEvent) -> AsyncIterator[WatchEvent]:
    del kind
    yield event


class Faults:
    """What goes wrong, and what was asked."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.fail: Callable[[Call], ServiceError | None] = lambda _: None
        self.before: Callable[[Call], Any] = lambda _: None
        self.after: Callable[[Call], Any] = lambda _: None
        """Called when the API server has done it; what is raised here hides the answer."""
        self.deliver: Callable[[str, WatchEvent], AsyncIterator[WatchEvent]] = _once
        """How an event of a kind reaches GM: later, or more than once."""
        self.alter: Callable[[Json], None] | None = None
        """Changes jobs as GM reads them: as if a laxer CRD had let something else through."""
        self._gates: dict[str, asyncio.Event] = {}
        self._sight: dict[str, asyncio.Event] = {}
        self.breaks: dict[str, asyncio.Event] = collections.defaultdict(asyncio.Event)
        self.watching: collections.Counter[str] = collections.Counter()
        """Open watches, by kind."""

    def creates(self) -> list[Call]:
        """Pods and Services that GM asked for, whatever came of it."""
        return [c for c in self.calls if c.verb == "create" and c.kind in ("Pod", "Service")]

    def job_writes(self) -> list[Call]:
        """Writes to jobs and their children; events and GM's own records are not counted."""
        return [c for c in self.calls if c.kind in _JOB_KINDS]

    def fail_nth_create(self, number: int) -> None:
        """Let the ``number``th pod or Service never be created, until ``heal``."""
        seen: list[tuple[str, str]] = []

        def fail(call: Call) -> ServiceError | None:
            if call.verb != "create" or call.kind not in ("Pod", "Service"):
                return None
            child = call.kind, call.name
            if child not in seen:
                seen.append(child)
            is_it = seen.index(child) + 1 == number
            return ApiUnreachable("the test says no") if is_it else None

        self.fail = fail

    def lose_nth_answer(self, number: int) -> None:
        """The ``number``th write to a job or its children is carried out, but GM never knows."""
        count = 0

        def after(call: Call) -> None:
            nonlocal count
            count += call.kind in _JOB_KINDS
            if count == number and call.kind in _JOB_KINDS:
                raise ApiUnreachable(f"the answer to {call.verb} {call.name} was lost")

        self.after = after

    def heal(self) -> None:
        """Nothing fails any more."""
        self.fail = lambda _: None
        self.before = self.after = lambda _: None
        self.deliver = _once

    @contextlib.contextmanager
    def held(self, *kinds: str) -> Iterator[None]:
        """Events of ``kinds`` come only after the body."""
        gates = {kind: asyncio.Event() for kind in kinds}
        self._gates |= gates
        try:
            yield
        finally:
            for kind, gate in gates.items():
                del self._gates[kind]
                gate.set()

    @contextlib.asynccontextmanager
    async def blind(self, kind: str) -> AsyncIterator[None]:
        """The watches of ``kind`` have broken; what happens in the body is found by a list."""
        self.breaks[kind].set()
        self._sight[kind] = asyncio.Event()
        async with asyncio.timeout(10):
            while self.watching[kind]:
                await asyncio.sleep(0.01)
        try:
            yield
        finally:
            self.breaks[kind].clear()
            self._sight.pop(kind).set()

    async def wait_sight(self, kind: str) -> None:
        """Return when ``kind`` may be listed."""
        if kind in self._sight:
            await self._sight[kind].wait()

    async def delivered(self, kind: str, event: WatchEvent) -> AsyncIterator[WatchEvent]:
        """``event`` as and when it reaches GM."""
        if kind in self._gates:
            await self._gates[kind].wait()
        altered = WatchEvent(event.type, msgspec.Raw(self.read(kind, bytes(event.object))))
        async for each in self.deliver(kind, altered):
            yield each

    def read(self, kind: str, raw: bytes) -> bytes:
        """An object as GM reads it."""
        if self.alter is None or kind != "FederatedLearningJob":
            return raw
        body: Json = msgspec.json.decode(raw)
        self.alter(body)
        return msgspec.json.encode(body)

    async def check(self, call: Call) -> None:
        """Note ``call``; raise what the test planned."""
        self.calls.append(call)
        waits = self.before(call)
        if waits is not None:
            await waits
        failure = self.fail(call)
        if failure is not None:
            raise failure

    async def answered(self, call: Call) -> None:
        """The API server has carried ``call`` out; raise if GM is not to hear of it."""
        waits = self.after(call)
        if waits is not None:
            await waits


class FaultyClient(Client):
    """A client whose writes go through ``faults`` first."""

    faults: Faults

    async def create(
        self,
        resource: ResourceType,
        namespace: str,
        body: Mapping[str, Any] | bytes,
        **options: Any,
    ) -> bytes:
        """See Client."""
        assert not isinstance(body, bytes)
        call = Call("create", resource.kind, body["metadata"]["name"])
        await self.faults.check(call)
        answer = await super().create(resource, namespace, body, **options)
        await self.faults.answered(call)
        return answer

    async def patch(
        self,
        resource: ResourceType,
        key: ObjectKey,
        body: Mapping[str, Any] | list[Any] | bytes,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> bytes:
        """See Client."""
        call = Call("patch", resource.kind, key.name, subresource)
        await self.faults.check(call)
        answer = await super().patch(
            resource, key, body, subresource=subresource, content_type=content_type
        )
        await self.faults.answered(call)
        return self.faults.read(resource.kind, answer)

    async def delete(self, resource: ResourceType, key: ObjectKey, **options: Any) -> None:
        """See Client."""
        call = Call("delete", resource.kind, key.name)
        await self.faults.check(call)
        await super().delete(resource, key, **options)
        await self.faults.answered(call)

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """See Client."""
        return self.faults.read(resource.kind, await super().get(resource, key))

    async def pages(self, resource: ResourceType, **options: Any) -> AsyncIterator[ListResult]:  # type: ignore[override]
        """See Client; not while GM is blind."""
        await self.faults.wait_sight(resource.kind)
        async with contextlib.aclosing(super().pages(resource, **options)) as pages:
            async for page in pages:
                items = [self.faults.read(resource.kind, bytes(item)) for item in page.items]
                yield ListResult([msgspec.Raw(item) for item in items], page.resource_version)

    async def watch(self, resource: ResourceType, **options: Any) -> AsyncIterator[WatchEvent]:  # type: ignore[override]
        """See Client; events come as the test planned, until it breaks the watch."""
        kind, faults = resource.kind, self.faults
        faults.watching[kind] += 1
        try:
            async with contextlib.aclosing(super().watch(resource, **options)) as events:
                async for event in _until(events, faults.breaks[kind]):
                    async for delivered in faults.delivered(kind, event):
                        yield delivered
        finally:
            faults.watching[kind] -= 1


async def _until(
    events: AsyncGenerator[WatchEvent, None], broken: asyncio.Event
) -> AsyncIterator[WatchEvent]:
    """``events``, until ``broken`` is set: then their version has expired."""
    end = asyncio.ensure_future(broken.wait())
    coming: asyncio.Future[WatchEvent | None] = asyncio.ensure_future(_next(events))
    try:
        while True:
            await asyncio.wait({coming, end}, return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                raise ResourceExpired("watch", code=410, reason="Expired")
            event = coming.result()
            if event is None:
                return
            yield event
            coming = asyncio.ensure_future(_next(events))
    finally:
        for task in (coming, end):
            task.cancel()
        await asyncio.wait({coming, end})


async def _next(events: AsyncGenerator[WatchEvent, None]) -> WatchEvent | None:
    return await anext(events, None)
