"""Edge nodes that a chaos run breaks: each behind a link of its own, and connecting again."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import random
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from chaos_objects import Holdings, Version
from websockets.exceptions import WebSocketException

sys.path.insert(0, str(Path(__file__).parents[1]))

from gm.edge_stub.agent import Agent
from gm.edge_stub.outbox import Outbox
from gm.edge_stub.settings import EdgeSettings
from gm.edge_stub.store import Put, Remove, Store
from tests.fakes.edge import Edge, EdgeV2
from tests.fakes.proxy import Proxy

__all__ = ["AgentNode", "Link", "Node", "V1Node", "V2Node", "make_nodes", "relaying"]

_SESSION_SECONDS = 3600.0


class Link(Proxy):
    """A proxy whose black hole swallows also the end of a connection."""

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        super().__init__(target)
        self.host = host

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_down: bool
    ) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            await super()._pump(_Holding(reader, self), writer, is_down=is_down)  # type: ignore[arg-type]


class _Holding:
    """A reader that tells of nothing, not even of the end, while its link is a black hole."""

    def __init__(self, reader: asyncio.StreamReader, link: Link) -> None:
        self._reader, self._link = reader, link

    async def read(self, size: int) -> bytes:
        data = await self._reader.read(size)
        while self._link.is_black_hole:
            await asyncio.sleep(0.05)
        return data


class Node(abc.ABC):
    """One edge node behind its link: connected, or trying to be."""

    wire: str

    def __init__(self, name: str, link: Link, rng: random.Random) -> None:
        self.name, self.link, self._rng = name, link, rng
        self.connects = 0
        self.frames = 0

    @abc.abstractmethod
    async def run(self) -> None:
        """Live until cancelled."""

    @abc.abstractmethod
    async def restart(self) -> None:
        """End at once and start anew with what is on disk."""

    @abc.abstractmethod
    async def reinstall(self) -> None:
        """Lose everything, and start anew."""

    @abc.abstractmethod
    async def holdings(self) -> Holdings:
        """What it holds now."""


class ScriptedNode(Node):
    """One of the fakes that tests use, with a loop that connects again."""

    def __init__(self, name: str, link: Link, rng: random.Random) -> None:
        super().__init__(name, link, rng)
        self.held: dict[str, Any] = {}

    @abc.abstractmethod
    async def _session(self) -> None:
        """One connection, from its start to its end."""

    async def run(self) -> None:
        """See :class:`Node`."""
        while True:
            with contextlib.suppress(OSError, TimeoutError, EOFError, WebSocketException):
                await self._session()
            await asyncio.sleep(self._rng.uniform(0, 1))

    async def restart(self) -> None:
        """See :class:`Node`."""
        self.link.cut()

    async def reinstall(self) -> None:
        """See :class:`Node`."""
        self.link.cut()
        self.held.clear()

    @property
    def _options(self) -> dict[str, Any]:
        times = {"ping_interval": 2, "ping_timeout": 2, "close_timeout": 0.5, "open_timeout": 5}
        return {"held": self.held, **times}


class WatchfulEdge(Edge):
    """A v1 edge that also notes a Dataset whose url changed without a delete between."""

    def take(self, frame: dict[str, Any]) -> None:
        """See :class:`Edge`."""
        header = frame["header"]
        key = f"{header['resourceKind']} {header['namespace']}/{header['resourceName']}"
        before = self.held.get(key)
        super().take(frame)
        after = self.held.get(key)
        if header["resourceKind"] != "dataset" or not (before and after):
            return
        if before["spec"]["url"] != after["spec"]["url"]:
            self.overwritten.append(key)


class V1Node(ScriptedNode):
    """Speaks v1 as the Go LC does."""

    wire = "v1"

    def __init__(self, name: str, link: Link, rng: random.Random) -> None:
        super().__init__(name, link, rng)
        self.overwritten: list[str] = []

    async def _session(self) -> None:
        async with WatchfulEdge.connected(self.link.port, self.name, **self._options) as edge:
            self.connects += 1
            try:
                await edge.wait_closed(seconds=_SESSION_SECONDS)
            finally:
                self.frames += len(edge.frames)
                self.overwritten += edge.overwritten

    async def holdings(self) -> Holdings:
        """See :class:`Node`."""
        return {key: Version.of(found) for key, found in self.held.items()}


class V2Node(ScriptedNode):
    """A scripted v2 agent."""

    wire = "v2"

    async def _session(self) -> None:
        async with EdgeV2.connected(self.link.port, self.name, **self._options) as edge:
            self.connects += 1
            try:
                await edge.wait_closed(seconds=_SESSION_SECONDS)
            finally:
                self.frames += len(edge.frames)

    async def holdings(self) -> Holdings:
        """See :class:`Node`."""
        return {
            key: Version.of(msgspec.json.decode(content))
            for key, (_, _, content) in self.held.items()
        }


class AgentNode(Node):
    """The edge stub's own agent with its database."""

    wire = "v2, edge stub"

    def __init__(self, name: str, link: Link, rng: random.Random, directory: Path) -> None:
        super().__init__(name, link, rng)
        self._settings = EdgeSettings(
            node=name,
            gm=f"ws://127.0.0.1:{link.port}",
            root=directory,
            state=directory,
            backoff_first_seconds=0.5,
            backoff_max_seconds=2,
            ping_interval_seconds=2,
            ping_timeout_seconds=2,
        )
        self._store: Store | None = None
        self._life: asyncio.Task[None] | None = None
        self._is_wiped = False

    async def run(self) -> None:
        """See :class:`Node`."""
        while True:
            if self._is_wiped:
                self._is_wiped = False
                shutil.rmtree(self._settings.state, ignore_errors=True)
            async with asyncio.TaskGroup() as group:
                self._life = group.create_task(self._live())

    async def restart(self) -> None:
        """See :class:`Node`."""
        if self._life is not None:
            self._life.cancel()

    async def reinstall(self) -> None:
        """See :class:`Node`."""
        self._is_wiped = True
        await self.restart()

    async def _live(self) -> None:
        self._settings.state.mkdir(parents=True, exist_ok=True)
        store = Store(self._settings.state)
        await store.open()
        self._store = store
        self.connects += 1
        try:
            agent = Agent(
                self._settings, store=store, outbox=Outbox(store), applied=self._take_changes
            )
            await agent.run()
        finally:
            self._store = None
            await store.close()

    async def _take_changes(self, changes: Any) -> None:
        self.frames += sum(isinstance(change, Put | Remove) for change in changes)

    async def holdings(self) -> Holdings:
        """See :class:`Node`."""
        found: Holdings = {}
        if self._store is not None:
            for key in list(self._store.held):
                content = await self._store.content(key)
                if content is not None:
                    found[str(key)] = Version.of(msgspec.json.decode(content))
        return found


def make_nodes(links: list[Link], path: Path, seed: int) -> list[Node]:
    """Half v1, a quarter scripted v2, a quarter edge stubs."""
    nodes: list[Node] = []
    for number, link in enumerate(links):
        name, rng = f"edge{number}", random.Random(f"{seed} {number}")
        match number % 4:
            case 0:
                nodes.append(AgentNode(name, link, rng, path / name))
            case 1:
                nodes.append(V2Node(name, link, rng))
            case _:
                nodes.append(V1Node(name, link, rng))
    return nodes


@contextlib.asynccontextmanager
async def relaying(links: list[Link]) -> AsyncIterator[None]:
    """Run ``links`` as long as the body runs."""

    async def relay(link: Link, is_up: asyncio.Event) -> None:
        async with link.running():
            is_up.set()
            await asyncio.get_running_loop().create_future()

    async with asyncio.TaskGroup() as group:
        events = [asyncio.Event() for _ in links]
        tasks = [group.create_task(relay(*pair)) for pair in zip(links, events, strict=True)]
        for event in events:
            await event.wait()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
