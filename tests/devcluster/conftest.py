"""A running embedded API server for each test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.devcluster.core import Http, serving


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """A server with the Widget CRD, and a client of it."""
    async with serving(tmp_path) as client:
        yield client
