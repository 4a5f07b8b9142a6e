"""Settings of the runner that people do not give on a command line: pace, limits, ports."""

from __future__ import annotations

import msgspec

from gm.edge_stub.settings import RunnerSettings

__all__ = ["DEFAULT_IMAGES", "RunnerSettings", "Tuning"]

DEFAULT_IMAGES = {
    "sedna.io/example-fl-aggregation:v1": ("python", "-P", "-m", "gm.examples.federated.aggregate"),
    "sedna.io/example-fl-train:v1": ("python", "-P", "-m", "gm.examples.federated.train"),
    # Sedna's name for it, and what setting storageInitializerImage says unless changed
    "kubeedge/sedna-storage-initializer:v0.3.0": ("python", "-P", "-m", "gm", "storage-init"),
}
"""What stands for the example's images and the init container that downloads: neither of them
needs a ``command``."""


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """How fast the runner goes; the defaults are a kubelet's, tests make them small."""

    backoff_first_seconds: float = 10.0
    """Wait before the second restart; the first is immediate, as with a kubelet."""
    backoff_max_seconds: float = 300.0
    lease_seconds: int = 40
    lease_renew_seconds: float = 10.0
    heartbeat_seconds: float = 300.0
    """How often conditions of the Node get a fresh lastHeartbeatTime."""
    retry_seconds: float = 2.0
    """Between attempts at what is missing: a volume, a Secret, a port in use."""
    retry_max_seconds: float = 30.0
    refresh_seconds: float = 60.0
    """How often mounted Secrets and ConfigMaps are read again; a change of the pod does it, too."""
    stop_grace_seconds: float = 5.0
    """At most this long are pods given when the runner itself is told to stop."""
    log_max_bytes: int = 10 * 1024 * 1024
    """Size at which a container's log is rotated; one older file is kept."""
    follow_poll_seconds: float = 0.1
    """How often ``logs -f`` looks for new lines."""
    kubelet_port: int = 0
    """Port of the log endpoint; 0 takes a free one and tells it in the Node."""
    endpoints_seconds: float = 1.0
    """How long a NodePort forwarder believes a list of pods."""
    connect_seconds: float = 5.0
    """How long a NodePort forwarder tries to reach a pod."""
