"""The plan of a job, from its first look to its end, without any I/O."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gm.api.resources import PODS, SERVICES
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import Plan, plan
from gm.controllers.federatedlearning.status import notices
from gm.controllers.federatedlearning.world import JobSettings, World
from gm.kube.lister import Stored
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

CRASHED: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "worker",
            "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        }
    ],
}


def names(decided: Plan) -> list[str]:
    """Names of what is to be created."""
    return sorted(child.key.name for child in decided.create)


def failed_status(seconds_ago: float = 0, **more: Any) -> dict[str, Any]:
    """Status of a pod whose container has failed."""
    ended = {"exitCode": 1, "finishedAt": timestamp(NOW - timedelta(seconds=seconds_ago))}
    statuses = [{"name": "worker", "restartCount": 0, "state": {"terminated": ended}}]
    return {"phase": "Failed", "containerStatuses": statuses, **more}


def step(seen: World, seconds: float = 0) -> tuple[World, Plan]:
    """Some time later, everything settled again."""
    return settle(later(seen, seconds))


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


# --- healing ---


def test_a_deleted_trainer_is_made_again_alone_P0_018() -> None:
    """Same name and environment; siblings untouched."""
    seen = running()
    before = by_name(seen)
    kept = tuple(p for p in seen.pods if p.key.name != "job-train-0")
    decided = plan(msgspec.structs.replace(seen, pods=kept))
    assert names(decided) == ["job-train-0"]
    assert not decided.delete
    again = decided.create[0].body
    old = msgspec.json.decode(before["job-train-0"].raw)
    assert again["spec"] == old["spec"]
    assert "status" not in again


def test_no_twin_while_the_old_pod_is_leaving_P0_018() -> None:
    """Two copies on one node would train twice; after 15 s the wait is told."""
    seen = running()
    asked = seen.now + timedelta(seconds=30)
    leaving = changed(
        by_name(seen)["job-train-0"],
        metadata={"deletionTimestamp": timestamp(asked), "deletionGracePeriodSeconds": 30},
    )
    others = tuple(p for p in seen.pods if p.key != leaving.key)
    seen = msgspec.structs.replace(seen, pods=(*others, leaving))
    decided = plan(seen)
    assert not decided.create
    assert "WaitingForRemoval" not in conditions(decided)
    assert decided.requeue_at == seen.now + timedelta(seconds=15)
    told = conditions(plan(later(seen, 16)))["WaitingForRemoval"]
    assert "job-train-0" in told["message"]
    assert "edge0" in told["message"]


def test_a_pod_that_ends_well_because_it_was_deleted_has_not_succeeded() -> None:
    """SIGTERM taken well says nothing about the work."""
    seen = running()
    finished = seen.now + timedelta(seconds=2)
    status = failed_status()
    status["phase"] = "Succeeded"
    status["containerStatuses"][0]["state"]["terminated"] = {
        "exitCode": 0,
        "finishedAt": timestamp(finished),
    }
    gone = changed(
        by_name(seen)["job-train-0"],
        status=status,
        metadata={
            "deletionTimestamp": timestamp(seen.now + timedelta(seconds=30)),
            "deletionGracePeriodSeconds": 30,
        },
    )
    others = tuple(p for p in seen.pods if p.key != gone.key)
    decided = plan(msgspec.structs.replace(seen, pods=others, departed=(gone,)))
    assert names(decided) == ["job-train-0"]


def removed_at_once(seen: World, name: str, phase: str) -> Stored[Any]:
    """The last state of a pod that ended in the second in which its removal was asked for."""
    status = failed_status()
    status["phase"] = phase
    ended = {"exitCode": 0 if phase == "Succeeded" else 143, "finishedAt": timestamp(seen.now)}
    status["containerStatuses"][0]["state"]["terminated"] = ended
    gone: Stored[Any] = changed(
        by_name(seen)[name],
        status=status,
        metadata={
            "deletionTimestamp": timestamp(seen.now + timedelta(seconds=30)),
            "deletionGracePeriodSeconds": 30,
        },
    )
    return gone


@pytest.mark.parametrize("name", ["job-aggregation", "job-train-0"])
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("known", [True, False])
def test_what_ends_in_the_second_of_its_removal_is_made_again_uncounted_P0_018(
    name: str, phase: str, known: bool
) -> None:
    """Whether GM saw the order or was down: times in whole seconds do not tell."""
    seen = running(job_json(runPolicy={"backoffLimit": 0}))
    gone = removed_at_once(seen, name, phase)
    others = tuple(p for p in seen.pods if p.key != gone.key)
    endings = {gone.uid: False} if known else {}
    decided = plan(msgspec.structs.replace(seen, pods=others, departed=(gone,), endings=endings))
    assert names(decided) == [name]
    assert decided.status is not None
    assert decided.status["phase"] == "Running"
    assert [w["restarts"] for w in decided.status["workers"]] == [0, 0, 0]
    assert not {"Completing", "Complete", "Failed"} & conditions(decided).keys()


def test_what_was_seen_to_end_before_its_removal_counts_P0_017() -> None:
    """Even in the same second."""
    seen = running()
    gone = removed_at_once(seen, "job-train-0", "Succeeded")
    others = tuple(p for p in seen.pods if p.key != gone.key)
    decided = plan(
        msgspec.structs.replace(seen, pods=others, departed=(gone,), endings={gone.uid: True})
    )
    assert not decided.create
    assert decided.status is not None
    assert decided.status["workers"][1]["phase"] == "Succeeded"


def test_a_job_that_is_suspended_and_complete_is_not_both_P2_101() -> None:
    """Its aggregator succeeded just before it was stopped."""
    seen = running()
    gone = removed_at_once(seen, "job-aggregation", "Succeeded")
    body = msgspec.json.decode(seen.job.raw)
    body["spec"]["runPolicy"] = {"suspend": True}
    body["status"]["conditions"] = [{"type": "Suspended", "status": "True"}]
    seen = msgspec.structs.replace(
        seen, job=world(body).job, pods=(), departed=(gone,), endings={gone.uid: True}
    )
    told = conditions(plan(seen))
    assert told["Complete"]["status"] == "True"
    assert "Suspended" not in told


def test_a_success_is_remembered_when_its_pod_was_collected_P0_017() -> None:
    """As the last state of a deleted pod, and then in the status."""
    seen = running()
    done = changed(by_name(seen)["job-train-0"], status={"phase": "Succeeded"})
    others = tuple(p for p in seen.pods if p.key != done.key)
    seen = msgspec.structs.replace(seen, pods=others, departed=(done,))
    seen, decided = settle(seen)
    assert decided.status is not None
    assert decided.status["workers"][1]["phase"] == "Succeeded"
    forgotten = msgspec.structs.replace(seen, departed=())
    assert not plan(forgotten).create


def test_a_missing_service_is_made_again_and_trainers_follow_its_port() -> None:
    """They were given a port that leads nowhere."""
    seen = running()
    seen = msgspec.structs.replace(seen, services=())
    seen, _ = settle(seen)
    port = (seen.services[0].view.spec.ports or ())[0].node_port
    for name in ("job-train-0", "job-train-1"):
        assert env_of(msgspec.json.decode(by_name(seen)[name].raw))["AGG_PORT"] == str(port)


def test_trainers_stay_when_the_aggregator_moves_and_the_old_node_is_well() -> None:
    """A node port leads to the aggregator from every node; a dead node's does not."""
    job = job_json()
    job["spec"]["aggregationWorker"]["template"] = template(nodeSelector={"zone": "a"})
    nodes = {
        "cloud": node("cloud", "10.0.0.1"),
        "cloud2": node("cloud2", "10.0.0.2"),
        "edge0": node("edge0", "10.0.1.0"),
        "edge1": node("edge1", "10.0.1.1"),
    }
    seen, _ = settle(world(job, nodes=nodes))

    def bind(place: str) -> World:
        bound = tuple(
            changed(p, spec={"nodeName": place}) if p.key.name == "job-aggregation" else p
            for p in seen.pods
        )
        return msgspec.structs.replace(seen, pods=bound)

    seen, _ = settle(bind("cloud"))
    before = by_name(seen)["job-train-0"].uid
    seen, _ = settle(bind("cloud2"))
    assert by_name(seen)["job-train-0"].uid == before
    down = {**nodes, "cloud": node("cloud", "10.0.0.1", conditions=[])}
    seen, _ = settle(msgspec.structs.replace(seen, nodes=down))
    assert by_name(seen)["job-train-0"].uid != before


def test_a_failed_pod_is_made_again_after_its_back_off_and_counts_as_a_restart() -> None:
    """The count goes on over pods."""
    seen = running()
    seen, decided = settle(set_pods(seen, failed_status(), "job-train-0"))
    assert not decided.delete
    assert decided.requeue_at == NOW + timedelta(seconds=10)
    assert conditions(decided)["Degraded"]["message"].startswith("trainer 0 on edge0: Error")
    seen, decided = step(seen, 10)
    again = by_name(seen)["job-train-0"]
    assert again.view.status.phase == "Pending"
    assert (again.view.metadata.annotations or {})["sedna.io/restarts"] == "1"
    assert decided.status is not None
    assert decided.status["workers"][1]["restarts"] == 1


def test_a_disrupted_pod_is_replaced_and_not_counted() -> None:
    """An eviction is nobody's failure."""
    seen = running()
    seen = set_pods(seen, failed_status(reason="Evicted"), "job-train-0")
    seen, decided = settle(seen)
    assert by_name(seen)["job-train-0"].view.status.phase == "Pending"
    assert decided.status is not None
    assert decided.status["workers"][1]["restarts"] == 0


def test_a_crash_looping_trainer_is_named_with_node_and_reason_P1_057() -> None:
    """Never plain Running."""
    decided = plan(set_pods(running(), CRASHED, "job-train-1"))
    told = conditions(decided)["Degraded"]
    assert told["reason"] == "CrashLoopBackOff"
    assert "trainer 1 on edge1: CrashLoopBackOff (back-off 40s), 3 of 6 restarts" in told["message"]
    assert decided.status is not None
    assert decided.status["workers"][2]["reason"] == "CrashLoopBackOff"


# --- edits and adoption ---


def test_an_edit_replaces_exactly_the_workers_whose_spec_changed_P0_019() -> None:
    """One trainer's image: one pod."""
    seen = running()
    body = msgspec.json.decode(seen.job.raw)
    body["metadata"]["generation"] = 2
    body["spec"]["trainingWorkers"][0]["template"] = template("example:v2", nodeName="edge0")
    before = {name: pod.uid for name, pod in by_name(seen).items()}
    seen = msgspec.structs.replace(seen, job=world(body).job)
    assert [d.key.name for d in plan(seen).delete] == ["job-train-0"]
    seen, decided = settle(seen)
    after = {name: pod.uid for name, pod in by_name(seen).items()}
    assert {name for name in after if after[name] != before[name]} == {"job-train-0"}
    assert decided.status is not None
    assert decided.status["observedGeneration"] == 2


def test_labels_annotations_and_settings_restart_nothing_P0_019() -> None:
    """Only what the spec says about a worker counts."""
    seen = running()
    body = msgspec.json.decode(seen.job.raw)
    body["metadata"] |= {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    settings = JobSettings(lc_server="http://elsewhere:1", completion_grace_seconds=5)
    seen = msgspec.structs.replace(seen, job=world(body).job, settings=settings)
    seen = msgspec.structs.replace(seen, models={"m": model(url="/other/path")})
    decided = plan(seen)
    assert not decided.delete
    assert not decided.create


def test_a_removed_trainer_is_deleted() -> None:
    """Its pod plays no worker any more."""
    seen = running(job_json(trainers=3))
    body = msgspec.json.decode(seen.job.raw)
    del body["spec"]["trainingWorkers"][2]
    seen = msgspec.structs.replace(seen, job=world(body).job)
    assert "job-train-2" in {d.key.name for d in plan(seen).delete}


def sedna_pods() -> World:
    """A running job whose children a Sedna GM made."""
    seen = running(settings=JobSettings(aggregation_service="clusterDNS"))
    pods = []
    for number, pod in enumerate(seen.pods):
        body = msgspec.json.decode(pod.raw)
        body["metadata"].pop("annotations")
        body["metadata"]["name"] = f"job-x-{number}abcd"
        pods.append(changed(pod, metadata={"name": f"job-x-{number}abcd", "annotations": None}))
    return msgspec.structs.replace(seen, pods=tuple(pods), settings=JobSettings())


def test_children_that_a_sedna_gm_left_are_adopted() -> None:
    """Nothing starts twice; each pod gets our annotations, and the Service's mode is kept."""
    seen = sedna_pods()
    decided = plan(seen)
    assert not decided.create
    assert not decided.delete
    annotated = {p.key.name: p.body["metadata"]["annotations"] for p in decided.patch}
    assert {a["sedna.io/worker"] for a in annotated.values()} == {
        "aggregation-0",
        "train-0",
        "train-1",
    }


def test_a_second_pod_of_an_adopted_worker_plays_none() -> None:
    """It would train the same data again."""
    seen = sedna_pods()
    twin = changed(seen.pods[1], metadata={"name": "job-x-twin", "uid": "twin"})
    decided = plan(msgspec.structs.replace(seen, pods=(*seen.pods, twin)))
    assert [d.uid for d in decided.delete] == ["twin"]


# --- how a job ends ---


def test_all_succeeded_completes_the_job() -> None:
    """Counts, times, phase, condition and event."""
    seen, _ = settle(set_pods(running(), "Succeeded"))
    status = msgspec.json.decode(seen.job.raw)["status"]
    assert (status["phase"], status["succeeded"], status["active"]) == ("Succeeded", 3, 0)
    assert status["completionTime"] == timestamp(NOW)
    complete = next(c for c in status["conditions"] if c["type"] == "Complete")
    assert complete["status"] == "True"
    told = notices({}, status)
    assert [(n.type, n.reason) for n in told] == [("Normal", "Completed")]


def test_trainers_get_a_grace_period_when_the_aggregator_succeeded_P1_056() -> None:
    """Then they are stopped, counted as stopped, and the job is Complete."""
    seen, decided = settle(set_pods(running(), "Succeeded", "job-aggregation"))
    assert decided.status is not None
    assert decided.status["phase"] == "Running"
    assert conditions(decided)["Completing"]["reason"] == "AggregatorSucceeded"
    assert decided.requeue_at == NOW + timedelta(seconds=30)
    end = plan(later(seen, 30))
    assert end.status is not None
    assert end.status["phase"] == "Succeeded"
    assert [w["phase"] for w in end.status["workers"]] == ["Succeeded", "Stopped", "Stopped"]
    assert (end.status["succeeded"], end.status["failed"], end.status["active"]) == (1, 0, 0)
    assert not end.delete, "the status is written before anything is removed"
    seen, _ = step(seen, 30)
    assert list(by_name(seen)) == ["job-aggregation"]
    assert seen.services == ()


def test_nothing_is_made_again_after_the_aggregator_succeeded() -> None:
    """A trainer that starts now would wait for ever for an aggregator that has left."""
    seen = set_pods(running(), "Succeeded", "job-aggregation")
    kept = tuple(p for p in seen.pods if p.key.name != "job-train-0")
    decided = plan(msgspec.structs.replace(seen, pods=kept))
    assert not decided.create


def test_an_idle_aggregator_is_told_and_stopped_after_ten_graces_P1_056() -> None:
    """All trainers succeeded, it goes on."""
    seen, decided = settle(set_pods(running(), "Succeeded", "job-train-0", "job-train-1"))
    assert conditions(decided)["AggregatorIdle"]["status"] == "False"
    assert decided.requeue_at == NOW + timedelta(seconds=30)
    seen, decided = step(seen, 30)
    assert conditions(decided)["AggregatorIdle"]["status"] == "True"
    assert decided.status is not None
    assert decided.status["phase"] == "Running"
    seen, decided = step(seen, 269)
    assert decided.status is not None
    assert decided.status["phase"] == "Running"
    seen, _ = step(seen, 1)
    status = msgspec.json.decode(seen.job.raw)["status"]
    assert status["phase"] == "Succeeded"
    assert status["workers"][0]["phase"] == "Stopped"
    assert sorted(by_name(seen)) == ["job-train-0", "job-train-1"]


def test_an_idle_aggregator_stays_with_clean_pod_policy_none_P1_056() -> None:
    """The job stays Running."""
    seen = running(job_json(runPolicy={"cleanPodPolicy": "None"}))
    seen, _ = settle(set_pods(seen, "Succeeded", "job-train-0", "job-train-1"))
    seen, _ = step(seen, 30)
    seen, decided = step(seen, 3600)
    assert decided.status is not None
    assert decided.status["phase"] == "Running"
    assert "cleanPodPolicy None" in conditions(decided)["AggregatorIdle"]["message"]


def test_a_trainer_beyond_its_backoff_limit_fails_the_job_P1_057_P2_098() -> None:
    """The condition names worker, node and reason; the others are stopped."""
    crashed = {**CRASHED, "containerStatuses": [{**CRASHED["containerStatuses"][0]}]}
    crashed["containerStatuses"][0]["restartCount"] = 7
    seen, _ = settle(set_pods(running(), crashed, "job-train-1"))
    status = msgspec.json.decode(seen.job.raw)["status"]
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert status["phase"] == "Failed"
    assert failed["reason"] == "workerFailed"
    assert "trainer 1 on edge1 failed after 7 restarts, 6 are allowed" in failed["message"]
    assert (status["failed"], status["active"]) == (1, 0)
    assert seen.pods == ()
    assert [n.reason for n in notices({}, status)] == ["workerFailed"]


def test_backoff_limit_zero_fails_on_the_first_failed_pod_P2_098() -> None:
    """As Sedna does."""
    job = job_json(runPolicy={"backoffLimit": 0})
    seen, _ = settle(set_pods(running(job), failed_status(), "job-train-1"))
    assert msgspec.json.decode(seen.job.raw)["status"]["phase"] == "Failed"


def test_the_job_goes_on_while_enough_trainers_live_P1_057() -> None:
    """minParticipants."""
    job = job_json(trainers=3, minParticipants=2, runPolicy={"backoffLimit": 0})
    seen, decided = settle(set_pods(running(job), failed_status(), "job-train-1"))
    assert decided.status is not None
    assert decided.status["phase"] == "Running"
    assert decided.status["failed"] == 1
    seen, _ = settle(set_pods(seen, failed_status(), "job-train-2"))
    status = msgspec.json.decode(seen.job.raw)["status"]
    assert status["phase"] == "Failed"
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["message"].startswith("1 of 2 trainers left: trainer 1 on edge1")


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_a_finished_job_is_never_touched_again_P0_017(end: str) -> None:
    """No pods, no status, whatever is missing."""
    done = {"type": end, "status": "True", "lastTransitionTime": timestamp(NOW)}
    status = {"phase": "Succeeded", "conditions": [done]}
    decided = plan(world(job_json(status=status)))
    assert decided == Plan()


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("None", ["job-aggregation", "job-train-0", "job-train-1"]),
        ("Running", ["job-aggregation"]),
        ("All", []),
    ],
)
def test_clean_pod_policy_says_what_stays_P2_097_P2_098(policy: str, left: list[str]) -> None:
    """Running, the default, keeps the ended ones for their logs."""
    seen = running(job_json(runPolicy={"cleanPodPolicy": policy}))
    seen, _ = settle(set_pods(seen, "Succeeded", "job-aggregation"))
    seen, _ = step(seen, 30)
    assert sorted(by_name(seen)) == left
    assert seen.services == (), "node ports run out"


def test_a_finished_job_is_removed_after_its_time_to_live() -> None:
    """ttlSecondsAfterFinished, without any event."""
    seen = running(job_json(runPolicy={"ttlSecondsAfterFinished": 60}))
    seen, _ = settle(set_pods(seen, "Succeeded"))
    assert plan(seen).requeue_at == NOW + timedelta(seconds=60)
    assert not plan(seen).delete_job
    assert plan(later(seen, 60)).delete_job


def test_a_job_over_its_deadline_fails() -> None:
    """activeDeadlineSeconds, counted from startTime."""
    seen = running(job_json(runPolicy={"activeDeadlineSeconds": 100}))
    assert plan(seen).requeue_at == NOW + timedelta(seconds=100)
    seen, _ = step(seen, 100)
    status = msgspec.json.decode(seen.job.raw)["status"]
    assert status["phase"] == "Failed"
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["reason"] == "DeadlineExceeded"
    assert seen.pods == ()


def test_a_suspended_job_has_no_pods_and_its_clock_stands_still_P2_101() -> None:
    """Resumed, it makes them once."""
    seen = running(job_json(runPolicy={"suspend": True, "activeDeadlineSeconds": 100}))
    assert seen.pods == ()
    status = msgspec.json.decode(seen.job.raw)["status"]
    assert status["phase"] == "Suspended"
    assert "startTime" not in status
    seen = later(seen, 1000)
    body = msgspec.json.decode(seen.job.raw)
    body["spec"]["runPolicy"]["suspend"] = False
    seen, decided = settle(msgspec.structs.replace(seen, job=world(body).job))
    assert len(seen.pods) == 3
    assert conditions(decided)["Suspended"]["status"] == "False"
    assert decided.status is not None
    assert decided.status["startTime"] == timestamp(seen.now)


def test_a_job_that_is_being_deleted_is_left_alone_P0_016() -> None:
    """The garbage collector takes its children."""
    job = job_json()
    job["metadata"]["deletionTimestamp"] = timestamp(NOW)
    assert plan(world(job)) == Plan()


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
