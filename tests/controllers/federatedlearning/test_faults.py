"""The federated-learning controller while the API server fails, is slow, or repeats itself."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gm.api.meta import PartialObject
from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS, SERVICES
from gm.controllers.federatedlearning import JobSettings
from gm.errors import ApiUnreachable, ServiceError, TooLarge, api_error
from gm.kube.client import Client, WatchEvent
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType
from tests.controllers.conftest import Site
from tests.controllers.faults import Call


class Witness:
    """Sees every pod and Service of a namespace, and plays the kubelets of its nodes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.made: dict[tuple[str, str], set[str]] = collections.defaultdict(set)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch as long as the body runs."""
        async with self._site.cluster.client() as client, asyncio.TaskGroup() as group:
            informers = [self._informer(client, kind) for kind in (PODS, SERVICES)]
            tasks = [group.create_task(informer.run()) for informer in informers]
            for informer in informers:
                await informer.wait_synced()
            yield
            for task in tasks:
                task.cancel()

    def _informer(self, client: Client, kind: Any) -> Informer[PartialObject]:
        informer = Informer(client, kind, PartialObject, namespace=self._site.namespace)

        async def note(event: Event[PartialObject]) -> None:
            if event.type is EventType.ADDED and event.new is not None:
                self.made[kind.kind, event.new.key.name].add(event.new.uid)

        informer.add_handler(note)
        return informer

    async def run_pods(self) -> None:
        """Have pods run, all of a job together; let those go that are to go; until cancelled."""
        while True:
            pods = await self._site.cluster.list(PODS)
            by_job = collections.defaultdict(list)
            for pod in pods:
                name, meta = pod["metadata"]["name"], pod["metadata"]
                if "deletionTimestamp" in meta:
                    await self._site.cluster.finish_delete(name)
                elif meta.get("ownerReferences"):
                    by_job[meta["ownerReferences"][0]["name"]].append(pod)
            for members in by_job.values():
                await self._run(members)
            await asyncio.sleep(0.05)

    async def _run(self, members: list[dict[str, Any]]) -> None:
        phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in members}
        is_complete = len(phases) == 3 and set(phases.values()) == {"Running"}
        for name in sorted(phases, reverse=True):
            if is_complete:
                await self._site.cluster.set_pod_status(name, phase="Succeeded")
            elif phases[name] == "Pending":
                await self._site.cluster.set_pod_status(name, phase="Running")


def expect_one_of_each(witness: Witness, *jobs: str) -> None:
    """Each job had exactly its four children, each once."""
    names = {("Service", f"{job}-aggregation") for job in jobs}
    names |= {("Pod", f"{job}-{w}") for job in jobs for w in ("aggregation", "train-0", "train-1")}
    made = {child: uids for child, uids in witness.made.items() if child[1] != "kubernetes"}
    assert made.keys() == names
    assert {child: len(uids) for child, uids in made.items()} == dict.fromkeys(names, 1)


@pytest.mark.parametrize("number", range(1, 8))
async def test_an_answer_that_is_lost_makes_no_child_twice_P0_014_P0_021(
    site: Site, number: int
) -> None:
    """Create or status write: the API server has done it, and GM does not know."""
    await site.references()
    witness = Witness(site)
    site.faults.lose_nth_answer(number)
    async with witness.watching(), site.gm(), asyncio.TaskGroup() as group:
        await site.submit()
        kubelets = group.create_task(witness.run_pods())
        status = await site.wait_phase("Succeeded")
        kubelets.cancel()
    expect_one_of_each(witness, "job")
    assert [worker["phase"] for worker in status["workers"]] == ["Succeeded"] * 3


class Weather:
    """Random faults: requests that fail, answers that are lost or late, events that repeat."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    async def before(self, call: Call) -> None:
        """Wait a little, and perhaps fail."""
        await asyncio.sleep(self._random.uniform(0, 0.05))
        failure = self._failure(call) if self._random.random() < 0.15 else None
        if failure is not None:
            raise failure

    def _failure(self, call: Call) -> ServiceError:
        code = self._random.choice([0, 409, 429, 500])
        if code == 0 or (code == 409 and call.verb != "patch"):
            return ApiUnreachable("the line is down")
        return api_error(f"{call.verb} {call.name}", code=code, reason="Weather")

    async def after(self, call: Call) -> None:
        """Have the answer come late, or not at all."""
        await asyncio.sleep(self._random.choice([0, 0.01, 0.2]))
        if self._random.random() < 0.15:
            raise ApiUnreachable(f"the answer to {call.verb} {call.name} was lost")

    async def deliver(self, kind: str, event: WatchEvent) -> AsyncIterator[WatchEvent]:
        """An event comes late, and perhaps twice; kinds overtake one another."""
        await asyncio.sleep(self._random.choice([0, 0, 0.02, 0.2]))
        for _ in range(self._random.choice([1, 1, 2])):
            yield event


@pytest.mark.parametrize("seed", range(5))
async def test_jobs_come_right_in_any_weather_P0_014_P0_021(site: Site, seed: int) -> None:
    """Whatever fails, is late, lost or repeated: each child once, and every job succeeds."""
    await site.references()
    # what fails five times in a row must not make the test wait for half a minute
    site.settings = msgspec.structs.replace(site.settings, retry_max_seconds=2.0)
    witness, weather = Witness(site), Weather(seed)
    site.faults.before, site.faults.after = weather.before, weather.after
    site.faults.deliver = weather.deliver
    jobs = ("a", "b", "c")
    async with witness.watching(), site.gm(), asyncio.TaskGroup() as group:
        for name in jobs:
            await site.submit(name)
        kubelets = group.create_task(witness.run_pods())
        for name in jobs:
            await site.wait_status(
                lambda status: status.get("phase") == "Succeeded", name, seconds=90
            )
        kubelets.cancel()

        async def is_tidy() -> bool:
            return not await site.services()

        await site.cluster.wait_for(
            is_tidy, timeout_seconds=90, what="Services of finished jobs are removed"
        )
    expect_one_of_each(witness, *jobs)


async def test_a_status_is_not_tried_again_when_the_job_is_gone_P0_022(site: Site) -> None:
    """404 is an answer, not a failure."""
    await site.references()
    async with site.gm():
        await site.run_job()

        async def vanish() -> None:
            await site.delete(FEDERATED_LEARNING_JOBS, "job")

        def before(call: Call) -> Any:
            is_status = call.is_job_status and call.name == "job"
            return vanish() if is_status else None

        site.faults.calls.clear()
        site.faults.before = before
        await site.set_phase("Succeeded", "job-train-0")
        await site.run_job("other")
    tried = [c for c in site.faults.calls if c.is_job_status and c.name == "job"]
    assert len(tried) == 1


async def submit_largest(site: Site, name: str) -> None:
    """Create the largest job that the API server takes, to within a few bytes."""
    least, most = 1_000_000, 1_600_000
    body = site.job(name)
    note = body["spec"]["trainingWorkers"][0]["template"].setdefault("metadata", {})
    while most - least > 100 or not await site.cluster.get(FEDERATED_LEARNING_JOBS, name):
        size = (least + most) // 2 if most - least > 100 else least
        note["annotations"] = {"note": "x" * size}
        await site.delete(FEDERATED_LEARNING_JOBS, name)
        try:
            await site.create(FEDERATED_LEARNING_JOBS, body)
        except TooLarge:
            most = size
        else:
            least = size


async def test_a_job_that_leaves_no_room_for_its_status_is_told_P0_023(site: Site) -> None:
    """An Event says what to do; no hot loop, and nobody else is held up; shortened, it runs."""
    await site.references()
    await submit_largest(site, "big")
    site.settings = msgspec.structs.replace(
        site.settings, retry_first_seconds=600.0, retry_max_seconds=600.0
    )
    async with site.gm():
        await site.run_job("good")
        (event,) = await site.cluster.wait_for(lambda: site.events("StatusTooLarge"))
        assert event["involvedObject"]["name"] == "big"
        await site.settled()
        assert await site.status("big") == {}
        workers = site.job("big")["spec"]["trainingWorkers"]
        workers[0]["template"]["metadata"] = None
        await site.patch(FEDERATED_LEARNING_JOBS, "big", {"spec": {"trainingWorkers": workers}})
        await site.wait_pods(3, "big")
        await site.wait_status(lambda status: status.get("active") == 3, "big")


async def test_a_status_that_is_refused_as_too_large_is_shrunk_P0_023(site: Site) -> None:
    """Metrics and long words of workers go, what GM must remember is written."""
    await site.references()
    async with site.gm(), site.edge("edge0") as edge:
        await site.run_job()
        await edge.wait_for(lambda: f"federatedlearningjob {site.namespace}/job" in edge.held)
        output = {"models": [{"metrics": {"loss": 1}}], "ownerInfo": {"currentRound": 1}}
        report = {"phase": "train", "status": "running", "output": output}
        await edge.report("federatedlearningjob", site.namespace, "job", report)
        await site.wait_status(lambda status: "metrics" in status["workers"][1])
        refusals: list[ServiceError] = [api_error("patch", code=413, reason="TooLarge")]

        def fail(call: Call) -> ServiceError | None:
            return refusals.pop() if call.is_job_status and refusals else None

        site.faults.fail = fail
        await site.set_phase("Succeeded", "job-train-1")
        status = await site.wait_status(lambda status: status["succeeded"] == 1)
        assert not refusals
        assert "metrics" not in status["workers"][1]
        assert (status["workers"][1]["round"], status["round"]) == (1, 1)


async def test_a_job_that_fails_again_and_again_gets_one_event_P1_072(site: Site) -> None:
    """One object for the reason, written once for now; the attempts become rarer."""
    await site.references()
    site.settings = JobSettings()
    site.faults.fail_nth_create(2)
    async with site.gm():
        await site.submit()
        await site.cluster.wait_for(lambda: site.events("CreateFailed"))
        await site.settled()
        events = await site.events("CreateFailed")
        assert len(events) == 1
        written = [c for c in site.faults.calls if c.kind == "Event" and "job" in c.name]
        tried = collections.Counter((c.kind, c.name) for c in site.faults.creates())
    assert len([c for c in written if c.name == events[0]["metadata"]["name"]]) == 1
    # at once, and when the other children are seen; then after 10 s, 20 s, ...
    assert 1 <= max(tried.values()) <= 3


async def test_pods_of_one_job_are_made_side_by_side(site: Site) -> None:
    """Each create waits until all the others have been sent as well."""
    count = 8
    await site.references(trainers=count)
    together = asyncio.Barrier(count)

    async def wait() -> None:
        async with asyncio.timeout(20):
            await together.wait()

    def before(call: Call) -> Any:
        is_trainer = (call.verb, call.kind) == ("create", "Pod") and "-train-" in call.name
        return wait() if is_trainer else None

    site.faults.before = before
    async with site.gm():
        await site.submit(trainers=count)
        await site.wait_pods(count + 1)
    assert len(site.faults.creates()) == count + 2


async def test_a_slow_job_delays_no_other_P1_074(site: Site) -> None:
    """Each request about it takes 5 s; the next job has its pods long before the first answer."""
    await site.references()

    def before(call: Call) -> Any:
        return asyncio.sleep(5) if call.name.startswith("slow") else None

    site.faults.before = before
    async with site.gm():
        await site.submit("slow")
        await site.cluster.wait_for(
            lambda: any(call.name.startswith("slow") for call in site.faults.calls)
        )
        await site.submit("quick")
        await site.cluster.wait_for(
            lambda: "quick-train-1" in {call.name for call in site.faults.creates()},
            timeout_seconds=4,
        )
        assert not await site.pods("slow")
