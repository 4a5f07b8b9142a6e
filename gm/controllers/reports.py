"""What a report from an edge changes in a status; pure functions over plain JSON.

Reports that wait for the same object are merged into one (``absorb``), so that a flood of them
costs one write, and nothing that only an earlier one said is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import msgspec

from gm.api.meta import Json
from gm.api.worker_names import TRAIN
from gm.controllers.bounded import shrink
from gm.controllers.conditions import find_condition, parse_time, set_condition, timestamp

__all__ = [
    "DatasetUpdate",
    "InferenceUpdate",
    "JobReport",
    "ModelUpdate",
    "StageUpdate",
    "TrainingUpdate",
    "Update",
    "metric_values",
    "parse_dataset",
    "parse_job",
]

_MAX_METRICS = 64
_MAX_VALUE = 1024
_MAX_HISTORY = 200
_MAX_HISTORY_BYTES = 256 * 1024
_STAGES = {"train": "Train", "eval": "Eval", "deploy": "Deploy"}
_STAGE_TYPES = {s.lower(): s for s in ("Ready", "Completed", "Failed", "Waiting")}


class Update(Protocol):
    """A change of one object's status."""

    def apply(self, status: Json, now: datetime) -> None:
        """Change ``status`` in place; leave it alone if it says the same already."""
        ...

    def absorb(self, newer: Any) -> bool:
        """Take ``newer``, of the same slot, in; False if both must be kept, in order."""
        ...


class _DatasetContent(msgspec.Struct, rename="camel"):
    number_of_samples: int
    update_time: Any = None


class _ModelContent(msgspec.Struct):
    metrics: dict[str, Any] | None = None


class _Output(msgspec.Struct, rename="camel"):
    models: list[_ModelContent | None] | None = None
    owner_info: dict[str, Any] | None = None


_NULL = msgspec.Raw(b"null")


class JobReport(msgspec.Struct):
    """A job's report, as far as it is read; ``input`` and ``output`` are passed on as they came."""

    phase: str | None = None
    status: str | None = None
    input: msgspec.Raw = _NULL
    output: msgspec.Raw = _NULL

    def decoded_output(self) -> _Output:
        """The output; empty if there is none. Raises: msgspec.ValidationError."""
        return msgspec.json.decode(self.output, type=_Output | None) or _Output()


_decode_dataset = msgspec.json.Decoder(_DatasetContent).decode
_decode_job = msgspec.json.Decoder(JobReport).decode


def parse_dataset(content: bytes) -> DatasetUpdate:
    """A dataset's report; an ``updateTime`` that is no time is as good as none.

    Raises: msgspec.MsgspecError.
    """
    decoded = _decode_dataset(content)
    if decoded.number_of_samples < 0:
        raise msgspec.ValidationError("numberOfSamples must not be negative")
    # a count is worth more than its time: it is not lost over one that can not be read
    return DatasetUpdate(decoded.number_of_samples, parse_time(decoded.update_time))


def parse_job(content: bytes) -> JobReport:
    """A job's report. Raises: msgspec.MsgspecError."""
    return _decode_job(content)


def metric_values(metrics: Mapping[str, Any] | None) -> dict[str, str]:
    """Metrics as a status keeps them: strings as they are, everything else as JSON."""
    return {
        key[:_MAX_VALUE]: (
            value if isinstance(value, str) else msgspec.json.encode(value).decode()
        )[:_MAX_VALUE]
        for key, value in list((metrics or {}).items())[:_MAX_METRICS]
    }


class DatasetUpdate(msgspec.Struct):
    """How many samples a dataset holds, and since when, if the node says so."""

    samples: int
    counted_at: datetime | None = None

    def apply(self, status: Json, now: datetime) -> None:
        """See :class:`Update`; the same count at another time says the same."""
        if status.get("numberOfSamples") != self.samples or not status.get("updateTime"):
            moment = timestamp(self.counted_at or now)
            status |= {"numberOfSamples": self.samples, "updateTime": moment}

    def absorb(self, newer: DatasetUpdate) -> bool:
        """The latest count is what counts, and when it was first reported."""
        if newer.samples != self.samples or self.counted_at is None:
            self.samples, self.counted_at = newer.samples, newer.counted_at
        return True


class ModelUpdate(msgspec.Struct):
    """Metrics of the model that a job trains."""

    metrics: dict[str, str]

    def apply(self, status: Json, now: datetime) -> None:
        """See :class:`Update`."""
        merged = _merged(status.get("metrics"), self.metrics)
        if merged != status.get("metrics"):
            status |= {"metrics": merged, "updateTime": timestamp(now)}

    def absorb(self, newer: ModelUpdate) -> bool:
        """Keys that only the older one has stay."""
        self.metrics |= newer.metrics
        return True


class TrainingUpdate(msgspec.Struct):
    """What the trainers on ``node`` tell of a federated job."""

    node: str
    round: int | None
    reached_at: str
    metrics: dict[str, str]

    def apply(self, status: Json, now: datetime) -> None:
        """See :class:`Update`."""
        self._tell_workers(status, now)
        self._tell_round(status, now)
        shrink(status)

    def _tell_round(self, status: Json, now: datetime) -> None:
        if not self.round:
            return
        workers = status.get("workers") or []
        rounds = [worker.get("round") or 0 for worker in workers] or [self.round]
        reached = max(rounds)
        if status.get("round") == reached:
            return
        status["round"] = reached
        when = self.reached_at or timestamp(now)
        set_condition(
            status,
            "Training",
            at=now,
            reason="DoTraining",
            message=f"Round {reached} reaches at {when}",
        )

    def absorb(self, newer: TrainingUpdate) -> bool:
        """A later round; a report without one (``completed``) takes nothing away."""
        if newer.round:
            self.round, self.reached_at = newer.round, newer.reached_at
        self.metrics |= newer.metrics
        return True

    def _tell_workers(self, status: Json, now: datetime) -> None:
        unreachable = find_condition(status, "NodeUnreachable") or {}
        # who reports is reached, also if it has nothing new to say
        is_missed = unreachable.get("status") == "True"
        workers = [dict(worker) for worker in status.get("workers") or []]
        for worker in workers:
            if worker.get("role") != TRAIN or worker.get("node") != self.node:
                continue
            told: Json = {}
            if self.metrics:
                told["metrics"] = _merged(worker.get("metrics"), self.metrics)
            if self.round:
                told["round"] = self.round
            if is_missed or any(worker.get(field) != value for field, value in told.items()):
                worker |= {**told, "lastReportTime": timestamp(now)}
        if workers:
            status["workers"] = workers


class InferenceUpdate(msgspec.Struct):
    """Metrics of an inference service."""

    metrics: dict[str, str]

    def apply(self, status: Json, now: datetime) -> None:
        """See :class:`Update`."""
        status["metrics"] = [{"key": key, "value": self.metrics[key]} for key in self.metrics]

    def absorb(self, newer: InferenceUpdate) -> bool:
        """The latest metrics are what counts."""
        self.metrics = newer.metrics
        return True


class StageUpdate(msgspec.Struct):
    """One step in the history of an incremental job."""

    stage: str
    type: str
    data: str

    @classmethod
    def of(cls, report: JobReport) -> StageUpdate:
        """The step that ``report`` tells. Raises: msgspec.ValidationError."""
        stage = _STAGES.get((report.phase or "").lower())
        kind = _STAGE_TYPES.get((report.status or "").lower())
        if stage is None or kind is None:
            raise msgspec.ValidationError("phase or status is none that a stage knows")
        parts = {"input": report.input, "output": report.output}
        known = {name: part for name, part in parts.items() if bytes(part) != b"null"}
        return cls(stage, kind, msgspec.json.encode(known).decode() if known else "")

    def apply(self, status: Json, now: datetime) -> None:
        """See :class:`Update`."""
        history = list(status.get("conditions") or [])
        moment = timestamp(now)
        step = {
            "stage": self.stage,
            "type": self.type,
            "status": "True",
            "message": "reported by lc",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
            **({"data": self.data} if self.data else {}),
        }
        same = ("stage", "type", "message", "data")
        if history and all(history[-1].get(field) == step.get(field) for field in same):
            return  # an LC that is not sure says it again
        status["conditions"] = _newest([*history, step])

    def absorb(self, newer: StageUpdate) -> bool:
        """Every step counts."""
        return newer == self


def _newest(history: list[Json]) -> list[Json]:
    """The newest steps that the API server takes; the last one in any case."""
    room, first = _MAX_HISTORY_BYTES, len(history)
    for step in reversed(history[-_MAX_HISTORY:]):
        room -= len(msgspec.json.encode(step))
        if room < 0:
            break
        first -= 1
    return history[min(first, len(history) - 1) :]


def _merged(existing: Any, news: dict[str, str]) -> list[Json]:
    """Metrics by key: old ones keep their place, new ones follow."""
    known = {entry.get("key"): entry.get("value") for entry in existing or []}
    merged = {**known, **news}
    return [{"key": key, "value": value} for key, value in merged.items()][:_MAX_METRICS]
