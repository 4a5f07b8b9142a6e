"""How fast the embedded API server is, beside a real one in the same run.

    KUBEBUILDER_ASSETS=... python benchmarks/apiserver.py

Three servers as processes of their own: the embedded one in memory, the same with ``--state``
(every commit forced to disk), and kube-apiserver with etcd (which is told not to force anything to
disk). They take turns, so that a busy machine is busy for all; medians of the rounds are printed,
with the ratio to the real one and what a core of the servers' own would do (their CPU seconds,
threads and etcd included). The one client is this process: plain aiohttp, without decoding.

* creates/s: Pods and Datasets (a custom resource), one at a time and 16 at a time
* patches/s: merge patches of Datasets' status, 16 at a time
* events/s: a Dataset is patched again and again; the clock runs until every watcher has got the
  last change
* start: from the process's birth to the first answer of /readyz, and the CPU time until then

Exit code 1: the embedded server took more than half a second to start, at best; where others keep
the machine busy, its CPU time counts.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import secrets
import ssl
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil
import uvloop
import yaml
from playground import each

sys.path.insert(0, str(Path(__file__).parents[1]))

from gm.api.crd import crds
from gm.api.meta import Json
from gm.local.system import install_crds
from tests.cluster import servers

MAX_START_SECONDS = 0.5
CLIENTS = 16
DATASETS = "/apis/sedna.io/v1alpha1/namespaces/{}/datasets"
PODS = "/api/v1/namespaces/{}/pods"
REAL = "kube-apiserver"


def pod(name: str) -> Json:
    """A small pod that belongs to no node."""
    container = {
        "name": "main",
        "image": "busybox:1",
        "env": [{"name": f"VARIABLE_{number}", "value": "value"} for number in range(8)],
    }
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def dataset(name: str) -> Json:
    """A Dataset."""
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name, "labels": {"benchmark": "yes"}},
        "spec": {"url": "/data/digits/train.npz", "format": "npz", "nodeName": "edge1"},
    }


class Target:
    """One server: how to reach it, and the processes whose CPU time counts."""

    def __init__(self, name: str, kubeconfig: Path, processes: list[psutil.Process]) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        data = cluster.get("certificate-authority-data")
        self._tls = ssl.create_default_context(
            cafile=cluster.get("certificate-authority"),
            cadata=base64.b64decode(data).decode() if data else None,
        )
        self.name, self.url, self._processes = name, cluster["server"], processes
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        self.namespace = f"bench-{secrets.token_hex(4)}"

    async def __aenter__(self) -> Target:
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        self.session = aiohttp.ClientSession(self.url, connector=connector, headers=self._headers)
        await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.session.close()

    async def send(
        self, method: str, path: str, body: Any, content_type: str = "application/json"
    ) -> None:
        """One request, repeated as long as the server asks for patience."""
        while True:
            async with self.session.request(
                method,
                path.format(self.namespace),
                data=msgspec.json.encode(body),
                headers={"Content-Type": content_type},
            ) as answer:
                text = await answer.read()
                if answer.status != 429:
                    assert answer.status < 300, text
                    return
            await asyncio.sleep(1)

    def cpu_seconds(self) -> float:
        """What the server has used so far."""
        return sum(sum(process.cpu_times()[:2]) for process in self._processes)


class Result:
    """Measurements by what was measured and where."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)

    async def measure(
        self, what: str, target: Target, count: int, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Note how many of ``count`` things a second, and a CPU second, ``work`` did."""
        cpu, begun = target.cpu_seconds(), time.perf_counter()
        await work()
        seconds, cpu = time.perf_counter() - begun, target.cpu_seconds() - cpu
        self._rates[what, target.name].append((count / seconds, count / max(cpu, 0.01)))

    def table(self, names: list[str]) -> str:
        """Medians, and their ratio to those of the real server."""
        lines = [f"{'':<26}" + "".join(f"{name:>32}" for name in names)]
        for what in dict.fromkeys(what for what, _ in self._rates):
            medians = {
                name: [statistics.median(column) for column in zip(*rates, strict=True)]
                for name in names
                if (rates := self._rates.get((what, name)))
            }
            line = f"{what:<26}"
            for name in names:
                rate, per_cpu = medians[name]
                real = medians.get(REAL)
                ratio = f"{rate / real[0]:.2f}x" if real and name != REAL else ""
                line += f"{rate:>11,.0f}/s {ratio:>6} {per_cpu:>7,.0f}/core"
            lines.append(line)
        return "\n".join(lines)


async def creates(result: Result, target: Target, number: int, count: int) -> None:
    """Pods and Datasets, one at a time and many at a time."""
    for path, make in ((PODS, pod), (DATASETS, dataset)):
        kind = path.rpartition("/")[2]
        for clients, share in ((1, count // 4), (CLIENTS, count)):
            names = [f"{kind}-{number}-{clients}-{n}" for n in range(share)]

            async def one(name: str, path: str = path, make: Callable[..., Json] = make) -> None:
                await target.send("POST", path, make(name))

            async def work(names: list[str] = names, clients: int = clients) -> None:
                await each(names, one, at_once=clients)

            await result.measure(f"create {kind} ({clients})", target, share, work)


async def patches(result: Result, target: Target, number: int, count: int) -> None:
    """The status of Datasets, as GM writes it."""
    path = f"{DATASETS}/datasets-{number}-{CLIENTS}-{{}}/status"

    async def one(n: int) -> None:
        body = {"status": {"numberOfSamples": n + number * count}}
        where = path.replace("{}", target.namespace, 1).format(n % 50)
        await target.send("PATCH", where, body, "application/merge-patch+json")

    await result.measure(
        f"patch status ({CLIENTS})",
        target,
        count,
        lambda: each(range(count), one, at_once=CLIENTS),
    )


async def fan_out(result: Result, target: Target, number: int, watchers: int, count: int) -> None:
    """Every change to every watcher."""
    name = f"watched-{number}"
    await target.send("POST", DATASETS, dataset(name))
    query = f"?watch=1&fieldSelector=metadata.name%3D{name}"
    opened, ready = 0, asyncio.Event()

    async def watch() -> None:
        nonlocal opened
        path = DATASETS.format(target.namespace) + query
        async with target.session.get(path) as answer:
            seen, has_begun = 0, False
            async for part in answer.content.iter_any():
                seen += part.count(b"\n")
                if not has_begun:  # the object as it is, at the beginning
                    has_begun, opened = True, opened + 1
                    if opened == watchers:
                        ready.set()
                if seen > count:
                    return

    async def one(n: int) -> None:
        path = f"{DATASETS}/{name}/status"
        body = {"status": {"numberOfSamples": n}}
        await target.send("PATCH", path, body, "application/merge-patch+json")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch()) for _ in range(watchers)]
        await ready.wait()

        async def work() -> None:
            await each(range(1, count + 1), one, at_once=4)
            await asyncio.wait(tasks)

        await result.measure(f"events to {watchers} watchers", target, count * watchers, work)


async def start_embedded(
    directory: Path, *, state: bool
) -> tuple[asyncio.subprocess.Process, float]:
    """``gm apiserver`` as a process, and how long it took until it answered."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gm", "apiserver", "--port", "0", "--log-level", "warning"),
        *("--state" if state else "--dir", str(directory)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline()  # it prints the kubeconfig once it is ready
    config = yaml.safe_load((directory / "kubeconfig").read_text())
    url = config["clusters"][0]["cluster"]["server"]
    tls = ssl.create_default_context(cafile=directory / "ca.crt")
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz", ssl=tls) as answer:
        assert answer.status == 200
    return process, time.perf_counter() - begun


@contextlib.asynccontextmanager
async def embedded(base: Path, name: str, *, state: bool) -> AsyncIterator[Target]:
    """The embedded server, with our CRDs."""
    process, _ = await start_embedded(base / name, state=state)
    try:
        kubeconfig = base / name / "kubeconfig"
        await install_crds(kubeconfig)
        yield Target(name, kubeconfig, [psutil.Process(process.pid)])
    finally:
        process.terminate()
        await process.wait()


@contextlib.contextmanager
def real_server() -> Any:
    """etcd and kube-apiserver, with our CRDs; None where they can not be had."""
    servers.begin_run()
    try:
        if problem := servers.assets_problem():
            print(f"without the real server: {problem}")
            yield None
            return
        paths = servers.server("real")
        keeper = Path(paths["kubeconfig"]).with_name("keeper.pid")
        processes = psutil.Process(int(keeper.read_text())).children(recursive=True)
        yield Target(REAL, Path(paths["kubeconfig"]), processes)
    finally:
        servers.end_run()


async def starts(count: int) -> tuple[list[float], list[float]]:
    """Seconds, and CPU seconds, until a new embedded server answers, several times; sorted."""
    seconds, cpu = [], []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as directory:
            process, took = await start_embedded(Path(directory), state=False)
            cpu.append(sum(psutil.Process(process.pid).cpu_times()[:2]))
            seconds.append(took)
            process.terminate()
            await process.wait()
    return sorted(seconds), sorted(cpu)


async def run(arguments: argparse.Namespace, real: Target | None) -> int:
    """Measure everything and print it."""
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    seconds, cpu = await starts(arguments.starts)
    result = Result()
    with tempfile.TemporaryDirectory() as base:
        async with contextlib.AsyncExitStack() as stack:
            targets = []
            for name, state in (("embedded", False), ("embedded --state", True)):
                target = await stack.enter_async_context(embedded(Path(base), name, state=state))
                targets.append(target)
            targets += [real] if real else []
            for target in targets:
                await stack.enter_async_context(target)
            for number in range(arguments.rounds):
                for target in targets:
                    await creates(result, target, number, arguments.count)
                    await patches(result, target, number, arguments.count)
                    await fan_out(result, target, number, arguments.watchers, arguments.changes)
    print(
        f"medians of {arguments.rounds} rounds; {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}; {len(crds())} CRDs; client and servers share the machine"
    )
    print(result.table([target.name for target in targets]))
    judged, how = (cpu, "CPU seconds, as the machine is busy") if is_busy else (seconds, "seconds")
    print(
        f"start of the embedded server, of {len(seconds)}: {seconds[0]:.2f} s at best, "
        f"{statistics.median(seconds):.2f} s median; {cpu[0]:.2f} and "
        f"{statistics.median(cpu):.2f} s of CPU; target {MAX_START_SECONDS} {how}"
    )
    return int(judged[0] > MAX_START_SECONDS)


def main() -> int:
    """Measure; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=400, help="objects or patches at a time")
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--changes", type=int, default=50, help="that every watcher gets")
    parser.add_argument("--starts", type=int, default=7)
    arguments = parser.parse_args()
    with real_server() as real, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(arguments, real))


if __name__ == "__main__":
    sys.exit(main())
