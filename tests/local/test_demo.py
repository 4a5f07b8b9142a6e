"""``gm demo`` and ``gm up`` as a user starts them: whole processes, real jobs, nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from gm.examples.federated.upload import ENDPOINT, upload
from gm.local.example import example_manifest
from gm.local.up import kubectl
from tests.storage_init.support import s3_server

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("whole-systems")]


def fast_manifest(
    path: Path, *, name: str = "fl-digits", source: str = "job.yaml", **train: Any
) -> Path:
    """The example with few rounds at full speed; ``train`` changes its trainer containers."""
    text = example_manifest().with_name(source).read_text().replace("fl-digits", name)
    documents = list(yaml.safe_load_all(text))
    spec = next(d for d in documents if d["kind"] == "FederatedLearningJob")["spec"]
    for container in spec["aggregationWorker"]["template"]["spec"]["containers"]:
        container["env"] = [
            {**variable, "value": "4"} if variable["name"] == "ROUNDS" else variable
            for variable in container["env"]
            if variable["name"] != "ROUND_SECONDS"
        ]
    for worker in spec["trainingWorkers"]:
        worker["template"]["spec"]["containers"][0].update(train)
    path.write_text(yaml.safe_dump_all(documents))
    return path


@contextlib.asynccontextmanager
async def gm(*arguments: str, cwd: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """``gm`` with ``arguments`` as a child process; killed if the test fails."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gm", *arguments),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def output_until(process: asyncio.subprocess.Process, text: str) -> str:
    """All output up to the line that holds ``text``."""
    assert process.stdout is not None
    lines = ""
    while text not in lines:
        line = await process.stdout.readline()
        assert line, f"ended without {text!r}: {lines}"
        lines += line.decode()
    return lines


def kubeconfig_in(greeting: str) -> str:
    """The kubeconfig that ``gm up`` told."""
    found = re.search(r"export KUBECONFIG=(\S+)", greeting)
    assert found is not None, greeting
    return found[1]


async def run_kubectl(*words: str, kubeconfig: str, home: Path) -> str:
    """Output of kubectl, which has to succeed."""
    tool = kubectl()
    assert tool is not None
    process = await asyncio.create_subprocess_exec(
        *(tool, *words),
        env={**os.environ, "KUBECONFIG": kubeconfig, "HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


def processes_of(directory: Path) -> list[str]:
    """Command lines of the processes that have to do with ``directory``."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(directory) in words or str(directory) in (process.info["cwd"] or ""):
            found.append(words)
    return found


async def wait_gone(directory: Path) -> None:
    """Wait until no process has to do with ``directory``; the test's timeout bounds it."""
    while processes_of(directory):
        await asyncio.sleep(0.05)


async def test_the_demo_trains_a_model_and_leaves_nothing_running(tmp_path: Path) -> None:
    """Exit code 0, plain lines, the model and the logs; no process stays."""
    job = fast_manifest(tmp_path / "job.yaml")
    (tmp_path / "gm").mkdir()  # neither a package nor a module here is ever imported
    (tmp_path / "queue.py").write_text("raise SystemExit('imported from the current directory')")
    async with gm("demo", "--job", str(job), cwd=tmp_path) as process:
        out, _ = await process.communicate()
    text = out.decode()
    assert process.returncode == 0, text
    assert "\x1b" not in text
    assert "job fl-digits is Succeeded" in text
    accuracy = re.search(r"federated (0\.\d+), edge1 alone (0\.\d+), edge2 alone (0\.\d+)", text)
    assert accuracy is not None, text
    federated, *alone = map(float, accuracy.groups())
    assert federated > max(alone)
    assert (tmp_path / "gm-demo/nodes/cloud/models/fl-digits/model.npz").is_file()
    assert (tmp_path / "gm-demo/logs/gm.log").is_file()
    assert processes_of(tmp_path) == []


async def test_a_job_that_fails_makes_the_demo_fail_with_reason_and_logs(tmp_path: Path) -> None:
    """Exit code 1 and one line that says why and where to look; the old directory is replaced."""
    job = fast_manifest(tmp_path / "job.yaml", command=["sh", "-c", "exit 3"])
    text = job.read_text().replace(
        "aggregationWorker:", "runPolicy: {backoffLimit: 0}\n  aggregationWorker:"
    )
    job.write_text(text)
    async with gm("demo", "--job", str(job), cwd=tmp_path) as process:
        out, _ = await process.communicate()
    last = out.decode().strip().splitlines()[-1]
    assert process.returncode == 1, out.decode()
    assert last.startswith("gm: the job failed: ")
    assert "gm-demo/logs" in last
    assert "Traceback" not in out.decode()
    assert processes_of(tmp_path) == []


async def test_a_manifest_that_can_not_work_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    """A misspelt field and a missing job name the file, in one line."""
    job = fast_manifest(tmp_path / "job.yaml")
    good = job.read_text()
    for wrong, words in (
        (good.replace("trainingWorkers:", "trainingWorker:"), "trainingWorkers"),
        (good.replace("kind: FederatedLearningJob", "kind: Job"), "holds no FederatedLearningJob"),
    ):
        job.write_text(wrong)
        async with gm("demo", "--job", str(job), cwd=tmp_path) as process:
            out, _ = await process.communicate()
        (line,) = out.decode().splitlines()
        assert process.returncode == 2
        assert line.startswith(f"gm: {job}")
        assert words in line


@pytest.mark.parametrize(
    ("name", "words"), [("../../x", "want a node name"), ("x" * 250, "at most 63 characters")]
)
async def test_a_node_name_that_can_not_be_is_refused_before_anything_is_made(
    tmp_path: Path, name: str, words: str
) -> None:
    """Neither a directory elsewhere nor a process."""
    async with gm("up", "--node", name, cwd=tmp_path) as process:
        out, _ = await process.communicate()
    assert process.returncode == 2
    assert out.decode().startswith("gm: --node ")
    assert words in out.decode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["starting an API server", "is Running"])
async def test_ctrl_c_stops_everything_at_any_moment(tmp_path: Path, moment: str) -> None:
    """SIGINT during the start or the training: exit code 130, no process stays."""
    async with gm("demo", cwd=tmp_path) as process:
        await output_until(process, moment)
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()
    assert process.returncode == 130, out.decode()
    assert "Traceback" not in out.decode()
    assert processes_of(tmp_path) == []


async def test_two_systems_side_by_side_each_run_their_jobs(tmp_path: Path) -> None:
    """Two ``gm up`` in one directory; two jobs at once by kubectl in the first; kill -9 of both."""
    async with gm("up", "--example", cwd=tmp_path) as first, gm("up", cwd=tmp_path) as second:
        greeting = await output_until(first, "Ctrl-C stops everything")
        other = await output_until(second, "Ctrl-C stops everything")
        kubeconfigs = [kubeconfig_in(text) for text in (greeting, other)]
        assert kubeconfigs[0] != kubeconfigs[1]

        async def run(*words: str, kubeconfig: str = kubeconfigs[0]) -> str:
            return await run_kubectl(*words, kubeconfig=kubeconfig, home=tmp_path)

        for name in ("one", "two"):
            manifest = fast_manifest(tmp_path / f"{name}.yaml", name=name)
            await run("apply", "-f", str(manifest))
        await run("wait", "--for=condition=Complete", "fl/one", "fl/two", "--timeout=120s")
        assert "No resources found" in await run("get", "fl", kubeconfig=kubeconfigs[1])
        assert (await run("get", "nodes")).count(" Ready ") == 3
        await run("wait", "--for=jsonpath={.status.held}=3", "en/edge1", "--timeout=60s")
        head, *rows = (await run("get", "edgenodes")).splitlines()
        columns = "NAME NODE CONNECTED PROTOCOL PENDING HELD LAST-SEEN AGE"
        assert " ".join(head.split()) == columns
        assert [row.split()[1:6] for row in rows] == [
            ["cloud", "true", "v2", "0", "0"],
            ["edge1", "true", "v2", "0", "3"],
            ["edge2", "true", "v2", "0", "3"],
        ]
        assert "federatedlearningjob/default/one" in await run("describe", "en", "edge1")
        first.kill()
        second.kill()
        await asyncio.gather(first.wait(), second.wait())
    await wait_gone(tmp_path)


async def test_the_example_trains_on_datasets_from_an_s3_store(tmp_path: Path) -> None:
    """The nodes hold no data: what the trainers read was downloaded by their init containers."""
    with s3_server() as store:
        upload(store, "digits", {})
        job = fast_manifest(tmp_path / "job.yaml", source="job-s3.yaml", name="fl-s3")
        host = store.removeprefix("http://")
        job.write_text(job.read_text().replace(ENDPOINT.removeprefix("http://"), host))
        async with gm("up", cwd=tmp_path) as process:
            kubeconfig = kubeconfig_in(await output_until(process, "Ctrl-C stops everything"))

            async def run(*words: str) -> str:
                return await run_kubectl(*words, kubeconfig=kubeconfig, home=tmp_path)

            await run("apply", "-f", str(job))
            await run("wait", "--for=condition=Complete", "fl", "--all", "--timeout=150s")
            for node in ("edge1", "edge2"):
                assert list((tmp_path / "gm-up/nodes" / node).rglob("*.npz")) == []
            name = (await run("get", "fl", "-o", "name")).strip().rpartition("/")[2]
            told = await run("logs", f"{name}-train-0", "-c", "storage-initializer")
            assert "s3://digits/edge1/" in told
            assert "accuracy_alone_edge2" in await run("get", "model", name, "-o", "yaml")
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
    assert processes_of(tmp_path) == []
