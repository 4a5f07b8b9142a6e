"""The programs of a local system: an API server of its own or a cluster, GM, and the nodes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gm.api.crd import crds
from gm.api.meta import ObjectKey
from gm.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from gm.errors import AlreadyExists
from gm.kube import Client
from gm.local.directory import StateDirectory
from gm.local.network import LoopbackNetwork
from gm.local.supervisor import Program, Supervisor, supervising

__all__ = ["DEFAULT_NODES", "System", "running_guest", "running_system"]

DEFAULT_NODES = ("cloud", "edge1", "edge2")
WEBSOCKET_PORT = 9000
LC_PORT = 9100
HEALTH_PORT = 8080
GM_HOST, FIRST_NODE_HOST = 1, 10


class System(msgspec.Struct, kw_only=True):
    """One running local system.

    ``kubeconfig`` is what ``KUBECONFIG`` is set to. With ``namespace`` it is a guest in a cluster
    that is not its own: it looks at nothing but that namespace, and its nodes run nothing but the
    pods of sedna.io objects there.
    """

    directory: StateDirectory
    network: LoopbackNetwork
    supervisor: Supervisor
    nodes: tuple[str, ...]
    kubeconfig: Path
    namespace: str = ""


def gm_program(
    directory: StateDirectory, name: str, *arguments: str, essential: bool = False
) -> Program:
    """``gm`` with ``arguments`` as a supervised program."""
    return Program(
        name=name,
        # -P: what lies in the current directory is none of our modules
        argv=(sys.executable, "-P", "-m", "gm", *arguments),
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


def manager_program(system: System) -> Program:
    """GM, with a configuration file as a platform engineer would write it."""
    address = system.network.address(GM_HOST)
    config: dict[str, Any] = {
        "kubeConfig": str(system.kubeconfig),
        "websocket": {"address": address, "port": WEBSOCKET_PORT, "maxNodes": 250},
        "localController": {"server": f"http://localhost:{LC_PORT}"},
        "health": {"address": address, "port": HEALTH_PORT},
    }
    if system.namespace:
        config |= {"namespace": system.namespace, "stateNamespace": system.namespace}
    path = system.directory.path / "gm.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return gm_program(system.directory, "gm", "run", "--config", str(path))


def node_program(system: System, name: str, number: int) -> Program:
    """Node ``name``: its Local Controller and the runner of its pods."""
    directory, network = system.directory, system.network
    address = network.address(FIRST_NODE_HOST + number)
    root = directory.nodes / name
    root.mkdir(parents=True, exist_ok=True)
    pods = ("--namespace", system.namespace) if system.namespace else ("--any-pod",)
    return gm_program(
        directory,
        f"node-{name}",
        *("edge", "--name", name, "--root", str(root)),
        *("--gm", f"ws://{network.address(GM_HOST)}:{WEBSOCKET_PORT}"),
        *("--state", str(directory.path / "state" / name)),
        *("--listen", f"{address}:{LC_PORT}", "--address", address),
        *("--kubeconfig", str(system.kubeconfig), "--runner", *pods),
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
        system = System(
            directory=directory,
            network=network,
            supervisor=supervisor,
            nodes=tuple(nodes),
            kubeconfig=directory.kubeconfig,
        )
        await _start(system)
        yield system


@asynccontextmanager
async def running_guest(
    directory: StateDirectory,
    network: LoopbackNetwork,
    *,
    kubeconfig: Path,
    namespace: str,
    nodes: Sequence[str],
    say: Callable[[str], None],
) -> AsyncIterator[System]:
    """GM and nodes in somebody's cluster, for one namespace, for the body's lifetime.

    Raises: ProgramDied (in an ExceptionGroup) if a program does not start.
    """
    async with supervising(pid_file=directory.pids, say=say) as supervisor:
        system = System(
            directory=directory,
            network=network,
            supervisor=supervisor,
            nodes=tuple(nodes),
            kubeconfig=kubeconfig,
            namespace=namespace,
        )
        await _start(system)
        yield system


async def _start(system: System) -> None:
    """Start GM, then the nodes side by side."""
    await system.supervisor.start(manager_program(system))
    nodes = enumerate(system.nodes)
    await system.supervisor.start(*(node_program(system, name, number) for number, name in nodes))
