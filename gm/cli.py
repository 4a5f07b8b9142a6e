"""The command ``gm``: entry points, and the only place that configures logging."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import errno
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gm import __version__, logs
from gm.commandline import parser
from gm.errors import ConfigError, GmError
from gm.local.lifeline import adopt

__all__ = ["main"]

logger = logging.getLogger(__name__)

EXIT_FAILED, EXIT_USAGE, EXIT_BUG, EXIT_INTERRUPTED = 1, 2, 70, 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
Ready = Callable[[], None]
T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; returns the exit code."""
    ready = adopt()
    arguments = parser().parse_args(argv)
    with contextlib.suppress(BrokenPipeError):
        try:
            return _COMMANDS[arguments.command](arguments, ready)
        except BaseException as error:
            return _explain(error)
    return EXIT_FAILED


def _explain(error: BaseException) -> int:
    """Tell a person what went wrong; a traceback only for a bug of ours."""
    if isinstance(error, SystemExit):
        raise error
    code = EXIT_FAILED
    for leaf in _leaves(error):
        if isinstance(leaf, ConfigError):
            code = EXIT_USAGE
        if isinstance(leaf, GmError):
            print(f"gm: {leaf}", file=sys.stderr)
        elif isinstance(leaf, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        elif isinstance(leaf, OSError) and leaf.errno in _NO_ROOM:
            print(f"gm: can not write: {leaf.strerror}", file=sys.stderr)
        elif not isinstance(leaf, asyncio.CancelledError):
            logger.error("this is a bug in gm", exc_info=leaf)
            code = EXIT_BUG
    return code


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _run(body: Callable[[asyncio.Event], Awaitable[int]]) -> int:
    """Run ``body`` on an event loop; the event is set by the first SIGINT or SIGTERM.

    A second one ends the process on the spot: its children die with it, by the kernel's hand.
    """

    async def guarded() -> int:
        stopping = asyncio.Event()

        def stop() -> None:
            if stopping.is_set():
                os._exit(EXIT_INTERRUPTED)
            stopping.set()

        for signum in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signum, stop)
        return await body(stopping)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(guarded())


async def _until(stopping: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """The result of ``work``, or None if ``stopping`` was set first and ``work`` has cleaned up."""
    async with asyncio.TaskGroup() as group:
        task, stop = group.create_task(work), group.create_task(stopping.wait())
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        for each in (task, stop):
            each.cancel()
    return None if task.cancelled() else task.result()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None

    def new_loop() -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        loop.set_exception_handler(_on_loop_error)
        return loop

    return new_loop


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # uvloop reports as fatal that it can't go on with a TLS handshake which was just given up, as
    # at an early end: whoever gave it up knows, and nobody else can do anything about it
    closed = "the handler is closed" in str(context.get("exception"))
    if not (closed and "SSL protocol" in context.get("message", "")):
        loop.default_exception_handler(context)


def _say(line: str) -> None:
    print(line, flush=True)


def _up(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm.local.up import UpSettings, up

    logs.configure(level="warning")
    settings = UpSettings(
        directory=arguments.dir,
        state=arguments.state,
        nodes=tuple(dict.fromkeys(arguments.node)) or UpSettings().nodes,
        example=arguments.example,
    )

    async def body(stopping: asyncio.Event) -> int:
        await _until(stopping, up(settings, _say))
        return 0

    return _run(body)


def _demo(arguments: argparse.Namespace, ready: Ready) -> int:
    from rich.console import Console

    from gm.local.demo import DemoSettings, demo
    from gm.local.view import open_view

    logs.configure(level="warning")
    settings = DemoSettings(
        directory=arguments.dir,
        kubeconfig=arguments.kubeconfig and arguments.kubeconfig.resolve(),
        manifest=arguments.job,
        timeout_seconds=arguments.timeout,
    )

    async def body(stopping: asyncio.Event) -> int:
        with open_view(Console()) as view:
            if await _until(stopping, demo(settings, view)):
                return 0
            view.say(f"stopped; what there was stays in {settings.directory}")
            return EXIT_INTERRUPTED

    return _run(body)


def _apiserver(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm.devcluster.apiserver import ApiServerSettings, RunningServer, serve

    logs.configure(format=arguments.log_format, level=arguments.log_level)
    settings = ApiServerSettings(
        directory=arguments.dir or arguments.state or Path("gm-apiserver"),
        state=arguments.state,
        address=arguments.address,
        port=arguments.port,
    )

    async def body(stopping: asyncio.Event) -> int:
        def started(server: RunningServer) -> None:
            _say(f"export KUBECONFIG={server.kubeconfig.resolve()}")
            ready()

        await serve(settings, stopping, ready=started)
        return 0

    return _run(body)


def _manager(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm import config
    from gm.controllers.manager import Manager
    from gm.web.probes import serving_probes

    environ = dict(os.environ)
    kubeconfig_from = None  # the file's setting, or nothing
    if environ.get("GM_KUBE_CONFIG"):
        kubeconfig_from = "environment variable GM_KUBE_CONFIG"
    if arguments.kubeconfig:
        environ["GM_KUBE_CONFIG"], kubeconfig_from = str(arguments.kubeconfig), "--kubeconfig"
    settings, warnings = config.load(arguments.config, environ)
    logs.configure(format=settings.log.format, level=settings.log.level)
    for warning in warnings:
        logger.warning(warning)

    async def body(stopping: asyncio.Event) -> int:
        manager = Manager(settings, kubeconfig_from=kubeconfig_from)

        async def announce() -> None:
            await manager.wait_ready()
            ready()

        health = settings.health
        async with (
            serving_probes(health.address, health.port, problems=manager.problems),
            asyncio.TaskGroup() as group,
        ):
            announcement = group.create_task(announce())
            await manager.run(stopping)
            announcement.cancel()
        return 0

    return _run(body)


def _edge(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm.edge_stub.main import run_edge
    from gm.edge_stub.settings import EdgeSettings, RunnerSettings, parse_images

    if arguments.name is None or arguments.gm is None:
        raise ConfigError("gm edge needs --name NODE and --gm URL; gm edge --help says more")
    logs.configure(format=arguments.log_format, level=arguments.log_level)
    runner = None
    if arguments.runner:
        runner = RunnerSettings(
            node=arguments.name,
            root=arguments.root,
            state=arguments.state,
            address=arguments.address,
            kubeconfig=arguments.kubeconfig,
            any_pod=arguments.any_pod,
            namespace=arguments.namespace,
            images=parse_images(arguments.image),
        )
    settings = EdgeSettings(
        node=arguments.name,
        gm=arguments.gm,
        root=arguments.root,
        state=arguments.state,
        listen=arguments.listen,
        runner=runner,
        token_file=arguments.token_file,
        ca_file=arguments.ca,
        cert_file=arguments.cert,
        key_file=arguments.key,
        server_name=arguments.server_name,
        backoff_max_seconds=arguments.max_backoff,
    )

    async def body(stopping: asyncio.Event) -> int:
        await run_edge(settings, stopping, ready=ready)
        return 0

    return _run(body)


def _edge_status(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm.edge_stub.status import as_json, read_status, render

    status = read_status(arguments.state)
    now = datetime.datetime.now(datetime.UTC)
    sys.stdout.write(as_json(status) if arguments.json else render(status, now))
    return 0


def _pki(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm import pki

    directory: Path = arguments.dir
    for path in pki.issue(
        directory, nodes=arguments.node, servers=arguments.server, days=arguments.days
    ):
        _say(f"wrote {path}")
    _say(pki.how_to_use(directory, nodes=arguments.node, servers=arguments.server))
    return 0


def _storage_init(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm import storage_init

    logs.configure(level="warning")
    settings = storage_init.Settings.from_env(os.environ)
    pairs = storage_init.parse_pairs(arguments.pair, mark=settings.mark)

    async def body(stopping: asyncio.Event) -> int:
        finished = await storage_init.run(pairs, settings, stopping, _say)
        return 0 if finished else EXIT_INTERRUPTED

    return _run(body)


def _crds(arguments: argparse.Namespace, ready: Ready) -> int:
    from gm.api.crd import crds_yaml

    sys.stdout.write(crds_yaml())
    return 0


def _version(arguments: argparse.Namespace, ready: Ready) -> int:
    print(f"gm {__version__}")
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace, Ready], int]] = {
    "apiserver": _apiserver,
    "crds": _crds,
    "demo": _demo,
    "edge": _edge,
    "edge status": _edge_status,
    "pki": _pki,
    "run": _manager,
    "storage-init": _storage_init,
    "up": _up,
    "version": _version,
}
