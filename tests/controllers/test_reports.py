"""What reports change in a status."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gm.controllers.bounded import most_bytes
from gm.controllers.conditions import timestamp
from gm.controllers.reports import (
    DatasetUpdate,
    InferenceUpdate,
    ModelUpdate,
    StageUpdate,
    TrainingUpdate,
    metric_values,
    parse_dataset,
    parse_job,
)
from tests.controllers.support import NOW, golden

LATER = NOW + timedelta(minutes=1)


def training(number: int | None, node: str = "edge1", **metrics: str) -> TrainingUpdate:
    """A trainer's report."""
    return TrainingUpdate(node=node, round=number, reached_at="", metrics=metrics)


def job_status() -> dict[str, Any]:
    """Two trainers, one aggregator."""
    return {
        "workers": [
            {"name": "a", "role": "aggregation", "node": "edge1"},
            {"name": "t0", "role": "train", "node": "edge1"},
            {"name": "t1", "role": "train", "node": "edge2"},
        ]
    }


def test_a_sample_count_is_written_when_it_changes_P0_025() -> None:
    """With the time of the change."""
    status: dict[str, Any] = {}
    DatasetUpdate(3).apply(status, NOW)
    assert status["numberOfSamples"] == 3
    before = dict(status)
    DatasetUpdate(3).apply(status, LATER)
    assert status == before
    DatasetUpdate(4).apply(status, LATER)
    assert status != before


def test_the_time_that_a_node_counted_at_is_kept_P0_025() -> None:
    """As reported, with the count that it belongs to; the same count later says nothing new."""
    status: dict[str, Any] = {}
    parse_dataset(b'{"numberOfSamples":3,"updateTime":"2026-11-30T03:00:00+02:00"}').apply(
        status, NOW
    )
    assert status == {"numberOfSamples": 3, "updateTime": "2026-11-30T01:00:00Z"}
    before = dict(status)
    parse_dataset(b'{"numberOfSamples":3,"updateTime":"2026-11-30T02:00:00Z"}').apply(status, NOW)
    assert status == before
    parse_dataset(b'{"numberOfSamples":4,"updateTime":"2026-11-30T02:00:00Z"}').apply(status, NOW)
    assert status == {"numberOfSamples": 4, "updateTime": "2026-11-30T02:00:00Z"}
    del status["updateTime"]
    parse_dataset(b'{"numberOfSamples":4}').apply(status, NOW)
    assert status == {"numberOfSamples": 4, "updateTime": timestamp(NOW)}


@pytest.mark.parametrize(
    "moment", [b"null", b'""', b'"2026-11-30 01:00:00"', b'"soon"', b"5", b"{}", b"[[]]"]
)
def test_a_count_is_not_lost_over_a_time_that_can_not_be_read(moment: bytes) -> None:
    """Then it was counted now."""
    status: dict[str, Any] = {}
    parse_dataset(b'{"numberOfSamples":3,"updateTime":' + moment + b"}").apply(status, NOW)
    assert status == {"numberOfSamples": 3, "updateTime": timestamp(NOW)}


def test_merged_counts_say_when_the_last_one_was_first_reported() -> None:
    """As if each had been written by itself."""
    count = DatasetUpdate(1, NOW)
    count.absorb(DatasetUpdate(2, LATER))
    assert count == DatasetUpdate(2, LATER)
    count.absorb(DatasetUpdate(2, LATER + timedelta(minutes=1)))
    assert count == DatasetUpdate(2, LATER)
    count.absorb(DatasetUpdate(3))
    assert count == DatasetUpdate(3)
    count.absorb(DatasetUpdate(3, LATER))
    assert count == DatasetUpdate(3, LATER)


@pytest.mark.parametrize("content", [b"{}", b'{"numberOfSamples": "3"}', b"[]", b"null", b"x"])
def test_a_dataset_report_that_makes_no_sense_is_refused(content: bytes) -> None:
    """It is somebody else's input."""
    with pytest.raises(msgspec.MsgspecError):
        parse_dataset(content)


def test_negative_counts_are_refused() -> None:
    """A count is at least 0."""
    with pytest.raises(msgspec.ValidationError):
        parse_dataset(b'{"numberOfSamples": -1}')


def test_model_metrics_are_merged_by_key() -> None:
    """Two trainers report different ones; each keeps its place."""
    status: dict[str, Any] = {"metrics": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]}
    ModelUpdate({"c": "3", "a": "9"}).apply(status, NOW)
    assert [(m["key"], m["value"]) for m in status["metrics"]] == [
        ("a", "9"),
        ("b", "2"),
        ("c", "3"),
    ]
    before = dict(status)
    ModelUpdate({"a": "9"}).apply(status, LATER)
    assert status == before


def test_strings_are_kept_and_everything_else_is_json() -> None:
    """As the recording shows."""
    recorded = golden("fl-hostpath")["steps"][2]["statuses"]["Model/m1"]["metrics"]
    ours = metric_values({"note": "x", "accuracy": 0.91, "loss": [0.5, 0.25]})
    assert ours == {entry["key"]: entry["value"] for entry in recorded}


def test_rounds_are_told_per_worker_and_for_the_job() -> None:
    """The job's round is the farthest one; a slower trainer does not turn it back."""
    status = job_status()
    training(2, "edge1", acc="0.9").apply(status, NOW)
    training(1, "edge2").apply(status, NOW)
    assert status["round"] == 2
    assert [w.get("round") for w in status["workers"]] == [None, 2, 1]
    assert status["workers"][1]["metrics"] == [{"key": "acc", "value": "0.9"}]
    assert status["conditions"][0]["message"].startswith("Round 2 reaches at ")
    before = msgspec.json.encode(status)
    training(2, "edge1", acc="0.9").apply(status, LATER)
    assert msgspec.json.encode(status) == before, "the same again is no news"


def test_ten_thousand_reports_leave_a_small_status_P0_023() -> None:
    """One condition per type, bounded metrics, values and messages."""
    status = job_status()
    for number in range(1, 10_001):
        training(number, "edge1", **{f"m{number % 200}": "x" * 9}).apply(status, NOW)
    assert len(status["conditions"]) == 1
    assert status["round"] == 10_000
    assert len(msgspec.json.encode(status)) < 64 * 1024


def test_the_longest_reports_leave_a_status_that_can_be_stored_P0_023() -> None:
    """Of many trainers, each with as many metrics as a report may have, and as long ones."""
    names = [f"t{number}" for number in range(200)]
    status: dict[str, Any] = {
        "workers": [{"name": name, "role": "train", "node": name} for name in names]
    }
    metrics = metric_values({f"{n}-{'k' * 2000}": "\x01" * 2000 for n in range(200)})
    for name in names:
        training(1, name, **metrics).apply(status, NOW)
    assert len(msgspec.json.encode(status)) <= most_bytes(status) < 768 * 1024
    assert {worker["round"] for worker in status["workers"]} == {1}


def test_a_report_without_news_shows_that_its_node_is_reached_P1_060() -> None:
    """While the job says that it is not, and only then."""
    status = job_status()
    training(None).apply(status, NOW)
    assert status == job_status()
    status["conditions"] = [{"type": "NodeUnreachable", "status": "True"}]
    training(None, "edge2").apply(status, LATER)
    assert [w.get("lastReportTime") for w in status["workers"]] == [None, None, timestamp(LATER)]


def test_waiting_reports_are_merged_and_nothing_is_lost() -> None:
    """A final report without a round keeps the round, and metrics of each stay."""
    first = training(3, acc="0.8")
    assert first.absorb(training(4, alone="0.5"))
    assert first.absorb(training(None))
    assert (first.round, first.metrics) == (4, {"acc": "0.8", "alone": "0.5"})
    model = ModelUpdate({"a": "1"})
    assert model.absorb(ModelUpdate({"b": "2"}))
    assert model.metrics == {"a": "1", "b": "2"}
    count = DatasetUpdate(1)
    assert count.absorb(DatasetUpdate(2))
    assert count.samples == 2


def test_metrics_of_an_inference_service_are_replaced() -> None:
    """The latest ones count."""
    status = {"metrics": [{"key": "old", "value": "1"}]}
    update = InferenceUpdate({"n": "1"})
    assert update.absorb(InferenceUpdate({"n": "2"}))
    update.apply(status, NOW)
    assert status["metrics"] == [{"key": "n", "value": "2"}]


def stage(content: dict[str, Any]) -> StageUpdate:
    """A step of an incremental job."""
    return StageUpdate.of(parse_job(msgspec.json.encode(content)))


def test_a_step_of_an_incremental_job_is_appended_as_recorded() -> None:
    """Stage, type, data with input or output only; the same again is not appended."""
    recorded = golden("il")["steps"][2]["statuses"]["IncrementalLearningJob/il-basic"]["conditions"]
    theirs = next(c for c in recorded if c["type"] == "Ready")
    step = stage(
        {"phase": "train", "status": "ready", **msgspec.json.decode(theirs["data"]), "output": None}
    )
    status: dict[str, Any] = {"conditions": [{"stage": "Train", "type": "Waiting"}]}
    step.apply(status, NOW)
    ours = status["conditions"][-1]
    for field in ("stage", "type", "status", "message"):
        assert ours[field] == theirs[field]
    assert msgspec.json.decode(ours["data"]) == msgspec.json.decode(theirs["data"])
    step.apply(status, LATER)
    assert len(status["conditions"]) == 2


def test_steps_are_kept_in_order_and_their_history_is_bounded() -> None:
    """Every step counts, but not for ever."""
    first, second = (
        stage({"phase": "train", "status": "ready"}),
        stage({"phase": "eval", "status": "completed"}),
    )
    assert not first.absorb(second)
    assert first.absorb(stage({"phase": "train", "status": "ready"}))
    status: dict[str, Any] = {}
    for _ in range(200):
        first.apply(status, NOW)
        second.apply(status, NOW)
    assert len(status["conditions"]) == 200


def test_a_history_of_long_steps_keeps_the_newest_P0_023() -> None:
    """As many as the API server takes; the last one in any case."""
    status: dict[str, Any] = {}
    for number in range(10):
        content = {"models": [{"url": f"/{number}", "note": "x" * 60_000}]}
        stage({"phase": "train", "status": "completed", "output": content}).apply(status, NOW)
    urls = [re.findall(r'"url":"/(\d)"', step["data"]) for step in status["conditions"]]
    assert urls == [["6"], ["7"], ["8"], ["9"]]
    assert len(msgspec.json.encode(status)) <= 256 * 1024
    stage({"phase": "eval", "status": "failed", "output": "y" * 300_000}).apply(status, NOW)
    assert [step["stage"] for step in status["conditions"]] == ["Eval"]


@pytest.mark.parametrize(
    "content", [{}, {"phase": "train"}, {"phase": "x", "status": "ready"}, {"status": "ready"}]
)
def test_a_step_that_no_stage_knows_is_refused(content: dict[str, Any]) -> None:
    """Not written into the history."""
    with pytest.raises(msgspec.ValidationError):
        stage(content)
