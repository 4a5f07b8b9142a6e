"""Quantities of resources."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gm.edge_stub.runner.quantity import divide_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("500m", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("2k", Fraction(2000)),
        ("1Ki", Fraction(1024)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1E", Fraction(10**18)),
        ("1e3", Fraction(1000)),
        ("2E-1", Fraction(1, 5)),
        ("-3", Fraction(-3)),
        ("7n", Fraction(7, 10**9)),
    ],
)
def test_every_suffix_has_its_exact_value(text: str, value: Fraction) -> None:
    """Decimal, binary and exponent forms."""
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "abc", "1K", "1mi", "Gi", "1 Gi", "1e", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """The error quotes it."""
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("amount", "divisor", "expected"),
    [("1500m", "1", 2), ("1500m", "1m", 1500), ("1Gi", "1Mi", 1024), ("1", "0", 1)],
)
def test_division_rounds_up(amount: str, divisor: str, expected: int) -> None:
    """As resourceFieldRef does."""
    assert divide_quantity(amount, divisor) == expected
