"""Who works alone is warned of others, never of those that are gone, and disturbs nobody."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from gm.api.meta import ObjectKey, ResourceType
from gm.errors import AlreadyExists, ApiUnreachable, Conflict, NotFound, ServiceError
from gm.kube import LeaderElector
from gm.kube.presence import Presence
from tests.kube.virtual_time import virtual_time

ALONE, ELECTED = ObjectKey("sedna", "gm.alone"), ObjectKey("sedna", "gm")


class Leases:
    """Leases in memory."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.requests = 0
        self.failure: ServiceError | None = None
        self.quicker = ""
        """Who writes each time just before whoever replaces a Lease."""
        self._version = 0

    def _ask(self) -> None:
        self.requests += 1
        if self.failure is not None:
            raise self.failure

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """Read one."""
        self._ask()
        if key.name not in self.leases:
            raise NotFound("get", code=404, reason="NotFound")
        return json.dumps(self.leases[key.name]).encode()

    async def create(
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any] | bytes
    ) -> bytes:
        """Make one."""
        self._ask()
        assert not isinstance(body, bytes)
        if body["metadata"]["name"] in self.leases:
            raise AlreadyExists("create", code=409, reason="AlreadyExists")
        return self._store(body)

    async def replace(
        self, resource: ResourceType, key: ObjectKey, body: Mapping[str, Any] | bytes
    ) -> bytes:
        """Change one."""
        self._ask()
        assert not isinstance(body, bytes)
        if self.quicker:
            self._store({**body, "spec": {"holderIdentity": self.quicker}})
        stored = self.leases[key.name]["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != stored:
            raise Conflict("replace", code=409, reason="Conflict")
        return self._store(body)

    def _store(self, body: Mapping[str, Any]) -> bytes:
        self._version += 1
        stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        self.leases[body["metadata"]["name"]] = stored
        return json.dumps(stored).encode()


@contextlib.asynccontextmanager
async def alone(leases: Leases, *names: str) -> AsyncIterator[None]:
    """Each of ``names`` works alone as long as the body."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(Presence(leases, ALONE, elected=ELECTED, identity=name).run())
            for name in names
        ]
        yield
        for task in tasks:
            task.cancel()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Who was warned, and of whom."""
    records: list[Any] = [r for r in caplog.records if r.levelname == "WARNING"]
    return sorted((record.identity, record.other) for record in records)


@virtual_time
async def test_two_that_work_alone_hear_of_each_other_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Within a minute and a half, and never again."""
    async with alone(Leases(), "a", "b"):
        await asyncio.sleep(95)
        assert told(caplog) == [("a", "b"), ("b", "a")]
        await asyncio.sleep(3600)
    assert told(caplog) == [("a", "b"), ("b", "a")]


@virtual_time
async def test_successors_of_one_that_is_gone_hear_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its mark lies there for ever, whatever ended it."""
    leases = Leases()
    for name in ("a", "b", "c"):
        async with alone(leases, name):
            await asyncio.sleep(300)
        assert leases.leases["gm.alone"]["spec"]["holderIdentity"] == name
    assert told(caplog) == []


@virtual_time
async def test_a_leader_at_work_is_told_and_one_that_is_gone_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that was killed leaves its lease held, one that ended in order gives it back."""
    leases = Leases()

    async def work() -> None:
        await asyncio.sleep(1e9)

    killed = LeaderElector(leases, ELECTED, identity="killed")
    await killed._try_acquire()
    async with alone(leases, "a"):
        await asyncio.sleep(300)
        assert told(caplog) == []
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(LeaderElector(leases, ELECTED, identity="leader").run(work))
            await asyncio.sleep(100)
            leading.cancel()
        assert leases.leases["gm"]["spec"]["holderIdentity"] == ""
        assert told(caplog) == [("a", "leader")]
    caplog.clear()
    async with alone(leases, "b"):
        await asyncio.sleep(300)
    assert told(caplog) == []


@pytest.mark.parametrize(
    "failure",
    [
        ApiUnreachable("no answer"),
        NotFound("create", code=404, reason="NotFound"),
        Conflict("replace", code=409, reason="Conflict"),
    ],
)
def test_a_failure_disturbs_nobody(caplog: pytest.LogCaptureFixture, failure: Exception) -> None:
    """It is tried again at its time, and said at debug only."""

    @virtual_time
    async def scenario() -> None:
        leases = Leases()
        assert isinstance(failure, ServiceError)
        async with alone(leases, "a", "b"):
            leases.failure = failure
            await asyncio.sleep(3600)
            assert leases.requests <= 2 * 120 * 3
            assert told(caplog) == []
            leases.failure = None
            await asyncio.sleep(95)
            assert told(caplog) == [("a", "b"), ("b", "a")]

    scenario()


@virtual_time
async def test_one_that_is_always_quicker_is_seen_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody overwrites what somebody else has written since it looked."""
    leases = Leases()
    async with alone(leases, "a"):
        await asyncio.sleep(35)
        leases.quicker = "b"
        await asyncio.sleep(60)
    assert told(caplog) == [("a", "b")]
    assert leases.leases["gm.alone"]["spec"]["holderIdentity"] == "b"


@virtual_time
async def test_a_rival_that_starts_over_and_over_is_told_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without remembering all of them for ever."""
    leases = Leases()
    async with alone(leases, "a"):
        for number in range(150):
            async with alone(leases, f"b{number}"):
                await asyncio.sleep(95)
    about = [other for who, other in told(caplog) if who == "a"]
    assert sorted(about) == sorted(f"b{number}" for number in range(150))


@virtual_time
async def test_a_lease_of_somebody_who_writes_nonsense_is_none_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What can not be read says nothing."""
    leases = Leases()
    leases.leases["gm.alone"] = {
        "metadata": {"resourceVersion": "1"},
        "spec": {"holderIdentity": 5},
    }
    async with alone(leases, "a"):
        await asyncio.sleep(300)
    assert told(caplog) == []
