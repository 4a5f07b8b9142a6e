"""The embedded Kubernetes API server, for trying and testing. It is no cluster."""

from __future__ import annotations

from gm.devcluster.apiserver import ApiServerSettings, RunningServer, running, serve

__all__ = ["ApiServerSettings", "RunningServer", "running", "serve"]
