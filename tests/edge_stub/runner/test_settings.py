"""Defaults, and what the package gives to others."""

from __future__ import annotations

import gm.edge_stub.runner as package
from gm.edge_stub.runner import Tuning


def test_the_pace_is_a_kubelets() -> None:
    """Back-off 10 s to 5 min, a lease of 40 s renewed every 10 s."""
    tuning = Tuning()
    assert (tuning.backoff_first_seconds, tuning.backoff_max_seconds) == (10, 300)
    assert (tuning.lease_seconds, tuning.lease_renew_seconds) == (40, 10)
    assert tuning.kubelet_port == 0


def test_public_names_exist() -> None:
    """``__all__`` says what others use."""
    assert set(package.__all__) == {"DEFAULT_IMAGES", "Runner", "RunnerSettings", "Tuning"}
    assert all(hasattr(package, name) for name in package.__all__)
