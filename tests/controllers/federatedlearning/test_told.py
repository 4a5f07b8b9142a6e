"""What people are told: why a worker failed or waits, in status, conditions and events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gm.controllers.bounded import most_bytes
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import plan
from gm.controllers.federatedlearning.state import Phase
from gm.controllers.federatedlearning.status import PROBLEM_KINDS, Notice, notices
from gm.controllers.federatedlearning.world import World
from tests.controllers.conftest import Site
from tests.controllers.support import (
    NOW,
    conditions,
    job_json,
    later,
    node,
    running,
    set_pods,
    settle,
    with_status,
    world,
)

ERROR = "error: dataset /data/other.npz does not exist on this node"
WORDS = f"exit code 2: {ERROR}"


def crashed(restarts: int, state: dict[str, Any] | None = None) -> dict[str, Any]:
    """Status of a pod whose container failed before, with a log's end as its message."""
    ended = {"exitCode": 2, "reason": "Error", "message": f"starting\n{ERROR}\n"}
    back_off = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}}
    container = {
        "name": "worker",
        "restartCount": restarts,
        "state": state or back_off,
        "lastState": {"terminated": ended},
    }
    return {"phase": "Running", "containerStatuses": [container]}


def creating(message: str = "", **more: Any) -> dict[str, Any]:
    """Status of a pod that its node still prepares."""
    wait = {"reason": "ContainerCreating", **({"message": message} if message else {})}
    container = {"name": "worker", "restartCount": 0, "state": {"waiting": wait}}
    return {
        "phase": "Pending",
        "startTime": timestamp(NOW),
        "containerStatuses": [container],
        **more,
    }


def status_of(seen: World) -> dict[str, Any]:
    """The job's status."""
    status: dict[str, Any] = msgspec.json.decode(seen.job.raw)["status"]
    return status


# --- workers that fail ---


def test_a_failed_job_tells_what_its_worker_said_last() -> None:
    """Also when the container runs again at that moment, and though the pod goes."""
    again = crashed(2, {"running": {"startedAt": timestamp(NOW)}})
    job = job_json(runPolicy={"backoffLimit": 1})
    before = running(job)
    seen, _ = settle(set_pods(before, again, "job-train-1"))
    status = status_of(seen)
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["message"] == (
        f"trainer 1 on edge1 failed after 2 restarts, 1 is allowed: BackoffLimitExceeded: {WORDS}"
    )
    worker = status["workers"][2]
    assert (worker["phase"], worker["reason"]) == ("Failed", "BackoffLimitExceeded")
    assert worker["message"] == WORDS
    assert (status["reason"], status["message"]) == ("workerFailed", failed["message"])
    assert notices(status_of(before), status)[-1].message == failed["message"]


def test_the_pod_that_failed_stays_for_its_log_P2_097() -> None:
    """cleanPodPolicy Running removes what would run on, and a crash loop is that."""
    job = job_json(runPolicy={"backoffLimit": 0})
    ended = {"exitCode": 2, "reason": "Error", "finishedAt": timestamp(NOW), "message": ERROR}
    status = {"name": "worker", "restartCount": 0, "state": {"terminated": ended}}
    failed = {"phase": "Failed", "containerStatuses": [status]}
    seen, _ = settle(set_pods(running(job), failed, "job-train-1"))
    assert [pod.key.name for pod in seen.pods] == ["job-train-1"]
    assert status_of(seen)["message"].endswith(f"none is allowed: Error: {WORDS}")
    seen, _ = settle(set_pods(running(job), crashed(1), "job-train-1"))
    assert seen.pods == ()


def test_a_crash_loop_tells_the_last_words_not_the_back_off() -> None:
    """How long it is backed off is in the pod."""
    seen, decided = settle(set_pods(running(), crashed(1), "job-train-1"))
    told = conditions(decided)["Degraded"]
    assert told["message"] == (f"trainer 1 on edge1: CrashLoopBackOff ({WORDS}), 1 of 6 restarts")
    assert (status_of(seen)["reason"], status_of(seen)["message"]) == (
        "CrashLoopBackOff",
        told["message"],
    )


def test_the_last_words_of_a_pod_that_is_gone_are_remembered() -> None:
    """minParticipants: the job goes on without the worker."""
    job = job_json(trainers=3, minParticipants=2, runPolicy={"backoffLimit": 0})
    seen, _ = settle(set_pods(running(job), crashed(1), "job-train-1"))
    assert "job-train-1" not in [pod.key.name for pod in seen.pods]
    worker = status_of(seen)["workers"][2]
    assert (worker["phase"], worker["message"]) == ("Failed", WORDS)


def test_the_reason_goes_when_all_is_well_again() -> None:
    """The columns of -o wide are empty then."""
    seen, _ = settle(set_pods(running(), crashed(1), "job-train-1"))
    assert "reason" in status_of(seen)
    seen, _ = settle(set_pods(seen, "Running"))
    seen, _ = settle(set_pods(seen, {"containerStatuses": []}))
    assert not {"reason", "message"} & status_of(seen).keys()


def test_a_status_that_an_older_version_let_grow_becomes_small_P0_023() -> None:
    """Metrics of many kilobytes for each worker: fewer are kept, and nothing that GM needs goes."""
    seen = running(job_json(trainers=20))
    status = status_of(seen)
    metrics = [{"key": f"{n}", "value": "x" * 1000} for n in range(64)]
    for worker in status["workers"][1:]:
        worker["metrics"] = metrics
    seen, decided = settle(with_status(seen, status))
    assert decided.status is not None
    assert len(msgspec.json.encode(decided.status)) <= most_bytes(decided.status)
    assert {worker["phase"] for worker in decided.status["workers"]} == {"Running"}
    assert decided.status["workers"][1]["metrics"]
    assert plan(seen).status == decided.status, "it is written once"


# --- pods that do not start ---


def test_a_pod_that_is_created_for_long_is_told_with_what_to_do() -> None:
    """On a real kubelet only an Event says that a mount fails."""
    seen, _ = settle(world())
    seen = set_pods(seen, creating(), "job-train-1")
    early = plan(later(seen, 29))
    assert "Waiting" not in conditions(early)
    assert early.status is not None
    assert early.status["workers"][2]["reason"] == "ContainerCreating"
    told = conditions(plan(later(seen, 30)))["Waiting"]
    assert told["reason"] == "ContainerCreating"
    assert "trainer 1 on edge1: pod job-train-1 is being created since" in told["message"]
    assert "kubectl describe pod job-train-1 -n ns" in told["message"]
    seen, decided = settle(set_pods(later(seen, 60), "Running"))
    seen, decided = settle(set_pods(seen, {"containerStatuses": []}))
    assert "Waiting" not in conditions(decided)


def test_a_pod_that_says_why_it_is_not_started_is_told_at_once() -> None:
    """The runner does."""
    seen, _ = settle(world())
    why = "/data/1/ is not a directory"
    seen, decided = settle(set_pods(seen, creating(why), "job-train-1"))
    assert why in conditions(decided)["Waiting"]["message"]
    assert decided.status is not None
    assert decided.status["workers"][2]["message"] == why
    assert decided.status["reason"] == "ContainerCreating"


def test_a_download_that_takes_long_is_no_problem() -> None:
    """The init container runs; the others wait for it."""
    seen, _ = settle(world())
    busy = {"name": "init", "state": {"running": {"startedAt": timestamp(NOW)}}}
    pod = creating(initContainerStatuses=[busy])
    assert "Waiting" not in conditions(plan(later(set_pods(seen, pod, "job-train-1"), 3600)))


# --- events ---


def test_one_cause_is_one_event_however_many_workers_have_it() -> None:
    """The second trainer brings nothing new; another cause does."""
    image = {"waiting": {"reason": "ErrImageNeverPull", "message": "image x:v1 is unknown"}}
    broken = {"phase": "Pending", "containerStatuses": [{"name": "worker", "state": image}]}
    start, _ = settle(world())
    first, _ = settle(set_pods(start, broken, "job-train-0"))
    assert notices(status_of(start), status_of(first)) == [
        Notice("Warning", "ErrImageNeverPull", "trainer 0 on edge0: image x:v1 is unknown")
    ]
    both, decided = settle(set_pods(first, broken, "job-train-1"))
    assert notices(status_of(first), status_of(both)) == []
    assert conditions(decided)["Degraded"]["message"] == (
        "trainer 0 on edge0, trainer 1 on edge1: ErrImageNeverPull (image x:v1 is unknown)"
    )
    other, _ = settle(set_pods(both, crashed(1), "job-train-1"))
    assert notices(status_of(both), status_of(other)) == [
        Notice("Warning", "WorkerCrashed", f"trainer 1 on edge1: {WORDS}")
    ]
    more, _ = settle(set_pods(other, crashed(2), "job-train-1"))
    assert notices(status_of(other), status_of(more)) == []


def test_a_worker_that_crashes_again_and_again_is_one_event() -> None:
    """It is seen crashed, backed off and running in turn; the recorder counts equal events."""
    start = running()
    ended = {"terminated": {"exitCode": 2, "reason": "Error", "message": ERROR}}
    again = {"running": {"startedAt": timestamp(NOW)}}
    told: list[Notice] = []
    seen = start
    for restarts, state in ((0, ended), (1, again), (1, None), (2, again), (2, ended)):
        before = status_of(seen)
        seen, _ = settle(set_pods(seen, crashed(restarts, state), "job-train-1"))
        told += notices(before, status_of(seen))
    assert len(told) == 3
    assert len(set(told)) == 1


def test_the_end_tells_what_is_behind_the_job() -> None:
    """Rounds, and what became of the trainers."""
    seen = running()
    seen = with_status(seen, {**status_of(seen), "round": 10})
    before = status_of(seen)
    seen, _ = settle(set_pods(seen, "Succeeded", "job-aggregation", "job-train-0"))
    seen, _ = settle(later(seen, 30))
    assert [n for n in notices(before, status_of(seen)) if n.reason == "Completed"] == [
        Notice(
            "Normal",
            "Completed",
            "the aggregator succeeded after 10 rounds; 2 trainers, 1 stopped",
        )
    ]


async def test_what_was_created_is_one_normal_event(site: Site) -> None:
    """Service and pods by name."""
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.cluster.wait_for(lambda: site.events("Created"))
        events = await site.events("Created")
        assert {event["type"] for event in events} == {"Normal"}
        told = " ".join(event["message"] for event in events)
        for name in ("Service job-aggregation", "Pod job-aggregation", "Pod job-train-1"):
            assert name in told


# --- words ---


def test_nodes_are_not_missing_in_a_namespace() -> None:
    """They have none."""
    decided = plan(world(nodes={"cloud": node("cloud", "10.0.0.1"), "edge0": node("edge0", "::1")}))
    assert conditions(decided)["Waiting"]["message"] == (
        "not found in the cluster: Node edge1; the job starts when it is there"
    )
    decided = plan(world(nodes={}, models={}))
    assert conditions(decided)["Waiting"]["message"] == (
        "not found in namespace ns: Model m; not found in the cluster: Node cloud, Node edge0, "
        "Node edge1; the job starts when they are there"
    )


def test_the_documentation_tells_every_condition_and_phase() -> None:
    """docs/api.md."""
    text = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    others = {"Training", "Complete", "Failed", "Suspended", "Completing"}
    others |= {"AggregatorIdle", "Degraded"}
    for word in {*PROBLEM_KINDS, *others, *Phase}:
        assert f"`{word}`" in text, word
