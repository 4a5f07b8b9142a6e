"""Where workers run and how they find each other, on API servers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS, SERVICES
from tests.controllers.conftest import Site
from tests.controllers.support import env_of, template

NOWHERE = {"nodeSelector": {"nobody": "has"}}
AFFINITY = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "nobody", "operator": "In", "values": ["has"]}]}
                ]
            }
        }
    }
}


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    """A condition by type; empty if there is none."""
    found = [c for c in status.get("conditions") or [] if c["type"] == kind]
    return found[0] if found else {}


@pytest.mark.parametrize("wish", [NOWHERE, AFFINITY], ids=["nodeSelector", "affinity"])
async def test_a_job_is_sent_to_the_node_that_its_pod_is_on_and_follows_it_P1_069(
    site: Site, wish: dict[str, Any]
) -> None:
    """It stays there while the pod is gone, moves with the next one, and stays after the end."""
    await site.references()
    body = site.job(trainers=1)
    body["spec"]["aggregationWorker"]["template"] = template(**wish)
    body["spec"]["trainingWorkers"][0]["template"] = template(**wish)
    key = f"federatedlearningjob {site.namespace}/job"
    async with site.gm(), site.edge("edge0") as edge0, site.edge("edge1") as edge1:
        await site.create(FEDERATED_LEARNING_JOBS, body)
        status = await site.wait_status(
            lambda s: condition(s, "Waiting").get("reason") == "AggregatorNotBound"
        )
        assert status["phase"] == "Pending"
        await site.cluster.bind("job-aggregation", site.node("cloud"))
        pods = await site.wait_pods(2)
        assert env_of(pods["job-train-0"])["AGG_IP"] == "10.9.0.1"
        await site.cluster.bind("job-train-0", site.node("edge0"))
        await edge0.wait_for(lambda: key in edge0.held)
        assert key not in edge1.held

        await site.delete(PODS, "job-train-0")
        await site.cluster.finish_delete("job-train-0")
        await site.wait_pods(2)
        await site.settled()
        assert key in edge0.held
        assert (await site.status())["workers"][1]["node"] == site.node("edge0")
        assert "nodeName" not in (await site.pods())["job-train-0"]["spec"]
        await site.cluster.bind("job-train-0", site.node("edge1"))
        await edge1.wait_for(lambda: key in edge1.held)
        await edge0.wait_for(lambda: key not in edge0.held)

        await site.set_phase("Succeeded", "job-train-0", "job-aggregation")
        await site.wait_phase("Succeeded")
        for name in pods:
            await site.cluster.finish_delete(name)
        await site.settled()
        assert key in edge1.held
        assert (await site.status())["workers"][1]["node"] == site.node("edge1")


async def test_the_older_form_of_a_workers_node_is_understood_P1_069(site: Site) -> None:
    """nodeName beside the template."""
    await site.references(trainers=1)
    body = site.job(trainers=1)
    worker = {**body["spec"]["trainingWorkers"][0], "template": template()}
    body["spec"]["trainingWorkers"] = [{**worker, "nodeName": site.node("edge0")}]
    async with site.gm(), site.edge("edge0") as edge:
        await site.create(FEDERATED_LEARNING_JOBS, body)
        pods = await site.wait_pods(2)
        assert pods["job-train-0"]["spec"]["nodeName"] == site.node("edge0")
        await edge.wait_for(lambda: f"federatedlearningjob {site.namespace}/job" in edge.held)


async def test_trainers_follow_the_aggregators_service_when_it_is_made_again(site: Site) -> None:
    """Another node port: what they were given leads nowhere; an Event says why they went."""
    await site.references()
    async with site.gm():
        before = await site.run_job()
        old_port = env_of(before["job-train-0"])["AGG_PORT"]
        await site.delete(SERVICES, "job-aggregation")

        async def new_port() -> str:
            found = [s["spec"]["ports"][0].get("nodePort") for s in await site.services()]
            return str(found[0]) if found and found[0] else ""

        port = await site.cluster.wait_for(new_port)
        if port == old_port:  # the API server happened to give it the same again
            await site.settled()
            assert (await site.pods()).keys() == before.keys()
            return

        async def all_new() -> bool:
            pods = await site.pods()
            for name in ("job-train-0", "job-train-1"):
                if "deletionTimestamp" in pods.get(name, {}).get("metadata", {}):
                    await site.cluster.finish_delete(name)
            told = [env_of(p).get("AGG_PORT") for n, p in pods.items() if n != "job-aggregation"]
            return told == [port] * 2

        await site.cluster.wait_for(all_new)
        after = await site.pods()
        kept = after["job-aggregation"]["metadata"]["uid"]
        assert kept == before["job-aggregation"]["metadata"]["uid"]
        events = await site.cluster.wait_for(lambda: site.events("Removed"))
        assert "the aggregator has another address now" in events[0]["message"]


async def test_services_have_external_ips_only_if_asked_for_P1_066(site: Site) -> None:
    """They hijack the node's own address; port, selector and host are the contract's P1-067."""
    await site.references()
    async with site.gm():
        await site.run_job("plain")
        (service,) = await site.services()
        assert "externalIPs" not in service["spec"]
        (port,) = service["spec"]["ports"]
        assert (port["name"], port["port"], port["targetPort"]) == ("tcp-0", 7363, 7363)
    site.settings = msgspec.structs.replace(site.settings, external_ips=True)
    async with site.gm():
        await site.run_job("asked")
        services = {s["metadata"]["name"]: s["spec"] for s in await site.services()}
    assert services["asked-aggregation"]["externalIPs"] == ["10.9.0.1"]


async def test_host_network_pods_resolve_cluster_names_unless_set_P1_068(site: Site) -> None:
    """Trainers run in their node's network."""
    await site.references()
    workers = site.job()["spec"]["trainingWorkers"]
    workers[1]["template"]["spec"]["dnsPolicy"] = "Default"
    async with site.gm():
        await site.submit(trainingWorkers=workers)
        pods = await site.wait_pods(3)
    seen = {n: (p["spec"].get("hostNetwork"), p["spec"]["dnsPolicy"]) for n, p in pods.items()}
    assert seen["job-train-0"] == (True, "ClusterFirstWithHostNet")
    assert seen["job-train-1"] == (True, "Default")
    assert not seen["job-aggregation"][0]


async def test_what_the_user_wrote_reaches_the_pod_P2_092_P2_099_P2_100(site: Site) -> None:
    """Also where this program has a default of its own, or mounts something itself."""
    await site.references(trainers=1)
    asked: dict[str, Any] = {
        "restartPolicy": "Never",
        "schedulerName": "volcano",
        "tolerations": [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}],
        "imagePullSecrets": [{"name": "pull"}],
        "securityContext": {"runAsUser": 1000},
        "terminationGracePeriodSeconds": 7,
        "initContainers": [{"name": "mine", "image": "init:v1"}],
        "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "share", "nfs": {"server": "nfs.example", "path": "/export"}},
        ],
    }
    worker = template(nodeName=site.node("edge0"), **asked)
    worker["metadata"] = {
        "labels": {"team": "a"},
        "annotations": {"scheduling.k8s.io/group-name": "all-or-nothing"},
    }
    worker["spec"]["containers"][0] |= {
        "env": [{"name": "MODEL_URL", "value": "mine"}, {"name": "OWN", "value": "yes"}],
        "volumeMounts": [
            {"name": "claim", "mountPath": "/home/data/data"},
            {"name": "share", "mountPath": "/share"},
        ],
    }
    trainers = [{"dataset": {"name": "d0"}, "template": worker}]
    async with site.gm():
        await site.submit(trainers=1, trainingWorkers=trainers)
        pod = (await site.wait_pods(2))["job-train-0"]
    spec = pod["spec"]
    for field in ("restartPolicy", "schedulerName", "imagePullSecrets", "securityContext"):
        assert spec[field] == asked[field], field
    assert spec["terminationGracePeriodSeconds"] == 7
    assert asked["tolerations"][0] in spec["tolerations"]
    assert [container["name"] for container in spec["initContainers"]] == ["mine"]
    assert [v for v in spec["volumes"] if v["name"] in ("claim", "share")] == asked["volumes"]
    mounts = {m["mountPath"]: m["name"] for m in spec["containers"][0]["volumeMounts"]}
    assert (mounts["/home/data/data"], mounts["/share"]) == ("claim", "share")
    assert "/home/data/data/" not in mounts, "the claim is not shadowed"
    assert pod["metadata"]["labels"]["team"] == "a"
    group = pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    assert group == "all-or-nothing"
    env = env_of(pod)
    assert (env["OWN"], env["MODEL_URL"]) == ("yes", "/home/data/model/m")
