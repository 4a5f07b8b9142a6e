"""A scripted GM: takes an edge node's connection and does exactly what the test says, no more."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from gm.messagelayer import v2

Json = dict[str, Any]


def dataset(name: str, *, uid: str = "u1", url: str = "/data/d.csv") -> Json:
    """A Dataset as GM sends it."""
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"url": url, "format": "csv", "nodeName": "edge1"},
    }


def job(name: str, *, uid: str = "u1", trainers: int = 2) -> Json:
    """A FederatedLearningJob as GM sends it."""
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "FederatedLearningJob",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"trainingWorkers": [{"dataset": {"name": "d"}} for _ in range(trainers)]},
    }


class Session:
    """One connection of a node; ``received`` holds what came, decoded."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        assert connection.request is not None
        self.headers = connection.request.headers
        self.received: list[Any] = []
        self.ended = asyncio.Event()
        self._news = asyncio.Condition()

    async def read(self) -> None:
        """Note what comes until the connection ends."""
        try:
            while True:
                frame = await self.connection.recv()
                async with self._news:
                    self.received.append(self._decode(frame))
                    self._news.notify_all()
        except ConnectionClosed:
            self.ended.set()

    @staticmethod
    def _decode(frame: str | bytes) -> Any:
        return json.loads(frame) if isinstance(frame, str) else v2.decode_from_edge(frame)

    async def wait_received(self, count: int) -> list[Any]:
        """The first ``count`` frames, once they are there."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: len(self.received) >= count)
        return self.received[:count]

    async def wait_reports(self, count: int) -> list[tuple[str, Json]]:
        """At least ``count`` v1 reports: ``kind/name`` and content."""
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: len(self.reports()) >= count)
        return self.reports()

    def reports(self) -> list[tuple[str, Json]]:
        """The v1 reports so far."""
        return [
            (
                f"{frame['header']['resourceKind']}/{frame['header']['resourceName']}",
                json.loads(base64.b64decode(frame["content"])),
            )
            for frame in self.received
            if isinstance(frame, dict) and "header" in frame
        ]

    async def send_v1(self, operation: str, obj: Json) -> None:
        """One v1 frame about ``obj``."""
        metadata = obj["metadata"]
        header = {
            "namespace": metadata["namespace"],
            "resourceKind": obj["kind"].lower(),
            "resourceName": metadata["name"],
            "operation": operation,
        }
        content = base64.b64encode(json.dumps(obj).encode()).decode()
        await self.connection.send(json.dumps({"header": header, "content": content}))

    async def send_v2(self, message: v2.FromGm) -> None:
        """One v2 frame."""
        await self.connection.send(v2.encode_v2(message))

    async def put(self, obj: Json, digest: str) -> None:
        """A v2 put of ``obj``."""
        metadata = obj["metadata"]
        await self.send_v2(
            v2.Put(
                obj["kind"].lower(),
                metadata["namespace"],
                metadata["name"],
                uid=metadata["uid"],
                digest=digest,
                content=json.dumps(obj).encode(),
            )
        )

    async def round_trip(self) -> None:
        """Return once the node's end has read everything that was sent."""
        await (await self.connection.ping())

    def pause(self) -> None:
        """Read nothing any more, not even pings: a stalled host."""
        self.connection.transport.pause_reading()

    def abort(self) -> None:
        """Cut the TCP connection without a word."""
        self.connection.transport.abort()


class FakeGM:
    """Listens for nodes; `stop` and `start` keep the port."""

    def __init__(self, *, speaks_v2: bool = False, port: int = 0) -> None:
        self._speaks_v2, self.port = speaks_v2, port
        self.sessions: list[Session] = []
        self._waiting: asyncio.Queue[Session] = asyncio.Queue()
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """What an edge node dials."""
        return f"ws://127.0.0.1:{self.port}/"

    async def __aenter__(self) -> FakeGM:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, on the same port as before."""
        subprotocols = [Subprotocol(v2.SUBPROTOCOL)] if self._speaks_v2 else None
        self._server = await serve(
            self._handle, "127.0.0.1", self.port, subprotocols=subprotocols, close_timeout=0.2
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        """Close all sessions with 1001 and listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def crash(self) -> None:
        """End all sessions without a word and listen no more."""
        for session in self.sessions:
            with contextlib.suppress(AttributeError):
                session.abort()
        await self.stop()

    async def session(self) -> Session:
        """The next session that a node opens."""
        async with asyncio.timeout(20):
            return await self._waiting.get()

    async def _handle(self, connection: ServerConnection) -> None:
        session = Session(connection)
        self.sessions.append(session)
        self._waiting.put_nowait(session)
        await session.read()
