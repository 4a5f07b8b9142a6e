"""The programs of one local system: the embedded API server, GM, and a process for each node."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import yaml

from gm.api.crd import crds
from gm.api.meta import ObjectKey
from gm.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from gm.errors import AlreadyExists, NotFound
from gm.kube import Client
from gm.local.directory import StateDirectory
from gm.local.network import LoopbackNetwork
from gm.local.supervisor import Program, Supervisor, supervising

__all__ = ["DEFAULT_NODES", "System", "running_system"]

DEFAULT_NODES = ("cloud", "edge1", "edge2")
WEBSOCKET_PORT = 9000
LC_PORT = 9100
HEALTH_PORT = 8080
GM_HOST, FIRST_NODE_HOST = 1, 10


class System(msgspec.Struct, kw_only=True):
    """One running local system."""

    directory: StateDirectory
    network: LoopbackNetwork
    supervisor: Supervisor
    nodes: tuple[str, ...]

    @property
    def kubeconfig(self) -> Path:
        """What ``KUBECONFIG`` is set to."""
        return self.directory.kubeconfig


def gm_program(
    directory: StateDirectory, name: str, *arguments: str, essential: bool = False
) -> Program:
    """``gm`` with ``arguments`` as a supervised program."""
    return Program(
        name=name,
        argv=(sys.executable, "-m", "gm", *arguments),
        log=directory.logs / f"{name}.log",
        essential=essential,
    )


def apiserver_program(
    directory: StateDirectory, network: LoopbackNetwork, port: int, *, keep: bool
) -> Program:
    """The embedded API server. Unless its objects are kept on disk it can not be restarted."""
    return gm_program(
        directory,
        "apiserver",
        *("apiserver", "--address", network.address(GM_HOST), "--port", str(port)),
        *("--dir", str(directory.path)),
        *(("--state", str(directory.path)) if keep else ()),
        essential=not keep,
    )


def manager_program(directory: StateDirectory, network: LoopbackNetwork) -> Program:
    """GM, with a configuration file as a platform engineer would write it."""
    config = directory.path / "gm.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "kubeConfig": str(directory.kubeconfig),
                "websocket": {"address": network.address(GM_HOST), "port": WEBSOCKET_PORT},
                "localController": {"server": f"http://localhost:{LC_PORT}"},
                "health": {"address": network.address(GM_HOST), "port": HEALTH_PORT},
            },
            sort_keys=False,
        )
    )
    return gm_program(directory, "gm", "run", "--config", str(config))


def node_program(
    directory: StateDirectory, network: LoopbackNetwork, name: str, number: int
) -> Program:
    """Node ``name``: its Local Controller and the runner of its pods."""
    address = network.address(FIRST_NODE_HOST + number)
    root = directory.nodes / name
    root.mkdir(parents=True, exist_ok=True)
    return gm_program(
        directory,
        f"node-{name}",
        *("edge", "--name", name, "--root", str(root)),
        *("--gm", f"ws://{network.address(GM_HOST)}:{WEBSOCKET_PORT}"),
        *("--state", str(directory.path / "state" / name)),
        *("--listen", f"{address}:{LC_PORT}", "--address", address),
        *("--kubeconfig", str(directory.kubeconfig), "--runner", "--any-pod"),
        # Three nodes on loopback are no thundering herd: be back soon after GM is.
        *("--max-backoff", "5"),
    )


async def install_crds(kubeconfig: Path) -> None:
    """Create the CRDs of this version, or bring those that exist up to it."""
    async with await Client.connect(kubeconfig=str(kubeconfig)) as client:
        for crd in crds():
            key = ObjectKey("", crd["metadata"]["name"])
            try:
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
            except AlreadyExists:
                await client.patch(CUSTOM_RESOURCE_DEFINITIONS, key, {"spec": crd["spec"]})


async def ensure_namespace(client: Client, name: str) -> None:
    """Make namespace ``name`` unless it exists."""
    from gm.api.resources import NAMESPACES

    try:
        await client.get(NAMESPACES, ObjectKey("", name))
    except NotFound:
        await client.create(
            NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )


@asynccontextmanager
async def running_system(
    directory: StateDirectory,
    network: LoopbackNetwork,
    *,
    nodes: Sequence[str],
    port: int,
    say: Callable[[str], None],
    keep: bool = False,
) -> AsyncIterator[System]:
    """A whole system for the body's lifetime; stopped in reverse order when the body ends.

    With ``keep`` the API server's objects are kept in the directory.
    Raises: ProgramDied (in an ExceptionGroup) if a program does not start, or if the API server
    dies and its objects with it.
    """
    async with supervising(pid_file=directory.pids, say=say) as supervisor:
        await supervisor.start(apiserver_program(directory, network, port, keep=keep))
        await install_crds(directory.kubeconfig)
        await supervisor.start(manager_program(directory, network))
        await supervisor.start(
            *(node_program(directory, network, name, number) for number, name in enumerate(nodes))
        )
        yield System(
            directory=directory, network=network, supervisor=supervisor, nodes=tuple(nodes)
        )
