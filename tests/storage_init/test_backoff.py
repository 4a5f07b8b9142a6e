"""How many attempts, and how long between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gm.storage_init.backoff import MAX_ASKED_SECONDS, Backoff
from gm.storage_init.settings import Settings


def test_waits_grow_up_to_a_limit() -> None:
    """Each is between half of its nominal value and that."""
    backoff = Backoff(Settings(attempts=9, first_delay_seconds=1, max_delay_seconds=10))
    for nominal in (1, 2, 4, 8, 10, 10, 10, 10):
        wait = backoff.failed()
        assert wait is not None
        assert nominal / 2 <= wait <= nominal
    assert backoff.failed() is None
    assert backoff.failures == 9


def test_a_servers_wish_is_heeded_within_reason() -> None:
    """A day is too long for a pod."""
    backoff = Backoff(Settings())
    assert backoff.failed(after_seconds=50) == 50
    assert backoff.failed(after_seconds=86400) == MAX_ASKED_SECONDS


@given(st.lists(st.integers(0, 20), min_size=50, max_size=50))
def test_attempts_end_unless_each_few_set_a_record(sizes: list[int]) -> None:
    """As many in a row without a new record as are allowed, and not one more."""
    backoff, best, row = Backoff(Settings(attempts=3)), 0, 0
    for size in sizes:
        row, best = (1, size) if size > best else (row + 1, best)
        wait = backoff.failed(size=size)
        assert (wait is None) == (row >= 3)
        if wait is None:
            return
    raise AssertionError("sizes are bounded, so the attempts must be")
