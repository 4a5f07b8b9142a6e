"""The informer: it follows a kind through everything that API servers and networks do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web

from gm.api.meta import ObjectKey, ObjectMeta, PartialObject, ResourceType
from gm.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DATASETS, PODS
from gm.errors import Conflict
from gm.kube import Client, Event, EventType, Informer, InformerSettings
from tests.cluster.cluster import Cluster
from tests.fakes.kube_api import RESET, FakeKubeApi, Request, fake_kube_api, status
from tests.fakes.proxy import Proxy
from tests.kube.conftest import custom_resource_definition

FAST = InformerSettings(
    watch_timeout_seconds=5,
    read_deadline_seconds=8,
    backoff_base_seconds=0.01,
    backoff_max_seconds=0.05,
    absent_retry_seconds=0.02,
    healthy_watch_seconds=0,
)


def obj(name: str, version: int, *, uid: str = "", **fields: Any) -> dict[str, Any]:
    """An object as a server sends it."""
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "managedFields": [{"manager": "kubectl"}],
    }
    return {"metadata": meta, **fields}


def listed(version: int, *items: dict[str, Any], next_page: str = "") -> dict[str, Any]:
    """A page of a list."""
    meta = {"resourceVersion": str(version), **({"continue": next_page} if next_page else {})}
    return {"metadata": meta, "items": list(items)}


GONE = status(410, "Expired", "too old resource version")


class Recording:
    """A handler that keeps what it was told, and lets tests wait for it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.events: list[Event[Any]] = []
        self._changed = asyncio.Condition()

    async def __call__(self, event: Event[Any]) -> None:
        """Handle an event."""
        stored = event.new or event.old
        version = f" {stored.key.name}@{stored.resource_version}" if stored else ""
        async with self._changed:
            self.seen.append(event.type.value + version)
            self.events.append(event)
            self._changed.notify_all()

    async def wait_for(self, *expected: str) -> None:
        """Wait until exactly ``expected`` has come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30), self._changed:
                await self._changed.wait_for(lambda: len(self.seen) >= len(expected))
        assert self.seen == list(expected)


@pytest.fixture
async def api() -> AsyncIterator[FakeKubeApi]:
    """A scripted API server; watches that a test does not script are accepted."""
    async with fake_kube_api() as fake:
        yield fake


@contextlib.asynccontextmanager
async def following(
    api: FakeKubeApi, resource: ResourceType = PODS, **arguments: Any
) -> AsyncIterator[tuple[Informer[PartialObject], Recording]]:
    """A running informer of ``api`` and what its handler was told."""
    async with await Client.connect(master=api.url) as client:
        settings = arguments.pop("settings", FAST)
        informer = Informer(client, resource, PartialObject, settings=settings, **arguments)
        recording = Recording()
        informer.add_handler(recording)
        async with running(informer):
            yield informer, recording


@contextlib.asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[None]:
    """Run ``informer`` as long as the body."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        yield
        task.cancel()


async def eventually(predicate: Callable[[], Any]) -> None:
    """Wait for a condition that nothing announces."""
    async with asyncio.timeout(30):
        while not predicate():
            await asyncio.sleep(0.005)


# the regular way


async def test_a_list_and_then_its_watch_fill_the_cache(api: FakeKubeApi) -> None:
    """First the list, SYNCED once, then changes; each with the state before it."""
    api.answers = [listed(10, obj("a", 3), obj("b", 4)), None]
    async with following(api) as (informer, seen):
        stream = await api.next_watch()
        assert stream.request.query["resourceVersion"] == "10"
        assert stream.request.query["allowWatchBookmarks"] == "true"
        await stream.send("MODIFIED", obj("a", 11))
        await stream.send("ADDED", obj("c", 12))
        await stream.send("DELETED", obj("b", 13))
        await seen.wait_for(
            "ADDED a@3", "ADDED b@4", "SYNCED", "MODIFIED a@11", "ADDED c@12", "DELETED b@13"
        )
        assert informer.is_synced
        assert informer.problem is None
        await informer.wait_synced()
        assert sorted(key.name for key in informer.lister) == ["a", "c"]
        modified, deleted = seen.events[3], seen.events[5]
        assert modified.old is not None
        assert modified.old.resource_version == "3"
        assert modified.resource == PODS
        assert deleted.new is None
        stream.end()


async def test_stored_objects_are_whole_but_for_managed_fields(api: FakeKubeApi) -> None:
    """Fields that the view does not know are kept as they came."""
    api.answers = [listed(10, obj("a", 3, spec={"unknown": [1.50]})), None]
    async with following(api) as (informer, _):
        await informer.wait_synced()
        stored = informer.lister.get(ObjectKey("ns", "a"))
        assert stored is not None
        decoded = msgspec.json.decode(stored.raw)
        assert decoded["spec"] == {"unknown": [1.5]}
        assert "managedFields" not in decoded["metadata"]
        assert stored.view.metadata.uid == stored.uid == "uid-a"


async def test_a_watch_that_ended_goes_on_where_it_stopped(api: FakeKubeApi) -> None:
    """Events and bookmarks move the version; nothing is listed again."""
    api.answers = [listed(10), None, None, None]
    async with following(api) as (_, seen):
        stream = await api.next_watch()
        await stream.send("ADDED", obj("a", 11))
        stream.end()
        stream = await api.next_watch()
        assert stream.request.query["resourceVersion"] == "11"
        await stream.send("BOOKMARK", {"metadata": {"resourceVersion": "40"}})
        stream.end()
        stream = await api.next_watch()
        assert stream.request.query["resourceVersion"] == "40"
        stream.end()
        await seen.wait_for("SYNCED", "ADDED a@11")
    assert len(api.lists()) == 1


async def test_selection_and_page_size_are_sent_each_time_P1_086(api: FakeKubeApi) -> None:
    """To the list, page by page, and to the watch."""
    api.answers = [listed(10, obj("a", 1), next_page="x"), listed(10, obj("b", 2)), None]
    selection: dict[str, Any] = {
        "namespace": "ns",
        "label_selector": "gm",
        "field_selector": "spec.x=1",
    }
    async with following(api, **selection) as (_, seen):
        stream = await api.next_watch()
        await seen.wait_for("ADDED a@1", "ADDED b@2", "SYNCED")
        stream.end()
    for request in api.requests:
        assert request.path == "/api/v1/namespaces/ns/pods"
        assert request.query["labelSelector"] == "gm"
        assert request.query["fieldSelector"] == "spec.x=1"
    assert [r.query["limit"] for r in api.lists()] == ["500", "500"]


async def test_handlers_hold_up_the_watch(api: FakeKubeApi) -> None:
    """Each event waits for the one before; nothing is dropped."""
    api.answers = [listed(10), None]
    async with await Client.connect(master=api.url) as client:
        informer = Informer(client, PODS, PartialObject, settings=FAST)
        order: list[str] = []
        gate = asyncio.Semaphore(0)

        async def slow(event: Event[PartialObject]) -> None:
            if event.new is not None:
                order.append(f"begin {event.new.key.name}")
                await gate.acquire()
                order.append(f"end {event.new.key.name}")

        async def second(event: Event[PartialObject]) -> None:
            if event.new is not None:
                order.append(f"second {event.new.key.name}")

        informer.add_handler(slow)
        informer.add_handler(second)
        async with running(informer):
            stream = await api.next_watch()
            await stream.send("ADDED", obj("a", 11))
            await stream.send("ADDED", obj("b", 12))
            await eventually(lambda: order)
            assert order == ["begin a"]
            assert len(informer.lister) == 1, "the cache runs along with the events"
            gate.release()
            gate.release()
            await eventually(lambda: len(order) == 6)
            stream.end()
    assert order == ["begin a", "end a", "second a", "begin b", "end b", "second b"]


async def test_an_event_that_was_seen_already_is_no_event(api: FakeKubeApi) -> None:
    """Same uid, same version."""
    api.answers = [listed(10, obj("a", 3)), None]
    async with following(api) as (_, seen):
        stream = await api.next_watch()
        await stream.send("ADDED", obj("a", 3))
        await stream.send("ADDED", obj("b", 11))
        await seen.wait_for("ADDED a@3", "SYNCED", "ADDED b@11")
        stream.end()


# deletions


async def test_a_deletion_first_noticed_by_a_relist_is_told_P0_009(api: FakeKubeApi) -> None:
    """One DELETED with the last known state."""
    api.answers = [listed(10, obj("x", 3), obj("y", 4)), None, (410, GONE), listed(30, obj("y", 4))]
    api.handler = lambda request: None
    async with following(api) as (informer, seen):
        stream = await api.next_watch()
        await stream.send("MODIFIED", obj("x", 11))
        stream.end()
        await seen.wait_for("ADDED x@3", "ADDED y@4", "SYNCED", "MODIFIED x@11", "DELETED x@11")
        assert ObjectKey("ns", "x") not in informer.lister
        last = seen.events[-1].old
        assert last is not None
        assert last.uid == "uid-x"
        (await api.next_watch()).end()


async def test_the_deletion_of_an_unknown_object_is_nothing_P0_009(api: FakeKubeApi) -> None:
    """It was told when a list lacked it, or never seen; no exception either way."""
    api.answers = [listed(10), None]
    async with following(api) as (_, seen):
        stream = await api.next_watch()
        await stream.send("DELETED", obj("ghost", 11))
        await stream.send("ADDED", obj("a", 12))
        await seen.wait_for("SYNCED", "ADDED a@12")
        stream.end()


async def test_a_deletion_tells_the_final_state(api: FakeKubeApi) -> None:
    """As the DELETED event had it; its version is newer than the last one seen."""
    api.answers = [listed(10, obj("a", 3)), None]
    async with following(api) as (_, seen):
        stream = await api.next_watch()
        await stream.send("DELETED", obj("a", 11, status={"phase": "Failed"}))
        await seen.wait_for("ADDED a@3", "SYNCED", "DELETED a@11")
        assert seen.events[-1].old is not None
        assert b"Failed" in seen.events[-1].old.raw
        stream.end()


async def test_an_object_made_again_meanwhile_is_deleted_and_added(api: FakeKubeApi) -> None:
    """Another uid under the name, found by a relist or in a watch."""
    api.answers = [
        listed(10, obj("a", 3, uid="1")),
        (410, GONE),
        listed(20, obj("a", 15, uid="2")),
        None,
    ]
    async with following(api) as (_, seen):
        stream = await api.next_watch()
        await stream.send("ADDED", obj("a", 21, uid="3"))
        await stream.send("DELETED", obj("a", 22, uid="2"))  # late news of an earlier incarnation
        await stream.send("MODIFIED", obj("a", 23, uid="3"))
        await seen.wait_for(
            "ADDED a@3",
            "SYNCED",
            "DELETED a@3",
            "ADDED a@15",
            "DELETED a@15",
            "ADDED a@21",
            "MODIFIED a@23",
        )
        stream.end()


# 410


@pytest.mark.parametrize("form", ["http", "event"])
async def test_an_expired_version_leads_to_a_relist_and_its_difference_P0_010(
    api: FakeKubeApi, form: str
) -> None:
    """Both forms: list afresh, tell what differs, watch from the list's version."""
    gone: Any = (410, GONE) if form == "http" else None
    api.answers = [
        listed(10, obj("same", 1), obj("changed", 2), obj("removed", 3)),
        gone,
        listed(50, obj("same", 1), obj("changed", 22), obj("new", 33)),
        None,
    ]
    async with following(api) as (informer, seen):
        stream = await api.next_watch()
        if form == "event":
            await stream.send("ERROR", GONE)
            stream.end()
            stream = await api.next_watch()
        assert stream.request.query["resourceVersion"] == "50"
        await seen.wait_for(
            "ADDED same@1",
            "ADDED changed@2",
            "ADDED removed@3",
            "SYNCED",
            "DELETED removed@3",
            "MODIFIED changed@22",
            "ADDED new@33",
        )
        assert informer.problem is None, "this is routine"
        stream.end()
    assert "None" not in {r.query.get("resourceVersion") for r in api.requests}


async def test_a_list_that_expires_between_pages_is_begun_again_P0_010(api: FakeKubeApi) -> None:
    """Nothing is told of half a list."""
    api.answers = [listed(10, obj("a", 1), next_page="x"), (410, GONE), listed(20, obj("b", 2))]
    api.handler = lambda request: None
    async with following(api) as (_, seen):
        stream = await api.next_watch()
        await seen.wait_for("ADDED b@2", "SYNCED")
        stream.end()


async def test_a_version_that_always_expires_is_no_hot_loop_P0_010(api: FakeKubeApi) -> None:
    """The pauses grow, with jitter, up to their bound."""

    def answer(request: Request) -> Any:
        return (410, GONE) if request.is_watch else listed(10)

    api.handler = answer
    settings = msgspec.structs.replace(FAST, backoff_base_seconds=0.02, backoff_max_seconds=60)
    async with following(api, settings=settings, jitter=lambda: 1.0) as (_, seen):
        await seen.wait_for("SYNCED")
        loop = asyncio.get_running_loop()
        before = loop.time()
        await eventually(lambda: len(api.watches()) == 5)
        assert loop.time() - before >= 0.02 + 0.04 + 0.08 + 0.16
    assert seen.seen == ["SYNCED"]


# networks


async def test_a_silent_watch_is_opened_again_P0_011(api: FakeKubeApi) -> None:
    """The server accepts, sends nothing and never closes: what happened meanwhile is found."""
    api.answers = [listed(10), None, None]
    settings = msgspec.structs.replace(FAST, watch_timeout_seconds=1, read_deadline_seconds=0.2)
    async with following(api, settings=settings) as (_, seen):
        silent = await api.next_watch()
        again = await api.next_watch()
        assert again.request.query["resourceVersion"] == "10"
        await again.send("ADDED", obj("a", 11))
        await seen.wait_for("SYNCED", "ADDED a@11")
        silent.end()
        again.end()


@pytest.mark.parametrize("how", ["reset", "refused"])
async def test_resets_while_opening_are_retried_for_ever_P0_011(how: str) -> None:
    """Thirty times in a row, by the network or by a proxy, then all is as if nothing had been."""
    resets = 0
    async with fake_kube_api() as api:

        def answer(request: Request) -> Any:
            nonlocal resets
            if request.is_watch and resets < 30:
                resets += 1
                return RESET if how == "reset" else web.Response(status=503, text="reset by peer")
            return None if request.is_watch else listed(10, obj("a", 1))

        api.handler = answer
        async with following(api) as (informer, seen):
            stream = await api.next_watch()
            await eventually(lambda: informer.problem is None)
            await stream.send("ADDED", obj("b", 11))
            await seen.wait_for("ADDED a@1", "SYNCED", "ADDED b@11")
            assert resets == 30
            assert informer.restarts >= 15, "aiohttp itself tries a connection that it kept twice"
            stream.end()


async def test_a_cut_connection_is_opened_again_at_the_last_version_P0_011(
    api: FakeKubeApi,
) -> None:
    """Half an event does not count."""
    api.answers = [listed(10), None, None]
    async with following(api) as (informer, seen):
        stream = await api.next_watch()
        await stream.send("ADDED", obj("a", 11))
        await seen.wait_for("SYNCED", "ADDED a@11")
        await stream.send_bytes(b'{"type":"ADDED","object":{"meta')
        stream.reset()
        stream = await api.next_watch()
        assert stream.request.query["resourceVersion"] == "11"
        await stream.send("ADDED", obj("b", 12))
        await seen.wait_for("SYNCED", "ADDED a@11", "ADDED b@12")
        assert informer.problem is None
        stream.end()
    assert len(api.lists()) == 1


async def test_a_server_that_is_down_at_first_is_waited_for() -> None:
    """Start-up order does not matter."""
    async with fake_kube_api() as first:
        port = int(first.url.rpartition(":")[2])
    async with await Client.connect(master=first.url) as client:
        informer = Informer(client, PODS, PartialObject, settings=FAST)
        async with running(informer):
            await eventually(lambda: informer.restarts > 3)
            assert informer.problem is not None
            assert "list pods failed: no answer from" in informer.problem
            async with fake_kube_api(port) as api:
                api.handler = lambda request: None if request.is_watch else listed(10)
                await informer.wait_synced()
                await eventually(lambda: informer.problem is None)
                (await api.next_watch()).end()


async def test_a_stubborn_failure_leads_to_a_relist(api: FakeKubeApi) -> None:
    """A version that no watch accepts, for whatever reason, is given up in the end."""
    api.answers = [listed(10)]

    def answer(request: Request) -> Any:
        if not request.is_watch:
            return listed(20)
        return None if request.query["resourceVersion"] == "20" else (500, status(500, "Internal"))

    api.handler = answer
    async with following(api) as (informer, _):
        stream = await api.next_watch()
        await eventually(lambda: informer.problem is None)
        stream.end()


async def test_an_error_in_a_stream_leads_to_a_relist(api: FakeKubeApi) -> None:
    """Whatever its code: the same version could only bring it again."""
    api.answers = [listed(10), None, listed(20), None]
    async with following(api) as (informer, seen):
        stream = await api.next_watch()
        await stream.send("ERROR", status(500, "InternalError", "etcd lost it"))
        stream.end()
        stream = await api.next_watch()
        assert stream.request.query["resourceVersion"] == "20"
        await seen.wait_for("SYNCED")
        await eventually(lambda: informer.problem is None)
        stream.end()


async def test_watches_that_end_at_once_are_no_hot_loop(api: FakeKubeApi) -> None:
    """A server that ends each watch when it is opened is asked ever less often."""

    def answer(request: Request) -> Any:
        return web.Response() if request.is_watch else listed(10)

    api.handler = answer
    settings = msgspec.structs.replace(
        FAST, healthy_watch_seconds=1, backoff_base_seconds=0.02, backoff_max_seconds=60
    )
    async with following(api, settings=settings, jitter=lambda: 1.0) as (_, seen):
        await seen.wait_for("SYNCED")
        loop = asyncio.get_running_loop()
        before = loop.time()
        await eventually(lambda: len(api.watches()) == 5)
        assert loop.time() - before >= 0.02 + 0.04 + 0.08 + 0.16
    assert len(api.lists()) == 1


# what is missing


async def test_a_kind_that_is_absent_is_named_and_waited_for_P1_080(api: FakeKubeApi) -> None:
    """The CRD comes later."""
    installed = False

    def answer(request: Request) -> Any:
        if not installed:
            return web.Response(status=404, text="404 page not found")
        return None if request.is_watch else listed(10, obj("a", 1))

    api.handler = answer
    async with following(api, DATASETS) as (informer, seen):
        await eventually(lambda: informer.problem)
        problem = informer.problem
        assert problem == "datasets.sedna.io: the CRD is not installed"
        assert not informer.is_synced
        assert seen.seen == [], "an absent kind has no complete list"
        installed = True
        await seen.wait_for("ADDED a@1", "SYNCED")
        assert informer.problem is None
        (await api.next_watch()).end()


async def test_an_absent_built_in_kind_is_named_otherwise(api: FakeKubeApi) -> None:
    """No CRD could mend that."""
    api.handler = lambda request: (404, status(404, "NotFound"))
    async with following(api) as (informer, _):
        await eventually(lambda: informer.problem)
        assert informer.problem == "pods: the API server does not serve v1"


async def test_a_forbidden_kind_is_named_with_its_verb_and_waited_for(api: FakeKubeApi) -> None:
    """Until the role allows it."""
    allowed = False

    def answer(request: Request) -> Any:
        if not allowed:
            return 403, status(403, "Forbidden", "pods is forbidden")
        return None if request.is_watch else listed(10)

    api.handler = answer
    async with following(api) as (informer, seen):
        await eventually(lambda: informer.problem)
        assert informer.problem == "forbidden: list pods"
        allowed = True
        await seen.wait_for("SYNCED")
        (await api.next_watch()).end()


async def test_a_kind_that_vanishes_keeps_its_cache_until_it_is_listed_again(
    api: FakeKubeApi,
) -> None:
    """Its absence is no news about its objects; the next list is."""
    api.answers = [listed(10, obj("a", 1)), None, (404, status(404, "NotFound")), listed(30)]
    api.handler = lambda request: None
    async with following(api) as (_, seen):
        (await api.next_watch()).end()
        await seen.wait_for("ADDED a@1", "SYNCED", "DELETED a@1")
        (await api.next_watch()).end()


async def test_patience_is_honoured_P1_080(api: FakeKubeApi) -> None:
    """429 with Retry-After: no request before that."""
    body = status(429, "TooManyRequests")
    refusal = web.json_response(body, status=429, headers={"Retry-After": "0.3"})
    api.answers = [refusal, listed(10), None]
    loop = asyncio.get_running_loop()
    before = loop.time()
    async with following(api) as (informer, seen):
        await eventually(lambda: informer.problem)
        assert "429" in (informer.problem or "")
        await seen.wait_for("SYNCED")
        assert loop.time() - before >= 0.3
        (await api.next_watch()).end()


# strange objects and handlers


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """A view that is stricter than the server."""

    metadata: ObjectMeta
    size: int


async def test_an_object_that_does_not_fit_stops_nobody_else(api: FakeKubeApi) -> None:
    """It is kept as it was before, named, and taken when it fits again."""
    api.answers = [listed(10, obj("a", 1, size=1), obj("b", 2, size="?")), None]
    api.handler = lambda request: None
    async with await Client.connect(master=api.url) as client:
        informer = Informer(client, PODS, Sized, settings=FAST)
        seen = Recording()
        told: list[str] = []
        informer.add_handler(seen)
        informer.add_undecodable_handler(lambda key: told.append(key.name))
        async with running(informer):
            stream = await api.next_watch()
            await stream.send("MODIFIED", obj("a", 11, size="big"))
            await stream.send("MODIFIED", obj("a", 11, size="huge"))
            await stream.send("ADDED", obj("c", 12, size=3))
            await seen.wait_for("ADDED a@1", "SYNCED", "ADDED c@12")
            assert [key.name for key in informer.undecodable] == ["b", "a"]
            assert told == ["b", "a"], "once for each reason"
            assert "Expected `int`" in informer.undecodable[ObjectKey("ns", "a")]
            await stream.send("MODIFIED", obj("b", 13, size=2))
            await stream.send("DELETED", obj("a", 14, size="big"))
            await seen.wait_for("ADDED a@1", "SYNCED", "ADDED c@12", "ADDED b@13", "DELETED a@1")
            assert not informer.undecodable
            stream.end()


async def test_an_object_that_does_not_fit_is_not_deleted_by_a_relist(api: FakeKubeApi) -> None:
    """The list holds it; but one that is gone is no longer named."""
    api.answers = [
        listed(10, obj("a", 1, size=1), obj("gone", 2, size="?")),
        (410, GONE),
        listed(20, obj("a", 11, size="?")),
        None,
    ]
    async with await Client.connect(master=api.url) as client:
        informer = Informer(client, PODS, Sized, settings=FAST)
        seen = Recording()
        informer.add_handler(seen)
        async with running(informer):
            stream = await api.next_watch()
            assert seen.seen == ["ADDED a@1", "SYNCED"]
            assert [key.name for key in informer.undecodable] == ["a"]
            stream.end()


def deep(name: str, version: int) -> bytes:
    """An object of more levels than any decoder takes."""
    body = json.dumps(obj(name, version, spec="DEEP"))
    return body.replace('"DEEP"', '{"a":' * 9000 + "1" + "}" * 9000).encode()


async def test_an_object_that_is_nested_too_deeply_stops_nobody_P0_024(api: FakeKubeApi) -> None:
    """In a list or a watch: an API server stores it, no decoder takes it."""
    page = b'{"metadata":{"resourceVersion":"10"},"items":[%s,%s]}' % (
        deep("a", 1),
        json.dumps(obj("b", 2)).encode(),
    )
    api.answers = [web.Response(body=page, content_type="application/json"), None]
    async with following(api) as (informer, seen):
        stream = await api.next_watch()
        await stream.send("MODIFIED", obj("a", 11))
        await stream.send_bytes(b'{"type":"MODIFIED","object":%s}\n' % deep("b", 12))
        await stream.send_bytes(b'{"type":"ADDED","object":%s}\n' % deep("c", 13))
        await stream.send("ADDED", obj("d", 14))
        await seen.wait_for("ADDED b@2", "SYNCED", "ADDED a@11", "ADDED d@14")
        assert [key.name for key in informer.undecodable] == ["b", "c"]
        why = informer.undecodable[ObjectKey("ns", "c")]
        assert why == "is nested more than 200 levels deep"
        await stream.send_bytes(b'{"type":"DELETED","object":%s}\n' % deep("b", 15))
        await seen.wait_for("ADDED b@2", "SYNCED", "ADDED a@11", "ADDED d@14", "DELETED b@2")
        assert [key.name for key in informer.undecodable] == ["c"]
        stream.end()


@pytest.mark.parametrize("error", [ValueError("a mistake"), Conflict("r", code=409, reason="c")])
async def test_what_a_handler_raises_ends_the_informer_P0_012(
    api: FakeKubeApi, error: Exception
) -> None:
    """It is never left half alive: whoever runs it sees the reason, also an API error."""
    api.answers = [listed(10, obj("a", 1))]

    async def broken(event: Event[PartialObject]) -> None:
        raise error

    async with await Client.connect(master=api.url) as client:
        informer = Informer(client, PODS, PartialObject, settings=FAST)
        informer.add_handler(broken)
        with pytest.raises((ValueError, RuntimeError)) as caught:
            await informer.run()
        assert error in (caught.value, caught.value.__cause__)
        assert not informer.is_synced


# against API servers


async def test_an_informer_sees_what_happens_in_a_cluster(cluster: Cluster) -> None:
    """From before its start, and after."""
    body: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, body)
        informer = Informer(
            client,
            CONFIG_MAPS,
            PartialObject,
            namespace=cluster.namespace,
            field_selector="metadata.name!=kube-root-ca.crt",
        )
        recording = Recording()
        informer.add_handler(recording)
        async with running(informer):
            await informer.wait_synced()
            await client.patch(CONFIG_MAPS, cluster.key("a"), {"data": {"x": "2"}})
            await client.delete(CONFIG_MAPS, cluster.key("a"))
            await client.create(CONFIG_MAPS, cluster.namespace, body)
            await eventually(lambda: len(recording.seen) == 5)
        types = [event.type for event in recording.events]
        assert types == [
            EventType.ADDED,
            EventType.SYNCED,
            EventType.MODIFIED,
            EventType.DELETED,
            EventType.ADDED,
        ]
        assert informer.problem is None
        stored = informer.lister.get(cluster.key("a"))
        assert stored is not None
        assert b"managedFields" not in stored.raw


async def test_a_label_that_goes_is_a_deletion(cluster: Cluster) -> None:
    """An object that leaves the selection leaves the cache."""
    body = {"metadata": {"name": "a", "labels": {"mine": "yes"}}}
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, body)
        informer = Informer(
            client,
            CONFIG_MAPS,
            PartialObject,
            namespace=cluster.namespace,
            label_selector="mine=yes",
        )
        recording = Recording()
        informer.add_handler(recording)
        async with running(informer):
            await informer.wait_synced()
            await client.patch(
                CONFIG_MAPS, cluster.key("a"), {"metadata": {"labels": {"mine": "no"}}}
            )
            await eventually(lambda: len(recording.seen) == 3)
            assert recording.events[-1].type is EventType.DELETED
            assert len(informer.lister) == 0


async def test_a_crd_that_appears_later_is_followed_within_seconds_P1_080(
    cluster: Cluster, absent_widgets: ResourceType
) -> None:
    """The informer says what is missing, and goes on by itself."""
    settings = msgspec.structs.replace(FAST, absent_retry_seconds=0.1)
    async with cluster.client() as client:
        informer = Informer(
            client, absent_widgets, PartialObject, namespace=cluster.namespace, settings=settings
        )
        async with running(informer):
            await eventually(lambda: informer.problem)
            assert informer.problem == f"{absent_widgets.qualified}: the CRD is not installed"
            crd = custom_resource_definition(absent_widgets)
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
            async with asyncio.timeout(30):
                await informer.wait_synced()
            body = {
                "apiVersion": absent_widgets.api_version,
                "kind": absent_widgets.kind,
                "metadata": {"name": "a"},
            }
            await client.create(absent_widgets, cluster.namespace, body)
            await eventually(lambda: len(informer.lister) == 1)
            assert informer.problem is None


async def test_a_network_that_swallows_everything_is_noticed_P0_011(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Nobody says that the watch is dead; what happened meanwhile is found afterwards."""
    config = cluster.read_kubeconfig()
    url = urlsplit(config["clusters"][0]["cluster"]["server"])
    assert url.port is not None
    proxy = Proxy(url.port)
    proxy.host = url.hostname or ""
    async with proxy.running():
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        # a real server's bookmarks come once a minute, so a quiet watch is silent for long
        settings = msgspec.structs.replace(FAST, watch_timeout_seconds=60, read_deadline_seconds=1)
        async with cluster.client(str(path)) as client:
            informer = Informer(
                client,
                CONFIG_MAPS,
                PartialObject,
                namespace=cluster.namespace,
                field_selector="metadata.name!=kube-root-ca.crt",
                settings=settings,
            )
            async with running(informer):
                await informer.wait_synced()
                proxy.is_black_hole = True
                before = informer.restarts
                async with cluster.client() as other:
                    body = {"metadata": {"name": "a"}}
                    await other.create(CONFIG_MAPS, cluster.namespace, body)
                await eventually(lambda: informer.restarts > before)
                assert informer.problem is not None
                assert len(informer.lister) == 0
                proxy.is_black_hole = False
                await eventually(lambda: len(informer.lister) == 1)
                await eventually(lambda: informer.problem is None)


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_rights_that_come_later_are_enough_P1_079(cluster: Cluster) -> None:
    """Forbidden at first, named, and working after the grant without a restart."""
    settings = msgspec.structs.replace(FAST, absent_retry_seconds=0.1)
    async with cluster.client(cluster.limited_kubeconfig) as client:
        informer = Informer(
            client, CONFIG_MAPS, PartialObject, namespace=cluster.namespace, settings=settings
        )
        async with running(informer):
            await eventually(lambda: informer.problem)
            assert informer.problem == f"forbidden: list configmaps {cluster.namespace}"
            await cluster.kubectl(
                "create", "role", "reader", "--verb=list,watch", "--resource=configmaps"
            )
            await cluster.kubectl("create", "rolebinding", "r", "--role=reader", "--user=limited")
            async with asyncio.timeout(30):
                await informer.wait_synced()
            await eventually(lambda: informer.problem is None)
