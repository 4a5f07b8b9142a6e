"""The federated-learning controller against API servers, with faults."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from gm.api.meta import ResourceType
from gm.api.resources import (
    CONFIG_MAPS,
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    MODELS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
)
from gm.controllers.conditions import timestamp
from gm.errors import ServiceError, api_error
from gm.kube import nesting
from gm.kube.client import MERGE_PATCH
from tests.controllers.conftest import Site
from tests.controllers.faults import Call
from tests.controllers.support import env_of, template


def uids(pods: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Name -> uid."""
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def owner_reference(
    name: str, uid: str, resource: ResourceType = FEDERATED_LEARNING_JOBS
) -> dict[str, Any]:
    """The controller owner of a child, by default a job."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def condition(status: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """A condition by type."""
    return next((c for c in status.get("conditions") or [] if c["type"] == kind), None)


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


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_nothing_is_made_after_a_job_was_deleted_P0_016(site: Site, propagation: str) -> None:
    """Its pods go first, while the cache still shows the job."""
    await site.references()
    async with site.gm():
        pods = await site.run_job()
        made = len(site.faults.creates())
        with site.faults.held("FederatedLearningJob"):
            await site.delete(FEDERATED_LEARNING_JOBS, "job", propagation_policy=propagation)
            for name in pods:
                await site.cluster.finish_delete(name)
            await site.settled(but=("FederatedLearningJob",))
            assert len(site.faults.creates()) == made
        await site.settled()
        assert len(site.faults.creates()) == made


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
async def test_a_finished_job_never_runs_again_P0_017(site: Site, end: str) -> None:
    """Pods collected, everything listed anew, GM restarted: no create, the same status."""
    await site.references()
    async with site.gm():
        pods = await site.run_job(runPolicy={"backoffLimit": 0})
        await site.set_phase(end)
        await site.wait_phase(end)
        status = await site.status()
        made = len(site.faults.creates())
        for name in pods:
            await site.cluster.finish_delete(name)
        await site.wait_pods(0)
        for kind in ("FederatedLearningJob", "Pod", "Service"):
            async with site.faults.blind(kind):
                await site.patch(
                    FEDERATED_LEARNING_JOBS, "job", {"metadata": {"labels": {kind: ""}}}
                )
            await site.settled()
        assert await site.status() == status
    async with site.gm():
        await site.settled()
        assert await site.status() == status
    assert site.faults.creates()[made:] == []


async def test_a_success_is_kept_when_its_pod_goes_before_the_status_was_written_P0_017(
    site: Site,
) -> None:
    """Status writes fail while the pod succeeds and is collected."""
    await site.references()
    async with site.gm():
        await site.run_job()
        made = len(site.faults.creates())

        def fail(call: Call) -> ServiceError | None:
            return api_error("patch", code=500, reason="Boom") if call.is_job_status else None

        site.faults.fail = fail
        before = len(site.faults.calls)
        await site.set_phase("Succeeded", "job-train-0")
        await site.cluster.wait_for(
            lambda: any(call.is_job_status for call in site.faults.calls[before:]),
            what="a status write",
        )
        await site.cluster.finish_delete("job-train-0")
        await site.settled()
        site.faults.heal()
        status = await site.wait_status(lambda s: s["succeeded"] == 1)
        assert status["workers"][1]["phase"] == "Succeeded"
        await site.settled()
        assert len(site.faults.creates()) == made


async def test_a_job_all_of_whose_pods_were_collected_at_once_has_succeeded_P0_017(
    site: Site,
) -> None:
    """GM saw them succeed, and could not write it down before they went."""
    await site.references()
    async with site.gm():
        pods = await site.run_job()
        made = len(site.faults.creates())

        def fail(call: Call) -> ServiceError | None:
            return api_error("patch", code=500, reason="Boom") if call.is_job_status else None

        site.faults.fail = fail
        await site.set_phase("Succeeded")
        for name in pods:
            await site.cluster.finish_delete(name)
        await site.settled()
        site.faults.heal()
        status = await site.wait_phase("Succeeded")
        assert [worker["phase"] for worker in status["workers"]] == ["Succeeded"] * 3
        assert (status["succeeded"], status["active"], status["failed"]) == (3, 0, 0)
        await site.settled()
    assert len(site.faults.creates()) == made


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


BAD: dict[str, tuple[str, str, Callable[[dict[str, Any]], Any]]] = {
    # name: type and reason of the condition, and what is wrong with the spec
    "empty-model": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["aggregationWorker"]["model"].update(name=""),
    ),
    "no-trainers": ("InvalidSpec", "InvalidSpec", lambda spec: spec.update(trainingWorkers=[])),
    "bad-escape": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["aggregationWorker"]["model"].update(name="bad-escape"),
    ),
    "bad-host": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["aggregationWorker"]["model"].update(name="bad-host"),
    ),
    "numbers": ("InvalidSpec", "InvalidSpec", lambda spec: container(spec).update(args=[1, 2])),
    "bad-name": ("InvalidSpec", "InvalidSpec", lambda spec: container(spec).update(name="A B")),
    "no-template": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["trainingWorkers"][0].update(template=None),
    ),
    "no-spec": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["trainingWorkers"][0]["template"].update(spec=None),
    ),
    "strange": ("InvalidSpec", "InvalidSpec", lambda spec: spec.update(minParticipants="two")),
    "deep": ("InvalidSpec", "InvalidSpec", lambda spec: spec.update(deep=nested(600))),
    "no-dataset": (
        *("Waiting", "DatasetNotFound"),
        lambda spec: spec["trainingWorkers"][0]["dataset"].update(name="unknown"),
    ),
    "no-endpoint": (
        *("Waiting", "CredentialInvalid"),
        lambda spec: spec["aggregationWorker"]["model"].update(name="no-endpoint"),
    ),
}


def container(spec: dict[str, Any]) -> dict[str, Any]:
    """A trainer's container."""
    found: dict[str, Any] = spec["trainingWorkers"][0]["template"]["spec"]["containers"][0]
    return found


def nested(levels: int) -> Any:
    """A value of so many levels."""
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


async def test_any_bad_job_leaves_a_good_one_alone_P0_024(site: Site) -> None:
    """Whatever a lax CRD lets through: condition and event; the good job next to it runs."""
    await site.references()
    await site.model("bad-escape", url="s3://b/%zz")
    await site.model("bad-host", url="http://a b/")
    await site.model("no-endpoint", url="s3://b/m", credentialName="bare")
    data = dict.fromkeys(("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"), "QUtJQQ==")
    await site.create(SECRETS, {"metadata": {"name": "bare"}, "data": data})

    def alter(job: dict[str, Any]) -> None:
        if (name := job["metadata"]["name"]) in BAD:
            BAD[name][2](job["spec"])

    site.faults.alter = alter
    async with site.gm() as manager:
        for name, (kind, reason, _) in BAD.items():
            await site.submit(name)
            status = await site.wait_status(lambda s, kind=kind: condition(s, kind), name)
            told = condition(status, kind)
            assert told is not None
            assert (status["phase"], told["reason"]) == ("Pending", reason), told
            await site.run_job(f"good-{name}")
            assert manager.problems() == []

            async def is_event(name: str = name, reason: str = reason) -> bool:
                about = [e["involvedObject"]["name"] for e in await site.events(reason)]
                return name in about

            await site.cluster.wait_for(is_event)
            await site.delete(FEDERATED_LEARNING_JOBS, f"good-{name}")


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
@pytest.mark.parametrize("levels", [250, 1200, 9000])
async def test_a_job_that_no_decoder_takes_leaves_a_good_one_alone_P0_024(
    site: Site, levels: int
) -> None:
    """A real API server stores it; corrected, it runs."""
    await site.references()
    body = {
        "apiVersion": FEDERATED_LEARNING_JOBS.api_version,
        "kind": FEDERATED_LEARNING_JOBS.kind,
        **site.job("deep"),
    }
    container(body["spec"])["odd"] = "DEEP"
    deep = '{"a":' * levels + "1" + "}" * levels
    text = msgspec.json.encode(body).replace(b'"DEEP"', deep.encode())
    key = site.cluster.key("deep")

    async def told() -> str:
        async with site.cluster.client() as client:
            raw = nesting.outline(await client.get(FEDERATED_LEARNING_JOBS, key))
        status = msgspec.json.decode(raw).get("status", {})
        return str((condition(status, "InvalidSpec") or {}).get("message", ""))

    async with site.gm() as manager, site.cluster.client() as client:
        path = FEDERATED_LEARNING_JOBS.path(site.namespace)
        assert (await client.raw("POST", path, body=text)).status == 201
        message = await site.cluster.wait_for(told)
        assert message.startswith("the object: is nested more than 200 levels deep; correct it")
        await site.run_job("good")
        assert manager.problems() == []
        await client.raw(
            "PATCH",
            FEDERATED_LEARNING_JOBS.path(site.namespace, "deep"),
            body=msgspec.json.encode({"spec": site.job("deep")["spec"]}),
            content_type=MERGE_PATCH,
        )
        await site.wait_pods(3, "deep")


async def test_one_bad_job_does_not_stop_the_others_P0_024(site: Site) -> None:
    """As it is applied: what the CRD lets through gets a condition, and the good job runs."""
    await site.references()
    await site.model("bad-url", url="s3://b/%zz")
    bad: dict[str, dict[str, Any]] = {
        "no-model": {"aggregationWorker": {"model": {"name": ""}, "template": template()}},
        "no-trainers": {"trainingWorkers": []},
        "bad-url": {
            "aggregationWorker": {"model": {"name": "bad-url"}, "template": template()},
        },
        "bad-image": {
            "aggregationWorker": {
                "model": {"name": "m"},
                "template": {"spec": {"containers": [{"name": "NOT A NAME", "image": "x"}]}},
            }
        },
    }
    accepted = []
    async with site.gm():
        for name, change in bad.items():
            body = site.job(name)
            body["spec"] |= change
            try:
                await site.create(FEDERATED_LEARNING_JOBS, body)
                accepted.append(name)
            except ServiceError:
                continue  # the CRD refuses it already
        assert accepted
        await site.run_job("good")
        for name in accepted:
            await site.wait_status(lambda s: condition(s, "InvalidSpec"), name)
        await site.cluster.wait_for(lambda: site.events("InvalidSpec"))


async def test_a_job_waits_for_its_references_and_starts_by_itself_P1_071(site: Site) -> None:
    """Model, dataset and node: named, and nobody has to touch the job."""
    async with site.gm():
        await site.submit(trainers=1)
        status = await site.wait_status(lambda s: condition(s, "Waiting"), seconds=5)
        told = condition(status, "Waiting")
        assert told is not None
        assert told["reason"] == "ModelNotFound"
        assert status["phase"] == "Pending"
        await site.cluster.wait_for(lambda: site.events("ModelNotFound"))
        await site.model()
        await site.wait_status(lambda s: _reason(s) == "DatasetNotFound", seconds=5)
        await site.dataset("d0", "edge0")
        await site.wait_status(lambda s: _reason(s) == "NodeNotFound", seconds=5)
        await site.nodes("cloud", "edge0")
        await site.wait_status(lambda s: s.get("active") == 2, seconds=5)
        await site.wait_status(lambda s: not condition(s, "Waiting"))
        assert len(await site.events("ModelNotFound")) == 1
        pretrained = {"name": "base"}
        await site.submit("second", trainers=1, pretrainedModel=pretrained)
        status = await site.wait_status(lambda s: condition(s, "Waiting"), "second", seconds=5)
        assert "Model base" in (condition(status, "Waiting") or {})["message"]
        await site.model("base")
        await site.wait_status(lambda s: s.get("active") == 2, "second", seconds=5)


def _reason(status: dict[str, Any]) -> str:
    waiting = condition(status, "Waiting")
    return waiting["reason"] if waiting else ""


async def test_a_job_waits_for_a_secret_and_starts_by_itself_P1_071(site: Site) -> None:
    """Secrets are read one by one, each second; keys never appear in a pod's spec."""
    await site.nodes("cloud", "edge0")
    await site.model(url="s3://bucket/m", credentialName="s3")
    await site.dataset("d0", "edge0")
    async with site.gm():
        await site.submit(trainers=1)
        await site.wait_status(lambda s: _reason(s) == "SecretNotFound")
        data = {
            k: base64.b64encode(b"AKIATEST").decode()
            for k in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        }
        await site.create(SECRETS, {"metadata": {"name": "s3"}, "data": data})
        await site.wait_status(lambda s: _reason(s) == "CredentialInvalid")
        endpoint = {"metadata": {"annotations": {"s3-endpoint": "store:9000"}}}
        await site.patch(SECRETS, "s3", endpoint)
        pods = await site.wait_pods(2)
    env = env_of(pods["job-train-0"])
    assert env["S3_ENDPOINT_URL"] == "https://store:9000"
    assert env["ACCESS_KEY_ID"]["secretKeyRef"]["name"] == "s3"
    assert "AKIATEST" not in str(pods)


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
        await site.wait_status(lambda s: _reason(s) == "AggregatorNotBound")
        await site.cluster.bind("job-aggregation", site.node("cloud"))
        pods = await site.wait_pods(2)
        assert env_of(pods["job-train-0"])["AGG_IP"] == "10.9.0.1"
        await site.cluster.bind("job-train-0", site.node("edge0"))
        key = f"federatedlearningjob {site.namespace}/job"
        await edge.wait_for(lambda: key in edge.held)


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


async def test_changed_models_data_and_nodes_are_shown_and_leave_running_jobs_alone(
    site: Site,
) -> None:
    """One condition and one event; when all is as it was, the condition goes."""
    await site.references()

    def changes(status: dict[str, Any]) -> str:
        return str((condition(status, "ReferenceChanged") or {}).get("message", ""))

    async with site.gm():
        before = uids(await site.run_job())
        await site.patch(DATASETS, "d0", {"spec": {"url": "/elsewhere/train.txt"}})
        await site.wait_status(lambda s: "Dataset d0 has another url;" in changes(s))
        await site.delete(MODELS, "m")
        async with site.cluster.client() as client:
            await client.raw("DELETE", NODES.path(name=site.node("edge1")))
        told = "Model m was deleted, Dataset d0 has another url, Node "
        status = await site.wait_status(
            lambda s: told in changes(s) and f"Node {site.node('edge1')} was" in changes(s)
        )
        assert status["phase"] == "Running"
        await site.cluster.wait_for(lambda: site.events("ReferenceChanged"))
        await site.settled()
        pods = await site.pods()
        assert uids(pods) == before
        assert all("deletionTimestamp" not in p["metadata"] for p in pods.values())
        await site.model()
        await site.nodes("edge1")
        await site.patch(DATASETS, "d0", {"spec": {"url": "/data/train.txt"}})
        await site.wait_status(lambda s: not changes(s))
        assert uids(await site.pods()) == before


async def test_an_edit_of_a_finished_job_is_told_and_changes_nothing_P0_019(site: Site) -> None:
    """An event and nothing else."""
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.set_phase("Succeeded")
        await site.wait_phase("Succeeded")
        before, made = await site.status(), len(site.faults.creates())
        workers = site.job(trainers=1)["spec"]["trainingWorkers"]
        await site.patch(FEDERATED_LEARNING_JOBS, "job", {"spec": {"trainingWorkers": workers}})
        await site.cluster.wait_for(lambda: site.events("EditIgnored"))
        await site.settled()
        assert await site.status() == before
        assert len(site.faults.creates()) == made


async def test_a_finished_job_is_removed_when_its_time_has_come_P2_097(site: Site) -> None:
    """ttlSecondsAfterFinished, also over a restart of GM; its pods go with it."""
    await site.cluster.start_controllers()
    await site.references()
    async with site.gm():
        await site.run_job(runPolicy={"ttlSecondsAfterFinished": 2})
        await site.set_phase("Succeeded")
        await site.wait_phase("Succeeded")
    async with site.gm():

        async def is_gone() -> bool:
            job = await site.cluster.get(FEDERATED_LEARNING_JOBS, "job")
            return job is None and not await site.pods() and not await site.services()

        await site.cluster.wait_for(is_gone, timeout_seconds=10)


async def test_a_suspended_job_stops_and_is_resumed_P2_101(site: Site) -> None:
    """Pods go, and come back once."""
    await site.references()
    async with site.gm():
        pods = await site.run_job()
        await site.patch(FEDERATED_LEARNING_JOBS, "job", {"spec": {"runPolicy": {"suspend": True}}})
        await site.wait_phase("Suspended")
        for name in pods:
            await site.cluster.finish_delete(name)
        await site.wait_pods(0)
        await site.settled()
        assert await site.pods() == {}
        resume = {"spec": {"runPolicy": {"suspend": False}}}
        await site.patch(FEDERATED_LEARNING_JOBS, "job", resume)
        await site.wait_pods(3)
        await site.set_phase("Running")
        await site.wait_phase("Running")


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
