"""GM's client with faults: requests that fail or wait, as a test plans them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from gm.api.meta import ObjectKey, ResourceType
from gm.errors import ApiUnreachable, ServiceError
from gm.kube.client import MERGE_PATCH, Client, WatchEvent

__all__ = ["Call", "Faults", "FaultyClient"]


class Call(msgspec.Struct, frozen=True):
    """A write that GM has sent."""

    verb: str
    kind: str
    name: str
    subresource: str = ""


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
        self.watch_delay_seconds: dict[str, float] = {}
        self.deliver: Callable[[str, WatchEvent], AsyncIterator[WatchEvent]] = _once
        """How an event of a kind reaches GM: later, or more than once."""

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
        self.watch_delay_seconds = {}
        self.deliver = _once

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
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any] | bytes
    ) -> bytes:
        """See Client."""
        assert not isinstance(body, bytes)
        call = Call("create", resource.kind, body["metadata"]["name"])
        await self.faults.check(call)
        answer = await super().create(resource, namespace, body)
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
        return answer

    async def delete(self, resource: ResourceType, key: ObjectKey, **options: Any) -> None:
        """See Client."""
        call = Call("delete", resource.kind, key.name)
        await self.faults.check(call)
        await super().delete(resource, key, **options)
        await self.faults.answered(call)

    async def watch(self, resource: ResourceType, **options: Any) -> AsyncIterator[WatchEvent]:  # type: ignore[override]
        """See Client; each event comes later by the planned delay."""
        async for event in super().watch(resource, **options):
            await asyncio.sleep(self.faults.watch_delay_seconds.get(resource.kind, 0))
            async for delivered in self.faults.deliver(resource.kind, event):
                yield delivered
