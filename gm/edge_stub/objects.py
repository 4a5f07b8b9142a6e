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


class JobIndex:
    """Finds the job that a worker belongs to, for workers that do not say its kind."""

    def __init__(self) -> None:
        self._workers: dict[WireKey, frozenset[str]] = {}

    def put(self, held: Held, content: bytes) -> None:
        """Learn about an object; datasets and models have no workers."""
        if held.key.kind not in (DATASET, MODEL):
            self._workers[held.key] = _worker_names(held, content)

    def remove(self, key: WireKey) -> None:
        """Forget an object."""
        self._workers.pop(key, None)

    def owner(self, *, namespace: str, worker: str, owner: str) -> WireKey | None:
        """The job of ``worker``: by its name, else the only job called ``owner``."""
        for key, names in self._workers.items():
            if worker in names and key.namespace == (namespace or key.namespace):
                return key
        called = [k for k in self._workers if (k.namespace, k.name) == (namespace, owner)]
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
