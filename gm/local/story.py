"""Follows one job and its surroundings in the cluster, and tells them as a Snapshot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any

import msgspec

from gm.api.core import Node, Pod
from gm.api.meta import Json, ObjectKey
from gm.api.resources import DATASETS, FEDERATED_LEARNING_JOBS, MODELS, NODES, PODS
from gm.api.sedna import AggregationWorker, Dataset, FederatedLearningJob, Model
from gm.kube import Client, Event, Informer
from gm.local.snapshot import DatasetLine, JobLine, NodeLine, Snapshot, WorkerLine

__all__ = ["Story"]

ROUNDS_ENV = "ROUNDS"  # how the example's workers are told the number of rounds
_ROLE = "federatedlearningjob.sedna.io/worker-type"
_NAME = "federatedlearningjob.sedna.io/name"


class Story:
    """What happens to ``job`` (its manifest) in ``namespace``, and to ``nodes`` (names)."""

    def __init__(
        self, client: Client, *, namespace: str, job: Json, nodes: Collection[str]
    ) -> None:
        self._node_names = frozenset(nodes)
        view = msgspec.convert(job, FederatedLearningJob)
        aggregation = view.spec.aggregation_worker
        self._key = ObjectKey(namespace, view.metadata.name)
        self._model = ObjectKey(namespace, aggregation.model.name)
        self._datasets = {worker.dataset.name for worker in view.spec.training_workers}
        self._rounds = _rounds(aggregation)
        self._changed = asyncio.Event()
        self._nodes = Informer(client, NODES, Node)
        self._dataset_informer = Informer(client, DATASETS, Dataset, namespace=namespace)
        self._models = Informer(client, MODELS, Model, namespace=namespace)
        self._jobs = Informer(
            client, FEDERATED_LEARNING_JOBS, FederatedLearningJob, namespace=namespace
        )
        self._pods = Informer(
            client, PODS, Pod, namespace=namespace, label_selector=f"{_NAME}={self._key.name}"
        )

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keep up with the cluster as long as the body runs."""
        informers: tuple[Informer[Any], ...] = (
            self._nodes,
            self._dataset_informer,
            self._models,
            self._jobs,
            self._pods,
        )
        async with asyncio.TaskGroup() as group:
            tasks = []
            for informer in informers:
                informer.add_handler(self._note)
                tasks.append(group.create_task(informer.run()))
            for informer in informers:
                await informer.wait_synced()
            yield
            for task in tasks:
                task.cancel()

    async def _note(self, event: Event[Any]) -> None:
        self._changed.set()

    async def wait_changed(self, *, timeout_seconds: float) -> None:
        """Wait until something changed since the last call, or time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._changed.wait()
        self._changed.clear()

    def snapshot(self) -> Snapshot:
        """How things are now."""
        return Snapshot(
            nodes=tuple(
                _node(node)
                for node in sorted(_views(self._nodes), key=lambda node: str(node.metadata.name))
                if node.metadata.name in self._node_names
            ),
            datasets=tuple(
                DatasetLine(
                    name=d.metadata.name,
                    node=d.spec.node_name,
                    samples=d.status.number_of_samples,
                )
                for d in _views(self._dataset_informer)
                if d.metadata.name in self._datasets
            ),
            workers=tuple(sorted(map(_worker, _views(self._pods)), key=lambda w: w.name)),
            job=self._job(),
            metrics=self._metrics(),
            rounds=self._rounds,
        )

    def _metrics(self) -> dict[str, str]:
        """The Model's metrics, overlaid by the job's own: those belong to the round it tells."""
        model, job = self._models.lister.get(self._model), self._jobs.lister.get(self._key)
        metrics = list((model.view.status.metrics or ()) if model else ())
        workers = (job.view.status.workers or ()) if job else ()
        for worker in sorted(workers, key=lambda worker: worker.round or 0):
            metrics += worker.metrics or ()
        return {metric.key: metric.value for metric in metrics}

    def _job(self) -> JobLine | None:
        stored = self._jobs.lister.get(self._key)
        if stored is None:
            return None
        status = stored.view.status
        phase = status.phase or "Pending"
        problem = ""
        if phase in ("Pending", "Failed"):
            live = [c for c in status.conditions or () if c.status == "True" and c.message]
            problem = live[-1].message or "" if live else ""
        return JobLine(name=self._key.name, phase=phase, round=status.round or 0, problem=problem)


def _views(informer: Informer[Any]) -> list[Any]:
    return [stored.view for stored in informer.lister.list()]


def _rounds(worker: AggregationWorker) -> int:
    """How many rounds the aggregator is told to run; 0 if the manifest does not say."""
    spec = (worker.template.spec if worker.template else None) or {}
    for container in spec.get("containers") or ():
        for variable in container.get("env") or ():
            if variable.get("name") == ROUNDS_ENV and str(variable.get("value")).isdigit():
                return int(variable["value"])
    return 0


def _node(node: Node) -> NodeLine:
    status = node.status
    ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions or ())
    addresses = [a.address for a in status.addresses or () if a.type == "InternalIP"]
    return NodeLine(name=node.metadata.name, ready=ready, address=addresses[0] if addresses else "")


def _worker(pod: Pod) -> WorkerLine:
    reason, restarts = pod.status.reason or "", 0
    for container in pod.status.container_statuses or ():
        restarts += container.restart_count or 0
        if container.state and container.state.waiting and not reason:
            reason = container.state.waiting.reason or ""
    return WorkerLine(
        name=pod.metadata.name,
        role=(pod.metadata.labels or {}).get(_ROLE, ""),
        node=pod.spec.node_name or "",
        phase=pod.status.phase or "Pending",
        restarts=restarts,
        reason=reason,
    )
