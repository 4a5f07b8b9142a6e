"""The runner as a whole: start, stop, kill -9 and what is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
import yaml

from gm.api.meta import ObjectKey
from gm.api.resources import NODES, PODS
from gm.edge_stub.runner import Runner
from gm.errors import ConfigError, Unauthorized
from gm.kube import Client
from tests.edge_stub.runner.harness import FAST, Edge
from tests.edge_stub.runner.support import is_alive, loopback, pids_in, wait_dead

# `$$$$` reaches the shell as `$$`: Kubernetes expands `$$` to `$` in a command.
FAMILY = """
cd /vol
sleep 1000 & echo $! >> pids
sh -c 'sleep 1000 & echo $! >> pids; sleep 1000' & echo $! >> pids
(setsid sleep 1000 & echo $! >> pids) &
echo $$$$ >> pids
sleep 1000
"""
VOLUME: dict[str, Any] = {
    "volumes": [{"name": "v", "hostPath": {"path": "/v", "type": "DirectoryOrCreate"}}],
    "container": {"volumeMounts": [{"name": "v", "mountPath": "/vol"}]},
}

PROGRAM = """
import asyncio, sys
from pathlib import Path
from gm.edge_stub.runner import Runner, RunnerSettings
from tests.edge_stub.runner.harness import FAST

async def main() -> None:
    node, address, directory, kubeconfig = sys.argv[1:]
    runner = Runner(RunnerSettings(node=node, address=address, root=Path(directory) / "root",
        state=Path(directory) / "state", kubeconfig=Path(kubeconfig), any_pod=True), FAST)
    await runner.run(asyncio.Event())

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def node_process(node: Edge) -> AsyncIterator[subprocess.Popen[bytes]]:
    """The node as a process of its own; killed at the end, if it still lives."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PROGRAM,
            node.name,
            node.address,
            str(node.directory),
            node.cluster.kubeconfig,
        ]
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_kill_9_of_the_node_leaves_no_process_and_is_a_reboot_to_its_pods(
    node: Edge,
) -> None:
    """Grandchildren of a shell die too; a new node starts the container again, counting it."""
    async with node_process(node) as process:
        await node.create("p", FAMILY, **VOLUME)
        await node.create("done", "exit 0", restartPolicy="OnFailure")
        await node.create("never", "sleep 1000", restartPolicy="Never")
        first = await pids_in(node.root / "v" / "pids", 5)
        await node.wait_ready("p")
        await node.wait_ready("never")
        await node.wait_phase("done", "Succeeded")
        assert all(is_alive(pid) for pid in first)
        process.kill()
        process.wait()
    await wait_dead(*first)
    (node.root / "v" / "pids").unlink()
    async with node.running():
        second = await pids_in(node.root / "v" / "pids", 5)
        pod = await node.wait(
            "p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1
        )
        last = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
        assert last["exitCode"] == 137
        done = await node.wait_phase("done", "Succeeded")
        assert done["status"]["containerStatuses"][0]["restartCount"] == 0
        await node.wait_phase("never", "Failed")
    assert not any(is_alive(pid) for pid in second), "stopping ends them as well"


def parent_of(pid: int) -> int:
    """The parent's process id."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def is_shim(pid: int) -> bool:
    """Whether a process is the shim of a container."""
    return b"shim.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_what_killed_shims_left_is_killed_by_the_next_start(node: Edge) -> None:
    """Node and shim are killed together, as the kernel may do when memory runs out."""
    async with node_process(node) as process:
        await node.create("p", FAMILY, **VOLUME)
        pids = await pids_in(node.root / "v" / "pids", 5)
        await node.wait_ready("p")
        (shim,) = {parent for parent in map(parent_of, pids) if is_shim(parent)}
        os.kill(shim, signal.SIGSTOP)  # it must not get to clean up
        process.kill()
        process.wait()
        os.kill(shim, signal.SIGKILL)
    async with node.running():
        await wait_dead(*pids)


async def test_stopping_is_bounded_leaves_nothing_and_marks_the_node(node: Edge) -> None:
    """Pods that ignore SIGTERM do not hold it up; their objects stay for the next start."""
    async with node.running():
        script = "trap '' TERM; echo $$$$ > /vol/pids; while :; do sleep 0.05; done"
        await node.create("p", script, terminationGracePeriodSeconds=600, **VOLUME)
        pids = await pids_in(node.root / "v" / "pids", 1)
        await node.wait_ready("p")
    assert not any(is_alive(pid) for pid in pids)
    ready = next(c for c in (await node.node())["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "RunnerStopped")
    pod = await node.cluster.get(PODS, "p")
    assert pod is not None
    assert "running" in pod["status"]["containerStatuses"][0]["state"], "it was lost, not ended"


async def test_a_pod_that_was_deleted_meanwhile_leaves_no_directory(node: Edge) -> None:
    """Its object went while the runner was away."""
    async with node.running():
        await node.create("p", "sleep 1000")
        await node.wait_ready("p")
    pods = node.directory / "state" / "runner" / "pods"
    assert len(list(pods.iterdir())) == 1
    await node.cluster.finish_delete("p")
    async with node.running():
        await node.cluster.wait_for(lambda: not list(pods.iterdir()), what="an empty directory")


async def test_a_pod_that_was_to_end_meanwhile_ends_at_the_next_start(node: Edge) -> None:
    """It is not started again for that."""
    async with node.running():
        await node.create("p", "echo x >> /vol/runs; sleep 1000", **VOLUME)
        await node.wait_ready("p")
    async with node.cluster.client() as client:
        await client.delete(PODS, node.cluster.key("p"))
    async with node.running():
        await node.wait_gone("p")
    assert (node.root / "v" / "runs").read_text() == "x\n"


async def test_logs_of_a_pod_that_had_ended_survive_a_restart(node: Edge) -> None:
    """And its status is not touched."""
    async with node.running():
        await node.create("p", "echo kept; exit 1", restartPolicy="Never")
        before = await node.wait_phase("p", "Failed")
    async with node.running():
        assert await node.log("p") == "kept\n"
        after = await node.cluster.get(PODS, "p")
    assert after is not None
    assert after["status"] == before["status"]


async def test_logs_can_be_followed_with_kubectl(node: Edge) -> None:
    """Until the container ends."""
    async with node.running():
        await node.create(
            "p",
            "echo one; while [ ! -e /vol/go ]; do sleep 0.02; done; echo two",
            restartPolicy="Never",
            **VOLUME,
        )
        await node.wait_ready("p")
        async with asyncio.TaskGroup() as group:
            following = group.create_task(node.log("p", "-f"))
            (node.root / "v" / "go").touch()
        assert following.result() == "one\ntwo\n"


async def test_two_runners_do_not_share_a_state_directory(node: Edge) -> None:
    """The second one says so."""
    async with node.running():
        with pytest.raises(ConfigError, match="another runner uses this directory"):
            await Runner(node.settings(address=loopback())).run(asyncio.Event())


async def test_another_runners_node_name_is_refused(node: Edge, tmp_path: Path) -> None:
    """It has its own state directory, so the Node is not its own."""
    async with node.running():
        other = node.settings(address=loopback(), state=tmp_path / "other")
        with pytest.raises(ConfigError, match="was made by another runner"):
            await Runner(other).run(asyncio.Event())


async def test_an_api_server_that_does_not_answer_is_waited_for(
    node: Edge, tmp_path: Path, unused_tcp_port: int
) -> None:
    """Until it answers, or until the runner is told to stop."""
    config = node.cluster.read_kubeconfig()
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{unused_tcp_port}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    stopping = asyncio.Event()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(Runner(node.settings(kubeconfig=kubeconfig), FAST).run(stopping))
        await asyncio.sleep(0.2)
        stopping.set()


async def test_credentials_that_are_refused_stop_the_start(node: Edge, tmp_path: Path) -> None:
    """No waiting mends them."""
    config = node.cluster.read_kubeconfig()
    config["users"][0]["user"] = {"token": "wrong"}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    async with asyncio.timeout(30):
        with pytest.raises(Unauthorized):
            await Runner(node.settings(kubeconfig=kubeconfig), FAST).run(asyncio.Event())


async def test_a_directory_that_can_not_be_made_stops_the_start(node: Edge) -> None:
    """Named, with the reason."""
    (node.directory).mkdir(parents=True)
    (node.directory / "file").touch()
    with pytest.raises(ConfigError, match="can not be made"):
        await Runner(node.settings(state=node.directory / "file")).run(asyncio.Event())


async def test_a_stop_that_comes_early_is_heard(node: Edge) -> None:
    """Before the pods are known."""
    stopping = asyncio.Event()
    stopping.set()
    async with asyncio.timeout(30):
        await Runner(node.settings()).run(stopping)
    ready = next(c for c in (await node.node())["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "False"


def test_it_works_on_uvloop_too(tmp_path: Path) -> None:
    """The event loop of `gm edge`; pipes and processes are its own there."""
    from tests.cluster import servers
    from tests.cluster.cluster import Cluster

    async def main() -> None:
        cluster = Cluster("embedded", servers.server("embedded"), "default")
        node = Edge(cluster, tmp_path)
        async with node.running():
            await node.create(f"{node.name}-p", "echo uv; exit 5", restartPolicy="Never")
            await node.wait_phase(f"{node.name}-p", "Failed")
            assert await node.log(f"{node.name}-p") == "uv\n"
            await node.delete(f"{node.name}-p")
        async with await Client.connect(kubeconfig=cluster.kubeconfig) as client:
            await client.delete(NODES, ObjectKey("", node.name))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
