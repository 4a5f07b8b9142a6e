"""Probes tell the truth over a real socket."""

from __future__ import annotations

import aiohttp
import pytest

from gm.errors import ConfigError
from gm.web.probes import serving_probes


async def fetch(port: int, path: str) -> tuple[int, str]:
    """Status and text of one GET."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_readyz_names_every_problem_and_turns_ready_P0_012() -> None:
    """Each cache that has not synced is a line; without problems it is 200."""
    problems = ["pods: not listed yet", "datasets.sedna.io: the CRD is not installed"]
    async with serving_probes("127.0.0.1", 0, problems=lambda: problems) as port:
        assert await fetch(port, "/readyz") == (503, "\n".join(problems) + "\n")
        assert await fetch(port, "/healthz") == (200, "ok\n")
        problems.clear()
        assert await fetch(port, "/readyz") == (200, "ok\n")


async def test_a_port_in_use_names_the_setting() -> None:
    """The second server says which port, which setting and what to do."""
    async with serving_probes("127.0.0.1", 0, problems=list) as port:
        with pytest.raises(ConfigError, match=rf"health.port.*:{port} .*GM_HEALTH_PORT"):
            async with serving_probes("127.0.0.1", port, problems=list):
                pass
