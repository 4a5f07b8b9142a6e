"""Jobs in trouble for hours, and by the hundred: in virtual time, with production's settings."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from gm.api.meta import ObjectKey
from gm.api.resources import FEDERATED_LEARNING_JOBS, MODELS, PODS, SECRETS, SERVICES
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning import JobSettings
from gm.errors import ApiUnreachable, ServiceError, TooLarge, TooManyRequests
from tests.controllers.memory_api import Asked, Rig
from tests.controllers.support import NAMESPACE, NOW
from tests.kube.virtual_time import virtual_time


def failing(name: str, failure: ServiceError) -> Any:
    """A fault: ``name`` can not be created."""
    return lambda verb, kind, what: failure if (verb, what) == ("create", name) else None


def gaps(asked: list[Asked]) -> list[int]:
    """Whole seconds between requests."""
    times = [request.at for request in asked]
    return [round(later - earlier) for earlier, later in itertools.pairwise(times)]


@virtual_time
async def test_a_job_that_fails_for_ten_minutes_is_one_event_and_few_tries_P1_072() -> None:
    """10 s doubling to 360 s; the Event is written at most every 10 s, and nothing is listed."""
    rig = Rig(JobSettings(endpoint_grace_seconds=1e6))  # a timer is a reason to try again too
    rig.api.fail = failing("job-train-0", ApiUnreachable("the quota is used up"))
    async with rig.running() as api:
        rig.submit()
        await asyncio.sleep(1200)
        tried = [a for a in api.asked if (a.verb, a.name) == ("create", "job-train-0")]
        assert gaps(tried) == [10, 20, 40, 80, 160, 320, 360]
        (event,) = rig.events("CreateFailed")
        assert event["count"] >= 1
        assert event["lastTimestamp"] >= timestamp(NOW)
        writes = [a for a in api.asked if a.name == event["metadata"]["name"]]
        assert all(gap >= 10 for gap in gaps(writes))
        statuses = [a for a in api.asked if a.verb == "patch status"]
        assert len(statuses) <= 4
        api.fail = lambda *_: None
        await asyncio.sleep(361)
        assert len(api.keys(PODS)) == 3
        assert "conditions" not in rig.status() or not rig.status()["conditions"]


@virtual_time
async def test_a_server_that_asks_for_patience_gets_it_P1_080() -> None:
    """Retry-After of a minute: longer than the job's own back-off."""
    rig = Rig()
    refusal = TooManyRequests("create", code=429, reason="x", retry_after_seconds=60)
    rig.api.fail = failing("job-aggregation", refusal)
    async with rig.running() as api:
        rig.submit()
        await asyncio.sleep(300)
        tried = [a.at for a in api.asked if (a.verb, a.kind) == ("create", "Service")]
    assert [round(at) for at in tried if at > 1][:3] == [60, 120, 180]


@virtual_time
async def test_a_name_that_stays_taken_is_looked_at_ever_less_often_P0_015() -> None:
    """From a second up to five minutes, and at once after an edit."""
    rig = Rig()
    foreign = {"metadata": {"name": "job-aggregation"}, "spec": {"ports": [{"port": 1}]}}
    rig.api.add(SERVICES, foreign, NAMESPACE)
    async with rig.running() as api:
        job = rig.submit()
        await asyncio.sleep(4 * 3600)
        tried = [a for a in api.asked if (a.verb, a.kind) == ("create", "Service")]
        pauses = gaps(tried)[2:]
        assert pauses == sorted(pauses)
        assert min(pauses) >= 1
        assert pauses[-1] in (300, 301)
        assert len(rig.events("NameConflict")) == 1
        count = len(tried)
        api.change(FEDERATED_LEARNING_JOBS, job, {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(1)
        tried = [a for a in api.asked if (a.verb, a.kind) == ("create", "Service")]
        assert len(tried) == count + 1


@virtual_time
async def test_a_status_that_is_too_large_is_shrunk_once_and_then_waited_with_P0_023() -> None:
    """Two requests for each look, ever more rarely; the Event says what to do."""
    rig = Rig()

    def fail(verb: str, kind: str, name: str) -> ServiceError | None:
        is_status = (verb, kind) == ("patch status", "FederatedLearningJob")
        return TooLarge("patch", code=413, reason="RequestEntityTooLarge") if is_status else None

    rig.api.fail = fail
    async with rig.running() as api:
        job = rig.submit()
        await asyncio.sleep(1200)
        tried = [a for a in api.asked if a.verb == "patch status"]
        assert gaps(tried)[-13:] == [10, 0, 20, 0, 40, 0, 80, 0, 160, 0, 320, 0, 360, 0][-13:]
        (event,) = rig.events("StatusTooLarge")
        assert "shorten its templates" in event["message"]
        assert len(api.keys(PODS)) == 3, "the children are made all the same"
        api.fail = lambda *_: None
        api.change(FEDERATED_LEARNING_JOBS, job, {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(1)
        assert rig.status()["active"] == 3


def contents(value: Any, path: str = "") -> Iterator[str]:
    """Which collections of the reconciler and its parts hold something."""
    if isinstance(value, (dict, set, list)) and value:
        yield path
    for name, part in getattr(value, "__dict__", {}).items():
        if type(part).__module__.startswith("gm.controllers") or isinstance(
            part, (dict, set, list)
        ):
            yield from contents(part, f"{path}.{name}")


@pytest.mark.parametrize("end", ["while it runs", "after its success", "while it fails"])
@virtual_time
async def test_nothing_is_remembered_of_jobs_that_are_gone_P1_073(end: str) -> None:
    """Whatever they were doing when they were deleted."""
    rig = Rig()
    before = set(contents(rig.reconciler))
    if end == "while it fails":
        rig.api.fail = lambda verb, kind, name: (
            ApiUnreachable("no") if verb == "create" and name.endswith("train-1") else None
        )
    async with rig.running() as api:
        for batch in range(5):
            jobs = [rig.submit(f"job-{batch}-{number}") for number in range(20)]
            await asyncio.sleep(5)
            if end == "after its success":
                for key in api.keys(PODS):
                    api.change(PODS, key, {"status": {"phase": "Succeeded"}})
                await asyncio.sleep(5)
            for key in jobs:
                api.remove(FEDERATED_LEARNING_JOBS, key)
            for resource in (PODS, SERVICES):
                for key in api.keys(resource):
                    api.remove(resource, key)
            await asyncio.sleep(30)
    assert set(contents(rig.reconciler)) == before
    queue = rig.queue
    assert (queue.failing_count, queue.delayed_count, len(queue)) == (0, 0, 0)


@virtual_time
async def test_pods_that_start_one_after_the_other_cost_few_status_writes() -> None:
    """Small news wait up to a second for more; what ends or moves is told at once."""
    rig = Rig()
    async with rig.running(trainers=20) as api:
        rig.submit(trainers=20)
        await asyncio.sleep(5)
        pods = api.keys(PODS)
        assert len(pods) == 21
        before = len([a for a in api.asked if a.verb == "patch status"])
        for key in pods:
            api.change(PODS, key, {"status": {"phase": "Running"}})
            await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        assert rig.status()["phase"] == "Running"
        writes = [a.at for a in api.asked if a.verb == "patch status"][before:]
        assert len(writes) <= 4
        api.change(PODS, pods[-1], {"status": {"phase": "Succeeded"}})
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        (written,) = [a.at for a in api.asked if a.verb == "patch status" and a.at >= began]
        assert written - began < 0.1


@virtual_time
async def test_a_secret_is_looked_for_each_second_and_later_each_half_minute_P1_071() -> None:
    """Secrets are not watched; one that comes starts the job without anybody touching it."""
    rig = Rig()
    async with rig.running() as api:
        credential = {"spec": {"credentialName": "s3"}}
        api.change(MODELS, ObjectKey(NAMESPACE, "m"), credential)
        rig.submit()
        await asyncio.sleep(300)
        looks = [a for a in api.asked if a.kind == "Secret"]
        early = [a for a in looks if a.at < 60]
        assert 50 <= len(early) <= 62
        assert set(gaps([a for a in looks if a.at > 62])) == {30}
        data = {"ACCESS_KEY_ID": "YQ==", "SECRET_ACCESS_KEY": "YQ=="}
        meta = {"name": "s3", "annotations": {"s3-endpoint": "h:9"}}
        api.add(SECRETS, {"metadata": meta, "data": data}, NAMESPACE)
        came = asyncio.get_running_loop().time()
        while len(api.keys(PODS)) < 3:
            await asyncio.sleep(0.1)
        assert asyncio.get_running_loop().time() - came <= 31
        assert rig.clock() - NOW < timedelta(seconds=340)
