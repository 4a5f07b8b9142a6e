"""An informer of a scripted API server, and what tests say to both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from gm.api.meta import PartialObject, ResourceType
from gm.api.resources import PODS
from gm.kube import Client, Event, Informer, InformerSettings
from tests.fakes.kube_api import FakeKubeApi, status

FAST = InformerSettings(
    watch_timeout_seconds=5,
    read_deadline_seconds=8,
    backoff_base_seconds=0.01,
    backoff_max_seconds=0.05,
    absent_retry_seconds=0.02,
    healthy_watch_seconds=0,
)


def obj(name: str, version: int, *, uid: str = "", **fields: Any) -> dict[str, Any]:
    """An object as a server sends it."""
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "managedFields": [{"manager": "kubectl"}],
    }
    return {"metadata": meta, **fields}


def listed(version: int, *items: dict[str, Any], next_page: str = "") -> dict[str, Any]:
    """A page of a list."""
    meta = {"resourceVersion": str(version), **({"continue": next_page} if next_page else {})}
    return {"metadata": meta, "items": list(items)}


GONE = status(410, "Expired", "too old resource version")


class Recording:
    """A handler that keeps what it was told, and lets tests wait for it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.events: list[Event[Any]] = []
        self._changed = asyncio.Condition()

    async def __call__(self, event: Event[Any]) -> None:
        """Handle an event."""
        stored = event.new or event.old
        version = f" {stored.key.name}@{stored.resource_version}" if stored else ""
        async with self._changed:
            self.seen.append(event.type.value + version)
            self.events.append(event)
            self._changed.notify_all()

    async def wait_for(self, *expected: str) -> None:
        """Wait until exactly ``expected`` has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30), self._changed:
                await self._changed.wait_for(lambda: len(self.seen) >= len(expected))
        assert self.seen == list(expected)


@contextlib.asynccontextmanager
async def following(
    api: FakeKubeApi, resource: ResourceType = PODS, **arguments: Any
) -> AsyncIterator[tuple[Informer[PartialObject], Recording]]:
    """A running informer of ``api`` and what its handler was told."""
    async with await Client.connect(master=api.url) as client:
        settings = arguments.pop("settings", FAST)
        informer = Informer(client, resource, PartialObject, settings=settings, **arguments)
        recording = Recording()
        informer.add_handler(recording)
        async with running(informer):
            yield informer, recording


@contextlib.asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    """Run ``informer`` as long as the body."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        yield
        task.cancel()


async def eventually(predicate: Callable[[], Any]) -> None:
    """Wait for a condition that nothing announces."""
    async with asyncio.timeout(30):
        while not predicate():
            await asyncio.sleep(0.005)


async def collect(events: AsyncIterator[Any]) -> list[Any]:
    """All ``events``, until they end."""
    return [event async for event in events]
