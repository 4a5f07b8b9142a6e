"""A test's loop takes with it what is about to close, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.messagelayer.pki import Authority


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    """Who signs the server's certificate."""
    return Authority(tmp_path)


@pytest.fixture
def port(ca: Authority) -> Iterator[int]:
    """Of a TLS server that never answers once the handshake is done."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*ca.issue("gm"))
    ending = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):  # the client has gone
            accepted, _ = listener.accept()
            with accepted, context.wrap_socket(accepted, server_side=True):
                ending.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        ending.set()
        thread.join()


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the garbage collector finds open."""
    gc.collect()  # of other tests, which are to hear of it
    found: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: found.append(str(args.exc_value)))
    return found


async def connect(port: int, ca: Authority) -> tuple[asyncio.StreamReader, Any]:
    """A TLS connection that stands."""
    context = ssl.create_default_context(cafile=str(ca.path))
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


def test_connection_that_is_about_to_close_ends_with_the_loop(
    port: int, ca: Authority, lost: list[str]
) -> None:
    """Its peer never says that it closes, too."""

    async def main() -> None:
        _, writer = await connect(port, ca)
        writer.close()

    asyncio.run(main())
    gc.collect()
    assert lost == []


def test_connection_that_nobody_closes_is_found(port: int, ca: Authority, lost: list[str]) -> None:
    """That is a leak."""

    async def main() -> None:
        await connect(port, ca)

    asyncio.run(main())
    gc.collect()
    assert any("unclosed" in text for text in lost)


def test_connection_that_comes_as_its_server_closes_is_closed(lost: list[str]) -> None:
    """It was accepted, and there is no transport of it yet."""

    async def main() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            await asyncio.sleep(0)  # the loop accepts
            await asyncio.sleep(0)
            server.close()
            await asyncio.sleep(0)
            client.settimeout(10)
            assert client.recv(1) == b""

    asyncio.run(main())
    gc.collect()
    assert lost == []
