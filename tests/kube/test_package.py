"""What gm.kube offers."""

from __future__ import annotations

import gm.kube


def test_all_public_names_are_exported_and_documented() -> None:
    """``__all__`` is sorted, complete, and each name has a docstring."""
    public = {
        name
        for name, value in vars(gm.kube).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("gm.kube")
    }
    constants = {"JSON_PATCH", "MERGE_PATCH", "STRATEGIC_MERGE_PATCH"}
    assert set(gm.kube.__all__) == public | constants
    for name in public:
        assert getattr(gm.kube, name).__doc__
