"""Pods that are gone, failed or edited, against API servers."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS, SERVICES
from gm.controllers.conditions import timestamp
from gm.errors import ServiceError, api_error
from tests.controllers.conftest import Site
from tests.controllers.faults import Call
from tests.controllers.federatedlearning.objects import condition, uids
from tests.controllers.support import env_of, template


async def test_a_deleted_trainer_is_replaced_once_it_is_gone_P0_018(site: Site) -> None:
    """Same name, node and environment; no twin before; siblings untouched."""
    await site.references()
    async with site.gm():
        before = await site.run_job()
        await site.delete(PODS, "job-train-0")
        await site.settled()
        leaving = (await site.pods())["job-train-0"]
        assert leaving["metadata"]["deletionTimestamp"]
        await site.cluster.finish_delete("job-train-0")

        async def is_new() -> bool:
            pod = (await site.pods()).get("job-train-0")
            return pod is not None and pod["metadata"]["uid"] != leaving["metadata"]["uid"]

        await site.cluster.wait_for(is_new, timeout_seconds=5)
        after = await site.pods()
        assert env_of(after["job-train-0"]) == env_of(before["job-train-0"])
        assert after["job-train-0"]["spec"]["nodeName"] == site.node("edge0")
        others = {"job-train-1", "job-aggregation"}
        assert {n: u for n, u in uids(after).items() if n in others} == {
            n: u for n, u in uids(before).items() if n in others
        }
        await site.wait_status(lambda s: s["active"] == 3)
        await site.settled()
        assert len(site.faults.creates()) == 4 + 1


async def test_a_replacement_is_free_to_go_elsewhere_unless_the_spec_says_P0_018(
    site: Site,
) -> None:
    """The node, the status and the name's owner of the old pod are not copied."""
    await site.references(trainers=1)
    body = site.job(trainers=1)
    body["spec"]["trainingWorkers"][0]["template"] = template(nodeSelector={"nobody": "has"})
    async with site.gm():
        await site.create(FEDERATED_LEARNING_JOBS, body)
        await site.wait_pods(2)
        await site.cluster.bind("job-train-0", site.node("edge0"))
        await site.set_phase("Running", "job-train-0", startTime="2026-11-30T00:00:00Z")
        old = (await site.pods())["job-train-0"]
        await site.delete(PODS, "job-train-0")
        await site.cluster.finish_delete("job-train-0")
        await site.wait_pods(2)
        new = (await site.pods())["job-train-0"]
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert "nodeName" not in new["spec"]
    assert new["spec"]["nodeSelector"] == {"nobody": "has"}
    assert new["status"]["phase"] == "Pending"
    assert "startTime" not in new["status"]


async def end_at_once(site: Site, *names: str) -> None:
    """What kubelets do with pods that take SIGTERM well, all in the second of the request."""
    for name in names:

        async def asked(name: str = name) -> str:
            meta = (await site.pods())[name]["metadata"]
            return str(meta.get("deletionTimestamp", ""))

        gone = datetime.fromisoformat(await site.cluster.wait_for(asked))
        pod = (await site.pods())[name]
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        ended = {"exitCode": 0, "finishedAt": timestamp(gone - timedelta(seconds=grace))}
        container = {
            "name": "worker",
            "image": "example:v1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        await site.cluster.set_pod_status(name, phase="Succeeded", containerStatuses=[container])
        await site.cluster.finish_delete(name)


@pytest.mark.parametrize("name", ["job-aggregation", "job-train-0"])
async def test_a_pod_that_takes_its_removal_well_is_replaced_P0_018(site: Site, name: str) -> None:
    """It ends with success in the second of the request: nothing has succeeded or restarted."""
    await site.references()
    async with site.gm():
        before = await site.run_job(runPolicy={"backoffLimit": 0})
        await site.delete(PODS, name)
        await end_at_once(site, name)

        async def is_new() -> bool:
            pod = (await site.pods()).get(name)
            return pod is not None and pod["metadata"]["uid"] != before[name]["metadata"]["uid"]

        await site.cluster.wait_for(is_new, timeout_seconds=5)
        await site.wait_pods(3)
        await site.set_phase("Running")
        status = await site.wait_status(lambda s: s["active"] == 3 and s["phase"] == "Running")
        assert status["succeeded"] == 0
        assert [w["restarts"] for w in status["workers"]] == [0, 0, 0]
        assert not condition(status, "Completing")


async def test_suspending_again_and_again_costs_no_restarts_P2_101(site: Site) -> None:
    """Not even where none is allowed."""
    await site.references()
    async with site.gm():
        await site.run_job(runPolicy={"backoffLimit": 0})
        for _ in range(3):
            suspend = {"spec": {"runPolicy": {"suspend": True}}}
            await site.patch(FEDERATED_LEARNING_JOBS, "job", suspend)
            await end_at_once(site, *await site.pods())
            await site.wait_pods(0)
            status = await site.wait_phase("Suspended")
            assert not condition(status, "Complete")
            resume = {"spec": {"runPolicy": {"suspend": False}}}
            await site.patch(FEDERATED_LEARNING_JOBS, "job", resume)
            await site.wait_pods(3)
            await site.set_phase("Running")
            await site.wait_phase("Running")
        status = await site.wait_status(lambda s: s["active"] == 3)
        assert [w["restarts"] for w in status["workers"]] == [0, 0, 0]


async def test_an_edit_restarts_that_job_only_even_if_gm_was_down_P0_019(site: Site) -> None:
    """Of two jobs, one is edited while nobody looks."""
    await site.references()
    async with site.gm():
        edited, other = await site.run_job("a"), await site.run_job("b")
    workers = site.job("a")["spec"]["trainingWorkers"]
    workers[0]["template"] = template("example:v2", nodeName=site.node("edge0"))
    await site.patch(FEDERATED_LEARNING_JOBS, "a", {"spec": {"trainingWorkers": workers}})
    harmless = {"labels": {"x": "y"}, "annotations": {"z": "1"}}
    await site.patch(FEDERATED_LEARNING_JOBS, "b", {"metadata": harmless})
    async with site.cluster.client() as client:
        wrong = {"status": {"active": 7, "phase": "Pending"}}
        await client.patch(
            FEDERATED_LEARNING_JOBS, site.cluster.key("b"), wrong, subresource="status"
        )
    async with site.gm():

        async def is_leaving() -> bool:
            pod = (await site.pods("a"))["a-train-0"]
            return "deletionTimestamp" in pod["metadata"]

        await site.cluster.wait_for(is_leaving)
        await site.cluster.finish_delete("a-train-0")

        async def is_new() -> bool:
            pod = (await site.pods("a")).get("a-train-0")
            return pod is not None and pod["spec"]["containers"][0]["image"] == "example:v2"

        await site.cluster.wait_for(is_new)
        await site.wait_status(lambda s: s["observedGeneration"] == 2, "a")
        await site.settled()
        told = await site.status("b")
        assert (told["active"], told["phase"]) == (3, "Running")
        assert [e["message"] for e in await site.events("Removed")] == [
            "removed Pod a-train-0: the job's spec changed"
        ]
    after = uids(await site.pods("a"))
    before = uids(edited)
    assert {name for name in after if after[name] != before[name]} == {"a-train-0"}
    assert uids(await site.pods("b")) == uids(other)


async def test_a_trainer_joins_a_running_job_P2_102(site: Site) -> None:
    """All workers of that job are told the new number, each once; people are told why."""
    await site.references(trainers=3)
    third = site.job(trainers=3)["spec"]["trainingWorkers"]
    async with site.gm():
        before, other = await site.run_job(), await site.run_job("other")
        made = len(site.faults.creates())
        await site.patch(FEDERATED_LEARNING_JOBS, "job", {"spec": {"trainingWorkers": third}})

        async def all_new() -> bool:
            pods = await site.pods()
            for name, pod in pods.items():
                if "deletionTimestamp" in pod["metadata"]:
                    await site.cluster.finish_delete(name)
            fresh = uids(pods).items() - uids(before).items()
            return len(fresh) == len(pods) == 4

        await site.cluster.wait_for(all_new)
        await site.set_phase("Running")
        status = await site.wait_status(lambda s: s["active"] == 4 and s["phase"] == "Running")
        assert [worker["restarts"] for worker in status["workers"]] == [0] * 4
        await site.settled()
        pods = await site.pods()
        assert {env_of(pod)["PARTICIPANTS_COUNT"] for pod in pods.values()} == {"3"}
        assert len(site.faults.creates()) == made + 4
        assert uids(await site.pods("other")) == uids(other)
        (event,) = await site.events("Removed")
        assert event["message"].endswith(
            ": the job has 3 trainers now, not 2, and every worker is told so"
        )


async def test_what_is_not_offered_is_refused_by_name_P2_102(site: Site) -> None:
    """Stop conditions and the like: kubectl says which field nobody knows."""
    await site.submit()
    body = {
        "apiVersion": FEDERATED_LEARNING_JOBS.api_version,
        "kind": FEDERATED_LEARNING_JOBS.kind,
        **site.job(stopCondition={"metric": "accuracy", "threshold": 1}),
    }
    text = msgspec.json.encode(body).decode()
    with pytest.raises(AssertionError, match=r"unknown field .*spec\.stopCondition"):
        await site.cluster.kubectl("apply", "-f", "-", stdin=text)


async def test_a_failed_trainer_is_made_again_and_then_fails_the_job_P2_098(site: Site) -> None:
    """backoffLimit 1: once more, then the end; what ran is removed."""
    await site.references(trainers=1)
    async with site.gm():
        pods = await site.run_job(trainers=1, runPolicy={"backoffLimit": 1})
        await site.set_phase("Failed", "job-train-0")

        async def is_new() -> bool:
            pod = (await site.pods()).get("job-train-0")
            old = pods["job-train-0"]["metadata"]["uid"]
            return pod is not None and pod["metadata"]["uid"] != old

        async def confirm() -> bool:
            pod = (await site.pods()).get("job-train-0")
            if pod is not None and "deletionTimestamp" in pod["metadata"]:
                await site.cluster.finish_delete("job-train-0")
            return await is_new()

        await site.cluster.wait_for(confirm)
        await site.set_phase("Failed", "job-train-0")
        status = await site.wait_phase("Failed")
        failed = condition(status, "Failed")
        assert failed is not None
        assert failed["reason"] == "workerFailed"
        assert "after 2 restarts, 1 is allowed" in failed["message"]
        await site.cluster.wait_for(lambda: site.events("workerFailed"))

        async def aggregator_leaves() -> bool:
            pod = (await site.pods()).get("job-aggregation")
            return pod is None or "deletionTimestamp" in pod["metadata"]

        await site.cluster.wait_for(aggregator_leaves)


async def test_a_removal_that_takes_long_is_told(site: Site) -> None:
    """Object, node and since when; of a predecessor's pod as of our own."""
    await site.references(trainers=1)
    site.settings = msgspec.structs.replace(site.settings, removal_patience_seconds=1)
    async with site.gm():
        await site.run_job(trainers=1)
        await site.delete(PODS, "job-train-0")
        status = await site.wait_status(lambda s: condition(s, "WaitingForRemoval"))
        told = condition(status, "WaitingForRemoval")
        assert told is not None
        assert "Pod job-train-0 on node" in told["message"]
        await site.delete(FEDERATED_LEARNING_JOBS, "job")
        await site.delete(SERVICES, "job-aggregation")
        await site.delete(PODS, "job-aggregation")
        await site.submit(trainers=1)
        await site.wait_status(
            lambda s: (
                "Pod job-aggregation on node"
                in (condition(s, "WaitingForRemoval") or {}).get("message", "")
            )
        )
        await site.cluster.finish_delete("job-aggregation")
        await site.cluster.finish_delete("job-train-0")
        await site.wait_pods(2)
        await site.wait_status(lambda s: not condition(s, "WaitingForRemoval"))


async def test_a_delete_that_fails_is_tried_again(site: Site) -> None:
    """The others of the same pass are deleted all the same."""
    await site.references()
    failures = 2

    def fail(call: Call) -> ServiceError | None:
        nonlocal failures
        if call.verb == "delete" and call.name == "job-train-0" and failures:
            failures -= 1
            return api_error("delete pods", code=500, reason="Boom")
        return None

    site.faults.fail = fail
    async with site.gm():
        await site.run_job()
        await site.patch(FEDERATED_LEARNING_JOBS, "job", {"spec": {"runPolicy": {"suspend": True}}})

        async def all_leave() -> bool:
            pods = await site.pods()
            return all("deletionTimestamp" in p["metadata"] for p in pods.values())

        await site.cluster.wait_for(all_leave)
