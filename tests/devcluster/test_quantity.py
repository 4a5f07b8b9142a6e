"""Quantities, as kube-apiserver spells them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.devcluster.quantity import QuantityError, canonical, value

SPELLINGS = {
    "1": "1",
    "1000m": "1",
    "0.5": "500m",
    "1.5": "1500m",
    "1000": "1k",
    "1024Mi": "1Gi",
    "0.5Gi": "512Mi",
    "1Ki": "1Ki",
    "512Ki": "512Ki",
    "1e3": "1e3",
    "12e6": "12e6",
    "1E": "1E",
    "0": "0",
    "0Gi": "0",
    "-5": "-5",
    "+3": "3",
    ".5": "500m",
    "100n": "100n",
    "1u": "1u",
    "123456Ki": "123456Ki",
    "0.1Ki": "102400m",
}


@pytest.mark.parametrize("written", SPELLINGS)
def test_a_quantity_has_one_spelling(written: str) -> None:
    """The largest suffix that leaves an integer, in the family that was written."""
    assert canonical(written) == SPELLINGS[written]


@pytest.mark.parametrize("written", ["x", "", "1Xi", "1 Gi", "1ee3", "--1", "1GiB"])
def test_what_is_no_quantity_is_refused(written: str) -> None:
    """Refused with Go's words."""
    with pytest.raises(QuantityError, match="quantit"):
        canonical(written)


def test_a_number_counts_as_its_text() -> None:
    """YAML and JSON allow numbers."""
    assert (canonical(4), canonical(0.25), value("2Ki")) == ("4", "250m", Decimal(2048))


def test_finer_than_a_billionth_is_rounded_up() -> None:
    """As Go does."""
    assert canonical("0.0000000001") == "1n"


@given(
    st.integers(-(10**15), 10**15),
    st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "Gi", "e3"]),
)
def test_the_spelling_stands_for_the_same_number(number: int, suffix: str) -> None:
    """A canonical spelling means what was written, and is its own canonical spelling."""
    written = f"{number}{suffix}"
    spelled = canonical(written)
    assert value(spelled) == value(written)
    assert canonical(spelled) == spelled
