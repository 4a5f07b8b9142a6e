"""An informer without a server: the test says what happens."""

from __future__ import annotations

from typing import Any

import msgspec

from gm.api.meta import ObjectKey, ResourceType
from gm.controllers.stored import stored
from gm.kube.lister import Event, EventType, Lister

__all__ = ["FakeInformer"]


class FakeInformer:
    """Looks like an Informer to those who add handlers and read its lister."""

    def __init__(self, resource: ResourceType, view: type[Any]) -> None:
        self.resource = resource
        self.lister: Lister[Any] = Lister()
        self.is_synced = False
        self.problem: str | None = None
        self.undecodable: dict[ObjectKey, str] = {}
        self._view = view
        self._handlers: list[Any] = []
        self._version = 0

    def add_handler(self, handler: Any) -> None:
        """As an Informer does."""
        self._handlers.append(handler)

    def add_undecodable_handler(self, handler: Any) -> None:
        """As an Informer does; everything can be read here."""

    async def show(self, kind: EventType, body: dict[str, Any]) -> None:
        """An object is as ``body`` says, or was when it went."""
        now = stored(msgspec.json.encode(body), self._view)
        old = self.lister.get(now.key)
        if kind is EventType.DELETED:
            self.lister.remove(now.key)
            await self._emit(Event(kind, self.resource, old=now))
        else:
            self.lister.put(now)
            await self._emit(Event(kind, self.resource, new=now, old=old))

    async def put(self, body: dict[str, Any]) -> None:
        """An object was created or changed."""
        self._version += 1
        body = msgspec.json.decode(msgspec.json.encode(body))
        body["metadata"] = {
            "namespace": "ns",
            "uid": f"uid-{body['metadata']['name']}",
            **body["metadata"],
            "resourceVersion": str(self._version),
        }
        full = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **body}
        new = stored(msgspec.json.encode(full), self._view)
        old = self.lister.get(new.key)
        self.lister.put(new)
        kind = EventType.MODIFIED if old else EventType.ADDED
        await self._emit(Event(kind, self.resource, new=new, old=old))

    async def remove(self, name: str) -> None:
        """An object was deleted."""
        key = ObjectKey("ns", name)
        old = self.lister.get(key)
        self.lister.remove(key)
        await self._emit(Event(EventType.DELETED, self.resource, old=old))

    async def sync(self) -> None:
        """The first list is complete."""
        await self._emit(Event(EventType.SYNCED, self.resource))
        self.is_synced = True

    async def _emit(self, event: Event[Any]) -> None:
        for handler in self._handlers:
            await handler(event)
