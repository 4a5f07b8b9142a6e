"""The workers that a job's spec asks for, and which pod plays which of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from gm.api.core import Pod
from gm.api.meta import Json
from gm.api.sedna import AggregationWorker, FederatedLearningJob, PodTemplate, TrainingWorker
from gm.api.worker_names import AGGREGATION, TRAIN, worker_name
from gm.controllers.names import pod_name
from gm.controllers.placement import template_node
from gm.kube.lister import Stored

__all__ = ["HASH_ANNOTATION", "WORKER_ANNOTATION", "Worker", "match", "workers_of"]

WORKER_ANNOTATION = "sedna.io/worker"
"""On a pod: which worker it plays, ``aggregation-0`` or ``train-<index>``."""
HASH_ANNOTATION = "sedna.io/worker-hash"
"""On a pod: what the job's own spec said about its worker when it was made."""
_TEMPLATE_FIELDS = frozenset({"metadata", "spec"})
_METADATA_FIELDS = frozenset(
    {
        *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
        *("labels", "annotations", "ownerReferences", "finalizers", "managedFields"),
    }
)
"""Of a PodTemplateSpec and its ObjectMeta, https://kubernetes.io/docs/reference/kubernetes-api/."""
WORKER_TYPE_LABEL = "federatedlearningjob.sedna.io/worker-type"


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as the job's spec wants it.

    ``name`` is WORKER_NAME, ``digest`` changes when the spec asks for another pod, ``node`` is
    the node that the spec names, if it does. ``ignored`` are fields beside those that make up a
    template: no part of a pod is made of them.
    """

    role: str
    index: int
    name: str
    pod_name: str
    digest: str
    node: str | None
    template: PodTemplate | None
    dataset: str | None = None
    ignored: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Value of annotation ``sedna.io/worker``."""
        return f"{self.role}-{self.index}"

    @property
    def is_aggregator(self) -> bool:
        """The one that trainers talk to."""
        return self.role == AGGREGATION

    @property
    def title(self) -> str:
        """What messages call it."""
        where = f" on {self.node}" if self.node else ""
        return f"aggregator{where}" if self.is_aggregator else f"trainer {self.index}{where}"


class _Raw(msgspec.Struct):
    spec: Json = {}


def workers_of(job: Stored[FederatedLearningJob]) -> list[Worker]:
    """The aggregator, then the trainers in the spec's order."""
    spec, raw = job.view.spec, msgspec.json.decode(job.raw, type=_Raw).spec
    shared = {
        "model": spec.aggregation_worker.model.name,
        "pretrained": spec.pretrained_model.name if spec.pretrained_model else None,
        "transmitter": raw.get("transmitter"),
        "participants": len(spec.training_workers),
    }
    aggregation = raw.get("aggregationWorker") or {}
    extra = {**shared, "minParticipants": spec.min_participants}
    workers = [_worker(job, AGGREGATION, 0, spec.aggregation_worker, aggregation, extra)]
    for index, trainer in enumerate(spec.training_workers):
        entry = raw["trainingWorkers"][index] or {}
        workers.append(
            _worker(job, TRAIN, index, trainer, entry, {**shared, "dataset": trainer.dataset.name})
        )
    return workers


def _worker(
    job: Stored[FederatedLearningJob],
    role: str,
    index: int,
    wanted: AggregationWorker | TrainingWorker,
    raw: Json,
    asked: Json,
) -> Worker:
    node = template_node(wanted.template, wanted.node_name)
    template = dict(raw.get("template") or {})
    ignored = _ignored(template)
    # the same node means the same, wherever it is written
    template["spec"] = {k: v for k, v in (template.get("spec") or {}).items() if k != "nodeName"}
    everything = _without_empty({**asked, "template": template, "node": node})
    encoded = msgspec.json.encode(everything, order="sorted")
    return Worker(
        role=role,
        index=index,
        name=worker_name(job.uid, role, index),
        pod_name=pod_name(job.key.name, role if role == AGGREGATION else f"{role}-{index}"),
        digest=hashlib.sha256(encoded).hexdigest()[:16],
        node=node,
        template=wanted.template,
        dataset=wanted.dataset.name if isinstance(wanted, TrainingWorker) else None,
        ignored=ignored,
    )


def _ignored(template: Json) -> tuple[str, ...]:
    metadata = template.get("metadata") or {}
    return (
        *(f"template.{name}" for name in sorted(template.keys() - _TEMPLATE_FIELDS)),
        *(f"template.metadata.{name}" for name in sorted(metadata.keys() - _METADATA_FIELDS)),
    )


def _without_empty(value: Any) -> Any:
    """``value`` without fields that say nothing: Go clients write them when they read and write."""
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _without_empty(field) for name, field in value.items()}
    return {name: field for name, field in fields.items() if field not in (None, "", {}, [])}


def match(
    workers: Iterable[Worker], pods: Iterable[Stored[Pod]]
) -> tuple[dict[str, list[Stored[Pod]]], list[Stored[Pod]]]:
    """Which pods play which worker (by its id), and the pods that play none.

    A pod that we made says so itself. One that a Sedna GM left is matched by role, DATASET_NAME
    and node; of several that fit, each worker gets one, and the others play none.
    """
    wanted = {worker.id: worker for worker in workers}
    playing: dict[str, list[Stored[Pod]]] = {worker: [] for worker in wanted}
    strangers, surplus = [], []
    # a pod that is on its way out must not keep a living one from being adopted
    order = sorted(pods, key=lambda p: (p.view.metadata.deletion_timestamp is not None, p.key))
    for pod in order:
        told = (pod.view.metadata.annotations or {}).get(WORKER_ANNOTATION)
        if told is None:
            strangers.append(pod)
        elif told in playing:
            playing[told].append(pod)
        else:
            surplus.append(pod)
    for pod in strangers:
        fitting = next(
            (w for w in wanted.values() if not playing[w.id] and _fits(w, pod.view)), None
        )
        (playing[fitting.id] if fitting else surplus).append(pod)
    return playing, surplus


def _fits(worker: Worker, pod: Pod) -> bool:
    if (pod.metadata.labels or {}).get(WORKER_TYPE_LABEL) != worker.role:
        return False
    if worker.is_aggregator:
        return True
    if worker.node and pod.spec.node_name and worker.node != pod.spec.node_name:
        return False
    containers = pod.spec.containers or ()
    return any(container.env_value("DATASET_NAME") == worker.dataset for container in containers)
