"""A running embedded API server, and a kubectl, for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.devcluster.core import Http, serving
from tests.devcluster.support import Kubectl


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """A server with the Widget CRD, and a client of it."""
    async with serving(tmp_path) as client:
        yield client


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    """kubectl in the test's namespace, with a home directory that the test alone sees."""
    return Kubectl(cluster.kubeconfig, cluster.namespace, tmp_path)
