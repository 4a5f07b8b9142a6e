"""The federated-learning controller against API servers, with faults: a job's children."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gm.api.meta import ResourceType
from gm.api.resources import CONFIG_MAPS, FEDERATED_LEARNING_JOBS, PODS, SERVICES
from gm.errors import ServiceError, api_error
from tests.controllers.conftest import Site
from tests.controllers.faults import Call
from tests.controllers.federatedlearning.objects import (
    condition,
    owner_reference,
    uids,
    waiting_reason,
)
from tests.controllers.support import env_of, template


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_a_failing_create_is_made_up_for_P0_014(site: Site, number: int) -> None:
    """Exactly the children wanted, whichever create fails; meanwhile a condition tells."""
    await site.references(trainers=3)
    site.faults.fail_nth_create(number)
    async with site.gm():
        await site.submit(trainers=3)
        failing = await site.wait_status(lambda s: condition(s, "CreateFailed"))
        assert failing["phase"] == "Pending"
        told = condition(failing, "CreateFailed")
        assert told is not None
        assert "the test says no" in told["message"]
        site.faults.heal()
        await site.wait_pods(4)
        await site.wait_status(lambda s: not condition(s, "CreateFailed"))
        assert len(await site.services()) == 1
        await site.set_phase("Running")
        await site.wait_phase("Running")
        assert len(await site.pods()) == 4


async def test_a_service_of_ours_without_labels_is_adopted_and_repaired_P0_015(site: Site) -> None:
    """The name is taken, the owner is this very job."""
    await site.references()
    created = await site.create(FEDERATED_LEARNING_JOBS, site.job())
    owner = owner_reference("job", created["metadata"]["uid"])
    await site.create(
        SERVICES,
        {
            "metadata": {"name": "job-aggregation", "ownerReferences": [owner]},
            "spec": {"selector": {"wrong": "yes"}, "ports": [{"port": 1}], "type": "NodePort"},
        },
    )
    async with site.gm():
        await site.wait_pods(3)
        service = (await site.services())[0]
    assert service["spec"]["ports"][0]["port"] == 7363
    assert "wrong" not in service["spec"]["selector"]
    assert service["metadata"]["labels"]["federatedlearningjob.sedna.io/uid"] == owner["uid"]


@pytest.mark.parametrize("whose", ["nobody's", "of ConfigMap other"])
@pytest.mark.parametrize(
    ("resource", "name"), [(SERVICES, "job-aggregation"), (PODS, "job-train-1")]
)
async def test_a_name_that_others_hold_is_a_conflict_for_this_job_only_P0_015(
    site: Site, resource: ResourceType, name: str, whose: str
) -> None:
    """A condition and one event; the other job runs; when the name is free, this one too."""
    await site.references()
    foreign: dict[str, Any] = {"metadata": {"name": name}, "spec": {"ports": [{"port": 1}]}}
    if resource is PODS:
        foreign["spec"] = template(nodeName=site.node("cloud"))["spec"]
    if whose != "nobody's":
        holder = await site.create(CONFIG_MAPS, {"metadata": {"name": "other"}})
        owner = owner_reference("other", holder["metadata"]["uid"], CONFIG_MAPS)
        foreign["metadata"]["ownerReferences"] = [owner]
    async with site.gm():
        await site.create(resource, foreign)
        await site.submit()
        status = await site.wait_status(lambda s: condition(s, "NameConflict"))
        told = condition(status, "NameConflict")
        assert told is not None
        assert f"{resource.kind} {name} exists and is {whose}, not this job's" in told["message"]
        await site.run_job("quite-another")
        await site.cluster.wait_for(lambda: site.events("NameConflict"))
        async with site.cluster.client() as client:
            await client.delete(resource, site.cluster.key(name), grace_period_seconds=0)
        await site.wait_pods(3)
        await site.wait_status(lambda s: not condition(s, "NameConflict"))
        assert len(await site.events("NameConflict")) == 1


async def test_a_stale_cache_makes_nothing_twice_P0_021(site: Site) -> None:
    """Pod events come late, the job is looked at again and again."""
    await site.references()
    async with site.gm():
        with site.faults.held("Pod", "Service"):
            await site.submit()
            await site.wait_pods(3)
            for number in range(5):
                labels = {"metadata": {"labels": {"touch": str(number)}}}
                await site.patch(FEDERATED_LEARNING_JOBS, "job", labels)
                await site.settled(but=("Pod", "Service"))
            assert len(site.faults.creates()) == 4
        await site.wait_status(lambda s: s.get("active") == 3)
        await site.settled()
        assert len(site.faults.creates()) == 4


async def test_a_condition_of_others_survives_our_status_write_P0_022(site: Site) -> None:
    """It is written between our reading and our writing."""
    await site.references()
    async with site.gm():
        await site.run_job()
        done = False

        async def interfere() -> None:
            training = {"type": "Training", "status": "True", "reason": "DoTraining"}
            async with site.cluster.client() as client:
                await client.patch(
                    FEDERATED_LEARNING_JOBS,
                    site.cluster.key("job"),
                    {"status": {"conditions": [training]}},
                    subresource="status",
                )

        def before(call: Call) -> Any:
            nonlocal done
            if call.is_job_status and not done:
                done = True
                return interfere()
            return None

        site.faults.before = before
        await site.set_phase("Succeeded")
        status = await site.wait_phase("Succeeded")
        assert condition(status, "Training")
        assert condition(status, "Complete")


async def test_a_successor_waits_for_the_pods_of_its_predecessor(site: Site) -> None:
    """Same name, other uid: no twin on the node, and after a while a condition tells."""
    await site.references()
    async with site.gm():
        await site.run_job()
        old = await site.pods()
        await site.delete(FEDERATED_LEARNING_JOBS, "job")
        await site.delete(SERVICES, "job-aggregation")
        for name in old:
            await site.delete(PODS, name)
        await site.submit()
        await site.wait_status(lambda s: s.get("phase") == "Pending")
        made = len(site.faults.creates())
        await site.cluster.wait_for(lambda: len(site.faults.creates()) > made, what="another try")
        assert uids(await site.pods()) == uids(old)
        for name in old:
            await site.cluster.finish_delete(name)

        async def all_new() -> bool:
            new = uids(await site.pods())
            return len(new) == 3 and not set(new.values()) & set(uids(old).values())

        await site.cluster.wait_for(all_new)


async def test_no_node_port_left_is_a_condition_and_retried(site: Site) -> None:
    """Node ports run out at 2,768."""
    await site.references()
    full = True

    def fail(call: Call) -> ServiceError | None:
        if full and call.verb == "create" and call.kind == "Service":
            message = "failed to allocate a nodePort: range is full"
            return api_error("create services", code=500, reason="InternalError", message=message)
        return None

    site.faults.fail = fail
    async with site.gm():
        await site.submit()
        await site.wait_status(lambda s: condition(s, "NoNodePort"))
        full = False
        await site.wait_pods(3)
        await site.wait_status(lambda s: not condition(s, "NoNodePort"))


async def test_a_node_selector_is_followed_to_the_bound_node(site: Site) -> None:
    """The address comes when the aggregator is bound, the edge gets the job when a trainer is."""
    await site.references(trainers=1)
    body = site.job(trainers=1)
    body["spec"]["aggregationWorker"]["template"] = template(nodeSelector={"nobody": "has"})
    body["spec"]["trainingWorkers"][0]["template"] = template(nodeSelector={"nobody": "has"})
    async with site.gm(), site.edge("edge0") as edge:
        await site.create(FEDERATED_LEARNING_JOBS, body)
        await site.wait_status(lambda s: waiting_reason(s) == "AggregatorNotBound")
        await site.cluster.bind("job-aggregation", site.node("cloud"))
        pods = await site.wait_pods(2)
        assert env_of(pods["job-train-0"])["AGG_IP"] == "10.9.0.1"
        await site.cluster.bind("job-train-0", site.node("edge0"))
        key = f"federatedlearningjob {site.namespace}/job"
        await edge.wait_for(lambda: key in edge.held)


async def test_a_running_job_survives_a_restart_of_gm_untouched(site: Site) -> None:
    """Level-based: nothing to do, nothing done."""
    await site.references()
    async with site.gm():
        before = uids(await site.run_job())
    site.faults.calls.clear()
    async with site.gm():
        await site.settled()
        assert uids(await site.pods()) == before
    assert site.faults.job_writes() == []


async def test_a_job_needs_few_writes_until_it_runs(site: Site) -> None:
    """At most 8 with two trainers: 4 creates, and status."""
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.settled()
    assert len(site.faults.job_writes()) <= 8, site.faults.job_writes()


async def test_a_pod_of_ours_without_labels_is_adopted_P0_021(site: Site) -> None:
    """No cache shows it, its name is taken, its owner is this job."""
    await site.references(trainers=1)
    created = await site.submit(trainers=1)
    owner = owner_reference("job", created["metadata"]["uid"])
    spec = template(nodeName=site.node("cloud"))["spec"]
    pod = {"metadata": {"name": "job-aggregation", "ownerReferences": [owner]}, "spec": spec}
    await site.create(PODS, pod)
    async with site.gm():
        pods = await site.wait_pods(2)
        await site.wait_status(lambda s: s.get("active") == 2)
    annotations = pods["job-aggregation"]["metadata"]["annotations"]
    assert annotations["sedna.io/worker"] == "aggregation-0"


async def test_cluster_dns_is_kept_by_a_job_that_was_made_with_it(site: Site) -> None:
    """A change of the setting holds for new jobs."""
    await site.references()
    node_port = site.settings
    site.settings = msgspec.structs.replace(node_port, aggregation_service="clusterDNS")
    async with site.gm():
        before = await site.run_job()
    env = env_of(before["job-train-0"])
    assert env["AGG_IP"] == f"job-aggregation.{site.namespace}"
    site.settings = node_port
    async with site.gm():
        await site.run_job("other")
        assert uids(await site.pods()) == uids(before)
        services = {s["metadata"]["name"]: s["spec"]["type"] for s in await site.services()}
    assert services == {"job-aggregation": "ClusterIP", "other-aggregation": "NodePort"}
