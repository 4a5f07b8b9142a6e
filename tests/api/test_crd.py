"""The CRDs: their shape, their size, and what they let through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml

from gm.api.crd import crd_yaml, crds, crds_yaml
from gm.api.sedna import EdgeNodeStatus, FederatedLearningJobStatus, JobCondition, WorkerStatus
from tests.api import samples

Json = dict[str, Any]
DIRECTORY = Path(__file__).parent.parent.parent / "deploy" / "crds"
LIMIT_BYTES = 262_144
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in crds()}


def version_of(kind: str) -> Json:
    """The one version of the CRD of ``kind``."""
    (version,) = CRDS[kind]["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def schema_of(kind: str) -> Json:
    """The schema of ``kind``."""
    schema: Json = version_of(kind)["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """``schema`` and all schemas in it, with their paths."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


def mistakes(obj: Json) -> list[str]:
    """What the schema of the object's kind says about ``obj``, as `path: message`."""
    validator = jsonschema_rs.validator_for(schema_of(obj["kind"]))
    return [
        ".".join(map(str, error.instance_path)) + f": {error.message}"
        for error in validator.iter_errors(obj)
    ]


def test_the_checked_in_files_are_what_the_types_make() -> None:
    """After a change of a type: `gm crds` and write the files anew."""
    generated = {f"{crd['metadata']['name']}.yaml": crd_yaml(crd) for crd in crds()}
    stored = {path.name: path.read_text() for path in DIRECTORY.iterdir()}
    assert stored == generated


def test_all_of_them_come_as_one_stream() -> None:
    """What `gm crds` prints, for `kubectl apply -f -`; without anchors."""
    assert list(yaml.safe_load_all(crds_yaml())) == crds()
    assert "&id" not in crds_yaml()


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: str(crd["metadata"]["name"]))
def test_each_crd_fits_into_the_annotation_of_kubectl_apply_P1_088(crd: Json) -> None:
    """Client-side apply keeps the whole object in an annotation of at most 256 KiB."""
    assert len(msgspec.json.encode(crd)) < LIMIT_BYTES / 3


@pytest.mark.parametrize(
    ("kind", "plural", "short", "scope"),
    [
        ("Dataset", "datasets", "dset", "Namespaced"),
        ("Model", "models", "mdl", "Namespaced"),
        ("FederatedLearningJob", "federatedlearningjobs", "fl", "Namespaced"),
        ("JointInferenceService", "jointinferenceservices", "ji", "Namespaced"),
        ("IncrementalLearningJob", "incrementallearningjobs", "il", "Namespaced"),
        ("EdgeNode", "edgenodes", "en", "Cluster"),
    ],
)
def test_each_kind_has_its_names(kind: str, plural: str, short: str, scope: str) -> None:
    """Group and version are Sedna's; `kubectl get sedna` shows them all."""
    crd = CRDS[kind]
    assert crd["metadata"]["name"] == f"{plural}.sedna.io"
    assert crd["spec"]["group"] == "sedna.io"
    assert crd["spec"]["scope"] == scope
    assert crd["spec"]["names"] == {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [short],
        "categories": ["sedna"],
    }
    version = version_of(kind)
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("Dataset", "NODE SAMPLES FORMAT AGE"),
        ("Model", "FORMAT URL UPDATED AGE"),
        ("FederatedLearningJob", "PHASE ROUND ACTIVE SUCCEEDED FAILED AGE"),
        ("JointInferenceService", "READY AGE"),
        ("IncrementalLearningJob", "STAGE STATUS AGE"),
        ("EdgeNode", "NODE CONNECTED PROTOCOL PENDING HELD LAST-SEEN AGE"),
    ],
)
def test_each_kind_shows_its_columns_P1_070(kind: str, columns: str) -> None:
    """As kubectl prints their heads."""
    described = version_of(kind)["additionalPrinterColumns"]
    shown = [column["name"].upper() for column in described if not column.get("priority")]
    assert shown == columns.split()


def test_a_wide_listing_of_jobs_tells_why_they_do_not_go_on() -> None:
    """kubectl get fl -o wide."""
    columns = version_of("FederatedLearningJob")["additionalPrinterColumns"]
    wide = {column["name"]: column["jsonPath"] for column in columns if column.get("priority") == 1}
    assert wide == {"Reason": ".status.reason", "Message": ".status.message"}


@pytest.mark.parametrize("kind", list(CRDS))
def test_every_column_shows_a_field_that_exists(kind: str) -> None:
    """A typo in a path would be an empty column for ever."""
    paths = {path.replace("[]", "") for path, _ in nodes(schema_of(kind))}
    for column in version_of(kind)["additionalPrinterColumns"]:
        path = column["jsonPath"]
        if not path.startswith(".metadata."):
            before, bracket, after = path.partition("[")
            assert before + (after.rpartition("]")[2] if bracket else "") in paths


@pytest.mark.parametrize("kind", list(CRDS))
def test_every_field_has_a_type_and_a_description(kind: str) -> None:
    """`kubectl explain` has something to say, and the schema is structural."""
    for path, schema in nodes(schema_of(kind)):
        assert "type" in schema or "x-kubernetes-int-or-string" in schema, path
        if path not in {".metadata"} and not path.endswith("[]"):
            assert schema["description"], path


@pytest.mark.parametrize("obj", samples.sample_objects(), ids=lambda obj: str(obj["kind"]))
def test_what_people_apply_is_let_through(obj: Json) -> None:
    """One object of each kind."""
    assert mistakes(obj) == []


@pytest.mark.parametrize(
    ("kind", "required"),
    [
        ("Dataset", {"spec", ".url", ".format", ".nodeName"}),
        ("Model", {"spec", ".url", ".format"}),
        (
            "FederatedLearningJob",
            {
                "spec",
                ".aggregationWorker",
                ".aggregationWorker.model",
                ".aggregationWorker.model.name",
                ".aggregationWorker.template",
                ".aggregationWorker.template.spec",
                ".trainingWorkers",
                ".trainingWorkers[].dataset",
                ".trainingWorkers[].dataset.name",
                ".trainingWorkers[].template",
                ".trainingWorkers[].template.spec",
                ".pretrainedModel.name",
                ".transmitter.s3.aggDataPath",
            },
        ),
    ],
)
def test_what_the_contract_demands_is_demanded(kind: str, required: set[str]) -> None:
    """Fields inside of pods apart."""
    found = {
        f"{path.removeprefix('.spec')}.{name}" if path else name
        for path, schema in nodes(schema_of(kind))
        if ".template.spec" not in path and not path.startswith(".status")
        for name in schema.get("required", [])
    }
    assert found == required


def test_templates_take_labels_annotations_and_fields_of_a_newer_kubernetes_P1_088() -> None:
    """At every level below a template."""
    obj = samples.federated()
    template = obj["spec"]["trainingWorkers"][0]["template"]
    template["spec"]["newlyInvented"] = {"a": [1]}
    template["spec"]["containers"][0]["alsoNew"] = 7
    assert mistakes(obj) == []
    keeps = {
        path
        for path, schema in nodes(schema_of("FederatedLearningJob"))
        if schema.get("x-kubernetes-preserve-unknown-fields")
    }
    below = {
        path
        for path, schema in nodes(schema_of("FederatedLearningJob"))
        if ".template" in path and "properties" in schema
    }
    assert below <= keeps
    assert ".spec" not in keeps
    assert ".spec.trainingWorkers[]" not in keeps


@pytest.mark.parametrize("kind", ["JointInferenceService", "IncrementalLearningJob"])
def test_a_spec_without_controller_keeps_what_it_does_not_know(kind: str) -> None:
    """A field that the controller to come reads must not be lost before."""
    for path, schema in nodes(schema_of(kind)):
        if path.startswith(".spec") and "properties" in schema:
            assert schema["x-kubernetes-preserve-unknown-fields"] is True, path
        if path.startswith(".status"):
            assert "x-kubernetes-preserve-unknown-fields" not in schema, path


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("args", [1, 2], "args.0: 1 is not of type"),
        ("command", [True], "command.0: true is not of type"),
        ("env", [{"name": "A", "value": 32}], "env.0.value: 32 is not of type"),
        ("resources", {"limits": {"cpu": 0.5}}, "resources.limits.cpu: 0.5 is not valid"),
    ],
)
def test_wrong_types_in_a_container_are_refused_when_applied_P0_024(
    field: str, value: object, told: str
) -> None:
    """With the whole path, so the job's author finds the line."""
    obj = samples.federated()
    obj["spec"]["trainingWorkers"][0]["template"]["spec"]["containers"][0][field] = value
    found = mistakes(obj)
    assert found
    assert found[0].startswith("spec.trainingWorkers.0.template.spec.containers.0.")
    assert told in found[0]


@pytest.mark.parametrize(
    "policy", [{"cleanPodPolicy": "none"}, {"backoffLimit": -1}, {"suspend": "yes"}]
)
def test_a_wrong_run_policy_is_refused_when_applied(policy: Json) -> None:
    """Names and values as in Kubeflow."""
    obj = samples.federated()
    obj["spec"]["runPolicy"] = policy
    assert len(mistakes(obj)) == 1


def test_a_job_with_wrong_meaning_can_be_applied_and_told_in_its_status_P0_024() -> None:
    """An empty name or list becomes condition InvalidSpec; older objects stay writable."""
    obj = samples.federated()
    obj["spec"]["aggregationWorker"]["model"]["name"] = ""
    obj["spec"]["trainingWorkers"] = []
    obj["spec"]["pretrainedModel"] = {"name": ""}
    assert mistakes(obj) == []


def test_lists_of_conditions_may_hold_one_type_twice() -> None:
    """Sedna appends; were they a map by type, its jobs could never be written again."""
    condition = {"type": "Training", "status": "True"}
    obj = samples.federated() | {"status": {"conditions": [condition, condition]}}
    assert mistakes(obj) == []
    assert "x-kubernetes-list-type" not in crds_yaml()


def test_what_we_write_into_a_status_is_let_through() -> None:
    """All fields of a job's status and of an EdgeNode's."""
    status = FederatedLearningJobStatus(
        phase="Running",
        observed_generation=2,
        round=3,
        active=0,
        conditions=(JobCondition(type="Complete", status="True"),),
        workers=(WorkerStatus(name="w", role="train", restarts=1),),
    )
    obj = samples.federated() | {"status": msgspec.json.decode(msgspec.json.encode(status))}
    assert mistakes(obj) == []
    node = EdgeNodeStatus(connected=True, pending=0, held=1, held_keys=("dataset/a/b",))
    written = msgspec.json.decode(msgspec.json.encode(node))
    assert mistakes({"kind": "EdgeNode", "metadata": {"name": "edge1"}, "status": written}) == []
