"""Jobs in trouble on API servers: lost nodes, no endpoint, taken ports, broken trainers, timers."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from gm.api.meta import ObjectKey
from gm.api.resources import FEDERATED_LEARNING_JOBS, NAMESPACES, NODES, PODS
from gm.controllers.conditions import timestamp
from tests.controllers.conftest import Site
from tests.controllers.support import template

CRASHING = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "worker",
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 2,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
        }
    ],
}


def told(status: dict[str, Any], kind: str) -> str:
    """Message of a condition that is true; empty if there is none."""
    found = [c for c in status.get("conditions") or [] if c["type"] == kind]
    return found[0].get("message", "") if found and found[0]["status"] == "True" else ""


async def set_ready(site: Site, name: str, status: str) -> None:
    """What the node's controller says of a node."""
    condition = {
        "type": "Ready",
        "status": status,
        "lastTransitionTime": timestamp(datetime.now(UTC)),
    }
    async with site.cluster.client() as client:
        await client.raw(
            "PATCH",
            NODES.path(name=site.node(name), subresource="status"),
            body=msgspec.json.encode({"status": {"conditions": [condition]}}),
            content_type="application/strategic-merge-patch+json",
        )


async def uids(site: Site, name: str = "job") -> dict[str, str]:
    """Pods of a job."""
    return {pod: found["metadata"]["uid"] for pod, found in (await site.pods(name)).items()}


async def test_a_node_that_is_away_is_told_and_its_pod_left_alone_P1_060_P1_061(site: Site) -> None:
    """A condition and one event; a report from the node or its return ends it."""
    site.settings = msgspec.structs.replace(site.settings, node_grace_seconds=2)
    await site.references()
    async with site.gm(), site.edge("edge1") as edge:
        await site.run_job()
        before = await uids(site)
        await set_ready(site, "edge1", "Unknown")
        status = await site.wait_status(lambda status: told(status, "NodeUnreachable"))
        assert f"trainer 1 on {site.node('edge1')}" in told(status, "NodeUnreachable")
        assert status["phase"] == "Running"
        await site.cluster.wait_for(lambda: site.events("NodeNotReady"))
        await edge.wait_for(lambda: f"federatedlearningjob {site.namespace}/job" in edge.held)
        report = {
            "phase": "train",
            "status": "running",
            "output": {"ownerInfo": {"currentRound": 1}},
        }
        await edge.report("federatedlearningjob", site.namespace, "job", report)
        await site.wait_status(lambda status: not told(status, "NodeUnreachable"))
        await site.wait_status(lambda status: told(status, "NodeUnreachable"))
        # the same again says nothing new, but shows that the node is reached
        await edge.report("federatedlearningjob", site.namespace, "job", report)
        await site.wait_status(lambda status: not told(status, "NodeUnreachable"))
        await site.wait_status(lambda status: told(status, "NodeUnreachable"))
        await set_ready(site, "edge1", "True")
        await site.wait_status(lambda status: not told(status, "NodeUnreachable"))
        assert await uids(site) == before


async def test_a_lost_pod_is_replaced_when_it_is_gone_and_not_before_P1_061(site: Site) -> None:
    """The node's controller deletes it; the object stays until the kubelet is back."""
    site.settings = msgspec.structs.replace(site.settings, removal_patience_seconds=0.5)
    await site.references()
    async with site.gm():
        await site.run_job()
        before = await uids(site)
        await set_ready(site, "edge1", "Unknown")
        await site.delete(PODS, "job-train-1", grace_period_seconds=30)
        status = await site.wait_status(lambda status: told(status, "WaitingForRemoval"))
        assert site.node("edge1") in told(status, "WaitingForRemoval")
        assert await uids(site) == before
        await set_ready(site, "edge1", "True")
        await site.cluster.finish_delete("job-train-1")

        async def is_replaced() -> bool:
            now = await uids(site)
            return now.get("job-train-1", before["job-train-1"]) != before["job-train-1"]

        await site.cluster.wait_for(is_replaced)
        after = await uids(site)
        assert {name for name in before if after[name] != before[name]} == {"job-train-1"}


async def test_a_service_without_endpoint_is_told_P1_067(site: Site) -> None:
    """Trainers run and the aggregator is not ready."""
    site.settings = msgspec.structs.replace(site.settings, endpoint_grace_seconds=1)
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.set_phase("Running", "job-aggregation", conditions=[ready("False")])
        status = await site.wait_status(lambda status: told(status, "WorkerUnreachable"))
        assert "Service job-aggregation has no ready endpoint" in told(status, "WorkerUnreachable")
        await site.cluster.wait_for(lambda: site.events("NoEndpoints"))
        await site.set_phase("Running", "job-aggregation", conditions=[ready("True")])
        await site.wait_status(lambda status: not told(status, "WorkerUnreachable"))


def ready(status: str) -> dict[str, str]:
    """Condition Ready of a pod."""
    now = timestamp(datetime.now(UTC))
    return {"type": "Ready", "status": status, "lastTransitionTime": now}


async def test_two_jobs_that_want_one_port_of_a_node_take_turns_P1_068(site: Site) -> None:
    """The second says whom it waits for, and starts by itself when that pod is gone.

    Nothing but that pod has to do with it: another model, and the first job goes on.
    """
    site.settings = msgspec.structs.replace(site.settings, completion_grace_seconds=600)
    await site.references(trainers=1)
    await site.model("m2")
    worker = template(nodeName=site.node("edge0"))
    worker["spec"]["containers"][0]["ports"] = [{"containerPort": 8123}]
    trainers = [{"dataset": {"name": "d0"}, "template": worker}]
    async with site.gm():
        await site.run_job("first", trainers=1, trainingWorkers=trainers)
        aggregator = site.job()["spec"]["aggregationWorker"] | {"model": {"name": "m2"}}
        await site.submit(
            "second", trainers=1, trainingWorkers=trainers, aggregationWorker=aggregator
        )
        status = await site.wait_status(lambda status: told(status, "PortConflict"), "second")
        assert "port 8123/TCP" in told(status, "PortConflict")
        assert f"pod {site.namespace}/first-train-0 has" in told(status, "PortConflict")
        await site.cluster.wait_for(lambda: site.events("PortConflict"))
        assert list(await site.pods("second")) == ["second-aggregation"]
        await site.set_phase("Succeeded", "first-train-0")
        await site.wait_pods(2, "second")
        await site.wait_status(lambda status: not told(status, "PortConflict"), "second")


async def test_a_broken_trainer_is_named_and_then_fails_the_job_P1_057(site: Site) -> None:
    """Worker, node and reason, in the condition and in its entry; never plain Running."""
    await site.references(trainers=3)
    async with site.gm():
        await site.run_job(trainers=3)
        await site.cluster.set_pod_status("job-train-1", **CRASHING)
        status = await site.wait_status(lambda status: told(status, "Degraded"))
        node = site.node("edge1")
        assert f"trainer 1 on {node}: CrashLoopBackOff (back-off 20s), 2 of 6" in (
            told(status, "Degraded")
        )
        entry = next(w for w in status["workers"] if w.get("index") == 1 and w["role"] == "train")
        assert (entry["node"], entry["reason"], entry["restarts"]) == (node, "CrashLoopBackOff", 2)
        container = {**CRASHING["containerStatuses"][0], "restartCount": 7}  # type: ignore[dict-item]
        await site.cluster.set_pod_status("job-train-1", containerStatuses=[container])
        status = await site.wait_phase("Failed")
        assert f"trainer 1 on {node} failed after 7 restarts" in told(status, "Failed")
        assert (status["failed"], status["active"]) == (1, 0)


async def test_the_job_outlives_a_broken_trainer_if_enough_are_left_P1_057(site: Site) -> None:
    """minParticipants: the lost one is counted, the others go on."""
    await site.references(trainers=3)
    async with site.gm():
        await site.run_job(trainers=3, minParticipants=2, runPolicy={"backoffLimit": 1})
        await site.cluster.set_pod_status("job-train-1", **CRASHING)
        status = await site.wait_status(lambda status: status.get("failed") == 1)
        assert status["phase"] == "Running"
        await site.set_phase("Succeeded", "job-train-0", "job-train-2")
        await site.set_phase("Succeeded", "job-aggregation")
        status = await site.wait_phase("Succeeded")
        assert (status["succeeded"], status["failed"]) == (3, 1)


async def test_too_few_trainers_fail_the_job_by_name_P1_057(site: Site) -> None:
    """Below minParticipants: workers, nodes and reasons."""
    await site.references(trainers=3)
    async with site.gm():
        await site.run_job(trainers=3, minParticipants=2, runPolicy={"backoffLimit": 1})
        await site.cluster.set_pod_status("job-train-1", **CRASHING)
        await site.wait_status(lambda status: status.get("failed") == 1)
        await site.cluster.set_pod_status("job-train-2", **CRASHING)
        status = await site.wait_phase("Failed")
        words = told(status, "Failed")
        assert words.startswith("1 of 2 trainers left: ")
        for number in (1, 2):
            assert f"trainer {number} on {site.node(f'edge{number}')} failed" in words
        assert words.count("CrashLoopBackOff") == 2
        assert (status["failed"], status["active"]) == (2, 0)


async def test_an_evicted_worker_is_replaced_and_nothing_has_failed(site: Site) -> None:
    """At once, and though no restart is allowed."""
    await site.references()
    async with site.gm():
        await site.run_job(runPolicy={"backoffLimit": 0})
        before = await uids(site)
        await site.set_phase("Failed", "job-train-1", reason="Evicted", message="disk pressure")

        async def is_new() -> bool:
            now = await uids(site)
            return now.get("job-train-1", before["job-train-1"]) != before["job-train-1"]

        await site.cluster.wait_for(is_new)
        await site.set_phase("Running")
        status = await site.wait_status(lambda s: s["active"] == 3 and s["phase"] == "Running")
        assert [worker["restarts"] for worker in status["workers"]] == [0, 0, 0]
        after = await uids(site)
        assert {name for name in before if after[name] != before[name]} == {"job-train-1"}


async def test_the_grace_after_the_aggregators_success_holds_over_a_restart_of_gm(
    site: Site,
) -> None:
    """No event is needed when GM is back: trainers that still run are stopped in time."""
    site.settings = msgspec.structs.replace(site.settings, completion_grace_seconds=4)
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.set_phase("Succeeded", "job-aggregation")
        begun = await site.wait_status(lambda status: told(status, "Completing"))
    async with site.gm():
        status = await site.wait_phase("Succeeded")
    assert [worker["phase"] for worker in status["workers"]] == ["Succeeded", "Stopped", "Stopped"]
    times = [
        next(c["lastTransitionTime"] for c in s["conditions"] if c["type"] == kind)
        for s, kind in ((begun, "Completing"), (status, "Complete"))
    ]
    since, end = map(datetime.fromisoformat, times)
    assert (end - since).total_seconds() >= 4


async def test_an_idle_aggregator_is_told_and_stopped_P1_056(site: Site) -> None:
    """All trainers are done, it is not: a condition, then it goes and the job is Complete."""
    site.settings = msgspec.structs.replace(site.settings, completion_grace_seconds=0.3)
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.set_phase("Succeeded", "job-train-0", "job-train-1")
        await site.wait_status(lambda status: told(status, "AggregatorIdle"))
        status = await site.wait_phase("Succeeded")
        assert "the aggregator was stopped" in told(status, "Complete")

        async def is_leaving() -> bool:
            pod = (await site.pods()).get("job-aggregation")
            return pod is None or "deletionTimestamp" in pod["metadata"]

        await site.cluster.wait_for(is_leaving)


async def test_a_job_is_not_complete_while_trainers_may_still_end_P1_056(site: Site) -> None:
    """The aggregator Succeeded: the others get their grace."""
    site.settings = msgspec.structs.replace(site.settings, completion_grace_seconds=600)
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.set_phase("Succeeded", "job-aggregation")
        status = await site.wait_status(lambda status: told(status, "Completing"))
        assert not told(status, "Complete")
        await site.set_phase("Succeeded", "job-train-0", "job-train-1")
        await site.wait_phase("Succeeded")


async def test_a_job_that_is_created_suspended_makes_no_pods_P2_101(site: Site) -> None:
    """Until it is resumed."""
    await site.references()
    async with site.gm():
        await site.submit(runPolicy={"suspend": True})
        status = await site.wait_phase("Suspended")
        assert "startTime" not in status
        assert not site.faults.creates()
        resume = {"spec": {"runPolicy": {"suspend": False}}}
        await site.patch(FEDERATED_LEARNING_JOBS, "job", resume)
        await site.wait_pods(3)


async def test_a_foreign_pod_with_a_name_like_ours_is_no_worker_P2_109(site: Site) -> None:
    """Names say nothing: it is neither counted nor touched."""
    await site.references()
    spec = template()["spec"]
    await site.create(PODS, {"metadata": {"name": "job-train-9"}, "spec": spec})
    labels = {"federatedlearningjob.sedna.io/worker-type": "train"}
    odd = {"name": "job-a-train-b-eval-xyz", "labels": labels}
    await site.create(PODS, {"metadata": odd, "spec": spec})
    async with site.gm():
        await site.run_job()
        status = await site.status()
        assert status["active"] == 3
        assert len(status["workers"]) == 3
        names = {pod["metadata"]["name"] for pod in await site.cluster.list(PODS)}
        assert {"job-train-9", "job-a-train-b-eval-xyz"} <= names


async def test_the_deadline_holds_over_a_restart_of_gm(site: Site) -> None:
    """activeDeadlineSeconds counts from startTime; no event is needed."""
    await site.references()
    async with site.gm():
        await site.run_job(runPolicy={"activeDeadlineSeconds": 4})
    async with site.gm():
        status = await site.wait_phase("Failed")
        assert "active for 4 s" in told(status, "Failed")
        started = datetime.fromisoformat(status["startTime"])
        assert (datetime.now(UTC) - started).total_seconds() >= 4

        async def all_leave() -> bool:
            pods = (await site.pods()).values()
            return all("deletionTimestamp" in pod["metadata"] for pod in pods)

        await site.cluster.wait_for(all_leave)


async def test_kubectl_shows_a_job_and_waits_for_its_end_P1_070(site: Site) -> None:
    """No cell is empty after a run; kubectl wait --for=condition=Complete, while GM works."""
    await site.references()
    async with site.gm(), site.edge("edge0") as edge:
        await site.run_job()
        await edge.wait_for(lambda: f"federatedlearningjob {site.namespace}/job" in edge.held)
        report = {"phase": "train", "output": {"ownerInfo": {"currentRound": 3}}}
        await edge.report("federatedlearningjob", site.namespace, "job", report)
        await site.wait_status(lambda status: status.get("round") == 3)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(
                site.cluster.kubectl("wait", "--for=condition=Complete", "fl/job", "--timeout=60s")
            )
            await site.set_phase("Succeeded")
        assert "condition met" in waiting.result()
        head, row = [
            line.split() for line in (await site.cluster.kubectl("get", "fl")).splitlines()
        ]
    assert head == ["NAME", "PHASE", "ROUND", "ACTIVE", "SUCCEEDED", "FAILED", "AGE"]
    assert row[:-1] == ["job", "Succeeded", "3", "0", "3", "0"]
    assert row[-1] not in ("", "<none>", "<unknown>")


async def test_ten_thousand_reports_leave_a_small_job_P0_023(site: Site) -> None:
    """One condition of each type, the round in a field of its own, less than 64 KiB."""
    await site.references()
    async with site.gm(), site.edge("edge0") as edge:
        await site.run_job()
        await edge.wait_for(lambda: f"federatedlearningjob {site.namespace}/job" in edge.held)
        for number in range(1, 10_001):
            info = {"currentRound": number, "sampleCount": 10, "note": "x" * 100}
            models = [{"format": "pb", "url": "/m", "metrics": {f"metric-{number}": number}}]
            report = {
                "phase": "train",
                "status": "running",
                "output": {"models": models, "ownerInfo": info},
            }
            await edge.report("federatedlearningjob", site.namespace, "job", report)
        await site.wait_status(lambda status: status.get("round") == 10_000, seconds=60)
        found = await site.cluster.get(FEDERATED_LEARNING_JOBS, "job")
        assert found is not None
        kinds = [c["type"] for c in found["status"]["conditions"]]
        assert len(set(kinds)) == len(kinds)
        assert len(json.dumps(found)) < 64 * 1024


async def test_nothing_that_gm_makes_has_finalizers_P1_083(site: Site) -> None:
    """A job goes at once, also while GM is stopped and every edge is away."""
    await site.references()
    async with site.gm():
        await site.run_job()
    everything = [
        *await site.cluster.list(FEDERATED_LEARNING_JOBS),
        *await site.cluster.list(PODS),
        *await site.services(),
    ]
    assert all("finalizers" not in found["metadata"] for found in everything)
    await site.delete(FEDERATED_LEARNING_JOBS, "job")
    assert await site.cluster.get(FEDERATED_LEARNING_JOBS, "job") is None


async def test_a_namespace_goes_with_its_jobs_while_gm_runs_P1_083(site: Site) -> None:
    """Nothing waits for GM; what GM tries to keep alive is refused, and it goes on."""
    await site.cluster.start_controllers()
    await site.references()
    records = await site.cluster.create_namespace()
    site.config = msgspec.structs.replace(site.config, state_namespace=records)
    async with site.gm() as manager, site.cluster.client() as client:
        pods = await site.run_job()
        await client.delete(NAMESPACES, ObjectKey("", site.namespace))

        async def is_gone() -> bool:
            for name in pods:
                await site.cluster.finish_delete(name)
            return await site.cluster.get(NAMESPACES, site.namespace) is None

        await site.cluster.wait_for(is_gone, timeout_seconds=60)
        await site.settled()
        assert manager.problems() == []
        assert (await site.pods(), await site.services()) == ({}, [])


async def test_a_failing_job_looks_at_events_of_its_children_at_once_P1_073(site: Site) -> None:
    """However long its back-off is."""
    site.settings = msgspec.structs.replace(
        site.settings, retry_first_seconds=600.0, retry_max_seconds=600.0
    )
    await site.references()
    site.faults.fail_nth_create(4)
    async with site.gm():
        await site.submit()
        await site.wait_status(lambda status: told(status, "CreateFailed"))
        assert len(await site.wait_pods(2)) == 2
        await site.settled()
        site.faults.heal()
        await site.set_phase("Running", "job-aggregation")
        await site.wait_pods(3)
        await site.wait_status(lambda status: not told(status, "CreateFailed"))
