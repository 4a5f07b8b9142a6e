"""Raw handshakes, and what scripted edges got."""

from __future__ import annotations

import asyncio
import base64

from tests.fakes.edge import Edge

NODE = "edge1"
LOOSE_KEY = base64.b64encode(b"0123456789abcdef").decode()


def versions(edge: Edge, name: str) -> list[int]:
    """The versions of an object in the order in which they came."""
    return [
        frame["content"]["spec"]["version"]
        for frame in edge.frames
        if frame["header"]["resourceName"] == name and frame["header"]["operation"] == "insert"
    ]


def names(edge: Edge) -> set[str]:
    """Names of the objects that the edge holds."""
    return {held["metadata"]["name"] for held in edge.held.values()}


def handshake(node: str | None, *headers: str) -> bytes:
    """The bytes of a request."""
    lines = [
        "GET / HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {LOOSE_KEY}",
        "Sec-WebSocket-Version: 13",
        *([f"Node-Name: {node}"] if node is not None else []),
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def dial(
    port: int, *headers: str, node: str | None = NODE
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """A raw handshake: what comes back up to the empty line is the third of what is returned."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    writer.write(handshake(node, *headers))
    answer = await reader.readuntil(b"\r\n\r\n")
    return reader, writer, answer.decode()


async def status_of(port: int, node: str | None, *headers: str) -> str:
    """The status of the answer to a handshake, which is expected not to succeed."""
    reader, writer, answer = await dial(port, *headers, node=node)
    await reader.read()
    writer.close()
    return answer.split()[1]
