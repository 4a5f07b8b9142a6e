"""The Local Controller stand-in: agent, store, worker HTTP API and, as a runner, the whole node."""

from __future__ import annotations

from gm.edge_stub.settings import EdgeSettings, RunnerSettings, parse_images

__all__ = ["EdgeSettings", "RunnerSettings", "parse_images"]
