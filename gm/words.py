"""Numbers and names in sentences for people."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["counted", "listed"]


def counted(number: int, noun: str) -> str:
    """``number`` with ``noun`` in the singular or the plural: ``1 restart``, ``2 restarts``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], *, most: int) -> str:
    """``names``, at most ``most`` of them, and how many more there are."""
    more = len(names) - most
    told = ", ".join(names[:most])
    return f"{told} and {more} more" if more > 0 else told
