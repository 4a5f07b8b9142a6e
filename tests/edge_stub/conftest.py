"""An edge stub in the test's own process, on its own directories."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gm.edge_stub.controller import LocalController
from gm.edge_stub.settings import EdgeSettings

StartEdge = Callable[..., AbstractAsyncContextManager[LocalController]]


@pytest.fixture
def start_edge(tmp_path: Path) -> StartEdge:
    """``async with start_edge(gm=url) as edge``: an LC that keeps its state between uses."""

    @contextlib.asynccontextmanager
    async def start(gm: str, **changes: Any) -> AsyncIterator[LocalController]:
        (tmp_path / "root").mkdir(exist_ok=True)
        fast: dict[str, Any] = {
            "node": "edge1",
            "gm": gm,
            "root": tmp_path / "root",
            "state": tmp_path / "state",
            "listen": "127.0.0.1:0",
            "backoff_first_seconds": 0.02,
            "backoff_max_seconds": 0.2,
            "count_interval_seconds": 0.05,
            "shutdown_seconds": 0.3,
        }
        edge = LocalController(EdgeSettings(**{**fast, **changes}))
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(edge.run(stopping))
            async with asyncio.timeout(20):
                await edge.wait_ready()
            try:
                yield edge
            finally:
                stopping.set()

    return start
