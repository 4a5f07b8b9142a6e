"""What is wrong with an object, field by field, and what to write instead.

The CRDs check types when an object is applied; this module checks meaning, and also types where
an older CRD let anything through. It never raises on malformed input, it reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gm.api.common import HardExampleMining, PodTemplate
from gm.api.podvalidation import template_problems
from gm.api.problem import Problem
from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
    Model,
    RunPolicy,
    Transmitter,
    Trigger,
)
from gm.api.urls import url_problem
from gm.errors import InvalidSpec

__all__ = ["Problem", "Validated", "check", "validate", "validate_job"]

Validated = Dataset | Model | FederatedLearningJob | JointInferenceService | IncrementalLearningJob

_SHOWN = 5
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]\Z|24:00\Z")
_OPERATORS = (">", ">=", "=", "==", "<", "<=")
_CLEAN_POD_POLICIES = ("None", "Running", "All")


def validate_job(
    job: FederatedLearningJob | JointInferenceService | IncrementalLearningJob,
) -> list[Problem]:
    """Everything that is wrong with the spec of ``job``; empty: it can be acted on."""
    return validate(job)


def validate(obj: Validated) -> list[Problem]:
    """Everything that is wrong with the spec of ``obj``; empty: it can be acted on."""
    match obj:
        case Dataset():
            return list(_dataset(obj))
        case Model():
            return list(_model(obj))
        case FederatedLearningJob():
            return list(_federated(obj))
        case JointInferenceService():
            return list(_joint(obj))
        case _:
            return list(_incremental(obj))


def check(obj: Validated) -> None:
    """Raise InvalidSpec, with the first problems in one message, unless ``obj`` is sound."""
    problems = validate(obj)
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InvalidSpec("; ".join(map(str, problems[:_SHOWN])) + more)


def _dataset(dataset: Dataset) -> Iterator[Problem]:
    spec = dataset.spec
    yield from _url(spec.url, "spec.url")
    yield from _text(spec.format, "spec.format", "name the format, such as txt, csv or npz")
    yield from _name(spec.node_name, "spec.nodeName", "Node that has the data")
    yield from _optional_name(spec.credential_name, "spec.credentialName", "Secret")


def _model(model: Model) -> Iterator[Problem]:
    spec = model.spec
    yield from _url(spec.url, "spec.url")
    yield from _text(spec.format, "spec.format", "name the format, such as pb, ckpt or npz")
    yield from _optional_name(spec.credential_name, "spec.credentialName", "Secret")


def _federated(job: FederatedLearningJob) -> Iterator[Problem]:
    spec = job.spec
    aggregation = spec.aggregation_worker
    where = "spec.aggregationWorker"
    yield from _name(aggregation.model.name, f"{where}.model.name", "Model that the job trains")
    yield from _worker(aggregation.template, aggregation.node_name, where)
    trainers = spec.training_workers
    if not trainers:
        yield Problem("spec.trainingWorkers", "is empty; name at least one worker")
    for index, trainer in enumerate(trainers):
        where = f"spec.trainingWorkers[{index}]"
        yield from _name(trainer.dataset.name, f"{where}.dataset.name", "Dataset to train on")
        yield from _worker(trainer.template, trainer.node_name, where)
    # Go clients write an unset reference as {"name": ""}.
    if spec.pretrained_model is not None:
        yield from _optional_name(spec.pretrained_model.name, "spec.pretrainedModel.name", "Model")
    yield from _transmitter(spec.transmitter)
    yield from _participants(spec.min_participants, len(trainers))
    yield from _run_policy(spec.run_policy or RunPolicy())


def _transmitter(transmitter: Transmitter | None) -> Iterator[Problem]:
    if transmitter is None or transmitter.s3 is None:
        return
    if transmitter.ws is not None:
        yield Problem("spec.transmitter", "has both ws and s3; remove one")
    field = "spec.transmitter.s3.aggDataPath"
    path = transmitter.s3.agg_data_path
    problem = url_problem(path)
    if problem is not None:
        yield Problem(field, problem)
    elif not path.lower().startswith("s3:"):
        yield Problem(field, "is no S3 address; allowed is s3://bucket/prefix")
    yield from _optional_name(
        transmitter.s3.credential_name, "spec.transmitter.s3.credentialName", "Secret"
    )


def _participants(wanted: int | None, trainers: int) -> Iterator[Problem]:
    if wanted is not None and trainers and not 1 <= wanted <= trainers:
        yield Problem(
            "spec.minParticipants",
            f"is {wanted}; allowed is 1 to {trainers}, the number of training workers",
        )


def _run_policy(policy: RunPolicy) -> Iterator[Problem]:
    clean = policy.clean_pod_policy
    if clean is not None and clean not in _CLEAN_POD_POLICIES:
        allowed = ", ".join(_CLEAN_POD_POLICIES)
        yield Problem("spec.runPolicy.cleanPodPolicy", f"is {clean!r}; allowed is {allowed}")
    for field, value in (
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("backoffLimit", policy.backoff_limit),
    ):
        if value is not None and value < 0:
            yield Problem(f"spec.runPolicy.{field}", f"is {value}; allowed is 0 or more")


def _joint(service: JointInferenceService) -> Iterator[Problem]:
    edge, cloud = service.spec.edge_worker, service.spec.cloud_worker
    where = "spec.edgeWorker"
    yield from _name(edge.model.name, f"{where}.model.name", "Model at the edge")
    yield from _mining(edge.hard_example_mining, f"{where}.hardExampleMining")
    yield from _worker(edge.template, edge.node_name, where)
    where = "spec.cloudWorker"
    yield from _name(cloud.model.name, f"{where}.model.name", "Model in the cloud")
    yield from _worker(cloud.template, cloud.node_name, where)
    for where, hpa in (("spec.edgeWorker.hpa", edge.hpa), ("spec.cloudWorker.hpa", cloud.hpa)):
        if hpa is not None and hpa.max_replicas < max(1, hpa.min_replicas or 0):
            yield Problem(
                f"{where}.maxReplicas",
                f"is {hpa.max_replicas}; allowed is 1 or more, and not less than minReplicas",
            )


def _incremental(job: IncrementalLearningJob) -> Iterator[Problem]:
    spec = job.spec
    yield from _name(spec.dataset.name, "spec.dataset.name", "Dataset to learn from")
    if not 0 <= spec.dataset.train_prob <= 1:
        yield Problem("spec.dataset.trainProb", f"is {spec.dataset.train_prob}; allowed is 0 to 1")
    yield from _name(spec.initial_model.name, "spec.initialModel.name", "Model to start from")
    yield from _worker(spec.train_spec.template, None, "spec.trainSpec")
    yield from _trigger(spec.train_spec.trigger, "spec.trainSpec.trigger")
    if spec.eval_spec.initial_eval_model is not None:
        yield from _optional_name(
            spec.eval_spec.initial_eval_model.name, "spec.evalSpec.initialEvalModel.name", "Model"
        )
    yield from _worker(spec.eval_spec.template, None, "spec.evalSpec")
    deploy = spec.deploy_spec
    yield from _name(deploy.model.name, "spec.deploySpec.model.name", "Model that is served")
    period = deploy.model.poll_period_seconds
    if period is not None and period < 1:
        yield Problem(
            "spec.deploySpec.model.pollPeriodSeconds", f"is {period}; allowed is 1 or more"
        )
    yield from _trigger(deploy.trigger, "spec.deploySpec.trigger")
    yield from _mining(deploy.hard_example_mining, "spec.deploySpec.hardExampleMining")
    yield from _worker(deploy.template, None, "spec.deploySpec")
    yield from _url(spec.output_dir, "spec.outputDir")
    yield from _optional_name(spec.credential_name, "spec.credentialName", "Secret")


def _trigger(trigger: Trigger, where: str) -> Iterator[Problem]:
    condition = trigger.condition
    if condition.operator not in _OPERATORS:
        allowed = " ".join(_OPERATORS)
        yield Problem(
            f"{where}.condition.operator", f"is {condition.operator!r}; allowed is one of {allowed}"
        )
    yield from _text(
        condition.metric, f"{where}.condition.metric", "name a metric, such as num_of_samples"
    )
    if trigger.timer is not None:
        for field, time in (("start", trigger.timer.start), ("end", trigger.timer.end)):
            if not _TIME.match(time):
                yield Problem(
                    f"{where}.timer.{field}", f"is {time!r}; allowed is a time such as 02:00"
                )


def _mining(mining: HardExampleMining, where: str) -> Iterator[Problem]:
    yield from _text(mining.name, f"{where}.name", "name the algorithm, such as IBT")


def _worker(template: PodTemplate | None, node_name: str | None, where: str) -> Iterator[Problem]:
    """A worker's template, and its node, which may stand in two places."""
    yield from template_problems(template, f"{where}.template")
    inner = (template.spec or {}).get("nodeName") if template is not None else None
    if node_name and inner and node_name != inner:
        yield Problem(
            f"{where}.nodeName",
            f"is {node_name!r} but template.spec.nodeName is {inner!r}; remove one",
        )
    yield from _optional_name(node_name, f"{where}.nodeName", "Node")


def _url(url: str, field: str) -> Iterator[Problem]:
    problem = url_problem(url)
    if problem is not None:
        yield Problem(field, problem)


def _text(value: str, field: str, advice: str) -> Iterator[Problem]:
    if not value.strip():
        yield Problem(field, f"is empty; {advice}")


def _name(name: str, field: str, what: str) -> Iterator[Problem]:
    if not name:
        yield Problem(field, f"is empty; name the {what}")
    yield from _optional_name(name, field, what)


def _optional_name(name: str | None, field: str, what: str) -> Iterator[Problem]:
    if name and (len(name) > 253 or not _SUBDOMAIN.match(name)):
        yield Problem(
            field,
            f"{name[:80]!r} can not be the name of a {what.split()[0]}; "
            "allowed are lower-case letters, digits, - and .",
        )
