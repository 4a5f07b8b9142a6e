"""Numbers and names in sentences."""

from __future__ import annotations

from gm.words import counted, listed


def test_one_is_singular_and_all_else_plural() -> None:
    """Also none."""
    assert [counted(n, "restart") for n in (0, 1, 2)] == ["0 restarts", "1 restart", "2 restarts"]


def test_long_lists_are_cut() -> None:
    """With how many are left out."""
    assert listed(["a", "b"], most=2) == "a, b"
    assert listed(["a", "b", "c", "d"], most=2) == "a, b and 2 more"
