"""Quantities (``500m``, ``1Gi``): what they stand for, and the spelling that is answered with."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal, localcontext

__all__ = ["NO_QUANTITY", "QuantityError", "canonical", "value"]

NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eEinumkKMGTP]*|[eE][+-]?\d+)")
_DECIMAL = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NANO = Decimal("1e-9")
_EXACT = Context(prec=80)  # more digits than any quantity has


class QuantityError(ValueError):
    """A text that is no quantity; the message is Go's."""


def _parse(text: str) -> tuple[Decimal, str]:
    """Value and family (``binary``, ``exponent`` or ``decimal``)."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise QuantityError(NO_QUANTITY)
    number, suffix = Decimal(match[1]), match[2]
    if suffix in _BINARY:
        found, family = number * 1024 ** _BINARY[suffix], "binary"
    elif suffix in _DECIMAL:
        found, family = number.scaleb(_DECIMAL[suffix]), "decimal"
    elif suffix[1:].lstrip("+-").isdigit():
        found, family = number.scaleb(int(suffix[1:])), "exponent"
    else:
        raise QuantityError("unable to parse quantity's suffix")
    return found.quantize(_NANO, ROUND_UP), family


def value(text: str | int | float) -> Decimal:
    """The number that a quantity stands for. Raises: QuantityError."""
    with localcontext(_EXACT):
        return _parse(str(text))[0]


def canonical(text: str | int | float, *, least: int = -9) -> str:
    """The quantity with the largest suffix that leaves an integer.

    It is rounded up to multiples of ten to the power of ``least``. Raises: QuantityError.
    """
    with localcontext(_EXACT):
        number, family = _parse(str(text))
        return _spell(number.quantize(Decimal(1).scaleb(least), ROUND_UP), family)


def _spell(number: Decimal, family: str) -> str:
    if not number:
        return "0"
    if family == "binary" and number == number.to_integral_value() and abs(number) >= 1024:
        suffix = ""
        for candidate, power in _BINARY.items():
            if number % 1024**power == 0:
                suffix = candidate
        return f"{int(number / 1024 ** _BINARY.get(suffix, 0))}{suffix}"
    for suffix, exponent in sorted(_DECIMAL.items(), key=lambda item: -item[1]):
        scaled = number.scaleb(-exponent)
        if scaled == scaled.to_integral_value():
            shown = f"e{exponent}" if family == "exponent" and exponent else suffix
            return f"{int(scaled)}{shown}"
    raise QuantityError("the number is finer than a billionth")
