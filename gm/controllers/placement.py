"""Which nodes hold a copy of which object; pure functions over the typed objects."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
    PodTemplate,
)
from gm.api.worker_names import TRAIN, worker_name

__all__ = [
    "dataset_nodes",
    "federated_nodes",
    "incremental_models",
    "incremental_nodes",
    "inference_nodes",
    "template_node",
]

_STAGES = ("sedna.io/Train", "sedna.io/Eval", "sedna.io/Deploy")


def template_node(template: PodTemplate | None, node_name: str | None = None) -> str | None:
    """The node that a worker names: in its template, or in the older form beside it."""
    spec = template.spec if template else None
    named = spec.get("nodeName") if spec else None
    return (named if isinstance(named, str) else None) or node_name or None


def dataset_nodes(dataset: Dataset) -> frozenset[str]:
    """A dataset lies on one node."""
    return _set([dataset.spec.node_name])


def federated_nodes(job: FederatedLearningJob) -> frozenset[str]:
    """Every node of the job's trainers: as the spec names it, or as the scheduler chose."""
    bound = {entry.name: entry.node for entry in job.status.workers or ()}
    uid = job.metadata.uid
    return _set(
        template_node(worker.template, worker.node_name)
        or bound.get(worker_name(uid, TRAIN, index))
        for index, worker in enumerate(job.spec.training_workers)
    )


def inference_nodes(service: JointInferenceService, bound: Iterable[str] = ()) -> frozenset[str]:
    """The node of the edge worker, else those that its pods were ``bound`` to."""
    worker = service.spec.edge_worker
    named = template_node(worker.template, worker.node_name)
    return _set([named]) or _set(bound)


def incremental_nodes(
    job: IncrementalLearningJob, dataset: Dataset | None, bound: Iterable[str] = ()
) -> frozenset[str]:
    """The node of the data, and those of the stages: named, annotated, or ``bound``."""
    spec = job.spec
    templates = (spec.train_spec.template, spec.eval_spec.template, spec.deploy_spec.template)
    annotations = job.metadata.annotations or {}
    return _set(
        [
            dataset.spec.node_name if dataset else None,
            *(template_node(template) for template in templates),
            *(annotations.get(stage) for stage in _STAGES),
            *bound,
        ]
    )


def incremental_models(job: IncrementalLearningJob) -> tuple[str, ...]:
    """Names of the models that the job's nodes need: initial, deployed, evaluated."""
    spec = job.spec
    evaluated = spec.eval_spec.initial_eval_model
    names = [
        spec.initial_model.name,
        spec.deploy_spec.model.name,
        evaluated.name if evaluated else "",
    ]
    return tuple(dict.fromkeys(filter(None, names)))


def _set(nodes: Iterable[str | None]) -> frozenset[str]:
    return frozenset(node for node in nodes if node)
