"""Scripted edge nodes: raw websocket clients that do as told. ``Edge`` speaks v1, ``EdgeV2`` v2.

::

    async with Edge.connected(server.port, "edge1") as edge:
        await edge.wait_for(lambda: "dataset default/d" in edge.held)
        await edge.report("dataset", "default", "d", {"numberOfSamples": 3})

What it holds is in ``held``: key -> object, kept as the Go LC keeps it (an insert over another uid
is noted in ``overwritten``: a real LC would go wrong there). ``frames`` has all that came.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from gm.messagelayer import v2

HELLO = '{"namespace":"","resourceKind":"","resourceName":"","operation":""}\n'


class Edge:
    """One connection of one node; make another for a reconnect (``held`` may be handed on)."""

    def __init__(self, connection: ClientConnection, held: dict[str, Any] | None = None) -> None:
        self.connection = connection
        self.held: dict[str, Any] = {} if held is None else held
        self.frames: list[dict[str, Any]] = []
        self.overwritten: list[str] = []
        self.closed: tuple[int, str] | None = None
        self._news = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls,
        port: int,
        node: str,
        *,
        host: str = "127.0.0.1",
        held: dict[str, Any] | None = None,
        says_hello: bool = True,
        reads: bool = True,
        **options: Any,
    ) -> AsyncIterator[Edge]:
        """A connected edge that reads in the background, unless ``reads`` is False."""
        headers = {"Node-Name": node, **options.pop("additional_headers", {})}
        options = {"compression": None, "max_size": None, "ping_interval": None, **options}
        scheme = "wss" if options.get("ssl") else "ws"
        async with connect(
            f"{scheme}://{host}:{port}/", additional_headers=headers, proxy=None, **options
        ) as connection:
            edge = cls(connection, held)
            if says_hello:
                await connection.send(HELLO)
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(edge.read()) if reads else None
                try:
                    yield edge
                finally:
                    if reader is not None:
                        reader.cancel()

    async def read(self) -> None:
        """Take frames until the connection ends; its end is in ``closed``."""
        try:
            async for frame in self.connection:
                self.take(json.loads(frame))
        except websockets.ConnectionClosed:
            pass
        finally:
            self.closed = (self.connection.close_code or 1006, self.connection.close_reason or "")
            self._news.set()

    def take(self, frame: dict[str, Any]) -> None:
        """Do what a frame says."""
        header = frame["header"]
        key = f"{header['resourceKind']} {header['namespace']}/{header['resourceName']}"
        frame["content"] = json.loads(base64.b64decode(frame["content"]))
        frame["key"] = key
        frame["at"] = asyncio.get_running_loop().time()
        self.frames.append(frame)
        if header["operation"] == "delete":
            self.held.pop(key, None)
        else:
            before, after = self.held.get(key), frame["content"]
            if before is not None and _uid(before) != _uid(after):
                self.overwritten.append(key)
            self.held[key] = after
        self._news.set()

    async def wait_for(self, condition: Callable[[], bool], *, seconds: float = 30) -> None:
        """Return as soon as ``condition`` holds; it is looked at after each frame."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def wait_closed(self, *, seconds: float = 30) -> tuple[int, str]:
        """Code and reason with which the connection ended."""
        await self.wait_for(lambda: self.closed is not None, seconds=seconds)
        assert self.closed is not None
        return self.closed

    async def send(self, frame: str | bytes | dict[str, Any]) -> None:
        """Send anything."""
        await self.connection.send(json.dumps(frame) if isinstance(frame, dict) else frame)

    async def report(self, kind: str, namespace: str, name: str, content: Any) -> None:
        """Send a status report."""
        await self.send(status_frame(kind, namespace, name, content))

    def cut(self) -> None:
        """Break the TCP connection without a word."""
        self.connection.transport.abort()


def status_frame(kind: str, namespace: str, name: str, content: Any) -> dict[str, Any]:
    """A v1 status frame as an LC sends it."""
    return {
        "header": {
            "namespace": namespace,
            "resourceKind": kind,
            "resourceName": name,
            "operation": "status",
        },
        "content": base64.b64encode(json.dumps(content).encode()).decode(),
    }


def _uid(held: dict[str, Any]) -> Any:
    return held.get("metadata", {}).get("uid")


class EdgeV2:
    """One v2 connection of one node: an agent that stores what comes and acknowledges it.

    ``held`` is key -> (uid, digest, content); ``frames`` has all that came. ``answers`` False makes
    it acknowledge nothing, ``refuses`` names objects that it does not take.
    """

    def __init__(
        self, connection: ClientConnection, held: dict[str, tuple[str, str, bytes]] | None = None
    ) -> None:
        self.connection = connection
        self.held: dict[str, tuple[str, str, bytes]] = {} if held is None else held
        self.frames: list[v2.FromGm] = []
        self.answers = True
        self.refuses: set[str] = set()
        self.closed: tuple[int, str] | None = None
        self._news = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls,
        port: int,
        node: str,
        *,
        held: dict[str, tuple[str, str, bytes]] | None = None,
        says_hello: bool = True,
        answers: bool = True,
        reads: bool = True,
        **options: Any,
    ) -> AsyncIterator[EdgeV2]:
        """A connected agent that reads in the background, unless ``reads`` is False."""
        headers = {"Node-Name": node, **options.pop("additional_headers", {})}
        options = {"compression": None, "max_size": None, "ping_interval": None, **options}
        scheme = "wss" if options.get("ssl") else "ws"
        async with connect(
            f"{scheme}://127.0.0.1:{port}/",
            additional_headers=headers,
            subprotocols=[Subprotocol(v2.SUBPROTOCOL)],
            proxy=None,
            **options,
        ) as connection:
            edge = cls(connection, held)
            edge.answers = answers
            if says_hello:
                await edge.send(v2.Hello("test/1", edge.inventory()))
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(edge.read()) if reads else None
                try:
                    yield edge
                finally:
                    if reader is not None:
                        reader.cancel()

    def inventory(self) -> tuple[v2.Holding, ...]:
        """What a hello says."""
        return tuple(
            v2.Holding(*key.replace(" ", "/").split("/"), uid, digest)
            for key, (uid, digest, _) in self.held.items()
        )

    async def read(self) -> None:
        """Take frames until the connection ends; its end is in ``closed``."""
        try:
            async for payload in self.connection:
                assert isinstance(payload, bytes)
                await self.take(v2.decode_from_gm(payload))
        except websockets.ConnectionClosed:
            pass
        finally:
            self.closed = (self.connection.close_code or 1006, self.connection.close_reason or "")
            self._news.set()

    async def take(self, message: v2.FromGm) -> None:
        """Do what a frame says, and acknowledge it."""
        self.frames.append(message)
        answer: v2.FromEdge | None = None
        match message:
            case v2.Put(kind, namespace, name, uid, digest, content):
                if name in self.refuses:
                    answer = v2.Refused(kind, namespace, name, uid, digest, "no room")
                else:
                    self.held[str(message.key)] = (uid, digest, content)
                    answer = v2.Ack(kind, namespace, name, uid, digest)
            case v2.Delete(kind, namespace, name, uid):
                if self.held.get(str(message.key), ("",))[0] == uid:
                    del self.held[str(message.key)]
                answer = v2.Ack(kind, namespace, name, uid)
        if answer is not None and self.answers:
            await self.send(answer)
        self._news.set()

    async def send(self, message: v2.FromEdge) -> None:
        """Send a frame."""
        await self.connection.send(v2.encode_v2(message))

    async def report(
        self, number: int, kind: str, namespace: str, name: str, content: Any, uid: str = ""
    ) -> None:
        """Send a status report."""
        body = json.dumps(content).encode()
        await self.send(v2.ReportFrame(kind, namespace, name, number, body, uid))

    def came(self, kind: type[Any]) -> list[Any]:
        """The frames of one type that have come."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    async def wait_for(self, condition: Callable[[], bool], *, seconds: float = 30) -> None:
        """Return as soon as ``condition`` holds; it is looked at after each frame."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def wait_closed(self, *, seconds: float = 30) -> tuple[int, str]:
        """Code and reason with which the connection ended."""
        await self.wait_for(lambda: self.closed is not None, seconds=seconds)
        assert self.closed is not None
        return self.closed

    def cut(self) -> None:
        """Break the TCP connection without a word."""
        self.connection.transport.abort()
