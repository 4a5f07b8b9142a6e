"""The plan of a job that ends, is stopped or is over, without any I/O."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import Plan, plan
from gm.controllers.federatedlearning.status import notices
from tests.controllers.federatedlearning.planning import CRASHED, failed_status, step
from tests.controllers.support import (
    NOW,
    by_name,
    conditions,
    job_json,
    later,
    running,
    set_pods,
    settle,
    world,
)


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
