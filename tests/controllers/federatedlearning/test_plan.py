"""The plan of a new job, without any I/O: what is made, in which order, and what it lacks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gm.api.resources import PODS, SERVICES
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import plan
from gm.controllers.federatedlearning.world import JobSettings
from tests.controllers.federatedlearning.planning import names
from tests.controllers.support import (
    NOW,
    UID,
    by_name,
    changed,
    conditions,
    env_of,
    job_json,
    later,
    model,
    node,
    running,
    secret,
    set_pods,
    settle,
    template,
    world,
)

# --- making ---


def test_service_and_aggregator_come_first_and_trainers_with_their_address() -> None:
    """Trainers need the node port, which the API server gives."""
    first = plan(world())
    assert names(first) == ["job-aggregation", "job-aggregation"]
    assert {child.resource for child in first.create} == {PODS, SERVICES}
    seen, _ = settle(world())
    assert sorted(by_name(seen)) == ["job-aggregation", "job-train-0", "job-train-1"]
    port = seen.services[0].view.spec.ports
    assert port is not None
    env = env_of(msgspec.json.decode(by_name(seen)["job-train-1"].raw))
    assert env["AGG_IP"] == "10.0.0.1"
    assert env["AGG_PORT"] == str(port[0].node_port)


def test_cluster_dns_needs_no_node_and_makes_all_children_after_the_service_P1_067() -> None:
    """With aggregationService clusterDNS the Service's name is the address."""
    settings = JobSettings(aggregation_service="clusterDNS")
    seen, _ = settle(world(settings=settings, nodes=None))
    env = env_of(msgspec.json.decode(by_name(seen)["job-train-0"].raw))
    assert (env["AGG_IP"], env["AGG_PORT"]) == ("job-aggregation.ns", "7363")
    assert seen.services[0].view.spec.type == "ClusterIP"


def test_phase_is_pending_until_every_worker_runs() -> None:
    """Three of three, not two."""
    seen, decided = settle(world())
    assert decided.status is not None
    assert decided.status["phase"] == "Pending"
    assert decided.status["active"] == 3
    assert decided.status["startTime"] == timestamp(NOW)
    seen, decided = settle(set_pods(seen, "Running", "job-aggregation", "job-train-0"))
    assert decided.status is not None
    assert decided.status["phase"] == "Pending"
    seen, decided = settle(set_pods(seen, "Running"))
    assert decided.status is not None
    assert decided.status["phase"] == "Running"
    assert decided.status["observedGeneration"] == 1


def test_status_lists_every_worker_with_node_and_pod() -> None:
    """kubectl get -o yaml tells the whole story."""
    seen = running()
    workers = msgspec.json.decode(seen.job.raw)["status"]["workers"]
    assert [(w["role"], w["node"], w["podName"], w["phase"]) for w in workers] == [
        ("aggregation", "cloud", "job-aggregation", "Running"),
        ("train", "edge0", "job-train-0", "Running"),
        ("train", "edge1", "job-train-1", "Running"),
    ]
    assert workers[1]["name"].startswith("trainworker-")


def test_an_unchanged_world_gives_an_unchanged_status() -> None:
    """Nothing to write, at any later time."""
    seen = running()
    decided = plan(later(seen, 3600))
    assert decided.status == msgspec.json.decode(seen.job.raw)["status"]
    assert not decided.create
    assert not decided.delete


def test_trainers_wait_until_an_unplaced_aggregator_is_bound() -> None:
    """With a nodeSelector the address is known when the scheduler has decided."""
    job = job_json()
    job["spec"]["aggregationWorker"]["template"] = template(nodeSelector={"zone": "a"})
    seen, decided = settle(world(job))
    assert list(by_name(seen)) == ["job-aggregation"]
    assert conditions(decided)["Waiting"]["reason"] == "AggregatorNotBound"
    bound = tuple(changed(pod, spec={"nodeName": "cloud"}) for pod in seen.pods)
    seen, decided = settle(msgspec.structs.replace(seen, pods=bound))
    assert len(seen.pods) == 3
    assert "Waiting" not in conditions(decided)
    assert env_of(msgspec.json.decode(by_name(seen)["job-train-0"].raw))["AGG_IP"] == "10.0.0.1"


def test_the_external_address_of_a_node_is_preferred() -> None:
    """Edges are elsewhere."""
    cloud = node(
        "cloud",
        "10.0.0.1",
        addresses=[
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "ExternalIP", "address": "203.0.113.7"},
        ],
    )
    nodes = {"cloud": cloud, "edge0": node("edge0", "1"), "edge1": node("edge1", "2")}
    seen, _ = settle(world(nodes=nodes))
    assert env_of(msgspec.json.decode(by_name(seen)["job-train-0"].raw))["AGG_IP"] == "203.0.113.7"


def test_services_have_external_ips_only_if_asked_for_P1_066() -> None:
    """They hijack the node's own address."""
    plain = plan(world()).create[0].body
    assert "externalIPs" not in plain["spec"]
    asked = plan(world(settings=JobSettings(external_ips=True))).create[0].body
    assert asked["spec"]["externalIPs"] == ["10.0.0.1"]


def test_host_network_trainers_resolve_cluster_names_P1_068() -> None:
    """ClusterFirstWithHostNet unless the user says otherwise."""
    job = job_json()
    job["spec"]["trainingWorkers"][1]["template"]["spec"]["dnsPolicy"] = "Default"
    seen, _ = settle(world(job))
    pods = {name: msgspec.json.decode(pod.raw)["spec"] for name, pod in by_name(seen).items()}
    assert pods["job-train-0"]["hostNetwork"] is True
    assert pods["job-train-0"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert pods["job-train-1"]["dnsPolicy"] == "Default"
    assert "dnsPolicy" not in pods["job-aggregation"]


def test_minimum_participants_are_told_to_the_aggregator_only() -> None:
    """PARTICIPANTS_COUNT stays what it is."""
    seen, _ = settle(world(job_json(minParticipants=1)))
    pods = {name: env_of(msgspec.json.decode(pod.raw)) for name, pod in by_name(seen).items()}
    assert pods["job-aggregation"]["MIN_PARTICIPANTS"] == "1"
    assert pods["job-aggregation"]["PARTICIPANTS_COUNT"] == "2"
    assert "MIN_PARTICIPANTS" not in pods["job-train-0"]


# --- references ---


def test_missing_references_are_named_in_one_condition_P1_071() -> None:
    """Phase Pending, one condition, nothing made."""
    decided = plan(world(models={}, datasets={}))
    told = conditions(decided)["Waiting"]
    assert told["reason"] == "ModelNotFound"
    assert "Model m" in told["message"]
    assert "Dataset d0, Dataset d1" in told["message"]
    assert decided.status is not None
    assert decided.status["phase"] == "Pending"
    assert "startTime" not in decided.status
    assert not decided.create


@pytest.mark.parametrize(
    ("missing", "reason"), [("datasets", "DatasetNotFound"), ("nodes", "NodeNotFound")]
)
def test_the_reason_tells_what_is_missing(missing: str, reason: str) -> None:
    """Datasets and nodes like models."""
    told = conditions(plan(world(**{missing: {}})))["Waiting"]
    assert told["reason"] == reason


def test_the_condition_goes_when_the_missing_thing_comes() -> None:
    """And the job starts."""
    seen, decided = settle(world(models={}))
    assert "Waiting" in conditions(decided)
    seen, decided = settle(msgspec.structs.replace(seen, models={"m": model()}))
    assert "Waiting" not in conditions(decided)
    assert len(seen.pods) == 3


def test_secrets_are_asked_for_only_when_pods_are_to_be_made() -> None:
    """They are read live."""
    models = {"m": model(credentialName="s3")}
    assert plan(world(models=models)).secrets == {"s3"}
    found = {"s3": secret("s3", {"ACCESS_KEY_ID": "YQ==", "SECRET_ACCESS_KEY": "Yg=="})}
    told = conditions(plan(world(models=models, secrets=found)))["Waiting"]
    assert told["reason"] == "CredentialInvalid"
    assert "s3-endpoint" in told["message"]
    good = {
        "s3": secret(
            "s3", {"ACCESS_KEY_ID": "YQ==", "SECRET_ACCESS_KEY": "Yg=="}, **{"s3-endpoint": "h:9"}
        )
    }
    seen, _ = settle(world(models=models, secrets=good))
    assert not plan(msgspec.structs.replace(seen, secrets={})).secrets


def test_a_missing_secret_is_looked_for_each_second_and_after_a_minute_less_often() -> None:
    """No watch tells when it comes."""
    seen = world(models={"m": model(credentialName="s3")}, secrets={"s3": None})
    seen, decided = settle(seen)
    assert conditions(decided)["Waiting"]["reason"] == "SecretNotFound"
    assert "Secret s3 (named by Model m)" in conditions(decided)["Waiting"]["message"]
    assert decided.requeue_at == seen.now + timedelta(seconds=1)
    late = later(seen, 61)
    assert plan(late).requeue_at == late.now + timedelta(seconds=30)


# --- bad specs ---


@pytest.mark.parametrize(
    "change",
    [
        {"trainingWorkers": []},
        {"aggregationWorker": {"model": {"name": ""}, "template": template()}},
        {"aggregationWorker": {"model": {"name": "m"}, "template": None}},
        {"aggregationWorker": {"model": {"name": "m"}, "template": {"spec": {"containers": []}}}},
    ],
    ids=["no trainers", "no model", "no template", "no containers"],
)
def test_a_spec_that_can_not_work_gets_a_condition_P0_024(change: dict[str, Any]) -> None:
    """InvalidSpec, nothing made, no exception."""
    job = job_json()
    job["spec"] |= change
    decided = plan(world(job))
    assert conditions(decided)["InvalidSpec"]["status"] == "True"
    assert not decided.create


@pytest.mark.parametrize("url", ["s3://b/%zz", "http://a b/", "", "pvc://claim/path"])
def test_a_url_that_nobody_can_read_gets_a_condition_P0_024(url: str) -> None:
    """Only the Model is wrong, but the job is what people look at."""
    decided = plan(world(models={"m": model(url=url)}))
    told = conditions(decided)["InvalidSpec"]
    assert told["reason"] == "InvalidSpec"
    assert "Model m: spec.url" in told["message"]
    assert not decided.create


def test_a_template_of_wrong_types_gets_a_condition_P0_024() -> None:
    """An older CRD may have let it through."""
    job = job_json()
    job["spec"]["trainingWorkers"][0]["template"]["spec"]["containers"][0]["env"] = ["A=1"]
    decided = plan(world(job))
    assert "InvalidSpec" in conditions(decided)


# --- what stays as it is ---


def test_what_others_report_is_kept() -> None:
    """Rounds, metrics and the Training condition belong to upstream."""
    seen = running()
    body = msgspec.json.decode(seen.job.raw)
    training = {"type": "Training", "status": "True", "reason": "DoTraining"}
    body["status"]["conditions"] = [training]
    body["status"]["round"] = 4
    body["status"]["workers"][1] |= {"round": 4, "metrics": [{"key": "a", "value": "1"}]}
    seen = msgspec.structs.replace(seen, job=world(body).job)
    seen, decided = settle(set_pods(seen, "Succeeded", "job-train-0"))
    assert decided.status is not None
    assert decided.status["round"] == 4
    assert decided.status["conditions"][0] == training
    assert decided.status["workers"][1]["metrics"] == [{"key": "a", "value": "1"}]


def test_worker_names_depend_on_job_role_and_index_only() -> None:
    """GM and LC compute the same."""
    from gm.api.worker_names import worker_name

    seen, _ = settle(world())
    env = env_of(msgspec.json.decode(by_name(seen)["job-train-1"].raw))
    assert env["WORKER_NAME"] == worker_name(UID, "train", 1)
    prefix, _, suffix = env["WORKER_NAME"].partition("-")
    assert prefix == "trainworker"
    assert len(suffix) == 5
