"""Reports into status, with a scripted hub and a server that objects."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gm.api.core import Pod
from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    INCREMENTAL_LEARNING_JOBS,
    JOINT_INFERENCE_SERVICES,
    MODELS,
    PODS,
)
from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
    Model,
)
from gm.controllers.conditions import now, timestamp
from gm.controllers.upstream import Upstream
from gm.errors import ApiUnreachable, Conflict, NotFound, api_error
from gm.messagelayer import Report, WireKey
from tests.controllers.fake_informer import FakeInformer

KINDS: dict[str, tuple[ResourceType, type[Any]]] = {
    "dataset": (DATASETS, Dataset),
    "model": (MODELS, Model),
    "federatedlearningjob": (FEDERATED_LEARNING_JOBS, FederatedLearningJob),
    "jointinferenceservice": (JOINT_INFERENCE_SERVICES, JointInferenceService),
    "incrementallearningjob": (INCREMENTAL_LEARNING_JOBS, IncrementalLearningJob),
}


class FakeHub:
    """Reports as the test puts them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Report] = asyncio.Queue()
        self.acknowledged: list[Report] = []
        self.counters: Counter[str] = Counter()
        self.refused: list[str] = []

    @property
    def waiting_reports(self) -> int:
        """See Hub."""
        return self.queue.qsize()

    async def next_report(self) -> Report:
        """See Hub."""
        return await self.queue.get()

    def acknowledge(self, report: Report, *, refused: str = "") -> None:
        """See Hub."""
        (self.refused.append(refused) if refused else self.acknowledged.append(report))


class FakeServer:
    """Keeps objects and their versions, as an API server does."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes = 0
        self.failures: list[Exception] = []

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """See Client."""
        found = self.objects.get((resource.kind, key.name))
        if found is None:
            raise NotFound("get", code=404, reason="NotFound")
        return msgspec.json.encode(found)

    async def patch(
        self, resource: ResourceType, key: ObjectKey, body: Mapping[str, Any], *, subresource: str
    ) -> bytes:
        """See Client."""
        assert subresource == "status"
        if self.failures:
            raise self.failures.pop(0)
        found = self.objects.get((resource.kind, key.name))
        if found is None:
            raise NotFound("patch", code=404, reason="NotFound")
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict("patch", code=409, reason="Conflict")
        self.writes += 1
        found["status"] = {**(found.get("status") or {}), **body["status"]}
        self.touch(resource.kind, key.name)
        return msgspec.json.encode(found)

    def touch(self, kind: str, name: str) -> None:
        """The object has another version now."""
        meta = self.objects[kind, name]["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)


class Rig:
    """Upstream with fakes around it."""

    def __init__(self) -> None:
        self.hub = FakeHub()
        self.server = FakeServer()
        self.informers = {kind: FakeInformer(*types) for kind, types in KINDS.items()}
        self.stopping = asyncio.Event()
        hub: Any = self.hub
        server: Any = self.server
        informers: Any = self.informers
        self.pods = FakeInformer(PODS, Pod)
        pods: Any = self.pods
        self.upstream = Upstream(hub, server, informers, pods=pods, grace_seconds=2)

    async def add(
        self, kind: str, name: str, spec: dict[str, Any] | None = None, **status: Any
    ) -> None:
        """An object that server and cache know."""
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec or {}}
        if status:
            body["status"] = status
        await self.informers[kind].put(body)
        cached = self.informers[kind].lister.get(ObjectKey("ns", name))
        assert cached is not None
        self.server.objects[KINDS[kind][0].kind, name] = json.loads(cached.raw)

    def report(self, kind: str, name: str, content: Any, node: str = "edge1") -> None:
        """A report comes."""
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.hub.queue.put_nowait(Report(node=node, key=WireKey(kind, "ns", name), content=raw))

    def status(self, kind: str, name: str) -> dict[str, Any]:
        """What the server has."""
        found: dict[str, Any] = self.server.objects[kind, name].get("status") or {}
        return found

    async def drained(self, count: int) -> None:
        """``count`` reports are dealt with."""
        async with asyncio.timeout(10):
            while len(self.hub.acknowledged) + len(self.hub.refused) < count:
                await asyncio.sleep(0.01)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """A running upstream controller."""
    found = Rig()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.upstream.run(found.stopping))
        yield found
        found.stopping.set()
        await asyncio.wait({task})


def training(number: int, **metrics: Any) -> dict[str, Any]:
    """A trainer's report."""
    return {
        "phase": "train",
        "status": "running",
        "output": {
            "models": [{"format": "pb", "url": "/m", "metrics": metrics}],
            "ownerInfo": {"currentRound": number, "updateTime": "2026-11-30 01:00:00"},
        },
    }


JOB = {"aggregationWorker": {"model": {"name": "m"}}}
TRAINER = {"name": "train-0", "role": "train", "node": "edge1", "podName": "j-train-0"}
RUNS: dict[str, Any] = {"phase": "Running", "workers": [TRAINER]}


def finished(seconds_ago: float, kind: str = "Complete") -> dict[str, Any]:
    """Status of a job that is over."""
    moment = timestamp(now() - timedelta(seconds=seconds_ago))
    end = {"type": kind, "status": "True", "lastTransitionTime": moment}
    phase = "Succeeded" if kind == "Complete" else "Failed"
    return {"phase": phase, "workers": [TRAINER], "conditions": [end]}


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
async def test_a_job_that_finished_long_ago_takes_no_reports(rig: Rig, kind: str) -> None:
    """Neither it nor its model changes; the report is counted."""
    await rig.add("federatedlearningjob", "j", JOB, **finished(60, kind))
    await rig.add("model", "m")
    rig.report("federatedlearningjob", "j", training(9, accuracy=0.1))
    await rig.drained(1)
    assert rig.hub.refused == ["the job has finished"]
    assert rig.hub.counters["reports_refused"] == 1
    assert rig.server.writes == 0


async def test_the_last_reports_of_a_job_that_just_finished_are_kept(rig: Rig) -> None:
    """Trainers tell their final metrics when the aggregator has left."""
    await rig.add("federatedlearningjob", "j", JOB, **finished(20))
    await rig.add("model", "m")
    rig.report("federatedlearningjob", "j", training(3, accuracy=0.9))
    await rig.drained(1)
    status = rig.status("FederatedLearningJob", "j")
    assert status["workers"][0]["metrics"] == [{"key": "accuracy", "value": "0.9"}]
    assert status["phase"] == "Succeeded"
    assert rig.status("Model", "m")["metrics"]


async def test_a_job_without_pods_takes_no_reports_of_its_predecessors_workers(rig: Rig) -> None:
    """It waits for them to go; a pod of its own on the node opens the way."""
    waiting = [{key: TRAINER[key] for key in ("name", "role", "node")}]
    await rig.add("federatedlearningjob", "j", JOB, phase="Pending", workers=waiting)
    await rig.pods.sync()
    owner = {"apiVersion": "v1", "kind": "FederatedLearningJob", "name": "j", "controller": True}

    async def add_pod(name: str, node: str, uid: str) -> None:
        meta = {"name": name, "ownerReferences": [{**owner, "uid": uid}]}
        await rig.pods.put({"metadata": meta, "spec": {"nodeName": node}})

    await add_pod("old", "edge1", "predecessor")
    await add_pod("elsewhere", "edge2", "uid-j")
    rig.report("federatedlearningjob", "j", training(9, accuracy=0.1))
    await rig.drained(1)
    assert rig.hub.refused == ["this job has no worker on the node yet"]
    await add_pod("own", "edge1", "uid-j")
    rig.report("federatedlearningjob", "j", training(1))
    await rig.drained(2)
    assert rig.status("FederatedLearningJob", "j")["round"] == 1


async def test_a_queued_report_on_an_earlier_job_of_the_name_is_refused(rig: Rig) -> None:
    """It came when that one was still there."""
    await rig.add("federatedlearningjob", "j", JOB, **RUNS)
    content = json.dumps(training(9)).encode()
    key = WireKey("federatedlearningjob", "ns", "j")
    rig.hub.queue.put_nowait(Report(node="edge1", key=key, content=content, uid="earlier"))
    rig.report("federatedlearningjob", "gone", training(9))
    await rig.drained(2)
    assert rig.hub.refused == ["it is about an earlier job of that name", "the job is gone"]
    assert rig.server.writes == 0


async def test_a_report_is_acknowledged_when_it_is_written(rig: Rig) -> None:
    """Not before: the node may send it again."""
    await rig.add("dataset", "d")
    rig.report("dataset", "d", {"numberOfSamples": 3})
    await rig.drained(1)
    assert rig.status("Dataset", "d")["numberOfSamples"] == 3
    assert len(rig.hub.acknowledged) == 1


async def test_an_unchanged_report_is_acknowledged_and_not_written_P0_025(rig: Rig) -> None:
    """Sixty times the same: one write."""
    await rig.add("dataset", "d")
    for number in range(60):
        rig.report("dataset", "d", {"numberOfSamples": 100})
        await rig.drained(number + 1) if number % 20 == 0 else None
    await rig.drained(60)
    assert rig.server.writes == 1


async def test_job_and_model_are_told(rig: Rig) -> None:
    """Both are written before the report counts as taken."""
    await rig.add("federatedlearningjob", "j", JOB, **RUNS)
    await rig.add("model", "m")
    rig.report("federatedlearningjob", "j", training(1, accuracy=0.91, note="x"))
    await rig.drained(1)
    assert rig.status("FederatedLearningJob", "j")["round"] == 1
    assert rig.status("Model", "m")["metrics"] == [
        {"key": "accuracy", "value": "0.91"},
        {"key": "note", "value": "x"},
    ]


async def test_a_flood_of_reports_costs_few_writes_and_loses_nothing(rig: Rig) -> None:
    """Metrics that only an earlier one had are there."""
    await rig.add("federatedlearningjob", "j", JOB, **RUNS)
    await rig.add("model", "m")
    for number in range(1, 501):
        rig.report("federatedlearningjob", "j", training(number, **{f"m{number % 7}": number}))
    await rig.drained(500)
    assert rig.status("FederatedLearningJob", "j")["round"] == 500
    assert len(rig.status("Model", "m")["metrics"]) == 7
    assert rig.server.writes < 50


async def test_a_conflict_is_read_again_and_computed_again_P0_022(rig: Rig) -> None:
    """The cache is behind."""
    await rig.add("dataset", "d")
    rig.server.objects["Dataset", "d"]["status"] = {"other": "kept"}
    rig.server.touch("Dataset", "d")
    rig.report("dataset", "d", {"numberOfSamples": 3})
    await rig.drained(1)
    assert rig.status("Dataset", "d")["other"] == "kept"
    assert rig.status("Dataset", "d")["numberOfSamples"] == 3


async def test_writers_that_meet_again_and_again_come_out_of_step_P0_022(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first conflict is tried again at once, further ones after pauses that grow."""
    pauses: list[int] = []

    def pause(attempt: int) -> float:
        pauses.append(attempt)
        return 0.0

    monkeypatch.setattr("gm.controllers.upstream.conflict_pause", pause)
    await rig.add("dataset", "d")
    rig.server.failures = [api_error("p", code=409, reason="Conflict") for _ in range(4)]
    rig.report("dataset", "d", {"numberOfSamples": 3})
    await rig.drained(1)
    assert pauses == [0, 1, 2, 3]
    assert rig.status("Dataset", "d")["numberOfSamples"] == 3


TOO_LARGE = api_error("patch", code=500, reason="", message="etcdserver: request is too large")


async def test_a_status_that_is_too_large_is_written_without_metrics_P0_023(rig: Rig) -> None:
    """Once more, and no more: the round is there, the report counts as taken."""
    await rig.add("federatedlearningjob", "j", JOB, **RUNS)
    rig.server.failures = [TOO_LARGE]
    rig.report("federatedlearningjob", "j", training(4, accuracy=0.9))
    await rig.drained(1)
    status = rig.status("FederatedLearningJob", "j")
    assert status["round"] == 4
    assert "metrics" not in status["workers"][0]
    rig.server.failures = [TOO_LARGE, TOO_LARGE]
    rig.report("federatedlearningjob", "j", training(5))
    await rig.drained(2)
    assert rig.status("FederatedLearningJob", "j")["round"] == 4
    assert rig.server.failures == []
    assert rig.server.writes == 1


async def test_failures_are_retried_with_what_came_in_the_meantime(rig: Rig) -> None:
    """In order: the later count wins."""
    await rig.add("dataset", "d")
    rig.server.failures = [ApiUnreachable("down"), api_error("p", code=500, reason="Boom")]
    rig.report("dataset", "d", {"numberOfSamples": 3})
    async with asyncio.timeout(10):
        while len(rig.server.failures) == 2:
            await asyncio.sleep(0.01)
    rig.report("dataset", "d", {"numberOfSamples": 4})
    await rig.drained(2)
    assert rig.status("Dataset", "d")["numberOfSamples"] == 4


async def test_a_report_on_what_is_gone_or_refused_is_dropped(rig: Rig) -> None:
    """No retry on 404, nor on a content that the server refuses."""
    await rig.add("dataset", "d")
    rig.report("dataset", "gone", {"numberOfSamples": 3})
    await rig.drained(1)
    rig.server.failures = [api_error("patch", code=422, reason="Invalid")]
    rig.report("dataset", "d", {"numberOfSamples": 3})
    await rig.drained(2)
    assert rig.server.writes == 0


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("dataset", b"[]"),
        ("dataset", {"numberOfSamples": "many"}),
        ("federatedlearningjob", {"output": 3}),
        ("federatedlearningjob", {"output": {"models": [{"metrics": [1]}]}}),
        ("incrementallearningjob", {"phase": "dance", "status": "ready"}),
        ("model", {}),
        ("lifelonglearningjob", {}),
    ],
)
async def test_nonsense_is_refused_with_its_reason(rig: Rig, kind: str, content: Any) -> None:
    """And costs nobody anything."""
    rig.report(kind, "x", content)
    await rig.drained(1)
    assert len(rig.hub.refused) == 1


@pytest.mark.parametrize(
    "content",
    [
        {"phase": "train", "status": "completed", "output": {"models": None, "ownerInfo": None}},
        {"phase": "train", "status": "running", "output": None},
        {},
        {"output": {"models": [None], "ownerInfo": {"currentRound": True}}},
    ],
)
async def test_a_report_that_says_nothing_changes_nothing(rig: Rig, content: Any) -> None:
    """As the last one of a Go LC does."""
    await rig.add("federatedlearningjob", "j", JOB, **RUNS)
    rig.report("federatedlearningjob", "j", content)
    await rig.drained(1)
    assert rig.server.writes == 0
    assert len(rig.hub.acknowledged) == 1


async def test_inference_metrics_come_without_their_times(rig: Rig) -> None:
    """ownerInfo but for startTime and updateTime."""
    await rig.add("jointinferenceservice", "s")
    info = {"inferenceNumber": 10, "startTime": "a", "updateTime": "b"}
    rig.report("jointinferenceservice", "s", {"output": {"ownerInfo": info}})
    await rig.drained(1)
    metrics = rig.status("JointInferenceService", "s")["metrics"]
    assert metrics == [{"key": "inferenceNumber", "value": "10"}]


async def test_steps_of_an_incremental_job_are_all_written(rig: Rig) -> None:
    """A history, in order."""
    await rig.add("incrementallearningjob", "i")
    for status in ("ready", "completed"):
        rig.report("incrementallearningjob", "i", {"phase": "train", "status": status})
    await rig.drained(2)
    history = rig.status("IncrementalLearningJob", "i")["conditions"]
    assert [c["type"] for c in history] == ["Ready", "Completed"]


async def test_stopping_drains_what_has_come() -> None:
    """Reports in the hub and in our hands are written first."""
    rig = Rig()
    for number in range(20):
        await rig.add("dataset", f"d{number}")
    async with asyncio.TaskGroup() as group:
        group.create_task(rig.upstream.run(rig.stopping))
        for number in range(20):
            rig.report("dataset", f"d{number}", {"numberOfSamples": number})
        rig.stopping.set()
    assert rig.server.writes == 20


async def test_what_was_written_for_deleted_objects_is_forgotten(rig: Rig) -> None:
    """Memory does not grow with every object that ever was."""
    await rig.add("dataset", "d")
    rig.report("dataset", "d", {"numberOfSamples": 3})
    await rig.drained(1)
    with contextlib.suppress(KeyError):
        await rig.informers["dataset"].remove("d")
    assert rig.upstream._own_writes(DATASETS)._newer == {}
