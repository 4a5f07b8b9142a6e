"""What is said about specs that can not be acted on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    FederatedLearningJobSpec,
    IncrementalLearningJob,
    JointInferenceService,
    Model,
    PodTemplate,
    RunPolicy,
    TrainingWorker,
)
from gm.api.validation import check, validate, validate_job
from gm.errors import InvalidSpec
from tests.api import samples

Json = dict[str, Any]
Change = Callable[[Json], object]


def told_federated(change: Change) -> list[str]:
    """What is said about a federated job after ``change`` of its spec."""
    obj = samples.federated()
    change(obj["spec"])
    return [str(p) for p in validate_job(samples.read(obj, FederatedLearningJob))]


def told_joint(change: Change) -> list[str]:
    """What is said about a joint inference service after ``change`` of its spec."""
    obj = samples.joint()
    change(obj["spec"])
    return [str(p) for p in validate_job(samples.read(obj, JointInferenceService))]


def told_incremental(change: Change) -> list[str]:
    """What is said about an incremental job after ``change`` of its spec."""
    obj = samples.incremental()
    change(obj["spec"])
    return [str(p) for p in validate_job(samples.read(obj, IncrementalLearningJob))]


def put(path: str, value: object) -> Change:
    """A change that sets the field at ``path`` (dots; numbers index lists)."""

    def change(spec: Any) -> None:
        *parents, last = path.split(".")
        for part in parents:
            spec = spec[int(part)] if part.isdigit() else spec.setdefault(part, {})
        spec[last] = value

    return change


@pytest.mark.parametrize(
    ("obj", "view"),
    [
        (samples.dataset("s3://bucket/x.csv"), Dataset),
        (samples.model("https://h/x?y=1"), Model),
        (samples.federated(), FederatedLearningJob),
        (samples.joint(), JointInferenceService),
        (samples.incremental(), IncrementalLearningJob),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_sound_object_of_each_kind_has_no_problem(obj: Json, view: type[Any]) -> None:
    """The samples are what people apply."""
    read = samples.read(obj, view)
    assert validate(read) == []
    check(read)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (
            "aggregationWorker.model.name",
            "",
            "spec.aggregationWorker.model.name: is empty; name the Model that the job trains",
        ),
        (
            "aggregationWorker.model.name",
            "My Model",
            "spec.aggregationWorker.model.name: 'My Model' can not be the name of a Model; "
            "allowed are lower-case letters, digits, - and .",
        ),
        ("trainingWorkers", [], "spec.trainingWorkers: is empty; name at least one worker"),
        (
            "trainingWorkers.1.dataset.name",
            "",
            "spec.trainingWorkers[1].dataset.name: is empty; name the Dataset to train on",
        ),
        (
            "aggregationWorker.template",
            None,
            "spec.aggregationWorker.template: is missing; write the pod to make: "
            "spec.containers at least",
        ),
        (
            "trainingWorkers.0.template.spec.containers.0.args",
            [1, True],
            "spec.trainingWorkers[0].template.spec.containers[0].args[0]: is 1; "
            'write it as text: "1"',
        ),
        (
            "trainingWorkers.0.nodeName",
            "edge9",
            "spec.trainingWorkers[0].nodeName: is 'edge9' but template.spec.nodeName is 'edge1'; "
            "remove one",
        ),
        (
            "pretrainedModel.name",
            "-x",
            "spec.pretrainedModel.name: '-x' can not be the name of a Model; "
            "allowed are lower-case letters, digits, - and .",
        ),
        (
            "transmitter.s3",
            {"aggDataPath": "/a/b"},
            "spec.transmitter.s3.aggDataPath: is no S3 address; allowed is s3://bucket/prefix",
        ),
        (
            "transmitter.s3",
            {"aggDataPath": "s3://b/%zz"},
            "spec.transmitter.s3.aggDataPath: 's3://b/%zz' has a % without two hexadecimal "
            "digits; write %25 for a %",
        ),
        (
            "transmitter",
            {"ws": {}, "s3": {"aggDataPath": "s3://b/x", "credentialName": "s"}},
            "spec.transmitter: has both ws and s3; remove one",
        ),
        (
            "minParticipants",
            3,
            "spec.minParticipants: is 3; allowed is 1 to 2, the number of training workers",
        ),
        (
            "runPolicy.cleanPodPolicy",
            "none",
            "spec.runPolicy.cleanPodPolicy: is 'none'; allowed is None, Running, All",
        ),
        (
            "runPolicy.backoffLimit",
            -1,
            "spec.runPolicy.backoffLimit: is -1; allowed is 0 or more",
        ),
    ],
)
def test_a_federated_job_is_told_field_and_remedy_P0_024(
    path: str, value: object, told: str
) -> None:
    """Whatever an older CRD lets through is reported, never raised."""
    assert told in told_federated(put(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("pretrainedModel", {"name": ""}),
        ("transmitter", {}),
        ("transmitter", {"ws": {}}),
        ("transmitter", {"s3": {"aggDataPath": "s3://b/x", "credentialName": "s3-secret"}}),
        ("minParticipants", 1),
        ("trainingWorkers.0.nodeName", "edge1"),
        ("runPolicy", {"cleanPodPolicy": "None", "suspend": True, "backoffLimit": 0}),
        ("trainingWorkers.0.template.spec.unheardOf", {"a": 1}),
    ],
)
def test_what_go_clients_and_older_manifests_write_is_fine(path: str, value: object) -> None:
    """Go writes unset references as empty names; older manifests name the node on the worker."""
    assert told_federated(put(path, value)) == []


def test_the_number_of_participants_is_not_judged_without_trainers() -> None:
    """One problem, one message."""

    def change(spec: Json) -> None:
        spec.update(trainingWorkers=[], minParticipants=1)

    assert told_federated(change) == [
        "spec.trainingWorkers: is empty; name at least one worker",
    ]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (
            "edgeWorker.model.name",
            "",
            "spec.edgeWorker.model.name: is empty; name the Model at the edge",
        ),
        (
            "edgeWorker.hardExampleMining.name",
            " ",
            "spec.edgeWorker.hardExampleMining.name: is empty; name the algorithm, such as IBT",
        ),
        (
            "cloudWorker.model.name",
            "",
            "spec.cloudWorker.model.name: is empty; name the Model in the cloud",
        ),
        (
            "cloudWorker.hpa",
            {"minReplicas": 4, "maxReplicas": 3},
            "spec.cloudWorker.hpa.maxReplicas: is 3; allowed is 1 or more, "
            "and not less than minReplicas",
        ),
        (
            "edgeWorker.template",
            None,
            "spec.edgeWorker.template: is missing; write the pod to make: spec.containers at least",
        ),
    ],
)
def test_a_joint_inference_service_is_told_field_and_remedy(
    path: str, value: object, told: str
) -> None:
    """Both workers are looked at."""
    assert told_joint(put(path, value)) == [told]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("dataset.name", "", "spec.dataset.name: is empty; name the Dataset to learn from"),
        ("dataset.trainProb", 1.5, "spec.dataset.trainProb: is 1.5; allowed is 0 to 1"),
        ("initialModel.name", "", "spec.initialModel.name: is empty; name the Model to start from"),
        (
            "trainSpec.trigger.condition.operator",
            "=>",
            "spec.trainSpec.trigger.condition.operator: is '=>'; allowed is one of > >= = == < <=",
        ),
        (
            "trainSpec.trigger.condition.metric",
            "",
            "spec.trainSpec.trigger.condition.metric: is empty; "
            "name a metric, such as num_of_samples",
        ),
        (
            "trainSpec.trigger.timer.end",
            "25:00",
            "spec.trainSpec.trigger.timer.end: is '25:00'; allowed is a time such as 02:00",
        ),
        (
            "evalSpec.initialEvalModel",
            {"name": "A"},
            "spec.evalSpec.initialEvalModel.name: 'A' can not be the name of a Model; "
            "allowed are lower-case letters, digits, - and .",
        ),
        (
            "deploySpec.model.name",
            "",
            "spec.deploySpec.model.name: is empty; name the Model that is served",
        ),
        (
            "deploySpec.model.pollPeriodSeconds",
            0,
            "spec.deploySpec.model.pollPeriodSeconds: is 0; allowed is 1 or more",
        ),
        (
            "outputDir",
            "out",
            "spec.outputDir: 'out' is not absolute; allowed is an absolute path such as "
            "/data/train.txt, s3://bucket/key, http://... or https://...",
        ),
    ],
)
def test_an_incremental_job_is_told_field_and_remedy(path: str, value: object, told: str) -> None:
    """Data, models, triggers and the three stages are looked at."""
    assert told_incremental(put(path, value)) == [told]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, ["spec.url", "spec.format", "spec.nodeName"]),
        ({"url": "http://a b/", "format": "csv", "nodeName": "edge1"}, ["spec.url"]),
        ({"url": "/a/b", "format": " ", "nodeName": "Edge 1"}, ["spec.format", "spec.nodeName"]),
        (
            {"url": "/a/b", "format": "csv", "nodeName": "e", "credentialName": "A B"},
            ["spec.credentialName"],
        ),
    ],
)
def test_a_dataset_is_told_which_fields_are_wrong_P0_024_P2_091(
    spec: Json, fields: list[str]
) -> None:
    """All of them at once, not one after the other."""
    dataset = samples.read({"metadata": {"name": "ds"}, "spec": spec}, Dataset)
    assert [problem.field for problem in validate(dataset)] == fields


def test_a_model_is_told_which_fields_are_wrong_P2_091() -> None:
    """A model needs no node: the workers that use it have one."""
    model = samples.read({"spec": {"url": "pvc://claim/path", "credentialName": "x."}}, Model)
    assert [problem.field for problem in validate(model)] == [
        "spec.url",
        "spec.format",
        "spec.credentialName",
    ]


def test_all_problems_stand_in_one_error_that_stays_short() -> None:
    """A condition's message is no place for forty lines."""
    job = samples.read(samples.federated(), FederatedLearningJob)
    broken = FederatedLearningJob(
        metadata=job.metadata,
        spec=FederatedLearningJobSpec(training_workers=(TrainingWorker(),) * 3),
    )
    with pytest.raises(InvalidSpec) as caught:
        check(broken)
    assert caught.value.reason == "InvalidSpec"
    assert caught.value.message.startswith("spec.aggregationWorker.model.name: is empty;")
    assert caught.value.message.endswith("; and 3 more")


def test_an_error_with_few_problems_names_them_all() -> None:
    """Nothing is hidden behind `and more`."""
    with pytest.raises(InvalidSpec, match=r"^spec\.url: is empty; .*; spec\.format: is empty; "):
        check(Model())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["containers", "initContainers", "volumes", "nodeName", "name", "env"])


@given(st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(KEYS, JSON), max_size=2)))
def test_no_template_whatever_makes_validation_raise_P0_024(spec: Json) -> None:
    """Templates are raw: an older CRD lets any JSON through."""
    worker = TrainingWorker(template=PodTemplate(spec=spec), node_name="edge1")
    job = FederatedLearningJob(
        spec=FederatedLearningJobSpec(training_workers=(worker,), run_policy=RunPolicy())
    )
    assert validate(job)
