"""Containers of a pod: restarts, images, configuration and probes."""

from __future__ import annotations

import msgspec

from gm.api.resources import CONFIG_MAPS, SECRETS
from tests.edge_stub.runner.harness import FAST, Edge, is_ready, status, waiting


async def test_a_crashing_container_is_restarted_with_back_off(node: Edge) -> None:
    """Restart count, last state, waiting reason, event, and the log of the run before."""
    async with node.running(msgspec.structs.replace(FAST, backoff_max_seconds=60)):
        await node.create("p", "echo run $$$$; exit 3")
        pod = await node.wait("p", lambda pod: status(pod).get("restartCount", 0) >= 2)
        pod = await node.wait(
            "p", lambda pod: waiting(pod).get("reason") == "CrashLoopBackOff", "the back-off"
        )
        event = await node.wait_event("p", "BackOff")
        previous = await node.log("p", "--previous")
    assert status(pod)["lastState"]["terminated"]["exitCode"] == 3
    assert waiting(pod)["message"].startswith("back-off ")
    assert f"container=main pod=p_{node.cluster.namespace}(" in waiting(pod)["message"]
    assert pod["status"]["phase"] == "Running"
    assert event["type"] == "Warning"
    assert previous.startswith("run ")


async def test_an_unknown_image_waits_and_says_how_to_add_it(node: Edge) -> None:
    """ErrImageNeverPull, in the container's state and in an event."""
    async with node.running():
        await node.create("p", container={"image": "me/unknown:v1"})
        pod = await node.wait("p", lambda pod: waiting(pod).get("reason") == "ErrImageNeverPull")
        await node.wait_event("p", "ErrImageNeverPull")
        await node.delete("p")
    assert "--image 'me/unknown:v1=PROGRAM ARG...'" in waiting(pod)["message"]


async def test_an_image_of_the_table_runs_without_command(node: Edge) -> None:
    """With the container's args added."""
    async with node.running(images={"me/echo:v1": ("echo", "from", "the", "table")}):
        await node.create(
            "p", container={"image": "me/echo:v1", "args": ["args"]}, restartPolicy="Never"
        )
        await node.wait_phase("p", "Succeeded")
        assert await node.log("p") == "from the table args\n"


async def test_a_program_that_does_not_exist_is_a_start_error(node: Edge) -> None:
    """Exit code 128, and the reason in words."""
    async with node.running():
        await node.create("p", container={"command": ["no-such-program"]}, restartPolicy="Never")
        pod = await node.wait_phase("p", "Failed")
    ended = status(pod)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert 'exec: "no-such-program"' in ended["message"]


async def test_secrets_and_config_maps_reach_the_container(node: Edge) -> None:
    """As variables and as files; one that is missing is waited for."""
    namespace = node.cluster.namespace
    async with node.running(), node.cluster.client() as client:
        await client.create(
            CONFIG_MAPS,
            namespace,
            {"metadata": {"name": "m"}, "data": {"k": "conf"}, "binaryData": {"b": "AP8="}},
        )
        await node.create(
            "p",
            "echo $S $K; cat /m/k; wc -c < /m/b",
            restartPolicy="Never",
            volumes=[{"name": "m", "configMap": {"name": "m"}}],
            container={
                "volumeMounts": [{"name": "m", "mountPath": "/m"}],
                "env": [
                    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
                    {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                ],
            },
        )
        pod = await node.wait(
            "p", lambda pod: waiting(pod).get("reason") == "CreateContainerConfigError"
        )
        assert waiting(pod)["message"] == 'secret "s" not found'
        await client.create(
            SECRETS, namespace, {"metadata": {"name": "s"}, "data": {"key": "aGlkZGVu"}}
        )
        await node.wait_phase("p", "Succeeded")
        assert (await node.log("p")).split() == ["hidden", "conf", "conf2"]


async def test_readiness_decides_whether_a_pod_is_ready(node: Edge) -> None:
    """And a change of it is told."""
    volumes = [{"name": "v", "hostPath": {"path": "/v"}}]
    probe = {"exec": {"command": ["cat", "/vol/ready"]}, "periodSeconds": 1, "timeoutSeconds": 20}
    async with node.running():
        await node.create(
            "p",
            "sleep 1000",
            volumes=volumes,
            container={
                "volumeMounts": [{"name": "v", "mountPath": "/vol"}],
                "readinessProbe": {**probe, "failureThreshold": 1},
            },
        )
        await node.wait_event("p", "Unhealthy")
        pod = await node.wait_phase("p", "Running")
        assert not is_ready(pod)
        (node.root / "v" / "ready").touch()
        await node.wait_ready("p")
        (node.root / "v" / "ready").unlink()
        await node.wait("p", lambda pod: not is_ready(pod), "not Ready")


async def test_liveness_restarts_and_startup_comes_first(node: Edge) -> None:
    """A container that a probe condemns gets SIGTERM and is run again."""
    startup = {"exec": {"command": ["true"]}, "periodSeconds": 1, "timeoutSeconds": 20}
    liveness = {**startup, "exec": {"command": ["false"]}, "failureThreshold": 1}
    async with node.running():
        await node.create(
            "p", "sleep 1000", container={"startupProbe": startup, "livenessProbe": liveness}
        )
        pod = await node.wait("p", lambda pod: status(pod).get("restartCount", 0) >= 1)
        await node.wait_event("p", "Killing")
    assert status(pod)["lastState"]["terminated"]["exitCode"] == 143


async def test_a_startup_probe_that_fails_restarts(node: Edge) -> None:
    """The container never counts as started."""
    startup = {"exec": {"command": ["false"]}, "failureThreshold": 1, "timeoutSeconds": 20}
    async with node.running():
        await node.create("p", "sleep 1000", container={"startupProbe": startup})
        pod = await node.wait("p", lambda pod: status(pod).get("restartCount", 0) >= 1)
    assert not status(pod)["started"] or status(pod)["restartCount"] >= 1


async def test_a_probe_ends_one_of_several_containers_for_good(node: Edge) -> None:
    """With Never it is not run again; one that ignores SIGTERM is killed after its grace period."""
    liveness = {
        "exec": {"command": ["test", "!", "-e", "/vol/bad"]},
        "periodSeconds": 1,
        "timeoutSeconds": 20,
        "failureThreshold": 1,
    }
    mounts = [{"name": "v", "mountPath": "/vol"}]
    sick = {
        "name": "sick",
        "image": "none",
        "command": ["sh", "-c", "trap '' TERM; touch /vol/bad; while :; do sleep 0.05; done"],
        "livenessProbe": liveness,
        "volumeMounts": mounts,
    }
    well = {"name": "well", "image": "none", "command": ["sleep", "1000"]}
    async with node.running():
        await node.create(
            "p",
            restartPolicy="Never",
            containers=[sick, well],
            volumes=[{"name": "v", "hostPath": {"path": "/v"}}],
        )
        pod = await node.wait("p", lambda pod: "terminated" in status(pod).get("state", {}))
        event = await node.wait_event("p", "Killing")
    assert status(pod)["state"]["terminated"]["exitCode"] == 137
    assert pod["status"]["phase"] == "Running"
    assert event["message"] == "Container sick failed liveness probe"


async def test_what_is_no_file_any_more_is_no_termination_message(node: Edge) -> None:
    """A pipe that nobody writes to is not waited for."""
    script = "rm /dev/termination-log; mkfifo /dev/termination-log"
    async with node.running():
        await node.create("p", script, restartPolicy="Never")
        pod = await node.wait_phase("p", "Succeeded")
    assert "message" not in status(pod)["state"]["terminated"]


async def test_the_end_of_the_log_explains_where_a_pod_asks_for_it(node: Edge) -> None:
    """terminationMessagePolicy FallbackToLogsOnError."""
    async with node.running():
        await node.create(
            "p",
            "echo the reason >&2; exit 1",
            restartPolicy="Never",
            container={"terminationMessagePolicy": "FallbackToLogsOnError"},
        )
        pod = await node.wait_phase("p", "Failed")
    assert status(pod)["state"]["terminated"]["message"] == "the reason\n"
