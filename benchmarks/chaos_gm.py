"""Kills GM again and again, at random moments and amid its writes, while jobs run.

    python benchmarks/chaos_gm.py                  # 20 jobs, 50 kills, a few minutes
    python benchmarks/chaos_gm.py --seed 7 --jobs 4 --kills 10

The system is that of ``gm up``: embedded API server, a process for each node, GM. GM reaches the
API server through a proxy that can hold one of its writes; half of the kills come while one is
held, which then is lost, comes late, or is carried out without GM hearing of it. Exit code 0: every
job succeeded, no worker ever had two pods or a pod after its success, every worker ended once, and
no job had a second Service, unless a dead GM's write came so late that the job was over: nobody can
prevent that one, and the next GM must have removed it.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import uvloop
import yaml
from holding_proxy import Exchange, Fate, HoldingProxy
from killed_gm import KilledGm

from gm.api.core import Pod, Service
from gm.api.meta import Json, ResourceType, controller_of
from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    MODELS,
    NAMESPACES,
    PODS,
    SERVICES,
)
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType
from gm.local.directory import StateDirectory
from gm.local.network import LoopbackNetwork
from gm.local.supervisor import supervising
from gm.local.system import System, apiserver_program, install_crds, node_program

NAMESPACE = "chaos"
NODES = ("cloud", "edge1", "edge2")
UID_LABEL = "federatedlearningjob.sedna.io/uid"
WORKER_ANNOTATION = "sedna.io/worker"
WORKERS = 3
# Writes that a kill aims at, and how often. What does not come in time is taken as it comes.
TARGETS = {
    "create pods": 7,
    "create services": 4,
    "patch federatedlearningjobs/status": 7,
    "delete services": 3,
    "delete pods": 1,
    "": 3,
}
_AIM_SECONDS = 4.0
_ANY_SECONDS = 5.0
_MAX_LIFE_SECONDS = 1.5
_READY_SECONDS = 60.0
_END_SECONDS = 120.0
_TOTAL_SECONDS = 900.0


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


class _Life(msgspec.Struct):
    """One pod that ever was."""

    uid: str
    name: str
    phase: str = ""
    is_gone: bool = False

    @property
    def is_live(self) -> bool:
        return not self.is_gone and self.phase not in ("Succeeded", "Failed")


class Observer:
    """Sees every pod and Service that is ever made, and what must not be."""

    def __init__(self, client: Client) -> None:
        self._pods = Informer(client, PODS, Pod, namespace=NAMESPACE, label_selector=UID_LABEL)
        self._services = Informer(
            client, SERVICES, Service, namespace=NAMESPACE, label_selector=UID_LABEL
        )
        self._pods.add_handler(self._on_pod)
        self._services.add_handler(self._on_service)
        self.workers: dict[tuple[str, str], list[_Life]] = collections.defaultdict(list)
        self.services: dict[str, set[str]] = collections.defaultdict(set)
        self.faults: list[str] = []

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch as long as the body runs."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(i.run()) for i in (self._pods, self._services)]
            await self._pods.wait_synced()
            await self._services.wait_synced()
            yield
            for task in tasks:
                task.cancel()
        if restarts := self._pods.restarts + self._services.restarts:
            self.faults.append(f"the watches broke {restarts} times: something may be unseen")

    async def _on_pod(self, event: Event[Pod]) -> None:
        pod = event.new or event.old
        if pod is None:
            return
        meta = pod.view.metadata
        owner = controller_of(meta)
        job = owner.name if owner else "?"
        lives = self.workers[job, (meta.annotations or {}).get(WORKER_ANNOTATION, "?")]
        life = next((life for life in lives if life.uid == pod.uid), None)
        if life is None:
            life = _Life(pod.uid, pod.key.name)
            for other in lives:
                if other.is_live:
                    self._fault(f"pod {life.name} was made beside living pod {other.name}")
                if other.phase == "Succeeded":
                    self._fault(f"pod {life.name} was made after {other.name} succeeded")
            lives.append(life)
        life.phase = pod.view.status.phase or ""
        life.is_gone = event.type is EventType.DELETED

    async def _on_service(self, event: Event[Service]) -> None:
        service = event.new or event.old
        owner = controller_of(service.view.metadata) if service is not None else None
        if service is not None and owner is not None:
            self.services[owner.name].add(service.uid)

    def _fault(self, text: str) -> None:
        say(f"FAULT: {text}")
        self.faults.append(text)


def job(name: str, journal: Path) -> Json:
    """A job whose workers take about a second."""
    script = str(Path(__file__).with_name("light_worker.py").resolve())

    def template(node: str, role: str) -> Json:
        container = {
            "name": "worker",
            "image": "none:v1",
            "command": ["python", "-E", "-S", script, role],
            "env": [
                {"name": "JOURNAL", "value": str(journal)},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
        }
        return {"spec": {"nodeName": node, "containers": [container]}}

    cloud, *edges = NODES
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "FederatedLearningJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "aggregationWorker": {
                "model": {"name": name},
                "template": template(cloud, "aggregate"),
            },
            "trainingWorkers": [
                {"dataset": {"name": f"d{number}"}, "template": template(edge, "train")}
                for number, edge in enumerate(edges)
            ],
        },
    }


async def references(client: Client, roots: Path) -> None:
    """What all jobs refer to."""
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    _, *edges = NODES
    for number, edge in enumerate(edges):
        (roots / edge / "data").mkdir(parents=True, exist_ok=True)
        spec = {"url": "/data/train.txt", "format": "txt", "nodeName": edge}
        await client.create(DATASETS, NAMESPACE, _typed(DATASETS, {"name": f"d{number}"}, spec))


def _typed(kind: ResourceType, metadata: Json, spec: Json) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
    }


class Chaos:
    """The run: jobs come one after another, and GM dies."""

    def __init__(
        self,
        client: Client,
        gm: KilledGm,
        proxy: HoldingProxy,
        rng: random.Random,
        arguments: argparse.Namespace,
        journal: Path,
    ) -> None:
        self._client, self._gm, self._proxy, self._rng = client, gm, proxy, rng
        self._jobs, self._kills, self._journal = arguments.jobs, arguments.kills, journal
        self.submitted = 0
        self.fates: collections.Counter[str] = collections.Counter()
        self.late: list[Exchange] = []

    async def run(self) -> None:
        """All kills; all jobs are submitted when it returns, and GM runs."""
        moments = [False] * (self._kills - self._kills // 2) + [True] * (self._kills // 2)
        self._rng.shuffle(moments)
        await self._gm.start()
        for number, in_write in enumerate(moments, start=1):
            await self._submit(math.ceil(self._jobs * number / self._kills))
            kill = self._kill_in_write if in_write else self._kill_any_time
            said = await kill()
            say(f"kill {number:2}: {said}")
            await self._gm.start()
        await self._submit(self._jobs)

    async def _submit(self, number: int) -> None:
        """Bring the count of submitted jobs up to ``number``."""
        while self.submitted < number:
            body = job(f"job-{self.submitted}", self._journal)
            name = body["metadata"]["name"]
            model = _typed(MODELS, {"name": name}, {"url": f"/models/{name}", "format": "npz"})
            await self._client.create(MODELS, NAMESPACE, model)
            await self._client.create(FEDERATED_LEARNING_JOBS, NAMESPACE, body)
            self.submitted += 1

    async def _wait_ready(self) -> None:
        async with asyncio.timeout(_READY_SECONDS):
            await self._gm.ready.wait()

    async def _kill_any_time(self) -> str:
        if self._rng.random() < 0.8:
            await self._wait_ready()
        await asyncio.sleep(self._rng.uniform(0, _MAX_LIFE_SECONDS))
        doing = self._doing()
        await self._gm.kill()
        self.fates["at a random moment"] += 1
        return f"at a random moment, {doing}"

    async def _kill_in_write(self) -> str:
        await self._wait_ready()
        target = self._rng.choices(list(TARGETS), list(TARGETS.values()))[0]
        fate = self._rng.choice(list(Fate))
        skip = self._rng.randrange(3) if target else self._rng.randrange(8)
        aimed = True

        def wanted(words: str) -> bool:
            nonlocal skip
            if aimed and not words.startswith(target):
                return False
            skip -= 1
            return skip < 0 or not aimed

        async with self._proxy.hold(wanted, fate) as hold:
            held = await self._caught(hold.caught, _AIM_SECONDS)
            while held is None:
                aimed = False
                if self.submitted < self._jobs:
                    await self._submit(self.submitted + 1)
                else:  # when it starts it has something to write
                    await self._gm.kill()
                    await self._gm.start()
                held = await self._caught(hold.caught, _ANY_SECONDS)
            # other writes of the same pass may get somewhere meanwhile
            await asyncio.sleep(self._rng.choice([0, 0.02, 0.2]))
            doing = self._doing()
            await self._gm.kill()
            if fate is Fate.LATE:
                self.late.append(held)
                # perhaps so late that the next GM is at work already
                delay = self._rng.choice([0.0, 0.5, 1.5])
                if delay:
                    await self._gm.start()
                    await asyncio.sleep(delay)
                    await self._gm.kill()
        self.fates[fate.value] += 1
        return f"amid {held.words!r}: {fate.value}; {doing}"

    @staticmethod
    async def _caught(caught: asyncio.Future[Exchange], seconds: float) -> Exchange | None:
        done, _ = await asyncio.wait({caught}, timeout=seconds)
        return caught.result() if done else None

    def _doing(self) -> str:
        """What GM is at, as far as it can be seen from outside."""
        age = time.monotonic() - self._gm.began
        state = "ready" if self._gm.ready.is_set() else "starting"
        flying = ", ".join(map(str, self._proxy.in_flight)) or "nothing"
        last = ", ".join(str(e) for e in list(self._proxy.recent)[-1:]) or "nothing"
        return f"{age:.1f} s old, {state}; under way: {flying}; before: {last}"


async def wait_end(client: Client, count: int) -> dict[str, str]:
    """Phases of all jobs, when all are over or time is up."""
    phases: dict[str, str] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            while True:
                listed = await client.list(FEDERATED_LEARNING_JOBS, namespace=NAMESPACE)
                jobs = [msgspec.json.decode(item) for item in listed.items]
                phases = {
                    j["metadata"]["name"]: (j.get("status") or {}).get("phase", "") for j in jobs
                }
                services = await client.list(
                    SERVICES, namespace=NAMESPACE, label_selector=UID_LABEL
                )
                over = sum(phase in ("Succeeded", "Failed") for phase in phases.values())
                if over == count and not services.items:
                    break
                await asyncio.sleep(0.3)
    return phases


async def judge(
    client: Client,
    observer: Observer,
    phases: dict[str, str],
    chaos: Chaos,
    journal: Path,
) -> list[str]:
    """What is not as it must be."""
    count = chaos.submitted
    faults = list(observer.faults)
    faults += [
        f"{name} is {phase or 'without status'}"
        for name, phase in phases.items()
        if phase != "Succeeded"
    ]
    if len(phases) != count:
        faults.append(f"{len(phases)} jobs exist, not {count}")
    for (name, worker), lives in observer.workers.items():
        if len(lives) != 1:
            told = ", ".join(f"{life.name} {life.phase}" for life in lives)
            faults.append(f"{worker} of {name} had {len(lives)} pods: {told}")
    if len(observer.workers) != WORKERS * count:
        faults.append(f"{len(observer.workers)} workers had pods, not {WORKERS * count}")
    created_late = collections.Counter(
        exchange.words for exchange in chaos.late if exchange.status == HTTPStatus.CREATED
    )
    for name, uids in observer.services.items():
        late = created_late[f"create services {name}-aggregation"]
        if not 1 <= len(uids) <= 1 + late:
            faults.append(f"{name} had {len(uids)} Services, {late} of them by late writes")
    left = await client.list(SERVICES, namespace=NAMESPACE, label_selector=UID_LABEL)
    if left.items:
        faults.append(f"{len(left.items)} Services are left")
    ends = collections.Counter(
        tuple(line.split()[1:3])
        for line in journal.read_text().splitlines()
        if line.startswith("end")
    )
    faults += [f"worker {' '.join(who)} ended {n} times" for who, n in ends.items() if n != 1]
    if len(ends) != WORKERS * count:
        faults.append(f"{len(ends)} workers ended, not {WORKERS * count}")
    faults += await _odd_statuses(client)
    return faults


async def _odd_statuses(client: Client) -> list[str]:
    faults = []
    listed = await client.list(FEDERATED_LEARNING_JOBS, namespace=NAMESPACE)
    for item in listed.items:
        found: dict[str, Any] = msgspec.json.decode(item)
        name, status = found["metadata"]["name"], found.get("status") or {}
        phases = [worker.get("phase") for worker in status.get("workers", [])]
        if phases != ["Succeeded"] * WORKERS or status.get("active") or status.get("failed"):
            faults.append(f"status of {name} says {phases}, active {status.get('active')}")
    return faults


@contextlib.asynccontextmanager
async def system(directory: StateDirectory, network: LoopbackNetwork) -> AsyncIterator[Path]:
    """API server and nodes; gives the path of GM's log after all is up."""
    async with supervising(pid_file=directory.pids, say=say) as supervisor:
        await supervisor.start(apiserver_program(directory, network, 6443, keep=False))
        await install_crds(directory.kubeconfig)
        found = System(
            directory=directory,
            network=network,
            supervisor=supervisor,
            nodes=NODES,
            kubeconfig=directory.kubeconfig,
        )
        programs = (node_program(found, name, number) for number, name in enumerate(NODES))
        await supervisor.start(*programs)
        yield directory.logs / "gm.log"


def gm_config(directory: StateDirectory, network: LoopbackNetwork, proxy_url: str) -> Path:
    """GM's configuration, with a kubeconfig that leads through the proxy."""
    kubeconfig = yaml.safe_load(directory.kubeconfig.read_text())
    for cluster in kubeconfig["clusters"]:
        cluster["cluster"] = {"server": proxy_url}
    through = directory.path / "kubeconfig-proxy"
    through.touch(mode=0o600)
    through.write_text(yaml.safe_dump(kubeconfig))
    address = network.address(1)
    config = directory.path / "gm.yaml"
    content = {
        "kubeConfig": str(through),
        "websocket": {"address": address, "port": 9000},
        "health": {"address": address, "port": 8080},
        "log": {"format": "human"},
    }
    config.write_text(yaml.safe_dump(content))
    return config


def ca_file(directory: StateDirectory) -> str:
    """Path of the API server's CA, from its kubeconfig."""
    import base64

    kubeconfig = yaml.safe_load(directory.kubeconfig.read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    if "certificate-authority" in cluster:
        return str(cluster["certificate-authority"])
    path = directory.path / "proxy-ca.crt"
    path.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return str(path)


async def run(arguments: argparse.Namespace, path: Path) -> int:
    """The whole run; returns the exit code."""
    began = time.monotonic()
    rng = random.Random(arguments.seed)
    journal = path.with_name("journal")
    journal.write_text("")
    with StateDirectory(path, fresh=True) as directory, LoopbackNetwork() as network:
        async with (
            system(directory, network) as log,
            await Client.connect(kubeconfig=str(directory.kubeconfig)) as client,
        ):
            proxy, observer = HoldingProxy(client.server, ca_file(directory)), Observer(client)
            await references(client, directory.nodes)
            async with proxy.running(network.address(2)), observer.watching():
                gm = KilledGm(gm_config(directory, network, proxy.url), log)
                chaos = Chaos(client, gm, proxy, rng, arguments, journal)
                await chaos.run()
                phases = await wait_end(client, arguments.jobs)
                faults = await judge(client, observer, phases, chaos, journal)
                async with asyncio.timeout(_READY_SECONDS):
                    await gm.ready.wait()
                if (code := await gm.stop()) != 0:
                    faults.append(f"GM's exit code after SIGTERM was {code}: {gm.last_word}")
        if (bugs := log.read_text().count("Traceback")) > 0:
            faults.append(f"GM's log has {bugs} tracebacks")
    pods = sum(map(len, observer.workers.values()))
    ok = sum(phase == "Succeeded" for phase in phases.values())
    say(f"jobs: {arguments.jobs}, succeeded: {ok}; pods ever made: {pods}")
    say(f"GM's starts: {gm.starts}; its writes: {proxy.writes}; kills: {arguments.kills}:")
    for fate, number in sorted(chaos.fates.items()):
        say(f"    {number:3}  {fate}")
    for fault in faults:
        say(f"FAILED: {fault}")
    say(f"{time.monotonic() - began:.0f} s, seed {arguments.seed}: {'FAILED' if faults else 'ok'}")
    return 1 if faults else 0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=50, help="half of them amid a write")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--dir", type=Path, help="keep logs here; else only after a failure")
    arguments = parser.parse_args()
    base = arguments.dir or Path(tempfile.mkdtemp(prefix="gm-chaos-"))
    base.mkdir(parents=True, exist_ok=True)
    say(f"seed {arguments.seed}; logs in {base}")
    code = 1

    async def bounded() -> int:
        async with asyncio.timeout(_TOTAL_SECONDS):
            return await run(arguments, base / "state")

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(bounded())
    finally:
        if code == 0 and arguments.dir is None:
            shutil.rmtree(base)
    return code


if __name__ == "__main__":
    sys.exit(main())
