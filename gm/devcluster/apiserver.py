"""The server as a whole: ``running`` in this process, ``serve`` as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from gm.devcluster.tls import Identity, write_private

__all__ = ["ApiServerSettings", "RunningServer", "running", "serve"]


@dataclass(frozen=True, kw_only=True)
class ApiServerSettings:
    """How to run the server.

    ``directory`` keeps CA, token and kubeconfig. Port 0 takes a free one. ``ready_file``, if
    given, is written with the server's URL once requests are answered.
    """

    directory: Path
    address: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    ready_file: Path | None = None
    event_window: int = 1000
    """How many changes of a kind a watch can be behind before it gets 410."""
    event_ttl_seconds: float = 3600
    node_grace_seconds: float = 40
    """How long after a node's last Lease renewal it counts as lost."""


@dataclass(frozen=True)
class RunningServer:
    """A server that answers requests."""

    url: str
    port: int
    kubeconfig: Path
    token: str
    ca_path: Path


@contextlib.asynccontextmanager
async def running(
    port: int = 0,
    address: str = "127.0.0.1",
    *,
    directory: Path,
    token: str | None = None,
    settings: ApiServerSettings | None = None,
) -> AsyncIterator[RunningServer]:
    """An API server with its controllers, in this process, as long as the body.

    ``settings``, if given, is used instead of the other arguments.
    """
    settings = settings or ApiServerSettings(
        directory=directory, address=address, port=port, token=token
    )
    identity = Identity(settings.directory, settings.address, token=settings.token)
    app = web.Application()
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(
            runner, settings.address, settings.port, ssl_context=identity.server_context()
        )
        await site.start()
        bound = runner.addresses[0][1]
        url = f"https://{settings.address}:{bound}"
        kubeconfig = identity.write_kubeconfig(url)
        yield RunningServer(url, bound, kubeconfig, identity.token, identity.ca_path)
    finally:
        await runner.cleanup()


async def serve(
    settings: ApiServerSettings,
    stopping: asyncio.Event,
    *,
    ready: Callable[[RunningServer], None] | None = None,
) -> None:
    """Serve until ``stopping`` is set; prints nothing.

    ``ready`` is called, and ``settings.ready_file`` written, once requests are answered.
    """
    async with running(directory=settings.directory, settings=settings) as server:
        if settings.ready_file is not None:
            write_private(settings.ready_file, server.url.encode())
        if ready is not None:
            ready(server)
        await stopping.wait()
