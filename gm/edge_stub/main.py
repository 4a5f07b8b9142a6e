"""One edge stub as a whole: the Local Controller and, in runner mode, the node around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gm.edge_stub.controller import LocalController
from gm.edge_stub.settings import EdgeSettings, RunnerSettings

__all__ = ["run_edge"]


def _nothing() -> None:
    """Stand in for a caller that does not want to know."""


async def run_edge(
    settings: EdgeSettings, stopping: asyncio.Event, *, ready: Callable[[], None] = _nothing
) -> None:
    """Run the LC, and the runner if ``settings.runner`` is set, until ``stopping`` is set.

    ``ready`` is called once the worker API listens and the node, if any, is registered.
    Raises ConfigError when the worker API's port is taken. A crash of either part ends both.
    """
    controller = LocalController(settings)
    controller_stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(controller_stopping), name="local-controller")
        await controller.wait_ready()
        if settings.runner is None:
            ready()
            await stopping.wait()
        else:
            await _run_node(settings.runner, stopping, ready)
        # Last: pods that end still report to the LC.
        controller_stopping.set()


async def _run_node(
    settings: RunnerSettings, stopping: asyncio.Event, ready: Callable[[], None]
) -> None:
    # Only here: a plain LC must stay small, and the runner brings the Kubernetes client.
    from gm.edge_stub.runner import Runner

    async def announce(runner: Runner) -> None:
        await runner.wait_ready()
        ready()

    runner = Runner(settings)
    async with asyncio.TaskGroup() as group:
        announcement = group.create_task(announce(runner), name="announcement")
        await runner.run(stopping)
        announcement.cancel()
