"""Pods as processes: from their binding to the confirmation of their deletion."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gm.api.resources import CONFIG_MAPS, DATASETS, FEDERATED_LEARNING_JOBS, PODS
from tests.edge_stub.runner.harness import FAST, Edge, is_ready, status, waiting
from tests.edge_stub.runner.support import is_alive, pids_in


async def test_a_pod_runs_to_its_end(node: Edge) -> None:
    """Phase, conditions, container state and log of a pod that succeeds."""
    async with node.running():
        await node.create("ok", "echo hello; exit 0", restartPolicy="OnFailure")
        pod = await node.wait_phase("ok", "Succeeded")
        assert await node.log("ok") == "hello\n"
    ended = status(pod)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert pod["status"]["hostIP"] == node.address
    assert pod["status"]["podIP"].startswith(node.address.rpartition(".")[0])
    assert pod["status"]["qosClass"] == "BestEffort", "what the API server set is kept"
    assert not is_ready(pod)


async def test_a_pod_that_runs_is_ready_and_ends_when_it_is_deleted(node: Edge) -> None:
    """With SIGTERM first; the object goes when the processes have gone."""
    script = (
        "trap 'echo bye > /vol/bye; exit 0' TERM; echo $$$$ > /vol/pids; "
        "while :; do sleep 0.02; done"
    )
    volumes = [{"name": "v", "hostPath": {"path": "/v", "type": "DirectoryOrCreate"}}]
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/vol"}]}
    async with node.running():
        await node.create(
            "p", script, volumes=volumes, container=mounts, terminationGracePeriodSeconds=30
        )
        await node.wait_ready("p")
        (pid,) = await pids_in(node.root / "v" / "pids", 1)
        await node.delete("p")
        assert (node.root / "v" / "bye").exists()
        assert not is_alive(pid)
        pods = node.directory / "state" / "runner" / "pods"
        await node.cluster.wait_for(lambda: not list(pods.iterdir()), what="an empty directory")


async def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period(node: Edge) -> None:
    """And its last status tells of SIGKILL."""
    seen: list[dict[str, Any]] = []
    async with node.running():
        await node.create("p", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        await node.wait_ready("p")
        await node.cluster.wait_for(lambda: node.log("p"), what="its log")
        async with node.cluster.client() as client:
            listed = await client.list(PODS, namespace=node.cluster.namespace)
            await client.delete(PODS, node.cluster.key("p"), grace_period_seconds=1)
            watch = client.watch(
                PODS,
                namespace=node.cluster.namespace,
                resource_version=listed.resource_version,
                timeout_seconds=30,
                read_deadline_seconds=40,
            )
            async for event in watch:
                seen.append(msgspec.json.decode(event.object))
                if event.type == "DELETED":
                    break
            await watch.aclose()
    ended = status(seen[-1])["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert seen[-1]["status"]["phase"] == "Failed", "though it would have been started again"


async def test_a_forced_deletion_kills_at_once(node: Edge) -> None:
    """The object is gone before the runner hears of it."""
    volumes = [{"name": "v", "hostPath": {"path": "/v"}}]
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/vol"}]}
    async with node.running():
        await node.create(
            "p",
            "trap '' TERM; echo $$$$ > /vol/pids; sleep 1000",
            volumes=volumes,
            container=mounts,
            terminationGracePeriodSeconds=600,
        )
        (pid,) = await pids_in(node.root / "v" / "pids", 1)
        await node.delete("p", grace_seconds=0)
        await node.cluster.wait_for(lambda: not is_alive(pid), what="the end of the process")


async def test_a_grace_period_that_is_shortened_counts(node: Edge) -> None:
    """A second deletion asks for less patience."""
    async with node.running():
        await node.create("p", "trap '' TERM; sleep 1000", terminationGracePeriodSeconds=600)
        await node.wait_ready("p")
        async with node.cluster.client() as client:
            await client.delete(PODS, node.cluster.key("p"))
            await client.delete(PODS, node.cluster.key("p"), grace_period_seconds=1)
        await node.wait_gone("p")


async def test_restart_policies_decide_what_an_end_means(node: Edge) -> None:
    """Never: Failed; OnFailure: again; Always: again even after success."""
    async with node.running():
        await node.create("never", "exit 4", restartPolicy="Never")
        await node.create("failing", "exit 4", restartPolicy="OnFailure")
        await node.create("always", "exit 0", restartPolicy="Always")
        pod = await node.wait_phase("never", "Failed")
        assert status(pod)["restartCount"] == 0
        for name in ("failing", "always"):
            pod = await node.wait(name, lambda pod: status(pod).get("restartCount", 0) >= 1)
            assert pod["status"]["phase"] == "Running"


async def test_init_containers_run_in_order_before_the_others(node: Edge) -> None:
    """One fails first and is tried again."""
    volumes = [{"name": "e", "emptyDir": {}}]
    mount = [{"name": "e", "mountPath": "/e"}]
    init = [
        {"name": "one", "command": ["sh", "-c", "echo one >> /e/log"]},
        {
            "name": "two",
            "command": ["sh", "-c", "echo two >> /e/log; [ -e /e/x ] || { : > /e/x; exit 1; }"],
        },
    ]
    async with node.running():
        await node.create(
            "p",
            "cat /e/log",
            restartPolicy="OnFailure",
            volumes=volumes,
            initContainers=[{"image": "none", "volumeMounts": mount, **c} for c in init],
            container={"volumeMounts": mount},
        )
        pod = await node.wait_phase("p", "Succeeded")
        assert await node.log("p", "-c", "main") == "one\ntwo\ntwo\n"
    first, second = pod["status"]["initContainerStatuses"]
    assert (first["ready"], second["ready"]) == (True, True)
    assert (first["restartCount"], second["restartCount"]) == (0, 1)


async def test_an_init_container_that_fails_for_good_fails_the_pod(node: Edge) -> None:
    """With restartPolicy Never; the others never start."""
    async with node.running():
        await node.create(
            "p",
            "echo never",
            restartPolicy="Never",
            initContainers=[{"name": "i", "image": "none", "command": ["false"]}],
        )
        pod = await node.wait_phase("p", "Failed")
    assert waiting(pod)["reason"] == "PodInitializing"


async def test_a_sidecar_runs_beside_and_is_stopped_at_the_end(node: Edge) -> None:
    """An init container with restartPolicy Always."""
    sidecar = {
        "name": "side",
        "image": "none",
        "restartPolicy": "Always",
        "command": ["sleep", "1000"],
    }
    async with node.running():
        await node.create("p", "exit 0", restartPolicy="Never", initContainers=[sidecar])
        pod = await node.wait_phase("p", "Succeeded")
        pod = await node.wait(
            "p", lambda pod: status(pod, "initContainerStatuses")["state"].get("terminated")
        )
    assert status(pod, "initContainerStatuses")["state"]["terminated"]["exitCode"] == 143


async def test_a_missing_host_path_holds_the_pod_until_it_is_there(node: Edge) -> None:
    """FailedMount, and ContainerCreating meanwhile."""
    async with node.running():
        await node.create(
            "p",
            "cat $DATA/f; echo $DATA_PATH_PREFIX",
            restartPolicy="Never",
            volumes=[{"name": "d", "hostPath": {"path": "/a/b/", "type": "Directory"}}],
            container={
                "volumeMounts": [{"name": "d", "mountPath": "/home/data/a/b/"}],
                "env": [
                    {"name": "DATA", "value": "/home/data/a/b"},
                    {"name": "DATA_PATH_PREFIX", "value": "/home/data"},
                ],
            },
        )
        event = await node.wait_event("p", "FailedMount")
        assert "hostPath type check failed: /a/b/ is not a directory" in event["message"]
        pod = await node.wait("p", lambda pod: waiting(pod))
        assert waiting(pod)["reason"] == "ContainerCreating"
        pod = await node.wait("p", lambda pod: waiting(pod).get("message"))
        assert "/a/b/ is not a directory" in waiting(pod)["message"]
        (node.root / "a" / "b").mkdir(parents=True)
        (node.root / "a" / "b" / "f").write_text("data\n")
        await node.wait_phase("p", "Succeeded")
        assert await node.log("p") == f"data\n{node.root}\n"


async def test_a_pod_that_is_active_for_too_long_fails(node: Edge) -> None:
    """DeadlineExceeded; and its deletion is confirmed later."""
    async with node.running():
        await node.create("p", "sleep 1000", activeDeadlineSeconds=1)
        pod = await node.wait_phase("p", "Failed")
        assert pod["status"]["reason"] == "DeadlineExceeded"
        assert status(pod)["state"]["terminated"]["exitCode"] == 143
        await node.delete("p")


async def test_addresses_environment_and_host_network(node: Edge) -> None:
    """Own address or the node's; the LC is on the node."""
    env = [
        {"name": "LC_SERVER", "value": "http://localhost:9100"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    script = "echo $POD_IP $IP $HOST_IP $NODE $LC_SERVER"
    async with node.running():
        for name, host in (("own", False), ("host", True)):
            await node.create(
                name, script, hostNetwork=host, restartPolicy="Never", container={"env": env}
            )
        lc = f"http://{node.address}:9100"
        pod = await node.wait_phase("host", "Succeeded")
        assert pod["status"]["podIP"] == node.address
        told = (await node.log("host")).split()
        assert told == [node.address, node.address, node.address, node.name, lc]
        pod = await node.wait_phase("own", "Succeeded")
        address = pod["status"]["podIP"]
        assert address != node.address
        assert (await node.log("own")).split() == [address, address, node.address, node.name, lc]


async def test_lifecycle_hooks_are_not_run_and_that_is_said(node: Edge) -> None:
    """An event; the pod runs."""
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}
    async with node.running():
        await node.create("p", "sleep 1000", container=hook)
        await node.wait_ready("p")
        event = await node.wait_event("p", "Unsupported")
        assert "lifecycle hooks" in event["message"]


async def test_a_guest_runs_only_pods_of_sedna_objects_that_exist(node: Edge) -> None:
    """Others stay Pending with reason NotForThisNode in a condition and one event."""
    namespace = node.cluster.namespace
    job = {
        "apiVersion": FEDERATED_LEARNING_JOBS.api_version,
        "kind": FEDERATED_LEARNING_JOBS.kind,
        "metadata": {"name": "job"},
        "spec": {
            "aggregationWorker": {
                "model": {"name": "m"},
                "template": {"spec": {"containers": [{"name": "a", "image": "i"}]}},
            },
            "trainingWorkers": [
                {
                    "dataset": {"name": "d"},
                    "template": {"spec": {"containers": [{"name": "t", "image": "i"}]}},
                }
            ],
        },
    }
    async with node.cluster.client() as client:
        created = msgspec.json.decode(await client.create(FEDERATED_LEARNING_JOBS, namespace, job))

    def owned(uid: str, kind: str = FEDERATED_LEARNING_JOBS.kind) -> dict[str, Any]:
        return {
            "ownerReferences": [
                {
                    "apiVersion": DATASETS.api_version,
                    "kind": kind,
                    "name": "job",
                    "uid": uid,
                    "controller": True,
                }
            ]
        }

    async with node.running(any_pod=False):
        uid = created["metadata"]["uid"]
        await node.create("mine", "sleep 1000", metadata=owned(uid))
        await node.wait_ready("mine")
        await node.create("nobodys", "sleep 1000")
        await node.create("unknown-kind", "sleep 1000", metadata=owned(uid, "SomethingElse"))
        for name in ("nobodys", "unknown-kind"):
            pod = await node.wait(name, lambda pod: pod["status"].get("reason"))
            assert pod["status"]["phase"] == "Pending"
            ready = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
            assert (ready["status"], ready["reason"]) == ("False", "NotForThisNode")
            event = await node.wait_event(name, "NotForThisNode")
            assert event.get("count", 1) == 1
            await node.delete(name)
        taints = (await node.node())["spec"]["taints"]
        assert {"key": "sedna.io/runner", "effect": "NoSchedule"} in taints


async def test_a_guest_of_a_namespace_runs_nothing_of_others(node: Edge) -> None:
    """With --namespace."""
    async with node.running(any_pod=False, namespace="elsewhere"):
        await node.create("p", "sleep 1000")
        pod = await node.wait("p", lambda pod: pod["status"].get("reason"))
        assert "namespace elsewhere only" in pod["status"]["message"]


async def test_status_writes_survive_conflicts_and_keep_what_others_write(node: Edge) -> None:
    """Somebody else writes the same status all the time."""
    async with node.running():
        await node.create("p", "sleep 0.3; exit 1", restartPolicy="OnFailure")
        gate = {"type": "example.com/gate", "status": "True"}
        async with node.cluster.client() as client:
            for n in range(20):
                await node.wait("p", lambda pod: True)
                await client.patch(
                    PODS, node.cluster.key("p"), {"metadata": {"annotations": {"n": str(n)}}}
                )
            pod = await node.wait("p", is_ready)
            conditions = [*pod["status"]["conditions"], gate]
            await client.patch(
                PODS,
                node.cluster.key("p"),
                {"status": {"conditions": conditions}},
                subresource="status",
            )
        pod = await node.wait("p", lambda pod: status(pod).get("restartCount", 0) >= 1)
        assert "example.com/gate" in [c["type"] for c in pod["status"]["conditions"]]


async def test_an_unchanged_status_is_not_written(node: Edge) -> None:
    """The version stays the same while nothing happens."""
    async with node.running():
        await node.create("p", "sleep 1000")
        pod = await node.wait_ready("p")
        async with node.cluster.client() as client:
            await client.patch(PODS, node.cluster.key("p"), {"metadata": {"labels": {"a": "b"}}})
            labelled = msgspec.json.decode(await client.get(PODS, node.cluster.key("p")))
            # A pod made after it is through all of its own writes: the first had its chance.
            await node.create("q", "exit 0", restartPolicy="Never")
            await node.wait_phase("q", "Succeeded")
            after = msgspec.json.decode(await client.get(PODS, node.cluster.key("p")))
    assert after["metadata"]["resourceVersion"] == labelled["metadata"]["resourceVersion"]
    assert pod["status"] == after["status"]


async def test_mounted_config_follows_its_object(node: Edge) -> None:
    """Before long, without a change of the pod; while it is missing the files stay as they were."""
    namespace = node.cluster.namespace
    config = {"metadata": {"name": "m"}, "data": {"k": "one"}}
    script = (
        "until [ $(cat /m/k) = two ]; do sleep 0.02; done; echo seen; "
        "until [ $(cat /m/k) = three ]; do sleep 0.02; done"
    )
    tuning = msgspec.structs.replace(FAST, refresh_seconds=0.1)
    async with node.running(tuning), node.cluster.client() as client:
        await client.create(CONFIG_MAPS, namespace, config)
        await node.create(
            "p",
            script,
            restartPolicy="Never",
            volumes=[{"name": "m", "configMap": {"name": "m"}}],
            container={"volumeMounts": [{"name": "m", "mountPath": "/m"}]},
        )
        await node.wait_ready("p")
        await client.patch(CONFIG_MAPS, node.cluster.key("m"), {"data": {"k": "two"}})
        await node.cluster.wait_for(lambda: node.log("p"), what="the new text")
        await client.delete(CONFIG_MAPS, node.cluster.key("m"))
        await node.wait_event("p", "FailedMount")
        await client.create(CONFIG_MAPS, namespace, {**config, "data": {"k": "three"}})
        await node.wait_phase("p", "Succeeded")


async def test_a_pod_that_ends_well_at_its_deadline_has_failed_all_the_same(node: Edge) -> None:
    """Nobody sees it succeed in between."""
    phases: list[str] = []
    async with node.running(), node.cluster.client() as client:
        listed = await client.list(PODS, namespace=node.cluster.namespace)
        await node.create(
            "p",
            "trap 'exit 0' TERM; while :; do sleep 0.02; done",
            activeDeadlineSeconds=1,
            restartPolicy="Never",
        )
        await node.wait_phase("p", "Failed")
        watch = client.watch(
            PODS,
            namespace=node.cluster.namespace,
            resource_version=listed.resource_version,
            timeout_seconds=30,
            read_deadline_seconds=40,
        )
        async for event in watch:
            phases.append(msgspec.json.decode(event.object)["status"].get("phase", ""))
            if phases[-1] == "Failed":
                break
        await watch.aclose()
    assert "Succeeded" not in phases


@pytest.mark.parametrize("volume", [{"persistentVolumeClaim": {"claimName": "x"}}])
async def test_a_volume_that_is_not_supported_is_said_to_be(
    node: Edge, volume: dict[str, Any]
) -> None:
    """FailedMount, with what there is instead."""
    async with node.running():
        mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        await node.create("p", "true", volumes=[{"name": "v", **volume}], container=mounts)
        event = await node.wait_event("p", "FailedMount")
        assert "does not support persistentVolumeClaim" in event["message"]
        await node.delete("p")
