"""Statuses that stay small."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.controllers.bounded import most_bytes, shrink

LONG = "x" * 1024


def worker(number: int, *, metrics: int = 64, message: str = LONG) -> dict[str, Any]:
    """A worker with as much to say as one report may bring."""
    return {
        "name": f"trainworker-{number}",
        "role": "train",
        "index": number,
        "node": f"edge{number}",
        "podName": f"job-train-{number}",
        "phase": "Running",
        "restarts": 3,
        "specHash": "0123456789abcdef",
        "round": 7,
        "message": message,
        "metrics": [{"key": f"{k}-{LONG}"[:1024], "value": LONG} for k in range(metrics)],
    }


def size(status: dict[str, Any]) -> int:
    """Bytes as JSON."""
    return len(msgspec.json.encode(status))


@pytest.mark.parametrize("count", [1, 3, 50, 500, 2000])
def test_a_status_fits_however_much_workers_say_P0_023(count: int) -> None:
    """Metrics and words give way, what GM has to remember stays."""
    status = {"phase": "Running", "workers": [worker(n) for n in range(count)]}
    shrink(status)
    assert size(status) <= most_bytes(status) <= 768 * 1024
    kept = ("name", "role", "index", "node", "podName", "phase", "restarts", "specHash", "round")
    for number, entry in enumerate(status["workers"]):
        assert isinstance(entry, dict)
        assert {field: entry[field] for field in kept} == {
            field: worker(number)[field] for field in kept
        }


def test_a_small_status_is_left_alone() -> None:
    """Real trainers report a few numbers."""
    few = [{"key": "accuracy", "value": "0.91"}, {"key": "loss", "value": "0.2"}]
    status = {"workers": [{**worker(n, message="fine"), "metrics": few} for n in range(100)]}
    before = copy.deepcopy(status)
    shrink(status)
    assert status == before
    empty: dict[str, Any] = {}
    shrink(empty, most=0)
    assert empty == {"workers": []} or empty == {}


def test_the_objects_of_others_are_not_changed() -> None:
    """A worker's entry may be somebody's."""
    entry = worker(0)
    before = copy.deepcopy(entry)
    status = {"workers": [entry] * 3}
    shrink(status, most=0)
    assert entry == before
    assert "metrics" not in status["workers"][0]
    assert len(status["workers"][0]["message"]) == 64


@given(st.integers(0, 40), st.integers(0, 64), st.integers(0, 1024), st.integers(0, 65536))
def test_shrinking_again_changes_nothing(count: int, metrics: int, words: int, most: int) -> None:
    """Else a status would be written again and again."""
    entries = [worker(n, metrics=metrics, message="m" * words) for n in range(count)]
    status: dict[str, Any] = {"workers": entries}
    shrink(status, most=most)
    once = copy.deepcopy(status)
    shrink(status, most=most)
    assert status == once
