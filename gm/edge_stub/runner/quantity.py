"""Kubernetes quantities (``500m``, ``1Gi``, ``2e3``) as exact numbers."""

from __future__ import annotations

import math
import re
from fractions import Fraction

__all__ = ["divide_quantity", "parse_quantity"]

_FORM = re.compile(r"([+-]?[0-9]*\.?[0-9]*)([eE][+-]?[0-9]+|[numkKMGTPE]i?)?\Z")
_DECIMAL: dict[str, int] = {
    "n": -9,
    "u": -6,
    "m": -3,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse_quantity(text: str) -> Fraction:
    """The exact value. Raises: ValueError if ``text`` is no quantity."""
    match = _FORM.match(text)
    if match is None or not any(c.isdigit() for c in match[1]):
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 1Gi")
    number, suffix = Fraction(match[1]), match[2] or ""
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    if suffix in _DECIMAL:
        return number * _power_of_ten(_DECIMAL[suffix])
    if suffix[:1] in ("e", "E") and suffix[1:]:
        return number * _power_of_ten(int(suffix[1:]))
    if suffix:
        raise ValueError(f"{text!r} is not a quantity: unknown suffix {suffix!r}")
    return number


def _power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)


def divide_quantity(amount: str, divisor: str) -> int:
    """How many ``divisor`` are in ``amount``, rounded up, as resourceFieldRef wants it."""
    by = parse_quantity(divisor)
    return math.ceil(parse_quantity(amount) / (by or 1))
