"""WORKER_NAME, which GM and the Local Controller compute alike."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.api.worker_names import AGGREGATION, TRAIN, short_hash, worker_name

UID = "053a2794-7369-4709-85fb-2913e8dd60dc"


@pytest.mark.parametrize(
    ("role", "pattern"),
    [
        (AGGREGATION, r"aggworker-[a-z0-9]{5}"),
        (TRAIN, r"trainworker-[a-z0-9]{5}"),
        ("eval", r"evalworker-[a-z0-9]{5}"),
    ],
)
def test_a_worker_name_looks_like_sednas(role: str, pattern: str) -> None:
    """Prefix of the role, five characters."""
    assert re.fullmatch(pattern, worker_name(UID, role))


def test_a_worker_keeps_its_name_and_shares_it_with_nobody() -> None:
    """It depends on job, role and index, and on nothing else."""
    names = {worker_name(uid, TRAIN, i) for uid in (UID, "another") for i in range(50)}
    assert len(names) == 100
    assert worker_name(UID, TRAIN, 1) == worker_name(UID, TRAIN, 1)
    assert worker_name(UID, TRAIN) == worker_name(UID, TRAIN, 0)


@given(st.text(), st.integers(min_value=1, max_value=20))
def test_a_short_hash_fits_into_a_kubernetes_name(text: str, length: int) -> None:
    """Whatever it is made from."""
    assert re.fullmatch(rf"[a-z0-9]{{{length}}}", short_hash(text, length=length))
