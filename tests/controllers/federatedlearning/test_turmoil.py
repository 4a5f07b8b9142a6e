"""Jobs that are edited, suspended and robbed of their pods, in bad weather, while GM goes."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gm.api.core import Pod
from gm.api.meta import controller_of
from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS, SERVICES
from gm.controllers.federatedlearning.workers import HASH_ANNOTATION, WORKER_ANNOTATION
from gm.errors import ServiceError
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType, Stored
from tests.controllers.conftest import Site
from tests.controllers.federatedlearning.test_faults import Weather
from tests.controllers.support import template


class Nodes:
    """The nodes' kubelets, which see what is true, whatever GM thinks.

    ``faults`` is what must never be: a worker's second living pod, one after its success.
    ``log`` tells the course of things when a test fails.

    A pod that ends while it is being deleted is no success of its worker: processes that take
    SIGTERM well end so, too. A kubelet that has not heard of the deletion yet makes such ends.
    """

    def __init__(self, site: Site, rng: random.Random) -> None:
        self._site, self._random = site, rng
        self.living: dict[str, Stored[Pod]] = {}
        self.succeeded: dict[tuple[str, str], str] = {}
        self.faults: list[str] = []
        self.log: list[str] = []
        self.may_succeed = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Play kubelet as long as the body runs."""
        async with self._site.cluster.client() as client, asyncio.TaskGroup() as group:
            informer = Informer(client, PODS, Pod, namespace=self._site.namespace)
            informer.add_handler(self._on_pod)
            tasks = [group.create_task(informer.run()), group.create_task(self._work())]
            yield
            for task in tasks:
                task.cancel()

    async def _on_pod(self, event: Event[Pod]) -> None:
        pod = event.new or event.old
        if pod is None:
            return
        if event.type is EventType.DELETED:
            self.living.pop(pod.uid, None)
            self.log.append(f"gone {pod.key.name} {pod.uid[:5]} {pod.view.status.phase}")
            return
        if event.type is EventType.ADDED:
            self._check(pod)
            self.log.append(f"made {pod.key.name} {pod.uid[:5]}")
        if event.old is not None and event.old.view.status.phase != pod.view.status.phase:
            self.log.append(f"{pod.view.status.phase} {pod.key.name} {pod.uid[:5]}")
        self.living[pod.uid] = pod
        is_leaving = pod.view.metadata.deletion_timestamp is not None
        if pod.view.status.phase == "Succeeded" and not is_leaving:
            self.succeeded[_worker(pod)] = _digest(pod)

    def _check(self, pod: Stored[Pod]) -> None:
        who = _worker(pod)
        for other in self.living.values():
            if _worker(other) == who and other.view.status.phase not in ("Succeeded", "Failed"):
                self.faults.append(f"{pod.key.name} made beside a living one")
        if self.succeeded.get(who) == _digest(pod):
            self.faults.append(f"{pod.key.name} made after it had succeeded")

    async def forget_untold(self) -> None:
        """Forget successes that nobody can know of: the pod is gone, and no status tells of it.

        Somebody deleted the pod, and the GM that was there ended before it could write that.
        """
        there = {_worker(pod) for pod in self.living.values()}
        for job, worker in set(self.succeeded) - there:
            role, _, index = worker.partition("-")
            told = (await self._site.status(job)).get("workers") or []
            known = [entry["phase"] for entry in told if entry["role"] == role]
            if known[int(index) : int(index) + 1] != ["Succeeded"]:
                self.log.append(f"nobody knows that {worker} of {job} succeeded")
                del self.succeeded[job, worker]

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            for pod in list(self.living.values()):
                await self._look(pod)

    async def _look(self, pod: Stored[Pod]) -> None:
        name, view = pod.key.name, pod.view
        phase = view.status.phase
        if view.metadata.deletion_timestamp is not None:
            if self._random.random() < 0.3:
                await self._site.cluster.finish_delete(name)
            return
        chance = self._random.random()
        with contextlib.suppress(ServiceError):
            if phase == "Pending" and chance < 0.5:
                await self._site.cluster.set_pod_status(name, phase="Running")
            elif phase == "Running" and self.may_succeed and self._all_run(pod):
                await self._site.cluster.set_pod_status(name, phase="Succeeded")

    def _all_run(self, pod: Stored[Pod]) -> bool:
        """Trainers end first, and the aggregator when they all have."""
        job, worker = _worker(pod)
        done = {who for name, who in self.succeeded if name == job}
        if worker.startswith("train"):
            there = {_worker(p)[1] for p in self.living.values() if _worker(p)[0] == job}
            return len(there | done) == 3
        return {"train-0", "train-1"} <= done


def _worker(pod: Stored[Pod]) -> tuple[str, str]:
    owner = controller_of(pod.view.metadata)
    assert owner is not None
    return owner.name, (pod.view.metadata.annotations or {}).get(WORKER_ANNOTATION, "?")


def _digest(pod: Stored[Pod]) -> str:
    return (pod.view.metadata.annotations or {})[HASH_ANNOTATION]


class Turmoil:
    """Things that people and clusters do to a running job."""

    def __init__(self, site: Site, nodes: Nodes, rng: random.Random, job: str) -> None:
        self._site, self._nodes, self._random, self._job = site, nodes, rng, job
        self._version = 1
        self._spec: dict[str, Any] = site.job(job)["spec"]

    async def act(self) -> str:
        """One of them."""
        deeds = [
            self.delete_pod,
            self.delete_service,
            self.edit,
            self.suspend,
            self.fail,
            self.wait,
        ]
        deed = self._random.choice(deeds)
        with contextlib.suppress(ServiceError):  # it is gone already
            await deed()
        return deed.__name__

    def _pod(self) -> Stored[Pod] | None:
        pods = [p for p in self._nodes.living.values() if _worker(p)[0] == self._job]
        return self._random.choice(pods) if pods else None

    async def delete_pod(self) -> None:
        """A person deletes a pod by hand."""
        if (pod := self._pod()) is not None:
            await self._site.delete(PODS, pod.key.name)

    async def delete_service(self) -> None:
        """A person deletes the Service."""
        await self._site.delete(SERVICES, f"{self._job}-aggregation")

    async def edit(self) -> None:
        """The spec of one trainer, or of the aggregator, changes to what it never was before.

        What is changed back may run again although it has succeeded before.
        """
        self._version += 1
        spec = self._spec
        image = f"example:v{self._version}"
        if self._random.random() < 0.3:
            spec["aggregationWorker"]["template"] = template(
                image, nodeName=self._site.node("cloud")
            )
        else:
            number = self._random.randrange(2)
            spec["trainingWorkers"][number]["template"] = template(
                image, nodeName=self._site.node(f"edge{number}")
            )
        await self._site.patch(FEDERATED_LEARNING_JOBS, self._job, {"spec": spec})

    async def suspend(self) -> None:
        """It is suspended for a while."""
        for value in (True, False):
            body = {"spec": {"runPolicy": {"suspend": value}}}
            await self._site.patch(FEDERATED_LEARNING_JOBS, self._job, body)
            await asyncio.sleep(self._random.uniform(0, 0.5))

    async def fail(self) -> None:
        """A pod fails."""
        if (pod := self._pod()) is not None and pod.view.status.phase in ("Pending", "Running"):
            await self._site.cluster.set_pod_status(
                pod.key.name, phase="Failed", reason=self._random.choice(["Evicted", "Boom"])
            )

    async def wait(self) -> None:
        """Nothing happens."""
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("seed", range(2))
async def test_jobs_outlive_all_that_is_done_to_them_P0_014_P0_018_P0_019(
    site: Site, seed: int
) -> None:
    """No worker ever has two pods, none runs after its success, and in the end all succeed."""
    rng = random.Random(seed)
    await site.references()
    site.settings = msgspec.structs.replace(site.settings, remake_first_seconds=0.1)
    nodes, weather = Nodes(site, rng), Weather(seed)
    jobs = ["a", "b"]
    done: list[str] = []
    async with nodes.running():
        for name in jobs:
            await site.submit(name, runPolicy={"backoffLimit": 1000})
        turmoils = [Turmoil(site, nodes, rng, name) for name in jobs]
        for period in range(4):
            nodes.may_succeed = period >= 2
            site.faults.before, site.faults.after = weather.before, weather.after
            site.faults.deliver = weather.deliver
            await nodes.forget_untold()
            async with site.gm():
                for _ in range(6):
                    done += [await turmoil.act() for turmoil in turmoils]
                    await asyncio.sleep(rng.uniform(0, 0.4))
        site.faults.heal()
        nodes.may_succeed = True
        await nodes.forget_untold()
        async with site.gm():
            for name in jobs:
                status = await site.wait_status(
                    lambda s: s.get("phase") in ("Succeeded", "Failed"), name, seconds=60
                )
                assert status["phase"] == "Succeeded", status
                aggregator, *trainers = (worker["phase"] for worker in status["workers"])
                assert aggregator == "Succeeded", status
                # an edit may have begun a trainer anew when the aggregator had all it needs
                assert set(trainers) <= {"Succeeded", "Stopped"}, status
    counts = collections.Counter(done)
    assert nodes.faults == [], (counts, nodes.log)
