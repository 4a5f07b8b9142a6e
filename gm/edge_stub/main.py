"""One edge stub as a whole: the Local Controller and, in runner mode, the node around it."""

from __future__ import annotations

import asyncio
import contextlib

from gm.edge_stub.controller import LocalController
from gm.edge_stub.settings import EdgeSettings

__all__ = ["run_edge"]


async def run_edge(settings: EdgeSettings, stopping: asyncio.Event) -> None:
    """Run the LC, and the runner if ``settings.runner`` is set, until ``stopping`` is set.

    Raises ConfigError when the worker API's port is taken. A crash of either part ends both.
    """
    controller = LocalController(settings)
    if settings.runner is None:
        await controller.run(stopping)
        return
    # Only here: a plain LC must stay small, and the runner brings the Kubernetes client.
    from gm.edge_stub.runner import Runner

    runner = Runner(settings.runner)
    # The runner stops first: its pods still report to the LC while they end.
    controller_stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(controller_stopping), name="local-controller")
        with contextlib.ExitStack() as stack:
            stack.callback(controller_stopping.set)
            await controller.wait_ready()
            await runner.run(stopping)
