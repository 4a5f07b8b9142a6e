"""EdgeNodes with fakes around them, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from gm.api.core import Node
from gm.api.meta import ObjectKey
from gm.api.resources import NODES
from gm.controllers.edgenodes import EdgeNodes, EdgeNodeSettings
from gm.errors import AlreadyExists, Conflict, NotFound, ServiceError
from gm.kube.client import ListResult
from gm.kube.lister import Event, EventType
from gm.messagelayer import Hub
from gm.messagelayer.session import Gate, NodeState, Session
from gm.messagelayer.session_v2 import V2Session
from tests.controllers.fake_informer import FakeInformer
from tests.messagelayer.support import open_hub

WRITER_NAME = "sedna/*"
MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)


class FakeApi:
    """EdgeNodes in memory, with optimistic concurrency; in place of a Client."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.asked_at: list[float] = []
        self.verbs: Counter[str] = Counter()
        self.fail: Callable[[str], ServiceError | None] = lambda _: None
        self._version = 0

    def _ask(self, verb: str) -> None:
        self.asked_at.append(asyncio.get_running_loop().time())
        self.verbs[verb] += 1
        failure = self.fail(verb)
        if failure is not None:
            raise failure

    def put(self, body: dict[str, Any]) -> bytes:
        """Store a version."""
        self._version += 1
        meta = {**body["metadata"], "resourceVersion": str(self._version)}
        meta.setdefault("uid", f"uid-{self._version}")
        self.objects[meta["name"]] = {**body, "metadata": meta}
        return msgspec.json.encode(self.objects[meta["name"]])

    async def pages(self, resource: Any) -> AsyncIterator[ListResult]:
        """All in one page."""
        self._ask("list")
        yield ListResult([msgspec.Raw(msgspec.json.encode(o)) for o in self.objects.values()], "")

    async def get(self, resource: Any, at: ObjectKey) -> bytes:
        """One of them."""
        self._ask("get")
        if at.name not in self.objects:
            raise NotFound("get", code=404, reason="NotFound")
        return msgspec.json.encode(self.objects[at.name])

    async def create(self, resource: Any, namespace: str, body: dict[str, Any]) -> bytes:
        """Status is dropped, as by a status subresource."""
        self._ask("create")
        if body["metadata"]["name"] in self.objects:
            raise AlreadyExists("create", code=409, reason="AlreadyExists")
        return self.put({"metadata": body["metadata"]})

    async def patch(
        self, resource: Any, at: ObjectKey, patch: dict[str, Any], *, subresource: str = ""
    ) -> bytes:
        """A merge patch of one level."""
        self._ask("patch")
        found = self.objects.get(at.name)
        if found is None:
            raise NotFound("patch", code=404, reason="NotFound")
        if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict("patch", code=409, reason="Conflict")
        if not subresource:
            return self.put({**found, "metadata": {**found["metadata"], **patch["metadata"]}})
        status = {**found.get("status", {}), **patch["status"]}
        return self.put({**found, "status": {k: v for k, v in status.items() if v is not None}})

    async def delete(self, resource: Any, at: ObjectKey, *, uid: str) -> None:
        """That incarnation only."""
        self._ask("delete")
        if at.name not in self.objects:
            raise NotFound("delete", code=404, reason="NotFound")
        if self.objects[at.name]["metadata"]["uid"] != uid:
            raise Conflict("delete", code=409, reason="Conflict")
        del self.objects[at.name]

    def status(self, name: str) -> dict[str, Any]:
        """Of one of them."""
        found: dict[str, Any] = self.objects[name].get("status", {})
        return found


class Bench:
    """A hub, EdgeNodes and a fake API server in virtual time."""

    def __init__(
        self,
        *,
        hub: Hub | None = None,
        is_synced: bool = True,
        api: FakeApi | None = None,
        is_alone: bool = True,
        settings: EdgeNodeSettings | None = None,
    ) -> None:
        self.hub = hub or open_hub()
        self.api = api or FakeApi()
        self.nodes = FakeInformer(NODES, Node)
        self.nodes.is_synced = is_synced
        self.edge_nodes = EdgeNodes(
            self.hub,
            self.api,  # type: ignore[arg-type]
            self.nodes,  # type: ignore[arg-type]
            writer=WRITER_NAME,
            is_alone=is_alone,
            settings=settings or EdgeNodeSettings(),
            now=self.now,
        )

    def now(self) -> datetime:
        """The wall clock goes with the loop's."""
        seconds = int(asyncio.get_running_loop().time())
        return MIDNIGHT + timedelta(seconds=seconds)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """EdgeNodes run as long as the body."""
        task = asyncio.ensure_future(self.edge_nodes.run())
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def node(self, name: str, uid: str = "node-uid") -> None:
        """There is a Node."""
        await self.nodes.put({"metadata": {"name": name, "namespace": "", "uid": uid}})

    async def remove_node(self, name: str) -> None:
        """There is no Node any more."""
        found = self.nodes.lister.get(ObjectKey("", name))
        assert found is not None
        self.nodes.lister.remove(found.key)
        await self.edge_nodes._node_event(Event(EventType.DELETED, NODES, old=found))

    def connect(self, name: str) -> Session:
        """A session that has nothing to send."""

        def make(state: NodeState, gate: Gate) -> Session:
            return V2Session(state, gate, max_frame_bytes=1000)

        return self.hub.attach(name, make)

    def status(self, name: str) -> dict[str, Any]:
        """What the EdgeNode says."""
        return self.api.status(name)


def most_per_second(times: list[float], seconds: float) -> float:
    """The highest rate in any stretch of ``seconds``."""
    first, worst = 0, 0
    for last, at in enumerate(times):
        while times[first] <= at - seconds:
            first += 1
        worst = max(worst, last - first + 1)
    return worst / seconds
