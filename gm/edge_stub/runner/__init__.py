"""A node played by this machine: pods become local processes (design.md section 7)."""

from __future__ import annotations

from gm.edge_stub.runner.runner import Runner
from gm.edge_stub.runner.settings import DEFAULT_IMAGES, RunnerSettings, Tuning

__all__ = ["DEFAULT_IMAGES", "Runner", "RunnerSettings", "Tuning"]
