"""Fixtures of the runner's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.edge_stub.runner.harness import Edge, edge


@pytest.fixture
async def node(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Edge]:
    """A node for the test's cluster; not running yet."""
    async with edge(cluster, tmp_path) as made:
        yield made
