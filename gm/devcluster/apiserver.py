"""The server as a whole: ``running`` in this process, ``serve`` as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from gm.api.meta import ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.controller import Controller
from gm.devcluster.crdhook import CrdHook
from gm.devcluster.endpoints import EndpointsController
from gm.devcluster.expiry import EventExpiry
from gm.devcluster.gc import GarbageCollector
from gm.devcluster.handlers import Handlers
from gm.devcluster.journal import journaling
from gm.devcluster.logs import LogProxy
from gm.devcluster.namespaces import DefinitionCleaner, NamespaceCleaner
from gm.devcluster.nodes import NodeHook, NodeLifecycle
from gm.devcluster.podgc import PodCollector, TaintEviction
from gm.devcluster.registry import Registry
from gm.devcluster.restoring import restore
from gm.devcluster.scheduler import Scheduler
from gm.devcluster.server import Server
from gm.devcluster.services import ServiceHook
from gm.devcluster.statefile import FILE_NAME, Saved, StateFile
from gm.devcluster.store import Journal, Store, first_revision
from gm.devcluster.tls import Identity, write_private
from gm.devcluster.watch import Watches
from gm.directories import DirectoryClaim
from gm.errors import ConfigError

__all__ = ["ApiServerSettings", "RunningServer", "assemble", "running", "serve"]

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SHUTDOWN_SECONDS = 2
_MAX_HEADER_BYTES = 64 * 1024
"""How long a URL, or a header, may be: selectors are."""


@dataclass(frozen=True, kw_only=True)
class ApiServerSettings:
    """How to run the server.

    ``directory`` keeps CA, token and kubeconfig. Port 0 takes a free one. ``ready_file``, if
    given, is written with the server's URL once requests are answered.
    """

    directory: Path
    state: Path | None = None
    """Where objects are kept over a restart; without, they are in memory."""
    address: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    ready_file: Path | None = None
    event_window: int = 1000
    """How many changes of a kind a watch can be behind before it gets 410."""
    bookmark_seconds: float = 60
    """How often watches that want bookmarks get one."""
    event_ttl_seconds: float = 3600
    node_grace_seconds: float = 40
    """How long after a node's last Lease renewal it counts as lost."""
    orphan_grace_seconds: float = 40
    """How long pods stay whose node does not exist."""


@dataclass(frozen=True)
class RunningServer:
    """A server that answers requests."""

    url: str
    port: int
    kubeconfig: Path
    token: str
    ca_path: Path


def assemble(
    settings: ApiServerSettings, saved: Saved | None = None, journal: Journal | None = None
) -> Api:
    """The API with all that kinds do on writes, and the namespaces that every cluster has.

    It goes on from ``saved``, if that is given, and has ``journal`` write what changes.
    """
    registry = Registry()
    first = None if saved is None else saved.revision
    api = Api(Store(window=settings.event_window, first=first, journal=journal), registry)
    api.hooks["nodes"] = NodeHook()
    api.hooks["services"] = ServiceHook()
    api.hooks["customresourcedefinitions.apiextensions.k8s.io"] = CrdHook(registry)
    if saved is not None:
        restore(api, saved)
    for name in _NAMESPACES:
        if api.store.table("namespaces").get(ObjectKey("", name)) is None:
            api.make(api.builtin("namespaces"), "", {"metadata": {"name": name}})
    return api


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

    ``settings``, if given, is used instead of the other arguments. Raises: ConfigError if it
    can not listen, or can not use what was kept; StateFileError, within an ExceptionGroup, if
    that can not be written any more.
    """
    settings = settings or ApiServerSettings(
        directory=directory, address=address, port=port, token=token
    )
    _check(settings)
    with contextlib.closing(_claim(settings.directory)):
        async with _kept(settings) as server:
            yield server


def _check(settings: ApiServerSettings) -> None:
    """Raises: ConfigError for an address that is not this machine's own, or no port."""
    try:
        is_loopback = ipaddress.ip_address(settings.address).is_loopback
    except ValueError:
        is_loopback = settings.address == "localhost"
    if not is_loopback:
        raise ConfigError(
            f"--address {settings.address}: want a loopback address such as 127.0.0.1; this server "
            "is for one machine"
        )
    if not 0 <= settings.port <= 65535:
        raise ConfigError(f"--port {settings.port}: want 0 (a free one) to 65535")


def _claim(directory: Path) -> DirectoryClaim:
    """Own the directory of token and kubeconfig; it may lie in that of a whole local system."""
    return DirectoryClaim(
        directory,
        marker=".gm-apiserver",
        option="--dir",
        relatives=(".gm-local-system", FILE_NAME),
    )


@contextlib.asynccontextmanager
async def _kept(settings: ApiServerSettings) -> AsyncIterator[RunningServer]:
    """The server with what was kept, if anything is to be."""
    async with _journal(settings.state) as (saved, journal):
        api = assemble(settings, saved, journal)
        async with _serving(api, settings) as server:
            yield server


@contextlib.asynccontextmanager
async def _journal(directory: Path | None) -> AsyncIterator[tuple[Saved | None, Journal | None]]:
    """What was kept, and what keeps from now on; nothing of both without a directory."""
    if directory is None:
        yield None, None
        return
    file = StateFile(directory)
    try:
        saved = file.load()
        # Higher than all before, and written down at once: the life after this one must begin
        # higher still, even if the clock is put back and nothing happens meanwhile.
        first = max(first_revision(), saved.revision + 1)
        file.write((), first + 1)
    except BaseException:
        file.close()
        raise
    async with journaling(file) as journal:
        yield saved._replace(revision=first), journal


@contextlib.asynccontextmanager
async def _serving(api: Api, settings: ApiServerSettings) -> AsyncIterator[RunningServer]:
    """HTTP and the controllers, as long as the body."""
    identity = Identity(settings.directory, settings.address, token=settings.token)
    watches = Watches(api.store, bookmark_seconds=settings.bookmark_seconds)
    async with LogProxy(api.store) as logs:
        server = Server(
            api.registry,
            Handlers(api, watches, logs),
            token=identity.token,
            hosts={settings.address, *_LOOPBACK},
            settled=api.store.settled,
        )
        # Listening first: a port that is taken is told as what it is, not as a failed task.
        async with (
            _listening(server, watches, settings, identity) as port,
            _controlling(api, settings),
        ):
            url = f"https://{settings.address}:{port}"
            kubeconfig = identity.write_kubeconfig(url)
            server.is_ready = True
            yield RunningServer(url, port, kubeconfig, identity.token, identity.ca_path)


@contextlib.asynccontextmanager
async def _controlling(api: Api, settings: ApiServerSettings) -> AsyncIterator[None]:
    """The controllers, as long as the body; if one crashes, the body is cancelled."""
    controllers: list[Controller[Any]] = [
        GarbageCollector(api),
        NamespaceCleaner(api),
        DefinitionCleaner(api),
        Scheduler(api),
        NodeLifecycle(api, grace_seconds=settings.node_grace_seconds),
        PodCollector(api, grace_seconds=settings.orphan_grace_seconds),
        TaintEviction(api),
        EndpointsController(api),
        EventExpiry(api, ttl_seconds=settings.event_ttl_seconds),
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(c.run(), name=c.name) for c in controllers]
        yield
        for task in tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def _listening(
    server: Server, watches: Watches, settings: ApiServerSettings, identity: Identity
) -> AsyncIterator[int]:
    """The socket, as long as the body; gives the port. Open watches are ended at the end."""
    handler = web.Server(
        server.handle,
        handler_cancellation=True,
        access_log=None,
        auto_decompress=False,  # as upstream, where bodies are never compressed
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )
    runner = web.ServerRunner(handler, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        context = identity.server_context()
        site = web.TCPSite(runner, settings.address, settings.port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            where = f"{settings.address}:{settings.port}"
            raise ConfigError(
                f"the API server can not listen on {where}: {os.strerror(error.errno or 0)}; "
                "choose another port, or 0 for a free one"
            ) from error
        yield runner.addresses[0][1]
    finally:
        watches.stop()
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
