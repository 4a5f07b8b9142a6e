"""A node played by this machine: pods become local processes.

What a kubelet does and the runner does not, since processes are no containers: resource limits,
securityContext, read-only mounts, image pulls, DNS and cluster IPs, ephemeral containers,
lifecycle hooks (an event says so), gRPC probes (count as passed), service account tokens,
volumes that need a driver (``FailedMount`` says so), UDP NodePorts. All processes of all pods run
as the user who started the node. docs/edge.md lists what else is different.
"""

from __future__ import annotations

from gm.edge_stub.runner.runner import Runner
from gm.edge_stub.runner.settings import DEFAULT_IMAGES, RunnerSettings, Tuning

__all__ = ["DEFAULT_IMAGES", "Runner", "RunnerSettings", "Tuning"]
