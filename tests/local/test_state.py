"""``gm up --state``: what dies is started again, and goes on with the objects that it had."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
from pathlib import Path

import pytest
import yaml

from gm.api.meta import ObjectKey
from gm.api.resources import FEDERATED_LEARNING_JOBS
from gm.api.sedna import FederatedLearningJob
from gm.errors import ConfigError
from gm.kube import Client, Informer
from gm.local.directory import StateDirectory, free_directory
from gm.local.network import LoopbackNetwork
from gm.local.up import UpSettings, up
from tests.local.test_demo import fast_manifest, gm, output_until, processes_of, wait_gone

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("whole-systems")]

READY = "Ctrl-C stops everything"
JOB = ObjectKey("default", "fl-digits")


def slow_manifest(path: Path) -> Path:
    """The example with four rounds, slow enough to be killed amid."""
    documents = list(yaml.safe_load_all(fast_manifest(path).read_text()))
    job = next(d for d in documents if d["kind"] == "FederatedLearningJob")
    (container,) = job["spec"]["aggregationWorker"]["template"]["spec"]["containers"]
    container["env"].append({"name": "ROUND_SECONDS", "value": "1"})
    path.write_text(yaml.safe_dump_all(documents))
    return path


def pid_of(directory: Path, name: str) -> int:
    """Process id of a program of the system in ``directory``; 0 if it does not run."""
    pids = dict(line.split() for line in (directory / "pids").read_text().splitlines())
    return int(pids.get(name, 0))


async def submit(kubeconfig: Path, manifest: Path) -> None:
    """Apply ``manifest``."""
    from gm.local.apply import apply, load_manifests

    async with await Client.connect(kubeconfig=str(kubeconfig)) as client:
        for document in load_manifests(manifest):
            await apply(client, document, namespace="default")


async def wait_job(kubeconfig: Path, *, phase: str = "", round_: int = 0) -> FederatedLearningJob:
    """The job once it is in ``phase``, or past a round; outlives the API server."""
    changed = asyncio.Event()

    async def note(_event: object) -> None:
        changed.set()

    async with await Client.connect(kubeconfig=str(kubeconfig)) as client:
        jobs = Informer(client, FEDERATED_LEARNING_JOBS, FederatedLearningJob)
        jobs.add_handler(note)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(jobs.run())
            while True:
                await changed.wait()
                changed.clear()
                stored = jobs.lister.get(JOB)
                status = stored.view.status if stored else None
                is_past = status is not None and round_ and (status.round or 0) >= round_
                if stored and status and (is_past or (phase and status.phase == phase)):
                    task.cancel()
                    return stored.view
                assert status is None or status.phase != "Failed", status


async def test_a_job_outlives_the_api_server(tmp_path: Path) -> None:
    """kill -9 amid the training: it is named and restarted, and the job ends as it should."""
    state = tmp_path / "kept"
    async with gm("up", "--example", "--state", str(state), cwd=tmp_path) as process:
        greeting = await output_until(process, READY)
        assert f"the objects are kept in {state}/objects.db" in greeting
        await submit(state / "kubeconfig", slow_manifest(tmp_path / "job.yaml"))
        before = await wait_job(state / "kubeconfig", round_=1)
        first = pid_of(state, "apiserver")
        os.kill(first, signal.SIGKILL)
        assert "apiserver was killed by SIGKILL" in await output_until(process, "restarting in")
        after = await wait_job(state / "kubeconfig", phase="Succeeded")
        assert after.metadata.uid == before.metadata.uid
        assert pid_of(state, "apiserver") not in (0, first)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    assert (state / "nodes/cloud/models/fl-digits/model.npz").is_file()
    assert processes_of(tmp_path) == []


async def test_a_job_outlives_everything(tmp_path: Path) -> None:
    """kill -9 of the whole system amid the training; started again, it finishes the job."""
    state = tmp_path / "kept"
    async with gm("up", "--example", "--state", str(state), cwd=tmp_path) as process:
        first = await output_until(process, READY)
        await submit(state / "kubeconfig", slow_manifest(tmp_path / "job.yaml"))
        before = await wait_job(state / "kubeconfig", round_=1)
        process.kill()
        await process.wait()
    await wait_gone(state)
    async with gm("up", "--state", str(state), cwd=tmp_path) as process:
        again = await output_until(process, READY)
        network = r"network (127\.\d+\.\d+)"
        assert re.findall(network, first) == re.findall(network, again)
        after = await wait_job(state / "kubeconfig", phase="Succeeded")
        assert after.metadata.uid == before.metadata.uid
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    assert processes_of(tmp_path) == []


async def test_a_state_that_is_damaged_is_told_at_once(tmp_path: Path) -> None:
    """Exit code 1 and one line with file, reason and advice."""
    with StateDirectory(tmp_path / "kept") as directory:
        database = sqlite3.connect(directory.path / "objects.db")
        database.execute("CREATE TABLE music (title TEXT)")
        database.close()
    async with gm("up", "--state", "kept", cwd=tmp_path) as process:
        out, _ = await process.communicate()
    assert process.returncode == 1
    line = out.decode().strip().splitlines()[-1]
    assert "objects.db is no state file of gm; name another directory with --state" in line


async def test_what_is_kept_is_never_emptied(tmp_path: Path) -> None:
    """Neither by ``gm up --dir`` nor by ``gm demo``."""
    with StateDirectory(tmp_path / "kept") as directory:
        directory.network.write_text("127.3.4\n")
    with pytest.raises(ConfigError, match=r"keeps the objects of `gm up --state`.*go on with"):
        free_directory(tmp_path / "kept", fresh=True)
    with StateDirectory(tmp_path / "kept") as directory:
        assert directory.network.exists()


async def test_a_network_that_others_use_just_now_is_told(tmp_path: Path) -> None:
    """Rather than pods be left with addresses that are not theirs."""
    with LoopbackNetwork() as other:
        with StateDirectory(tmp_path / "kept") as directory:
            directory.network.write_text(other.prefix)
        with pytest.raises(ConfigError, match=f"network {other.prefix}.0/24 belongs to another"):
            await up(UpSettings(state=tmp_path / "kept"), print)


async def test_a_state_in_use_is_refused_with_its_flag(tmp_path: Path) -> None:
    """No other directory is taken instead."""
    with (
        StateDirectory(tmp_path / "kept"),
        pytest.raises(ConfigError, match=r"in use by process .* --state"),
    ):
        await up(UpSettings(state=tmp_path / "kept"), print)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
