"""The plan of a job whose pods are gone, failed or edited, without any I/O."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import plan
from gm.controllers.federatedlearning.world import JobSettings, World
from gm.kube.lister import Stored
from tests.controllers.federatedlearning.planning import CRASHED, failed_status, names, step
from tests.controllers.support import (
    NOW,
    by_name,
    changed,
    conditions,
    env_of,
    job_json,
    later,
    model,
    node,
    running,
    set_pods,
    settle,
    template,
    world,
)

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
