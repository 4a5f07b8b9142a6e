"""The package's public names."""

from __future__ import annotations

import gm.devcluster
from gm.devcluster import apiserver


def test_public_names_are_re_exported() -> None:
    """Callers need not know the modules."""
    assert sorted(gm.devcluster.__all__) == [
        "ApiServerSettings",
        "RunningServer",
        "running",
        "serve",
    ]
    for name in gm.devcluster.__all__:
        assert getattr(gm.devcluster, name) is getattr(apiserver, name)
