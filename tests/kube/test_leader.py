"""Leader election: never two at once, quick hand-over, and an outage ends nobody."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import LEASES
from gm.errors import AlreadyExists, ApiUnreachable, Conflict, NotFound
from gm.kube import LeaderElector, LeaderSettings
from tests.cluster.cluster import Cluster
from tests.kube.virtual_time import virtual_time

KEY = ObjectKey("sedna", "gm")


class Leases:
    """A Lease in memory, behind a network that can fail; each request takes a tenth of a second."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.is_down = False
        self.hangs = False
        self.loses_answers = False
        self.writes: list[str] = []
        self._version = 0

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """Read it."""
        await self._travel()
        if self.lease is None:
            raise NotFound("get", code=404, reason="NotFound")
        return json.dumps(self.lease).encode()

    async def create(
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any] | bytes
    ) -> bytes:
        """Make it."""
        await self._travel()
        if self.lease is not None:
            raise AlreadyExists("create", code=409, reason="AlreadyExists")
        return await self._store(body)

    async def replace(
        self, resource: ResourceType, key: ObjectKey, body: Mapping[str, Any] | bytes
    ) -> bytes:
        """Change it."""
        await self._travel()
        assert not isinstance(body, bytes)
        if self.lease is None:
            raise NotFound("replace", code=404, reason="NotFound")
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("replace", code=409, reason="Conflict")
        return await self._store(body)

    async def _travel(self) -> None:
        if self.hangs:
            await asyncio.sleep(1e9)
        await asyncio.sleep(0.1)
        if self.is_down:
            raise ApiUnreachable("no answer")

    async def _store(self, body: Mapping[str, Any] | bytes) -> bytes:
        assert not isinstance(body, bytes)
        self._version += 1
        stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        self.lease = stored
        self.writes.append(body["spec"]["holderIdentity"])
        await asyncio.sleep(0.1)
        if self.loses_answers:
            raise ApiUnreachable("the answer was lost")
        return json.dumps(stored).encode()

    @property
    def holder(self) -> str:
        """Who holds it."""
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


class Work:
    """The body of an election: says when it runs."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.history: list[tuple[float, str]] = []
        self.finish = asyncio.Event()

    def of(self, name: str) -> Callable[[], Awaitable[None]]:
        """The body of replica ``name``."""

        async def body() -> None:
            assert not self.running, f"{name} works while {self.running} does"
            self.running.add(name)
            self.history.append((now(), f"{name} begins"))
            try:
                await self.finish.wait()
            finally:
                self.running.discard(name)
                self.history.append((now(), f"{name} ends"))

        return body

    def at(self, what: str) -> float:
        """When ``what`` happened last."""
        return [when for when, which in self.history if which == what][-1]


def now() -> float:
    """The loop's time."""
    return asyncio.get_running_loop().time()


def elector(leases: Leases, name: str) -> LeaderElector:
    """A replica."""
    return LeaderElector(leases, KEY, identity=name, jitter=lambda: 0.5)


@contextlib.asynccontextmanager
async def replicas(leases: Leases, work: Work, *names: str) -> AsyncIterator[list[Any]]:
    """Running replicas: pairs of elector and task."""
    async with asyncio.TaskGroup() as group:
        started = []
        for name in names:
            each = elector(leases, name)
            started.append((each, group.create_task(each.run(work.of(name)))))
            await asyncio.sleep(0.5)
        yield started
        for _, task in started:
            task.cancel()


@virtual_time
async def test_only_the_holder_works_P1_078() -> None:
    """For an hour; the other one says whom it waits for."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a", "b") as [(a, _), (b, _)]:
        await asyncio.sleep(3600)
        assert work.running == {"a"}
        assert (a.is_leader, a.waiting_for) == (True, None)
        assert (b.is_leader, b.waiting_for) == (False, "lease sedna/gm is held by a")
        assert set(leases.writes) == {"a"}
        assert leases.lease is not None
        assert leases.lease["spec"]["leaseTransitions"] == 0
        assert leases.lease["spec"]["leaseDurationSeconds"] == 15


@virtual_time
async def test_a_clean_shutdown_hands_over_within_five_seconds_P1_078() -> None:
    """The lease is released, not left to expire."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a", "b") as [(_, task), (b, _)]:
        await asyncio.sleep(100)
        task.cancel()
        await asyncio.sleep(5)
        assert work.running == {"b"}
        assert work.at("b begins") - work.at("a ends") < 5
        assert b.waiting_for is None
        assert leases.lease is not None
        assert leases.lease["spec"]["leaseTransitions"] == 1


@virtual_time
async def test_a_killed_leader_is_followed_within_the_leases_duration_P1_078() -> None:
    """It can not release; the others wait from its last renewal on, by their own clock."""
    leases, work = Leases(), Work()
    dead = {
        "metadata": {"name": "gm", "resourceVersion": "x"},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "long ago"},
    }
    leases.lease = dead
    async with replicas(leases, work, "b"):
        await asyncio.sleep(14)
        assert not work.running, "the clock of the dead one may have been wrong"
        await asyncio.sleep(5)
        assert work.running == {"b"}
        assert 15 <= work.at("b begins") <= 15 + 2.5


@virtual_time
async def test_a_leader_without_api_stops_before_another_may_begin_P1_078() -> None:
    """Within the renew deadline of its last renewal."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a") as [(a, _)]:
        await asyncio.sleep(100)
        cut = now()
        leases.is_down = True
        await asyncio.sleep(10.2)
        assert not work.running
        assert work.at("a ends") - cut <= 10
        assert not a.is_leader
        assert a.waiting_for is not None


@virtual_time
async def test_a_leader_whose_requests_hang_stops_as_well_P1_078() -> None:
    """Silence is no renewal."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a"):
        await asyncio.sleep(100)
        cut = now()
        leases.hangs = True
        await asyncio.sleep(10.2)
        assert work.at("a ends") - cut <= 10
        leases.hangs = False


@virtual_time
async def test_an_outage_of_thirty_seconds_ends_no_lone_replica_P1_078() -> None:
    """It pauses, and works again soon after."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a") as [(_, task)]:
        await asyncio.sleep(100)
        leases.is_down = True
        await asyncio.sleep(30)
        leases.is_down = False
        back = now()
        await asyncio.sleep(5)
        assert work.running == {"a"}
        assert work.at("a begins") - back < 5
        assert not task.done()


@virtual_time
async def test_a_short_outage_is_not_noticed_by_the_work() -> None:
    """Renewals are tried until the deadline."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a"):
        await asyncio.sleep(100)
        leases.is_down = True
        await asyncio.sleep(5)
        leases.is_down = False
        await asyncio.sleep(100)
        assert [what for _, what in work.history] == ["a begins"]


@virtual_time
async def test_a_renewal_whose_answer_was_lost_is_no_loss() -> None:
    """The conflict that follows was with our own write."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a"):
        await asyncio.sleep(100)
        leases.loses_answers = True
        await asyncio.sleep(2.5)
        leases.loses_answers = False
        await asyncio.sleep(100)
        assert [what for _, what in work.history] == ["a begins"]


@virtual_time
async def test_a_lease_that_was_taken_ends_the_work_at_once() -> None:
    """Somebody with rights edited it."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a") as [(a, _)]:
        await asyncio.sleep(100)
        assert leases.lease is not None
        leases.lease["spec"]["holderIdentity"] = "thief"
        leases.lease["metadata"]["resourceVersion"] = "stolen"
        await asyncio.sleep(3)
        assert not work.running
        assert a.waiting_for == "lease sedna/gm is held by thief"
        await asyncio.sleep(20)
        assert work.running == {"a"}, "the thief does not renew"


@virtual_time
async def test_a_lease_that_was_deleted_is_made_again() -> None:
    """The work stops for a moment, as nobody can tell who else was quick."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a"):
        await asyncio.sleep(100)
        leases.lease = None
        await asyncio.sleep(5)
        assert work.running == {"a"}
        assert [what for _, what in work.history] == ["a begins", "a ends", "a begins"]


@virtual_time
async def test_two_that_start_at_once_do_not_both_lead_P1_078() -> None:
    """The server decides: one is told that another was quicker."""
    leases, work = Leases(), Work()
    a, b = elector(leases, "a"), elector(leases, "b")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(a.run(work.of("a"))), group.create_task(b.run(work.of("b")))]
        await asyncio.sleep(1)
        assert (a.is_leader, b.is_leader) == (True, False)
        assert b.waiting_for == "another replica was quicker"
        for task in tasks:
            task.cancel()


@virtual_time
async def test_work_that_is_finished_releases_the_lease() -> None:
    """And run returns."""
    leases, work = Leases(), Work()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(elector(leases, "a").run(work.of("a")))
        await asyncio.sleep(5)
        work.finish.set()
        await task
    assert leases.holder == ""


@virtual_time
async def test_work_that_fails_is_told_and_releases_the_lease() -> None:
    """The program ends with the reason; another replica takes over."""
    leases = Leases()

    async def broken() -> None:
        raise ValueError("a mistake")

    with pytest.RaisesGroup(ValueError):
        await elector(leases, "a").run(broken)
    assert leases.holder == ""


@virtual_time
async def test_a_shutdown_in_the_middle_of_a_write_releases_too() -> None:
    """The lease may have been ours without our knowing."""
    leases, work = Leases(), Work()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(elector(leases, "a").run(work.of("a")))
        await asyncio.sleep(0.25)
        assert leases.holder == "a", "written, but the answer is on its way"
        task.cancel()
    assert leases.holder == ""
    assert work.history == []


@virtual_time
async def test_a_release_that_fails_does_not_hold_up_the_end() -> None:
    """Others wait for the lease's end then."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a") as [(_, task)]:
        await asyncio.sleep(10)
        leases.hangs = True
        stopped = now()
        task.cancel()
        await asyncio.wait({task})
        assert now() - stopped <= 3.1
    assert leases.holder == "a"


@virtual_time
async def test_a_loser_releases_nothing() -> None:
    """The lease is somebody else's."""
    leases, work = Leases(), Work()
    async with replicas(leases, work, "a", "b") as [_, (_, task)]:
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.wait({task})
        assert leases.holder == "a"
        assert leases.lease is not None
        leases.lease["spec"]["holderIdentity"] = "thief"
    assert leases.holder == "thief"


def test_identities_are_unique() -> None:
    """Also within one pod."""
    leases = Leases()
    one, other = LeaderElector(leases, KEY), LeaderElector(leases, KEY)
    assert one.identity != other.identity


@pytest.mark.parametrize(
    ("lease", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (15, 20, 2)]
)
def test_times_must_make_sense(lease: int, deadline: float, retry: float) -> None:
    """Else two could lead at once."""
    with pytest.raises(ValueError, match="is required"):
        LeaderSettings(lease_seconds=lease, renew_deadline_seconds=deadline, retry_seconds=retry)


async def test_a_cluster_s_lease_is_handed_over(cluster: Cluster) -> None:
    """Two replicas, one after the other, on a real Lease."""
    settings = LeaderSettings(lease_seconds=3, renew_deadline_seconds=2, retry_seconds=0.1)
    order: list[str] = []
    async with cluster.client() as client, asyncio.TaskGroup() as group:

        def body(name: str) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                order.append(name)
                await asyncio.Event().wait()

            return work

        def start(name: str) -> asyncio.Task[None]:
            each = LeaderElector(client, cluster.key("gm"), identity=name, settings=settings)
            return group.create_task(each.run(body(name)))

        one = start("one")
        await cluster.wait_for(lambda: order == ["one"])
        two = start("two")

        async def renewed() -> bool:
            lease = await cluster.get(LEASES, "gm")
            assert lease is not None
            return bool(lease["spec"]["renewTime"] > lease["spec"]["acquireTime"])

        await cluster.wait_for(renewed)
        one.cancel()
        await cluster.wait_for(lambda: order == ["one", "two"])
        two.cancel()
    lease = await cluster.get(LEASES, "gm")
    assert lease is not None
    assert lease["spec"].get("holderIdentity", "") == ""
    assert lease["spec"]["leaseTransitions"] == 1
