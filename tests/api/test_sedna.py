"""Reading and writing objects of our kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gm.api import sedna
from gm.api.sedna import (
    Dataset,
    EdgeNode,
    FederatedLearningJob,
    FederatedLearningJobStatus,
    IncrementalLearningJob,
    JobCondition,
    JointInferenceService,
    Metric,
    Model,
    PodTemplate,
    WorkerStatus,
)
from tests.api import samples

KINDS: list[type[Any]] = [
    Dataset,
    EdgeNode,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
    Model,
]


@pytest.mark.parametrize("view", KINDS)
def test_an_object_without_anything_can_be_read(view: type[Any]) -> None:
    """An older CRD lets it through; its status has to be able to say so."""
    assert samples.read({"metadata": {"name": "x"}}, view).metadata.name == "x"


@pytest.mark.parametrize("obj", samples.sample_objects(), ids=lambda obj: str(obj["kind"]))
def test_an_object_of_each_kind_reads_and_writes_back_the_same(obj: dict[str, Any]) -> None:
    """Nothing that people write is lost or renamed on the way."""
    read = samples.read(obj, getattr(sedna, obj["kind"]))
    assert msgspec.json.decode(msgspec.json.encode(read))["spec"] == obj["spec"]


def test_a_template_keeps_every_field() -> None:
    """Also those that a newer Kubernetes has invented."""
    obj = samples.federated()
    template = obj["spec"]["trainingWorkers"][0]["template"]
    template["spec"]["newlyInvented"] = {"deep": [1, None]}
    job = samples.read(obj, FederatedLearningJob)
    read = job.spec.training_workers[0].template
    assert read is not None
    assert read.spec == template["spec"]
    assert read.metadata is not None
    assert read.metadata.labels == {"team": "vision"}


def test_a_template_of_null_can_be_read_P0_024() -> None:
    """It is validation that objects, not the reader."""
    obj = samples.federated()
    obj["spec"]["aggregationWorker"]["template"] = None
    obj["spec"]["trainingWorkers"][0]["template"] = {"metadata": None, "spec": None}
    job = samples.read(obj, FederatedLearningJob)
    assert job.spec.aggregation_worker.template is None
    assert job.spec.training_workers[0].template == PodTemplate()


def test_the_older_form_with_the_node_on_the_worker_is_read() -> None:
    """Neptune's form of the API."""
    obj = samples.federated()
    obj["spec"]["trainingWorkers"][0]["nodeName"] = "edge7"
    job = samples.read(obj, FederatedLearningJob)
    assert job.spec.training_workers[0].node_name == "edge7"


def test_run_policy_and_participants_are_read() -> None:
    """Names as in Kubeflow."""
    obj = samples.federated()
    obj["spec"]["minParticipants"] = 1
    obj["spec"]["runPolicy"] = {
        "cleanPodPolicy": "All",
        "ttlSecondsAfterFinished": 1,
        "activeDeadlineSeconds": 2,
        "backoffLimit": 3,
        "suspend": True,
    }
    spec = samples.read(obj, FederatedLearningJob).spec
    assert spec.min_participants == 1
    assert spec.run_policy is not None
    assert msgspec.to_builtins(spec.run_policy) == obj["spec"]["runPolicy"]


def test_a_job_status_is_written_in_sednas_fields_and_ours() -> None:
    """Zeros are written, so that `kubectl get` shows them; what is not known is left out."""
    time = datetime(2026, 11, 30, 4, 17, 43, tzinfo=UTC)
    status = FederatedLearningJobStatus(
        phase="Running",
        active=3,
        succeeded=0,
        failed=0,
        start_time=time,
        conditions=(
            JobCondition(type="Training", status="True", reason="DoTraining", last_probe_time=time),
        ),
        workers=(
            WorkerStatus(
                name="trainworker-abcde",
                role="train",
                node="edge1",
                pod_name="job-train-0",
                metrics=(Metric(key="accuracy", value="0.9"),),
                last_report_time=time,
            ),
        ),
    )
    assert msgspec.json.decode(msgspec.json.encode(status)) == {
        "phase": "Running",
        "active": 3,
        "succeeded": 0,
        "failed": 0,
        "startTime": "2026-11-30T04:17:43Z",
        "conditions": [
            {
                "type": "Training",
                "status": "True",
                "reason": "DoTraining",
                "lastProbeTime": "2026-11-30T04:17:43Z",
            }
        ],
        "workers": [
            {
                "name": "trainworker-abcde",
                "role": "train",
                "node": "edge1",
                "podName": "job-train-0",
                "metrics": [{"key": "accuracy", "value": "0.9"}],
                "lastReportTime": "2026-11-30T04:17:43Z",
            }
        ],
    }


def test_a_status_that_sedna_wrote_is_read() -> None:
    """As recorded, with its unbounded list of one type."""
    condition = {
        "lastHeartbeatTime": "2026-11-30T04:17:53Z",
        "lastProbeTime": "2026-11-30T04:17:53Z",
        "message": "Round 1 reaches at 2026-11-30 01:00:00",
        "reason": "DoTraining",
        "status": "True",
        "type": "Training",
    }
    obj = samples.federated()
    obj["status"] = {"active": 3, "phase": "Running", "conditions": [condition, condition]}
    status = samples.read(obj, FederatedLearningJob).status
    assert (status.active, status.phase, status.round) == (3, "Running", None)
    assert status.conditions is not None
    assert [c.type for c in status.conditions] == ["Training", "Training"]


def test_a_model_names_its_chips_as_sedna_does() -> None:
    """The one field of the API that is not in camelCase."""
    obj = samples.model()
    obj["spec"]["device_soc_versions"] = ["Ascend310"]
    assert samples.read(obj, Model).spec.device_soc_versions == ("Ascend310",)
