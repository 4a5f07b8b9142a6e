"""The informer: it lists and watches a kind, and tells what changes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gm.api.meta import ObjectKey, PartialObject
from gm.api.resources import PODS
from gm.errors import Conflict
from gm.kube import Client, Event, Informer
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.following import FAST, GONE, eventually, following, listed, obj, running

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


# handlers


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
