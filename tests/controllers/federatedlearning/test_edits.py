"""Edits of running jobs, and of what they refer to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import plan
from gm.controllers.federatedlearning.world import JobSettings, World
from tests.controllers.support import (
    NOW,
    by_name,
    changed,
    conditions,
    dataset,
    env_of,
    job_json,
    later,
    model,
    running,
    set_pods,
    settle,
    template,
    world,
)

ALL = {"job-aggregation", "job-train-0", "job-train-1"}
TRAINERS = ALL - {"job-aggregation"}
S3 = {"s3": {"aggDataPath": "s3://bucket/agg"}}


def edited(seen: World, *path: str | int, to: Any) -> World:
    """``seen`` after an edit of one field of the job's spec."""
    body = msgspec.json.decode(seen.job.raw)
    body["metadata"]["generation"] += 1
    place = body["spec"]
    for step in path[:-1]:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    place[path[-1]] = to
    return msgspec.structs.replace(seen, job=world(body).job)


def removed(seen: World) -> set[str]:
    """Names of the pods that are to go."""
    return {deletion.key.name for deletion in plan(seen).delete}


@pytest.mark.parametrize(
    ("path", "value", "replaced"),
    [
        (("trainingWorkers", 0, "template"), template("example:v2"), {"job-train-0"}),
        (("trainingWorkers", 1, "dataset", "name"), "d0", {"job-train-1"}),
        (("trainingWorkers", 1, "nodeName"), "edge1", set()),
        (("trainingWorkers", 1, "template", "spec", "nodeName"), "edge0", {"job-train-1"}),
        (("trainingWorkers", 1, "template", "metadata"), {"labels": {"a": "b"}}, {"job-train-1"}),
        (("aggregationWorker", "template"), template("example:v2"), {"job-aggregation"}),
        (("aggregationWorker", "model", "name"), "m2", ALL),
        (("minParticipants",), 1, {"job-aggregation"}),
        (("pretrainedModel",), {"name": "m"}, ALL),
        (("transmitter",), S3, ALL),
        (("runPolicy",), {"backoffLimit": 1, "cleanPodPolicy": "All"}, set()),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_an_edit_replaces_the_workers_that_it_concerns_P0_019(
    path: tuple[str | int, ...], value: Any, replaced: set[str]
) -> None:
    """And no others; taken back before anything was done, none."""
    seen = running(models={"m": model(), "m2": model("m2")})
    now = edited(seen, *path, to=value)
    assert removed(now) == replaced
    assert removed(msgspec.structs.replace(now, job=seen.job)) == set()


def test_what_a_go_client_writes_back_is_no_edit_P0_019() -> None:
    """It reads a job and writes it with the empty fields of its own types."""
    seen = running()
    before = [pod.uid for pod in seen.pods]
    body = msgspec.json.decode(seen.job.raw)
    body["spec"] |= {"pretrainedModel": {"name": ""}, "transmitter": {}}
    for worker in (body["spec"]["aggregationWorker"], *body["spec"]["trainingWorkers"]):
        worker["template"]["metadata"] = {"creationTimestamp": None}
        worker["template"]["spec"]["containers"][0] |= {"resources": {}, "args": []}
    seen, decided = settle(msgspec.structs.replace(seen, job=world(body).job))
    assert [pod.uid for pod in seen.pods] == before
    assert "InvalidSpec" not in conditions(decided)
    made, _ = settle(world(body))
    env = env_of(msgspec.json.decode(by_name(made)["job-train-0"].raw))
    assert "PRETRAINED_MODEL_URL" not in env


def test_a_trainer_that_joins_begins_the_federation_anew_P2_102() -> None:
    """PARTICIPANTS_COUNT is part of what every worker is told, so all are made again, once."""
    seen = running()
    workers = msgspec.json.decode(seen.job.raw)["spec"]["trainingWorkers"]
    third = {"dataset": {"name": "d2"}, "template": template(nodeName="edge2")}
    known = world(job_json(trainers=3))
    seen = edited(seen, "trainingWorkers", to=[*workers, third])
    seen = msgspec.structs.replace(seen, datasets=known.datasets, nodes=known.nodes)
    decided = plan(seen)
    assert {d.key.name for d in decided.delete} == ALL
    assert {d.reason for d in decided.delete} == {
        "the job has 3 trainers now, not 2, and every worker is told so"
    }
    assert all(d.is_news for d in decided.delete)
    seen, _ = settle(seen)
    pods = {name: msgspec.json.decode(pod.raw) for name, pod in by_name(seen).items()}
    assert pods.keys() == ALL | {"job-train-2"}
    assert {env_of(pod)["PARTICIPANTS_COUNT"] for pod in pods.values()} == {"3"}


def test_a_trainer_that_leaves_begins_the_federation_anew_P2_102() -> None:
    """Its own pod plays no worker any more."""
    seen = running()
    workers = msgspec.json.decode(seen.job.raw)["spec"]["trainingWorkers"]
    seen = edited(seen, "trainingWorkers", to=workers[:1])
    reasons = {d.key.name: d.reason for d in plan(seen).delete}
    assert reasons.keys() == ALL
    assert reasons["job-train-1"] == "it plays no worker of the job"
    assert reasons["job-train-0"].startswith("the job has 1 trainer now, not 2")
    seen, _ = settle(seen)
    assert sorted(by_name(seen)) == ["job-aggregation", "job-train-0"]


def test_a_trainer_whose_success_was_at_another_task_runs_again_P0_019() -> None:
    """Also when its pod was collected: the status says what its success was about."""
    seen = running()
    seen, _ = settle(set_pods(seen, "Succeeded", "job-train-0"))
    collected = tuple(pod for pod in seen.pods if pod.key.name != "job-train-0")
    seen = msgspec.structs.replace(seen, pods=collected)
    assert not plan(seen).create, "it has done its work"
    again = edited(seen, "trainingWorkers", 0, "template", to=template("v2", nodeName="edge0"))
    assert [child.key.name for child in plan(again).create] == ["job-train-0"]
    other = edited(seen, "trainingWorkers", 1, "template", to=template("v2", nodeName="edge1"))
    assert not plan(other).create
    last = edited(seen, "aggregationWorker", "template", to=template("v2", nodeName="cloud"))
    done = set_pods(last, "Succeeded", "job-aggregation")
    status = plan(done).status
    assert status is not None
    assert status["workers"][0]["phase"] == "Succeeded", "the aggregator's success is the job's"


def test_an_edit_of_a_worker_begins_its_count_of_restarts_anew_P0_019() -> None:
    """It was broken, and somebody has mended it: also one that counts as failed already."""
    job = job_json(trainers=3, minParticipants=2, runPolicy={"backoffLimit": 1})
    crashed = {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": "worker",
                "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            }
        ],
    }
    seen, decided = settle(set_pods(running(job), crashed, "job-train-1"))
    assert decided.status is not None
    assert decided.status["workers"][2]["phase"] == "Failed"
    assert decided.status["failed"] == 1
    mended = edited(seen, "trainingWorkers", 1, "template", to=template("v2", nodeName="edge1"))
    seen, decided = settle(mended)
    pod = by_name(seen)["job-train-1"]
    assert "sedna.io/restarts" not in (pod.view.metadata.annotations or {})
    assert decided.status is not None
    worker = decided.status["workers"][2]
    assert (worker["phase"], worker["restarts"]) == ("Pending", 0)
    assert decided.status["failed"] == 0
    assert not {"reason", "message"} & worker.keys()


def test_a_status_of_an_older_version_is_believed() -> None:
    """It does not say which spec it is about."""
    seen = running()
    seen, _ = settle(set_pods(seen, "Succeeded", "job-train-0"))
    body = msgspec.json.decode(seen.job.raw)
    for worker in body["status"]["workers"]:
        del worker["specHash"]
    collected = tuple(pod for pod in seen.pods if pod.key.name != "job-train-0")
    assert not plan(msgspec.structs.replace(seen, job=world(body).job, pods=collected)).create


# --- what the job refers to ---


def told(seen: World) -> str:
    """Message of condition ReferenceChanged; empty if there is none."""
    return str(conditions(plan(seen)).get("ReferenceChanged", {}).get("message", ""))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"models": {"m": model(url="/other/m")}}, "Model m has another url"),
        ({"models": {"m": model(url="no url")}}, "Model m has another url"),
        ({"models": {}}, "Model m was deleted"),
        (
            {"datasets": {"d0": dataset("d0", "/x/y"), "d1": dataset("d1", "/data/1/train.txt")}},
            "Dataset d0 has another url",
        ),
        (
            {"models": {}, "datasets": {}},
            "Model m was deleted, Dataset d0 was deleted, Dataset d1 was deleted",
        ),
    ],
)
def test_a_change_of_what_a_job_refers_to_is_shown_and_not_acted_on(
    fields: dict[str, Any], words: str
) -> None:
    """What runs keeps what it was started with, and people know."""
    seen = running()
    calm = plan(seen).status
    now = msgspec.structs.replace(seen, **fields)
    decided = plan(now)
    assert told(now).startswith(f"{words}; workers that run keep")
    assert not [*decided.delete, *decided.create, *decided.patch]
    assert told(seen) == ""
    assert plan(seen).status == calm


def test_a_node_that_was_deleted_is_shown() -> None:
    """Its pod may go on for a while."""
    seen = running()
    nodes = {name: node for name, node in (seen.nodes or {}).items() if name != "edge1"}
    assert told(msgspec.structs.replace(seen, nodes=nodes)).startswith("Node edge1 was deleted;")
    assert told(msgspec.structs.replace(seen, nodes=None)) == ""


@pytest.mark.parametrize(
    ("before", "after", "is_change"),
    [
        ("https://h/a/b.csv?rev=3", "https://h/a/b.csv?rev=4", True),
        ("https://h/a/b.csv?rev=3", "https://h/a/b.csv?rev=3", False),
        ("s3://h/a/b.csv", "https://h/a/b.csv", True),
        ("s3://h/a/b.csv", "/a/b.csv", True),
    ],
)
def test_a_change_of_a_download_is_noticed(before: str, after: str, is_change: bool) -> None:
    """Also where the worker would find it at the same place."""
    seen = running(models={"m": model(url=before)})
    assert bool(told(msgspec.structs.replace(seen, models={"m": model(url=after)}))) is is_change


def test_what_only_others_need_keeps_no_worker_from_being_made_again_P0_018() -> None:
    """Its own data and node are there; at first the job waits for everything."""
    seen = running()
    known = {"d1": seen.datasets["d1"]}
    nodes = {name: node for name, node in (seen.nodes or {}).items() if name != "edge0"}
    kept = tuple(pod for pod in seen.pods if pod.key.name != "job-train-1")
    decided = plan(msgspec.structs.replace(seen, datasets=known, nodes=nodes, pods=kept))
    assert [child.key.name for child in decided.create] == ["job-train-1"]
    kept = tuple(pod for pod in seen.pods if pod.key.name != "job-train-0")
    decided = plan(msgspec.structs.replace(seen, datasets=known, nodes=nodes, pods=kept))
    assert not decided.create
    assert "Dataset d0" in conditions(decided)["Waiting"]["message"]
    assert not plan(world(datasets=known)).create


def test_a_pod_that_tells_nothing_is_not_compared() -> None:
    """A Sedna GM, or a person, left it."""
    seen = running()
    bare = tuple(
        changed(pod, spec={"containers": [{"name": "worker", "env": []}]}) for pod in seen.pods
    )
    assert told(msgspec.structs.replace(seen, pods=bare, models={"m": model(url="/z")})) == ""


def test_a_change_is_over_with_the_job_its_pods_or_its_suspension() -> None:
    """A worker that is made again gets what is there then."""
    seen = msgspec.structs.replace(running(), models={"m": model(url="/other/m")})
    assert told(seen)
    renewed = msgspec.structs.replace(seen, pods=())
    renewed, decided = settle(renewed)
    assert "ReferenceChanged" not in conditions(decided)
    done, decided = settle(set_pods(seen, "Succeeded"))
    assert "ReferenceChanged" not in conditions(decided)
    assert done.job.view.status.phase == "Succeeded"
    assert told(edited(seen, "runPolicy", to={"suspend": True})) == ""


def test_settings_that_change_are_no_change_of_references() -> None:
    """Nor is the time."""
    seen = running(models={"m": model(url="s3://b/m")})
    other = JobSettings(storage_initializer_image="other:v2", inline_credentials=True)
    assert told(msgspec.structs.replace(later(seen, 3600), settings=other)) == ""


def test_the_older_form_of_a_workers_node_is_understood() -> None:
    """nodeName beside the template: for the pod, the references and the messages."""
    job = job_json(trainers=1)
    job["spec"]["trainingWorkers"][0] |= {"template": template(), "nodeName": "edge0"}
    seen, _ = settle(world(job))
    assert by_name(seen)["job-train-0"].view.spec.node_name == "edge0"
    missing = plan(world(job, nodes={"cloud": (world(job).nodes or {})["cloud"]}))
    assert conditions(missing)["Waiting"]["message"].startswith(
        "not found in the cluster: Node edge0"
    )


@pytest.mark.parametrize("end", ["success", "failure", "deadline"])
@pytest.mark.parametrize("policy", ["None", "Running", "All", None])
def test_clean_pod_policy_holds_however_the_job_ends_P2_097_P2_098(
    end: str, policy: str | None
) -> None:
    """Pods as the policy says, the Service goes in any case, and counts fit what is left."""
    run_policy = {"backoffLimit": 0, "activeDeadlineSeconds": 600}
    job = job_json(runPolicy=run_policy | ({"cleanPodPolicy": policy} if policy else {}))
    seen = running(job)
    if end == "success":
        seen, _ = settle(set_pods(seen, "Succeeded", "job-aggregation", "job-train-0"))
        seen, _ = settle(later(seen, 30))
        ended = {"job-aggregation", "job-train-0"}
    elif end == "failure":
        finished = {"exitCode": 1, "finishedAt": timestamp(NOW)}
        state = [{"name": "worker", "restartCount": 0, "state": {"terminated": finished}}]
        failed = {"phase": "Failed", "containerStatuses": state}
        seen, _ = settle(set_pods(seen, failed, "job-train-0"))
        ended = {"job-train-0"}
    else:
        seen, _ = settle(later(seen, 600))
        ended = set()
    status = msgspec.json.decode(seen.job.raw)["status"]
    assert status["phase"] == ("Succeeded" if end == "success" else "Failed")
    left = {"None": ALL, "Running": ended, None: ended, "All": set()}[policy]
    assert set(by_name(seen)) == left
    assert seen.services == ()
    assert status["active"] == len(left - ended)
    assert plan(later(seen, 10 * 365 * 86400)) == plan(seen), "without a time to live it is kept"
    assert not plan(later(seen, 10 * 365 * 86400)).delete_job


def test_twins_of_a_worker_are_told_when_they_go() -> None:
    """Another pod plays the worker."""
    seen = running()
    twin = changed(seen.pods[1], metadata={"name": "job-twin", "uid": "twin"})
    (deletion,) = plan(msgspec.structs.replace(seen, pods=(*seen.pods, twin))).delete
    assert (deletion.uid, deletion.is_news) == ("twin", True)
