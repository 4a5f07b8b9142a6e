"""Lines that say how far it is."""

from __future__ import annotations

import pytest

from gm.storage_init.progress import Progress, size_text
from tests.storage_init.support import Lines


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 70, "1024.0 EiB"),
    ],
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    """In the units that Kubernetes uses."""
    assert size_text(count) == text


def test_a_state_is_one_line() -> None:
    """With what there is to say only."""
    progress = Progress(Lines(), interval_seconds=1)
    progress.found, progress.downloaded, progress.received_bytes = 3, 2, 2048
    assert str(progress) == "2 of 3 files, 2.0 KiB downloaded"
    progress.present, progress.failed = 1, 1
    assert str(progress) == ("3 of 3 files, 2.0 KiB downloaded, 1 were already there, 1 failed")
