"""What a person sees of a running job: plain values, without I/O."""

from __future__ import annotations

import msgspec

from gm.words import counted

__all__ = ["DatasetLine", "JobLine", "NodeLine", "Snapshot", "WorkerLine", "accuracies", "tell"]

ALONE = "accuracy_alone_"


class NodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One node."""

    name: str
    ready: bool
    address: str = ""


class DatasetLine(msgspec.Struct, frozen=True, kw_only=True):
    """One Dataset; ``samples`` is None until its node has counted them."""

    name: str
    node: str
    samples: int | None = None


class WorkerLine(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of the job."""

    name: str
    role: str
    node: str
    phase: str
    restarts: int = 0
    reason: str = ""


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """The job itself; ``problem`` is the message of its newest condition while it does not run."""

    name: str
    phase: str = "Pending"
    round: int = 0
    problem: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one moment. ``metrics`` are those of the job's Model."""

    nodes: tuple[NodeLine, ...] = ()
    datasets: tuple[DatasetLine, ...] = ()
    workers: tuple[WorkerLine, ...] = ()
    job: JobLine | None = None
    metrics: dict[str, str] = {}
    rounds: int = 0  # how many there will be; 0 if the job does not say

    @property
    def accuracy(self) -> float | None:
        """Accuracy of the federated model on the held-out file, 0 to 1."""
        return _number(self.metrics.get("accuracy"))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def accuracies(snapshot: Snapshot) -> list[tuple[str, float]]:
    """The federated accuracy and each node's own, named for a reader, best known first."""
    found = [("federated", snapshot.accuracy)]
    found += [
        (f"{key.removeprefix(ALONE)} alone", _number(value))
        for key, value in sorted(snapshot.metrics.items())
        if key.startswith(ALONE)
    ]
    return [(name, value) for name, value in found if value is not None]


def tell(old: Snapshot, new: Snapshot) -> list[str]:
    """What changed from ``old`` to ``new``, one plain line each, causes before effects."""
    lines = _tell_nodes(old, new) + _tell_datasets(old, new) + _tell_workers(old, new)
    job, before = new.job, old.job
    if job is None:
        return lines
    if before is None:
        lines.append(f"job {job.name} submitted")
        before = JobLine(name=job.name, phase="")
    if job.problem and job.problem != before.problem:
        lines.append(f"job {job.name} waits: {job.problem}")
    if job.round != before.round:
        total = f"/{new.rounds}" if new.rounds else ""
        accuracy = "" if new.accuracy is None else f"  federated accuracy {new.accuracy:.3f}"
        lines.append(f"round {job.round}{total}{accuracy}")
    if job.phase and job.phase != before.phase:
        lines.append(f"job {job.name} is {job.phase}")
    return lines


def _tell_nodes(old: Snapshot, new: Snapshot) -> list[str]:
    known = {node.name: node.ready for node in old.nodes}
    return [
        f"node {node.name} is {'Ready' if node.ready else 'NotReady'}"
        for node in new.nodes
        if known.get(node.name) != node.ready
    ]


def _tell_datasets(old: Snapshot, new: Snapshot) -> list[str]:
    known = {dataset.name: dataset.samples for dataset in old.datasets}
    return [
        f"dataset {dataset.name} has {dataset.samples} samples on {dataset.node}"
        for dataset in new.datasets
        if dataset.samples is not None and known.get(dataset.name) != dataset.samples
    ]


def _tell_workers(old: Snapshot, new: Snapshot) -> list[str]:
    known = {worker.name: worker for worker in old.workers}
    lines = []
    for worker in new.workers:
        before = known.get(worker.name)
        where = f" on {worker.node}" if worker.node else ""
        why = f" ({worker.reason})" if worker.reason else ""
        if before is None or (before.phase, before.reason) != (worker.phase, worker.reason):
            lines.append(f"pod {worker.name} is {worker.phase}{where}{why}")
        if before is not None and worker.restarts > before.restarts:
            times = counted(worker.restarts, "time")
            lines.append(f"pod {worker.name} was restarted ({times})")
    return lines
