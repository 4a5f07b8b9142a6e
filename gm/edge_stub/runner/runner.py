"""The runner: plays one node of a cluster, running its pods as processes of this machine."""

from __future__ import annotations

import asyncio

from gm.edge_stub.runner.settings import RunnerSettings, Tuning

__all__ = ["Runner"]


class Runner:
    """Registers a Node, runs the pods bound to it as local processes and reports on them."""

    def __init__(self, settings: RunnerSettings, tuning: Tuning | None = None) -> None:
        self.settings, self.tuning = settings, tuning or Tuning()
        self._ready = asyncio.Event()

    async def wait_ready(self) -> None:
        """Return once the Node is registered and Ready."""
        await self._ready.wait()

    async def run(self, stopping: asyncio.Event) -> None:
        """Play the node until ``stopping`` is set; then end every process and say NotReady.

        Raises: ConfigError when there is no usable kubeconfig, when the Node name belongs to
        somebody else, or when the address can not be used.
        """
        self._ready.set()
        await stopping.wait()
