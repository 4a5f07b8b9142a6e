"""The command ``gm``: entry points, and the only place that configures logging."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from gm import __version__, logs
from gm.errors import ConfigError, GmError
from gm.local.lifeline import adopt

__all__ = ["main"]

logger = logging.getLogger(__name__)

EXIT_FAILED, EXIT_USAGE, EXIT_BUG, EXIT_INTERRUPTED = 1, 2, 70, 130
Ready = Callable[[], None]
T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; returns the exit code."""
    ready = adopt()
    arguments = _parser().parse_args(argv)
    with contextlib.suppress(BrokenPipeError):
        try:
            code: int = arguments.function(arguments, ready)
            return code
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
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


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
            done = await _until(stopping, demo(settings, view))
            return 0 if done else EXIT_INTERRUPTED

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
    if arguments.kubeconfig:
        environ["GM_KUBE_CONFIG"] = str(arguments.kubeconfig)
    settings, warnings = config.load(arguments.config, environ)
    logs.configure(format=settings.log.format, level=settings.log.level)
    for warning in warnings:
        logger.warning(warning)

    async def body(stopping: asyncio.Event) -> int:
        manager = Manager(settings)

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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gm",
        description="A Global Manager for edge AI on Kubernetes.",
        epilog="Start with `gm demo`, or `gm up --example` and kubectl.",
    )
    parser.add_argument("--version", action="version", version=f"gm {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, function: Callable[[argparse.Namespace, Ready], int], summary: str, example: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog="examples:\n" + example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(function=function)
        return sub

    demo = command(
        "demo",
        _demo,
        "train one federated model on this machine and show it",
        "  gm demo\n  gm demo | cat        # plain lines\n"
        "  gm demo --kubeconfig ~/.kube/config   # in that cluster; nothing stays there",
    )
    demo.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="run it in this cluster (its current context), in a namespace and with nodes of its "
        "own that are processes of this machine",
    )
    demo.add_argument("--dir", type=Path, default=Path("gm-demo"), help="where model and logs stay")
    demo.add_argument("--job", type=Path, help="submit this file instead of the example's")
    demo.add_argument(
        "--timeout", type=float, default=300, metavar="SECONDS", help="give up after (300)"
    )

    up = command(
        "up",
        _up,
        "run API server, GM and nodes on this machine until Ctrl-C",
        "  gm up --example\n  gm up --node cloud --node edge1 --dir /tmp/two\n"
        "  gm up --state ./kept        # goes on where it ended, also after kill -9",
    )
    place = up.add_mutually_exclusive_group()
    place.add_argument(
        "--dir", type=Path, default=Path("gm-up"), help="logs, kubeconfig, nodes; emptied at start"
    )
    place.add_argument(
        "--state", type=Path, metavar="DIR", help="the same, kept, and the objects with it"
    )
    up.add_argument(
        "--node", action="append", default=[], metavar="NAME", help="a node (cloud, edge1, edge2)"
    )
    up.add_argument("--example", action="store_true", help="write the example's data")

    run = command(
        "run",
        _manager,
        "run GM against a cluster",
        "  gm run --config gm.yaml\n  GM_WEBSOCKET_PORT=9001 gm run --kubeconfig ~/.kube/config",
    )
    run.add_argument("--config", help="configuration file, as Sedna's")
    run.add_argument("--kubeconfig", type=Path, help="overrides kubeConfig of the file")

    edge = command(
        "edge",
        _edge,
        "run one edge node's Local Controller, and with --runner its pods",
        "  gm edge --name edge1 --gm ws://gm.example:9000 --root / --state /var/lib/gm-edge\n"
        "  gm edge --name edge1 --gm ws://127.0.0.1:9000 --runner --address 127.0.0.1 \\\n"
        "      --image 'me/train:v1=python train.py'\n"
        "  gm edge status --state /var/lib/gm-edge",
    )
    edge.add_argument("--name", help="node name (required)")
    edge.add_argument("--gm", metavar="URL", help="ws://HOST:PORT or wss://... of GM (required)")
    edge.add_argument("--root", type=Path, default=Path("/"), help="the node's file system")
    edge.add_argument("--state", type=Path, default=Path("gm-edge"), help="the stub's own files")
    edge.add_argument(
        "--listen", default="127.0.0.1:9100", metavar="ADDRESS:PORT", help="worker API"
    )
    edge.add_argument(
        "--max-backoff",
        type=float,
        default=60,
        metavar="SECONDS",
        help="longest wait between attempts to reach GM (60)",
    )
    edge.add_argument("--runner", action="store_true", help="play the node: run its pods")
    edge.add_argument("--kubeconfig", type=Path, help="with --runner; else KUBECONFIG")
    edge.add_argument("--address", default="127.0.0.1", help="the node's address, with --runner")
    edge.add_argument("--any-pod", action="store_true", help="run pods of any owner")
    edge.add_argument("--namespace", default="", help="run pods of this namespace only")
    edge.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=ARGV",
        help="what to run for an image whose container names no command",
    )
    _credential_arguments(edge)
    _log_arguments(edge)
    _edge_status_command(edge)

    apiserver = command(
        "apiserver",
        _apiserver,
        "run the embedded Kubernetes API server alone",
        "  gm apiserver --dir /tmp/api &\n  export KUBECONFIG=/tmp/api/kubeconfig",
    )
    apiserver.add_argument(
        "--dir", type=Path, help="CA, token, kubeconfig (that of --state, or gm-apiserver)"
    )
    apiserver.add_argument(
        "--state", type=Path, metavar="DIR", help="keep the objects there; else in memory"
    )
    apiserver.add_argument("--address", default="127.0.0.1", help="a loopback address")
    apiserver.add_argument("--port", type=int, default=6443, help="0 takes a free one")
    _log_arguments(apiserver)

    pki = command(
        "pki",
        _pki,
        "make a CA, and certificates for GM and its nodes, to try out TLS",
        "  gm pki gm-pki --server gm.example --node edge1 --node edge2\n"
        "  gm pki gm-pki --node edge3        # one more, of the same CA",
    )
    pki.add_argument("dir", type=Path, metavar="DIR", help="where they lie; nothing is overwritten")
    pki.add_argument("--node", action="append", default=[], metavar="NAME", help="a node")
    pki.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name or IP address of GM, beside this machine's loopback",
    )
    pki.add_argument("--days", type=int, default=365, help="how long they are valid (365)")

    storage = command(
        "storage-init",
        _storage_init,
        "download s3:// and http(s):// URLs to directories, as the init container does",
        "  gm storage-init s3://bucket/model/ /downloads/bucket/\n"
        "  gm storage-init https://data.example/train.csv /data s3://bucket/index.txt @/data\n"
        "environment: S3_ENDPOINT_URL, ACCESS_KEY_ID, SECRET_ACCESS_KEY, AWS_REGION,\n"
        "  INDIRECT_URL_MARK (@), SSL_CERT_FILE; see docs/storage.md",
    )
    storage.add_argument(
        "pair", nargs="+", metavar="URL DIR", help="pairs; @ before DIR: URL names a list of files"
    )

    command("crds", _crds, "print the CustomResourceDefinitions", "  gm crds | kubectl apply -f -")
    command("version", _version, "print the version", "  gm version")
    return parser


def _edge_status_command(edge: argparse.ArgumentParser) -> None:
    status = edge.add_subparsers(metavar="").add_parser(
        "status",
        help="show link, objects and waiting reports of a Local Controller",
        description="Show link, objects and waiting reports of a Local Controller.",
        epilog="examples:\n  gm edge status --state /var/lib/gm-edge\n"
        "  gm edge status --state gm-up/state/edge1 --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    status.set_defaults(function=_edge_status)
    status.add_argument(
        "--state", type=Path, default=Path("gm-edge"), help="the Local Controller's own files"
    )
    status.add_argument("--json", action="store_true", help="for programs")


def _credential_arguments(parser: argparse.ArgumentParser) -> None:
    for flag, text in (
        ("--token-file", "holds the token that says who this node is"),
        ("--ca", "CA certificates to check GM's against; else the system's"),
        ("--cert", "this node's certificate, with CN system:node:NAME"),
        ("--key", "its private key, unless it lies in the same file"),
    ):
        parser.add_argument(flag, type=Path, metavar="FILE", help=text)


def _log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-format", choices=("auto", "human", "json"), default="auto")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info"
    )
