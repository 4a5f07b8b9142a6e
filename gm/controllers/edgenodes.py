"""EdgeNodes: what each node holds and lacks, and how its link is, for people to look at.

Written behind the hub, at a bounded rate, one node at a time; nothing depends on them, and no
failure to write them disturbs anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import re
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from gm.api.core import Node
from gm.api.meta import Json, ObjectKey
from gm.api.resources import EDGE_NODES, IF_ABSENT
from gm.api.sedna import EdgeNodeStatus
from gm.controllers import conditions
from gm.controllers.base import Controller, Result
from gm.controllers.edgenode_status import WRITER, Known, Link, compute, status_patch
from gm.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServiceError,
    TooManyRequests,
)
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType, Stored
from gm.kube.workqueue import Workqueue
from gm.messagelayer import Hub, NodeStatus

__all__ = ["EdgeNodeSettings", "EdgeNodes"]

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
_ALL = ""
"""In the queue: read all EdgeNodes again."""
_LOOKS_AT_A_TIME = 10
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 60.0
_WARNING_SECONDS = 60.0
_LEAST_WAIT_SECONDS = 0.001  # a wait that rounding made tiny need not move the clock at all


class EdgeNodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and rates; the defaults are for production, tests use small ones.

    A change is written after ``settle_seconds``, together with what else has changed by then.
    ``refresh_seconds`` is how old ``lastSeen`` of a connected node gets; with very many nodes it
    grows, since no more than half of ``writes_per_second`` is spent on it. A node that a GM before
    this one has left as connected may take ``return_seconds`` to come back.
    """

    writes_per_second: float = 20.0
    settle_seconds: float = 0.5
    look_again_seconds: float = 2.0
    looks_per_second: float = 100.0
    sweep_seconds: float = 15.0
    refresh_seconds: float = 60.0
    relist_seconds: float = 600.0
    return_seconds: float = 90.0


_DEFAULTS = EdgeNodeSettings()


class EdgeNodes:
    """Keeps an EdgeNode for each node that is connected or shall hold something.

    Only for names that have a Node or desired state. ``writer`` names this GM among those of the
    cluster; its replicas share it. ``is_alone`` tells that it has no replicas.
    """

    def __init__(
        self,
        hub: Hub,
        client: Client,
        nodes: Informer[Node],
        *,
        writer: str,
        is_alone: bool = True,
        settings: EdgeNodeSettings = _DEFAULTS,
        now: Callable[[], datetime] = conditions.now,
    ) -> None:
        self._hub, self._client, self._nodes = hub, client, nodes
        self._writer, self._is_alone = writer, is_alone
        self._settings, self._now = settings, now
        self._queue: Workqueue[str] = Workqueue()
        self._rate = _Rate(settings.writes_per_second)
        self._links: dict[str, Link] = {}
        self._known: dict[str, Known] = {}
        self._is_listed = False
        self._started = now()
        self._problem, self._pause_seconds = "", _FIRST_PAUSE_SECONDS
        self._warned_at: datetime | None = None
        nodes.add_handler(self._node_event)
        hub.onlooker = self

    async def run(self) -> None:
        """Write until cancelled."""
        await self._hub.wait_open()  # before, absence from desired state says nothing
        while not (self._nodes.is_synced or self._nodes.problem):  # noqa: ASYNC110 # no event for it
            await asyncio.sleep(0.05)
        self._started = self._now()
        controller = Controller("edgenode", self, self._queue, workers=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(asyncio.Event()), name="edgenode-controller")
            group.create_task(self._sweep(), name="edgenode-sweep")

    # What the hub tells (hub.Onlooker).

    def joined(self, node: str) -> None:
        """See :class:`gm.messagelayer.Onlooker`."""
        self._links[node] = Link(since=self._now())
        self._mark(node)

    def left(self, node: str, *, silent_seconds: float) -> None:
        """See :class:`gm.messagelayer.Onlooker`."""
        now = self._now()
        seen = now - timedelta(seconds=round(silent_seconds))
        self._links[node] = Link(since=now, last_seen=seen)
        self._mark(node)

    def changed(self, node: str) -> None:
        """See :class:`gm.messagelayer.Onlooker`."""
        if self._hub.is_open:
            self._mark(node)

    def _mark(self, node: str) -> None:
        self._queue.add_after(node, self._settings.settle_seconds)

    async def _node_event(self, event: Event[Node]) -> None:
        stored = event.new or event.old
        if stored is None or event.type is EventType.MODIFIED:
            return
        name = stored.key.name
        if name in self._known or self._hub.status(name) is not None:
            self._mark(name)

    async def _sweep(self) -> None:
        """Look at every node now and then: for lastSeen, and for what nobody tells of."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        relist_at = loop.time() + settings.relist_seconds
        self._queue.add(_ALL)
        while True:
            next_at = loop.time() + settings.sweep_seconds
            names = iter(dict.fromkeys([*self._hub.known_nodes(), *self._known]))
            while batch := list(itertools.islice(names, _LOOKS_AT_A_TIME)):
                for name in batch:
                    self._queue.add(name)
                await asyncio.sleep(len(batch) / settings.looks_per_second)
            if loop.time() >= relist_at:
                relist_at = loop.time() + settings.relist_seconds
                self._queue.add(_ALL)
            await asyncio.sleep(max(0.0, next_at - loop.time()))

    # The worker: there is one, so nothing else is done while it waits or pauses.

    async def reconcile(self, key: str) -> Result:
        """Make the EdgeNode ``key`` say what is the case; see :class:`base.Reconciler`."""
        try:
            if key == _ALL or not self._is_listed:
                await self._list()
            result = await self._reconcile(key) if key != _ALL else Result()
        except ServiceError as exc:
            await self._pause(exc)
            return Result(requeue_after_seconds=self._settings.settle_seconds)
        return result

    async def _reconcile(self, name: str) -> Result:
        snapshot, node = self._hub.status(name), self._node(name)
        known = self._known.get(name)
        if node is None and not (snapshot is not None and snapshot.desired):
            await self._drop(name, snapshot, known)
            return Result()
        is_edge = snapshot is not None or known is not None or name in self._links
        if not is_edge or not _NAME.match(name):
            return Result()
        if known is not None and self._is_elsewhere(known, snapshot):
            return Result()
        status = self._compute(name)
        if known is None or not self._is_kept(known, node) or not known.shows(status):
            await self._rate.wait()
            await self._write(name)
            # more is under way; where nothing moves any more, the sweep is soon enough
            is_moving = status.connected and status.pending
            return Result(
                requeue_after_seconds=self._settings.look_again_seconds if is_moving else None
            )
        if self._is_refresh_due(known, status) and self._rate.has_spare:
            await self._rate.wait()
            await self._patch(name, known, {"status": status_patch(status)}, subresource="status")
        return Result()

    def _compute(self, name: str) -> EdgeNodeStatus:
        snapshot, known = self._hub.status(name), self._known.get(name)
        return compute(snapshot, known, self._links.get(name), self._now())

    def _node(self, name: str) -> Stored[Node] | None:
        return self._nodes.lister.get(ObjectKey("", name))

    def _is_kept(self, known: Known, node: Stored[Node] | None) -> bool:
        """Whether the EdgeNode's metadata is right: its Node owns it, this GM writes it."""
        return known.writer == self._writer and (node is None or known.owner_uid == node.uid)

    def _is_elsewhere(self, known: Known, snapshot: NodeStatus | None) -> bool:
        """Whether another GM, or the process before this one, knows better than we do.

        Should we be wrong about that, our write is refused: it names the version it is based on.
        """
        if snapshot is not None and snapshot.connected:
            return False
        if known.writer not in ("", self._writer):
            return True
        if not known.connected or known.is_ours:
            return False
        now = self._now()
        if self._is_alone:
            # the process before this one has written it; the node is about to come back
            return now < self._started + timedelta(seconds=self._settings.return_seconds)
        return known.last_seen is not None and now < known.last_seen + 4 * self._refresh_after

    # Writing.

    @property
    def _refresh_after(self) -> timedelta:
        """How old lastSeen may get."""
        affordable = 2 * len(self._known) / self._settings.writes_per_second
        return timedelta(seconds=max(self._settings.refresh_seconds, affordable))

    def _is_refresh_due(self, known: Known, status: EdgeNodeStatus) -> bool:
        if not status.connected or status.last_seen is None:
            return False
        return known.last_seen is None or status.last_seen - known.last_seen >= self._refresh_after

    async def _write(self, name: str) -> None:
        """Write what is the case now: it may have changed while it was not our turn."""
        node, known = self._node(name), self._known.get(name)
        if known is None:
            known = await self._create(name, node)
        elif not self._is_kept(known, node):
            self._rate.charge()
            known = await self._patch(name, known, {"metadata": self._metadata(node)})
        if known is not None:
            patch = {"status": status_patch(self._compute(name))}
            await self._patch(name, known, patch, subresource="status")

    async def _create(self, name: str, node: Stored[Node] | None) -> Known | None:
        self._rate.charge()
        body = {
            "apiVersion": EDGE_NODES.api_version,
            "kind": EDGE_NODES.kind,
            "metadata": {"name": name, **self._metadata(node)},
        }
        try:
            raw = await self._client.create(EDGE_NODES, "", body)
        except AlreadyExists:
            await self._read(name)
            return None
        return self._remember(name, raw)

    async def _patch(
        self, name: str, known: Known, patch: Json, *, subresource: str = ""
    ) -> Known | None:
        """What was written; None if somebody else has written since ``known``, or removed it."""
        patch.setdefault("metadata", {})["resourceVersion"] = known.resource_version
        key = ObjectKey("", name)
        try:
            raw = await self._client.patch(EDGE_NODES, key, patch, subresource=subresource)
        except NotFound:
            self._known.pop(name, None)  # if the kind itself is gone, creating it anew will tell
            self._mark(name)
            return None
        except Conflict:
            await self._read(name)
            return None
        if self._problem:
            self._problem = ""
            logger.info("edge nodes are written again")
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        return self._remember(name, raw)

    def _metadata(self, node: Stored[Node] | None) -> Json:
        metadata: Json = {"annotations": {WRITER: self._writer}}
        if node is not None:  # with it, the garbage collector removes the EdgeNode
            metadata["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Node", "name": node.key.name, "uid": node.uid}
            ]
        return metadata

    async def _drop(self, name: str, snapshot: NodeStatus | None, known: Known | None) -> None:
        """Remove the EdgeNode of a name that has neither Node nor desired state, if it is ours."""
        if snapshot is None:
            self._links.pop(name, None)
        if not self._nodes.is_synced:
            return  # it may have a Node
        if snapshot is not None:
            self._warn_of_stranger(name)
        if known is None or known.writer != self._writer:
            return
        await self._rate.wait()
        with contextlib.suppress(NotFound, Conflict):  # gone, maybe made anew by somebody else
            await self._client.delete(EDGE_NODES, ObjectKey("", name), uid=known.uid)
        self._known.pop(name, None)

    def _warn_of_stranger(self, name: str) -> None:
        """Once a minute at most: whoever may connect can make up names."""
        now = self._now()
        if self._warned_at is None or now - self._warned_at >= timedelta(seconds=_WARNING_SECONDS):
            self._warned_at = now
            logger.warning(
                "a node is connected that has neither a Node nor anything to hold",
                extra={"node": name},
            )

    # Reading.

    async def _list(self) -> None:
        """Learn what EdgeNodes there are."""
        found: dict[str, Known] = {}
        async with contextlib.aclosing(self._client.pages(EDGE_NODES)) as pages:
            async for page in pages:
                for item in page.items:
                    listed = Known.of(item, is_ours=False)
                    known = self._known.get(listed.name)
                    is_same = (
                        known is not None and known.resource_version == listed.resource_version
                    )
                    found[listed.name] = known if known is not None and is_same else listed
        self._known, self._is_listed = found, True

    async def _read(self, name: str) -> None:
        """Learn what somebody else has written, and look at the node again."""
        self._rate.charge()
        try:
            raw = await self._client.get(EDGE_NODES, ObjectKey("", name))
        except NotFound:
            self._known.pop(name, None)
        else:
            self._known[name] = Known.of(raw, is_ours=False)
        self._mark(name)

    def _remember(self, name: str, raw: bytes) -> Known:
        known = self._known[name] = Known.of(raw, is_ours=True)
        return known

    # Trouble.

    async def _pause(self, exc: ServiceError) -> None:
        """Say once what is wrong, and leave the API server alone for a while."""
        problem = _describe(exc)
        if problem != self._problem:
            self._problem = problem
            logger.warning("edge nodes can not be written", extra={"reason": problem})
        asked = exc.retry_after_seconds if isinstance(exc, TooManyRequests) else 0.0
        await asyncio.sleep(max(self._pause_seconds, asked))
        self._pause_seconds = min(2 * self._pause_seconds, _MAX_PAUSE_SECONDS)


class _Rate:
    """A token bucket that holds what comes in a second."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._size = self._tokens = max(1.0, per_second)
        self._counted_at: float | None = None

    @property
    def has_spare(self) -> bool:
        """Whether there is time for what is not urgent."""
        self._count()
        return self._tokens >= max(1.0, self._size / 2)

    async def wait(self) -> None:
        """Take a token, when there is one."""
        self._count()
        while self._tokens < 1:
            lacking_seconds = (1 - self._tokens) / self._per_second
            await asyncio.sleep(max(lacking_seconds, _LEAST_WAIT_SECONDS))
            self._count()
        self._tokens -= 1

    def charge(self) -> None:
        """Take a token that there may not be yet: the next one waits the longer."""
        self._count()
        self._tokens -= 1

    def _count(self) -> None:
        now = asyncio.get_running_loop().time()
        since = now if self._counted_at is None else self._counted_at
        self._tokens = min(self._size, self._tokens + (now - since) * self._per_second)
        self._counted_at = now


def _describe(exc: ServiceError) -> str:
    """What is wrong, in the same words for all nodes."""
    match exc:
        case NotFound():
            return f"{EDGE_NODES.qualified}: the CRD is not installed; {IF_ABSENT}"
        case ApiError():
            verb = exc.request.split(" ", 1)[0]
            return f"{verb} {EDGE_NODES.qualified} failed: {exc.code} {exc.reason}"
        case _:
            return "the API server does not answer"
