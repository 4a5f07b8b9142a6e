"""What the LC understands of the objects it is sent: identity, datasets, jobs' workers."""

from __future__ import annotations

from typing import Any

import msgspec

from gm.api.worker_names import AGGREGATION, TRAIN, worker_name
from gm.messagelayer.message import WireKey

__all__ = [
    "FEDERATED",
    "DatasetSpec",
    "Held",
    "JobIndex",
    "JobWorkers",
    "NotAnObject",
    "dataset_spec",
    "identify",
]

DATASET = "dataset"
MODEL = "model"
FEDERATED = "federatedlearningjob"


class NotAnObject(ValueError):
    """Content that is no Kubernetes object, or not the one that its frame names."""


class Held(msgspec.Struct, frozen=True):
    """One object that the node holds; ``digest`` is GM's over wire v2, our own over v1."""

    key: WireKey
    uid: str
    digest: str = ""


class DatasetSpec(msgspec.Struct, frozen=True):
    """Where a Dataset's samples are, as its author wrote it."""

    url: str = ""
    format: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    uid: str | None = None
    name: str | None = None
    namespace: str | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata | None = None


class _DatasetView(msgspec.Struct, frozen=True):
    spec: DatasetSpec


class _JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    training_workers: list[Any] | None = None


class _JobView(msgspec.Struct, frozen=True):
    spec: _JobSpec


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_dataset = msgspec.json.Decoder(_DatasetView).decode
_decode_job = msgspec.json.Decoder(_JobView).decode


def identify(key: WireKey, content: bytes) -> str:
    """The uid in ``content``, empty if there is none.

    Raises: NotAnObject, also when the content names another object than ``key``.
    """
    try:
        metadata = _decode_object(content).metadata or _Metadata()
    except (msgspec.DecodeError, RecursionError) as exc:
        raise NotAnObject(f"content is no object: {exc}") from None
    named = (metadata.namespace or key.namespace, metadata.name or key.name)
    if named != (key.namespace, key.name):
        raise NotAnObject(f"content is of {'/'.join(named)}")
    return metadata.uid or ""


def dataset_spec(content: bytes) -> DatasetSpec:
    """What a Dataset says about its file; empty where it says nothing useful."""
    try:
        return _decode_dataset(content).spec
    except (msgspec.DecodeError, RecursionError):
        return DatasetSpec()


class JobWorkers(msgspec.Struct, frozen=True):
    """One incarnation of a job, and the names that it gave its workers as far as we know."""

    key: WireKey
    uid: str
    names: frozenset[str] = frozenset()


class JobIndex:
    """Finds the job that a worker belongs to, and the job that gave a worker its name."""

    def __init__(self) -> None:
        self._jobs: dict[WireKey, JobWorkers] = {}

    def put(self, held: Held, content: bytes) -> JobWorkers | None:
        """Learn about an object; gives the earlier incarnation that it replaces, if any.

        Datasets and models have no workers.
        """
        if held.key.kind in (DATASET, MODEL):
            return None
        before = self._jobs.get(held.key)
        self._jobs[held.key] = JobWorkers(held.key, held.uid, _worker_names(held, content))
        return before if before is not None and before.uid != held.uid else None

    def remove(self, key: WireKey) -> JobWorkers | None:
        """Forget an object; gives what was known."""
        return self._jobs.pop(key, None)

    def named_by(self, key: WireKey, worker: str) -> str:
        """The uid of the job ``key`` if ``worker`` has its name from it, otherwise empty."""
        job = self._jobs.get(key)
        return job.uid if job is not None and worker in job.names else ""

    def owner(self, *, namespace: str, worker: str, owner: str) -> WireKey | None:
        """The job of ``worker``: by its name, else the only job called ``owner``."""
        for key, job in self._jobs.items():
            if worker in job.names and key.namespace == (namespace or key.namespace):
                return key
        called = [k for k in self._jobs if (k.namespace, k.name) == (namespace, owner)]
        return called[0] if len(called) == 1 else None


def _worker_names(held: Held, content: bytes) -> frozenset[str]:
    if held.key.kind != FEDERATED or not held.uid:
        return frozenset()
    try:
        trainers = len(_decode_job(content).spec.training_workers or ())
    except (msgspec.DecodeError, RecursionError):
        trainers = 0
    names = [worker_name(held.uid, TRAIN, index) for index in range(trainers)]
    return frozenset([*names, worker_name(held.uid, AGGREGATION)])
