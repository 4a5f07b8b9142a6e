"""What the package re-exports."""

from __future__ import annotations

import gm.storage_init


def test_the_package_exports_its_public_names() -> None:
    """What `gm storage-init` uses."""
    assert sorted(gm.storage_init.__all__) == [
        "Pair",
        "Settings",
        "Summary",
        "initialize",
        "parse_pairs",
        "run",
    ]
    assert all(hasattr(gm.storage_init, name) for name in gm.storage_init.__all__)
