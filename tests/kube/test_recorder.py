"""The event recorder: few Events, true counts, and nobody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gm.api.resources import CONFIG_MAPS, EVENTS
from gm.kube import Client, EventRecorder, ObjectRef
from tests.cluster.cluster import Cluster
from tests.fakes.kube_api import FakeKubeApi, Request, status

JOB = ObjectRef(
    api_version="sedna.io/v1alpha1",
    kind="FederatedLearningJob",
    namespace="ns",
    name="job",
    uid="u-1",
    resource_version="5",
)


class Events:
    """The events endpoint of an API server, in a dictionary."""

    def __init__(self, api: FakeKubeApi) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[Request] = []
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        self._changed = asyncio.Condition()
        self._api = api
        api.handler = self.answer

    async def answer(self, request: Request) -> Any:
        """Create, patch or get."""
        async with self._changed:
            self._changed.notify_all()
            if request.method != "GET":
                self.writes.append(request)
            if self.refusals:
                return self.refusals.pop(0)
            return self._answer(request)

    def _answer(self, request: Request) -> Any:
        if request.method == "POST":
            body = request.json()
            if body["metadata"]["name"] in self.objects:
                return 409, status(409, "AlreadyExists")
            self.objects[body["metadata"]["name"]] = body
            return 201, body
        name = request.path.rpartition("/")[2]
        if name not in self.objects:
            return 404, status(404, "NotFound")
        if request.method == "PATCH":
            self.objects[name] |= request.json()
        return self.objects[name]

    async def wait_for_writes(self, count: int) -> None:
        """Wait for ``count`` writes in all."""
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(lambda: len(self.writes) >= count)

    @property
    def only(self) -> dict[str, Any]:
        """The one Event that there is."""
        (event,) = self.objects.values()
        return event


@pytest.fixture
def events(api: FakeKubeApi) -> Events:
    """Its events."""
    return Events(api)


@contextlib.asynccontextmanager
async def recording(api: FakeKubeApi, **arguments: Any) -> AsyncIterator[EventRecorder]:
    """A running recorder."""
    async with await Client.connect(master=api.url) as client:
        recorder = EventRecorder(client, **arguments)
        async with running(recorder):
            yield recorder


@contextlib.asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[None]:
    """Run it as long as the body."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        yield
        task.cancel()


def warn(recorder: EventRecorder, message: str = "it fails", *, reason: str = "Failing") -> None:
    """A warning about the job."""
    recorder.event(JOB, type="Warning", reason=reason, message=message)


async def test_an_event_is_what_kubectl_describe_looks_for(
    api: FakeKubeApi, events: Events
) -> None:
    """All fields of a core/v1 Event as client-go writes them."""
    now = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    async with recording(api, component="gm", now=lambda: now) as recorder:
        recorder.event(JOB, type="Normal", reason="Completed", message="all is well")
        await events.wait_for_writes(1)
    event = events.only
    assert event.pop("reportingInstance")
    assert event.pop("metadata")["namespace"] == "ns"
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": "FederatedLearningJob",
            "namespace": "ns",
            "name": "job",
            "uid": "u-1",
            "resourceVersion": "5",
        },
        "type": "Normal",
        "reason": "Completed",
        "message": "all is well",
        "source": {"component": "gm"},
        "reportingComponent": "gm",
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 1,
    }


async def test_what_happens_again_raises_the_count_of_one_event_P1_072(
    api: FakeKubeApi, events: Events
) -> None:
    """One object, at most one write for each interval, no lists."""
    clock = datetime(2026, 1, 2, tzinfo=UTC)
    async with recording(api, interval_seconds=0.2, now=lambda: clock) as recorder:
        warn(recorder, "it fails after 0 s")
        await events.wait_for_writes(1)
        started = asyncio.get_running_loop().time()
        for n in range(50):
            clock += timedelta(seconds=1)
            warn(recorder, f"it fails after {n} s")
        await events.wait_for_writes(2)
        assert asyncio.get_running_loop().time() - started >= 0.15
    event = events.only
    assert event["count"] == 51
    assert event["firstTimestamp"] == "2026-01-02T00:00:00Z"
    assert event["lastTimestamp"] == "2026-01-02T00:00:50Z"
    assert event["message"] == "it fails after 49 s"
    assert [request.method for request in api.requests] == ["POST", "PATCH"]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("failed 3 times", "failed 12 times", True),
        ("waits for 1.5s", "waits for 1m30s", True),
        ("since 2026-01-02T03:04:05Z", "since 2026-02-03 04:05:06.7+01:00", True),
        (
            "uid 2f1e0a3c-1111-4222-8333-123456789abc",
            "uid 99999999-1111-4222-8333-123456789abc",
            True,
        ),
        ("loss 0.25, accuracy 0.91", "loss 0.2, accuracy 0.95", True),
        ("created pod job-train-0", "created pod job-train-1", False),
        ("image repo/name:v1.2", "image repo/name:v1.3", False),
        ("node edge1", "node edge2", False),
        ("created", "deleted", False),
    ],
)
async def test_numbers_and_times_make_no_new_event_but_names_do(
    api: FakeKubeApi, events: Events, one: str, other: str, is_same: bool
) -> None:
    """What changes with each pass is not what tells messages apart."""
    async with recording(api, interval_seconds=0.01) as recorder:
        warn(recorder, one)
        warn(recorder, other)
        await events.wait_for_writes(1 if is_same else 2)
    assert len(events.objects) == (1 if is_same else 2)


async def test_a_reason_with_ever_new_messages_ends_in_one_event(
    api: FakeKubeApi, events: Events
) -> None:
    """Beyond the limit they share one, as client-go's do."""
    async with recording(api, interval_seconds=60, max_messages=3) as recorder:
        for word in ("alpha", "beta", "gamma", "delta", "epsilon", "alpha"):
            warn(recorder, f"no {word}")
        warn(recorder, "no alpha", reason="Other")
        await events.wait_for_writes(5)
    counts = {event["message"]: event["count"] for event in events.objects.values()}
    assert counts == {
        "no alpha": counts["no alpha"],
        "no beta": 1,
        "no gamma": 1,
        "(combined from similar events): no epsilon": 2,
    }
    assert len(events.objects) == 5


async def test_events_about_cluster_scoped_objects_lie_in_default(
    api: FakeKubeApi, events: Events
) -> None:
    """The API allows no other place; empty fields are left out."""
    node = ObjectRef(api_version="v1", kind="Node", name="edge1")
    async with recording(api) as recorder:
        recorder.event(node, type="Normal", reason="Connected", message="hello")
        await events.wait_for_writes(1)
    assert events.only["metadata"]["namespace"] == "default"
    assert events.only["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "edge1"}


async def test_a_new_incarnation_has_events_of_its_own(api: FakeKubeApi, events: Events) -> None:
    """Same name, another uid."""
    again = ObjectRef(api_version="v1", kind="X", namespace="ns", name="job", uid="u-2")
    async with recording(api) as recorder:
        warn(recorder)
        recorder.event(again, type="Warning", reason="Failing", message="it fails")
        await events.wait_for_writes(2)
    assert len(events.objects) == 2


async def test_a_restarted_program_goes_on_with_the_event_P1_072(
    api: FakeKubeApi, events: Events
) -> None:
    """A crash loop makes no flood: the name is the same, the count goes on, no list is asked."""
    async with recording(api) as recorder:
        warn(recorder)
        await events.wait_for_writes(1)
    async with recording(api) as recorder:
        warn(recorder)
        await events.wait_for_writes(3)
    assert events.only["count"] == 2
    assert [request.method for request in api.requests] == ["POST", "POST", "GET", "PATCH"]


async def test_an_answer_that_was_lost_is_not_counted_twice(
    api: FakeKubeApi, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first write arrived, only its answer did not."""
    monkeypatch.setattr("gm.kube.recorder._RETRY_SECONDS", 0.01)
    lost = events.answer

    async def lose_the_first_answer(request: Request) -> Any:
        answer = await lost(request)
        return (500, status(500, "Timeout")) if len(events.writes) == 1 else answer

    api.handler = lose_the_first_answer
    async with recording(api) as recorder:
        warn(recorder)
        await events.wait_for_writes(3)
    assert events.only["count"] == 1
    assert [request.method for request in api.requests] == ["POST", "POST", "PATCH"]


async def test_an_event_that_the_server_dropped_is_made_again(
    api: FakeKubeApi, events: Events
) -> None:
    """They live for an hour there; the count goes on."""
    async with recording(api, interval_seconds=0.01) as recorder:
        warn(recorder)
        await events.wait_for_writes(1)
        events.objects.clear()
        warn(recorder)
        await events.wait_for_writes(3)
        assert events.only["count"] == 2
        warn(recorder)
        await events.wait_for_writes(4)
    assert events.only["count"] == 3


async def test_an_outage_loses_no_event(
    api: FakeKubeApi, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait, in their order, while pauses grow; 429 is honoured."""
    monkeypatch.setattr("gm.kube.recorder._RETRY_SECONDS", 0.01)
    events.refusals = [
        (500, status(500, "InternalError")),
        (503, status(503, "ServiceUnavailable")),
        (429, status(429, "TooManyRequests", retryAfterSeconds=1)),
    ]
    async with recording(api) as recorder:
        started = asyncio.get_running_loop().time()
        warn(recorder, "one")
        warn(recorder, "two")
        await events.wait_for_writes(5)
        assert asyncio.get_running_loop().time() - started >= 1
    assert [event["message"] for event in events.objects.values()] == ["two", "one"]


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (404, "NotFound"), (422, "Invalid")]
)
async def test_a_refusal_is_logged_once_and_stops_nothing(
    api: FakeKubeApi,
    events: Events,
    caplog: pytest.LogCaptureFixture,
    code: int,
    reason: str,
) -> None:
    """A namespace that is going, a role that lacks the right: others are written still."""
    events.refusals = [(code, status(code, reason, "no"))] * 2
    async with recording(api) as recorder:
        warn(recorder, "one")
        warn(recorder, "two")
        warn(recorder, "three")
        await events.wait_for_writes(3)
    assert [event["message"] for event in events.objects.values()] == ["three"]
    assert caplog.text.count("an event was refused") == 1


async def test_memory_is_bounded(api: FakeKubeApi, events: Events) -> None:
    """The events that happened last are kept; those forgotten before they were written are lost."""
    async with await Client.connect(master=api.url) as client:
        recorder = EventRecorder(client, max_events=10)
        for n in range(1000):
            involved = ObjectRef(api_version="v1", kind="X", namespace="ns", name=f"x{n}", uid="u")
            recorder.event(involved, type="Normal", reason="R", message="m")
        assert len(recorder) == 10
        assert len(recorder._messages) == 10
        assert len(recorder._due) <= 20
        async with running(recorder):
            await events.wait_for_writes(10)
    names = {event["involvedObject"]["name"] for event in events.objects.values()}
    assert names == {f"x{n}" for n in range(990, 1000)}


async def test_an_object_that_is_forgotten_in_part_keeps_its_limit(api: FakeKubeApi) -> None:
    """The number of its messages goes down with each that is forgotten."""
    async with await Client.connect(master=api.url) as client:
        recorder = EventRecorder(client, max_events=3)
        for word in ("alpha", "beta", "gamma", "delta"):
            warn(recorder, word)
        assert sum(recorder._messages.values()) == len(recorder) == 3


async def test_saying_it_neither_waits_nor_raises_without_a_server() -> None:
    """Callers go on whatever happens to the API server."""
    async with await Client.connect(master="http://127.0.0.1:1") as client:
        recorder = EventRecorder(client)
        warn(recorder)
        async with running(recorder):
            warn(recorder, "x" * 100_000)
        await recorder.flush()
        assert len(recorder) == 2


async def test_flush_writes_what_was_never_written(api: FakeKubeApi, events: Events) -> None:
    """At the end of the program; the interval holds there too."""
    async with await Client.connect(master=api.url) as client:
        recorder = EventRecorder(client)
        warn(recorder, "one")
        warn(recorder, "two")
        await recorder.flush()
        assert len(events.objects) == 2
        warn(recorder, "two")
        await recorder.flush()
    assert len(events.writes) == 2


async def test_a_write_that_was_cut_short_is_flushed(api: FakeKubeApi, events: Events) -> None:
    """The program ended in the middle of it."""
    block = asyncio.Event()

    async def slow(request: Request) -> Any:
        await block.wait()
        return await events.answer(request)

    api.handler = slow
    async with await Client.connect(master=api.url) as client:
        recorder = EventRecorder(client)
        async with running(recorder):
            warn(recorder)
            async with asyncio.timeout(30):
                while not api.requests:
                    await asyncio.sleep(0.005)
        block.set()
        await recorder.flush()
    assert events.only["count"] == 1


async def test_what_happens_during_a_write_is_written_with_the_next(
    api: FakeKubeApi, events: Events
) -> None:
    """Not at once: the interval counts."""
    async with recording(api, interval_seconds=0.2) as recorder:
        answer = events.answer

        async def meanwhile(request: Request) -> Any:
            if not events.writes:
                warn(recorder)
            return await answer(request)

        api.handler = meanwhile
        started = asyncio.get_running_loop().time()
        warn(recorder)
        await events.wait_for_writes(2)
        assert asyncio.get_running_loop().time() - started >= 0.2
    assert events.only["count"] == 2


async def test_an_event_that_vanishes_while_it_is_adopted_is_made_again(
    api: FakeKubeApi, events: Events
) -> None:
    """Its hour was over just then."""
    async with recording(api) as recorder:
        api.answers = [(409, status(409, "AlreadyExists"))]
        warn(recorder)
        await events.wait_for_writes(2)
    assert events.only["count"] == 1
    assert [r.method for r in api.requests] == ["POST", "GET", "PATCH", "POST"]


async def test_messages_are_cut_where_the_api_would_refuse_them(
    api: FakeKubeApi, events: Events
) -> None:
    """At 1,024 characters; and names at 253."""
    long_name = ObjectRef(api_version="v1", kind="X", namespace="ns", name="n" * 253, uid="u")
    async with recording(api) as recorder:
        recorder.event(long_name, type="Normal", reason="R", message="m" * 5000)
        await events.wait_for_writes(1)
    assert len(events.only["message"]) == 1024
    assert len(events.only["metadata"]["name"]) <= 253


async def test_kubectl_shows_events_with_their_object(cluster: Cluster) -> None:
    """Through describe and get events, with the count."""
    async with cluster.client() as client:
        body = {"metadata": {"name": "one"}}
        created = json.loads(await client.create(CONFIG_MAPS, cluster.namespace, body))
        involved = ObjectRef(
            api_version="v1",
            kind="ConfigMap",
            namespace=cluster.namespace,
            name="one",
            uid=created["metadata"]["uid"],
            resource_version=created["metadata"]["resourceVersion"],
        )
        recorder = EventRecorder(client, interval_seconds=0.01)
        async with running(recorder):
            recorder.event(involved, type="Warning", reason="NotGood", message="take 1")
            await cluster.wait_for(lambda: cluster.list(EVENTS))
            recorder.event(involved, type="Warning", reason="NotGood", message="take 2")

            async def counted_twice() -> bool:
                (event,) = await cluster.list(EVENTS)
                return bool(event["count"] == 2)

            await cluster.wait_for(counted_twice)
    shown = await cluster.kubectl("describe", "configmap", "one")
    assert "Warning  NotGood" in shown
    assert "x2 over" in shown
    assert "take 2" in shown
    listed = await cluster.kubectl("get", "events", "-o", "wide")
    assert "configmap/one" in listed
