"""How a problem reads."""

from __future__ import annotations

from gm.api.problem import Problem


def test_a_problem_reads_as_field_and_message() -> None:
    """As conditions and events show it."""
    assert str(Problem("spec.url", "is empty")) == "spec.url: is empty"
