"""How fast GM brings jobs up, beside a bare client that writes the same objects in the same run.

    gm apiserver --dir /tmp/api &
    python benchmarks/jobs.py --kubeconfig /tmp/api/kubeconfig --jobs 200

GM runs in a process of its own, in a namespace of the benchmark's. The clock runs from the first
job's submission until all children of all jobs exist and all statuses say so. Then a stand-in for
the kubelets has the pods run, and a second clock runs until all statuses say that. The bare client
has as many jobs in hand at a time as GM has workers. Exit code 1: a target was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from playground import TRAINERS, UID_LABEL, Kubelet, Playground, config_file, each, patiently

from gm.api.meta import Json, ObjectKey, ObjectMeta, ResourceType
from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS, SERVICES
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event
from gm.local.system import install_crds

WORKERS = TRAINERS + 1
MIN_RATIO, MAX_WRITES, MAX_RESIDENT_MIB, MAX_START_SECONDS = 0.5, 8.0, 150.0, 10.0
_SUBMITTERS = 8
WRITE_VERBS = frozenset({"create", "patch", "replace", "delete"})


class _WorkerStatus(msgspec.Struct, rename="camel", frozen=True):
    pod_name: str | None = None


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    active: int = 0
    workers: list[_WorkerStatus] = []

    @property
    def is_made(self) -> bool:
        """It says that all children exist."""
        return self.active == len([w for w in self.workers if w.pod_name]) == WORKERS


class SlimJob(msgspec.Struct, frozen=True):
    """The little of a job that is looked at."""

    metadata: ObjectMeta
    status: _Status = _Status()


class MeasuredGm:
    """GM in its own process; ``ask`` gives its counters."""

    def __init__(self, process: asyncio.subprocess.Process, start_seconds: float) -> None:
        self._process = process
        self.start_seconds = start_seconds

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, config: Path, log: Path) -> AsyncIterator[MeasuredGm]:
        """GM with the configuration in ``config``; stopped with the body."""
        began = time.monotonic()
        script = Path(__file__).with_name("measured_gm.py")
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(script), str(config), str(os.getpid())),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        gm = cls(process, 0.0)
        try:
            if await gm._line() != b"ready":
                raise SystemExit(f"GM did not start:\n{log.read_text()[-2000:]}")
            gm.start_seconds = time.monotonic() - began
            yield gm
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()

    async def ask(self) -> dict[str, Any]:
        """Requests so far, CPU seconds, memory."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        told: dict[str, Any] = json.loads(await self._line())
        return told

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).strip()


class Progress:
    """How many jobs' statuses say what is waited for."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.jobs = Informer(client, FEDERATED_LEARNING_JOBS, SlimJob, namespace=namespace)
        self.jobs.add_handler(self._on_job)
        self._changed = asyncio.Event()
        self.made: set[str] = set()
        self.running: set[str] = set()

    async def _on_job(self, event: Event[SlimJob]) -> None:
        if event.new is not None:
            name, status = event.new.key.name, event.new.view.status
            for names, is_so in (
                (self.made, status.is_made),
                (self.running, status.is_made and status.phase == "Running"),
            ):
                (names.add if is_so else names.discard)(name)
        self._changed.set()

    async def wait(self, count: Callable[[], int], number: int) -> None:
        """Return when ``count`` has reached ``number``."""
        while count() < number:
            self._changed.clear()
            await self._changed.wait()


class Sample:
    """The objects of one job as GM made them, for the bare client to make likewise."""

    def __init__(self, job: Json, children: list[tuple[ResourceType, Json]], status: Json) -> None:
        self._job, self._status = job, status
        self._name, self._uid = job["metadata"]["name"], job["metadata"]["uid"]
        self._children = [
            (kind, msgspec.json.encode(_as_sent(kind, body))) for kind, body in children
        ]

    @classmethod
    async def of(cls, client: Client, namespace: str, name: str) -> Sample:
        """The sample that job ``name`` is."""
        raw = await client.get(FEDERATED_LEARNING_JOBS, ObjectKey(namespace, name))
        job: Json = msgspec.json.decode(raw)
        selector = f"{UID_LABEL}={job['metadata']['uid']}"
        children = []
        for kind in (SERVICES, PODS):
            listed = await client.list(kind, namespace=namespace, label_selector=selector)
            children += [(kind, msgspec.json.decode(item)) for item in listed.items]
        assert len(children) == WORKERS + 1, f"{len(children)} children"
        return cls(job, children, job["status"])

    @property
    def writes(self) -> int:
        """Requests for one job: the job, its children, its status."""
        return len(self._children) + 2

    async def write(self, playground: Playground, name: str) -> None:
        """Make the same objects under ``name``, as fast as the API server takes them."""
        client, namespace = playground.client, playground.namespace
        job = playground.job(name)
        raw = await patiently(lambda: client.create(FEDERATED_LEARNING_JOBS, namespace, job))
        uid = msgspec.json.decode(raw)["metadata"]["uid"]
        async with asyncio.TaskGroup() as group:
            for kind, body in self._children:
                body = body.replace(self._name.encode(), name.encode())
                body = body.replace(self._uid.encode(), uid.encode())
                group.create_task(_create(client, kind, namespace, body))
        key, status = ObjectKey(namespace, name), {"status": self._status}
        await patiently(
            lambda: client.patch(FEDERATED_LEARNING_JOBS, key, status, subresource="status")
        )


async def _create(client: Client, kind: ResourceType, namespace: str, body: bytes) -> None:
    await patiently(lambda: client.create(kind, namespace, body))


def _as_sent(kind: ResourceType, body: Json) -> Json:
    """An object without what the API server added."""
    meta = body["metadata"]
    kept = ("name", "labels", "annotations", "ownerReferences")
    spec = dict(body["spec"])
    for field in ("clusterIP", "clusterIPs"):
        spec.pop(field, None)
    for port in spec.get("ports", []):
        port.pop("nodePort", None)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {field: meta[field] for field in kept if field in meta},
        "spec": spec,
    }


async def bare_run(
    sample: Sample, playground: Playground, names: list[str], *, at_once: int
) -> float:
    """Seconds that a bare client takes for jobs ``names``, ``at_once`` at a time."""
    began = time.monotonic()
    await each(names, lambda name: sample.write(playground, name), at_once=at_once)
    return time.monotonic() - began


class GmRun:
    """Batches of jobs submitted to GM, and what it does about them."""

    def __init__(self, gm: MeasuredGm, playground: Playground) -> None:
        self._gm, self.playground = gm, playground
        self._kubelet = Kubelet(playground)
        self._total = 0
        self.reset()

    def reset(self) -> None:
        """Count from here on."""
        self._pods_before = len(self._kubelet.pods)
        self._writes_before = self._kubelet.writes
        self.jobs = 0
        self.seconds = self.running_seconds = self.cpu_seconds = 0.0
        self.requests: Counter[str] = Counter()

    @property
    def pods(self) -> int:
        """Pods that were made, as far as the stand-in for kubelets has seen them."""
        return len(self._kubelet.pods) - self._pods_before

    @property
    def kubelet_writes(self) -> int:
        """Requests of the stand-in for kubelets."""
        return self._kubelet.writes - self._writes_before

    @property
    def writes_per_job(self) -> float:
        """GM's writes, refused ones and Events included, until all jobs ran."""
        writes = sum(n for name, n in self.requests.items() if name.split()[0] in WRITE_VERBS)
        return writes / self.jobs

    async def batch(self, names: list[str]) -> None:
        """Submit jobs ``names``, wait until all are made, have them run, wait until they do."""
        client, namespace = self.playground.client, self.playground.namespace
        progress, kubelet = Progress(client, namespace), self._kubelet
        self.jobs += len(names)
        self._total += len(names)
        goal = self._total

        async def submit(name: str) -> None:
            job = self.playground.job(name)
            await patiently(lambda: client.create(FEDERATED_LEARNING_JOBS, namespace, job))

        async with asyncio.TaskGroup() as group:
            watch = group.create_task(progress.jobs.run())
            await progress.jobs.wait_synced()
            before = await self._gm.ask()
            began = time.monotonic()
            group.create_task(each(names, submit, at_once=_SUBMITTERS))
            await progress.wait(lambda: len(progress.made), goal)
            made = time.monotonic()
            async with kubelet.watching():
                work = group.create_task(kubelet.run())
                starting = time.monotonic()
                await progress.wait(lambda: len(progress.running), goal)
                ran = time.monotonic()
            after = await self._gm.ask()
            watch.cancel()
            work.cancel()
        self.seconds += made - began
        self.running_seconds += ran - starting
        self.cpu_seconds += after["cpu_seconds"] - before["cpu_seconds"]
        self.requests.update(after["requests"])
        self.requests.subtract(before["requests"])


async def benchmark(arguments: argparse.Namespace, directory: Path) -> int:
    """Run everything; returns the exit code."""
    await install_crds(arguments.kubeconfig)
    config, log = directory / "gm.yaml", directory / "gm.log"
    async with (
        await Client.connect(kubeconfig=str(arguments.kubeconfig)) as client,
        Playground(client).open() as ours,
        Playground(client).open() as bare,
    ):
        config_file(
            config,
            str(arguments.kubeconfig),
            namespace=ours.namespace,
            workers=arguments.workers,
            log={"level": "warning"},
        )
        if arguments.foreign_pods:
            began = time.monotonic()
            await ours.foreign_pods(arguments.foreign_pods)
            seconds = time.monotonic() - began
            print(f"{arguments.foreign_pods} foreign pods made in {seconds:.1f} s", flush=True)
        async with MeasuredGm.running(config, log) as gm:
            run = GmRun(gm, ours)
            await ours.models(["warm-up-0"])
            await run.batch(["warm-up-0"])
            run.reset()
            sample = await Sample.of(client, ours.namespace, "warm-up-0")
            await bare_run(sample, bare, ["warm-up-1"], at_once=1)
            bare_seconds = await _alternate(arguments, run, sample, bare)
            memory = await gm.ask()
    return report(run, run.jobs / bare_seconds, sample.writes, gm.start_seconds, memory, log)


async def _alternate(
    arguments: argparse.Namespace, run: GmRun, sample: Sample, bare: Playground
) -> float:
    """Batches by GM and by the bare client in turn: what else the machine does hits both.

    Returns: the bare client's seconds.
    """
    bare_seconds = 0.0
    size = max(1, arguments.jobs // arguments.batches)
    for batch in range(arguments.batches):
        names = [f"bench-{batch * size + number:05}" for number in range(size)]
        await bare.models(names)
        await run.playground.models(names)
        bare_seconds += await bare_run(sample, bare, names, at_once=arguments.workers)
        await run.batch(names)
    return bare_seconds


def report(
    run: GmRun,
    bare_rate: float,
    bare_writes: int,
    start_seconds: float,
    memory: dict[str, Any],
    log: Path,
) -> int:
    """Print what came of it; returns the exit code."""
    count = run.jobs
    rate, peak_mib = count / run.seconds, memory["peak_mib"]
    ratio = rate / bare_rate
    print(f"GM           {rate:8.1f} jobs/s   {count} jobs made in {run.seconds:.2f} s")
    print(f"bare client  {bare_rate:8.1f} jobs/s   {bare_writes} writes per job, in turn with GM's")
    print(f"ratio        {ratio:8.2f}          at least {MIN_RATIO}")
    print(
        f"to Running   {run.running_seconds:8.2f} s        more; a stand-in for the kubelets "
        f"needed {run.kubelet_writes} writes"
    )
    print(f"GM's writes  {run.writes_per_job:8.2f} per job  to Running, at most {MAX_WRITES:g}")
    for name, number in sorted(run.requests.items()):
        if number:
            print(f"    {number / count:8.3f}  {name}")
    print(
        f"GM's process: ready after {start_seconds:.2f} s, {memory['resident_mib']:.0f} MiB "
        f"({peak_mib:.0f} at most), {1000 * run.cpu_seconds / count:.1f} ms CPU per job"
    )
    failures = []
    if ratio < MIN_RATIO:
        failures.append(f"ratio {ratio:.2f} is below {MIN_RATIO}")
    if run.writes_per_job > MAX_WRITES:
        failures.append(f"{run.writes_per_job:.2f} writes per job are more than {MAX_WRITES:g}")
    if run.pods != WORKERS * count:
        failures.append(f"{run.pods} pods were made, not {WORKERS * count}")
    if start_seconds > MAX_START_SECONDS:
        failures.append(f"GM took {start_seconds:.1f} s to start")
    if count <= 1000 and peak_mib > MAX_RESIDENT_MIB:
        failures.append(f"GM took {peak_mib:.0f} MiB")
    if complaints := log.read_text().strip():
        print(f"GM said:\n{complaints[-3000:]}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--batches", type=int, default=4, help="in turn with the bare client's")
    parser.add_argument("--workers", type=int, default=4, help="GM's setting")
    parser.add_argument(
        "--foreign-pods", type=int, default=0, help="pods of others beside the jobs'"
    )
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="gm-bench-") as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(benchmark(arguments, Path(directory)))


if __name__ == "__main__":
    sys.exit(main())
