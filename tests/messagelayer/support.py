"""What tests of the message layer share."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from gm.config import WebsocketConfig
from gm.messagelayer import Desired, Hub, Server, Timing, WireKey

FAST = Timing(
    same_key_seconds=0.02,
    delete_confirm_seconds=0.2,
    hello_seconds=5,
    handshake_seconds=5,
    close_seconds=1,
)


def key(name: str, kind: str = "dataset", namespace: str = "default") -> WireKey:
    """A key, by default of a dataset."""
    return WireKey(kind, namespace, name)


def desired(
    name: str,
    version: int = 1,
    uid: str = "u1",
    *,
    kind: str = "dataset",
    padding: int = 0,
    url: str = "",
) -> Desired:
    """A version of an object."""
    content: dict[str, Any] = {
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"version": version, "url": url, "padding": "x" * padding},
    }
    return Desired(
        key(name, kind), uid, f"{version}-{url}", json.dumps(content).encode(), spec_identity=url
    )


def open_hub(**options: Any) -> Hub:
    """A hub whose desired state is full from the start."""
    hub = Hub(**options)
    hub.expect(["dataset"])
    hub.complete("dataset")
    return hub


@contextlib.asynccontextmanager
async def serving(hub: Hub, *, timing: Timing = FAST, **settings: Any) -> AsyncIterator[Server]:
    """A running server on a free port."""
    settings = {"address": "127.0.0.1", "port": 0, **settings}
    server = Server(hub, WebsocketConfig(**settings), timing=timing)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        try:
            async with asyncio.timeout(10):
                await server.wait_ready()
            yield server
        finally:
            task.cancel()


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Return when ``condition`` holds, of something that gives no sign when it changes."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def payload_of(frame: bytes) -> bytes:
    """What an unmasked websocket frame carries."""
    length, start = frame[1], 2
    if length == 126:
        length, start = int.from_bytes(frame[2:4]), 4
    elif length == 127:
        length, start = int.from_bytes(frame[2:10]), 10
    assert len(frame) == start + length
    return frame[start:]
