"""Watches, over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest

from gm.api.meta import Json
from gm.devcluster.cursors import Cursor
from gm.devcluster.store import Change
from gm.devcluster.watch import cut
from tests.devcluster.core import Http, serving, widget

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
ALL = "/apis/example.com/v1/widgets"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
WATCH_LIST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """A server that sends bookmarks often: they say that there is nothing more for now."""
    async with serving(tmp_path, bookmark_seconds=0.05) as client:
        yield client


async def _version(http: Http) -> str:
    return str((await http("GET", WIDGETS)).json["metadata"]["resourceVersion"])


async def _patch(http: Http, name: str, change: Json) -> None:
    answer = await http("PATCH", f"{WIDGETS}/{name}", change, content_type=MERGE)
    assert answer.status == 200


def _short(events: list[Json]) -> list[tuple[str, str]]:
    return [(e["type"], e["object"]["metadata"].get("name", "")) for e in events]


async def _watched(http: Http, query: str, accept: str = "", path: str = WIDGETS) -> list[Json]:
    """All events of a watch until a bookmark says that there are no more for now."""
    query = query if "Bookmarks" in query else f"{query}&allowWatchBookmarks=true"
    events: list[Json] = []
    async with http.watching(f"{path}?watch=1&{query}", accept) as following:
        while (event := await following()) is not None:
            if event["type"] == "BOOKMARK" and "initial-events-end" not in str(event):
                break
            events.append(event)
    return events


async def test_a_watch_from_a_version_tells_everything_since(http: Http) -> None:
    """Past and future are one stream; the booleans are Go's."""
    before = await _version(http)
    await http("POST", WIDGETS, widget("a"))
    async with http.watching(f"{WIDGETS}?watch=True&resourceVersion={before}") as following:
        assert (await following())["type"] == "ADDED"
        await _patch(http, "a", {"spec": {"size": 2}})
        modified = await following()
        assert (modified["type"], modified["object"]["spec"]["size"]) == ("MODIFIED", 2)
        await http("DELETE", f"{WIDGETS}/a")
        deleted = await following()
        assert deleted["type"] == "DELETED"
        old = int(modified["object"]["metadata"]["resourceVersion"])
        assert int(deleted["object"]["metadata"]["resourceVersion"]) > old


@pytest.mark.parametrize("query", ["", "resourceVersion=0", "resourceVersion="])
async def test_a_watch_without_a_version_begins_with_what_exists(http: Http, query: str) -> None:
    """As ADDED."""
    await http("POST", WIDGETS, widget("a"))
    await _patch(http, "a", {"spec": {"size": 2}})
    await http("POST", WIDGETS, widget("b"))
    assert _short(await _watched(http, query)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_list_ends_its_beginning_with_a_bookmark(http: Http) -> None:
    """Then it follows, without a gap."""
    await http("POST", WIDGETS, widget("a"))
    async with http.watching(f"{WIDGETS}?watch=1&{WATCH_LIST}") as following:
        assert (await following())["type"] == "ADDED"
        bookmark = await following()
        assert bookmark["type"] == "BOOKMARK"
        meta = bookmark["object"]["metadata"]
        assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert bookmark["object"]["kind"] == "Widget"
        assert int(meta["resourceVersion"]) == int(await _version(http))
        await http("POST", WIDGETS, widget("b"))
        while (event := await following())["type"] == "BOOKMARK":
            continue
        assert event["object"]["metadata"]["name"] == "b"


async def test_a_watch_list_of_nothing(http: Http) -> None:
    """kubectl wait and delete wait for the bookmark."""
    query = f"{WATCH_LIST}&fieldSelector=metadata.name%3Dnope"
    assert _short(await _watched(http, query)) == [("BOOKMARK", "")]


async def test_without_initial_events_a_watch_begins_now(http: Http) -> None:
    """sendInitialEvents=false."""
    await http("POST", WIDGETS, widget("a"))
    query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    async with http.watching(f"{WIDGETS}?{query}") as following:
        await http("POST", WIDGETS, widget("b"))
        assert (await following())["object"]["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("sendInitialEvents=true", 422),
        ("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", 422),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", 422),
        ("resourceVersion=abc", 500),
        ("labelSelector=a%3D%3D%3Db", 400),
        ("fieldSelector=spec.size%3D1", 400),
    ],
)
async def test_what_can_not_be_watched(http: Http, query: str, status: int) -> None:
    """An answer, not a stream."""
    answer = await http("GET", f"{WIDGETS}?watch=1&{query}")
    assert answer.status == status
    assert answer.json["kind"] == "Status"


async def test_a_version_that_is_too_old_P0_010(http: Http) -> None:
    """200, one ERROR event with code 410, and the end."""
    answer = await http("GET", f"{WIDGETS}?watch=1&resourceVersion=1")
    assert answer.status == 200
    (event,) = answer.events
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"
    assert event["object"]["message"].startswith("too old resource version: 1 (")


async def test_a_version_of_the_future_waits(http: Http) -> None:
    """Nothing before it is sent."""
    future = int(await _version(http)) + 2
    async with http.watching(f"{WIDGETS}?watch=1&resourceVersion={future}") as following:
        for name in "abc":
            await http("POST", WIDGETS, widget(name))
        assert (await following())["object"]["metadata"]["name"] == "c"


async def test_selectors_turn_changes_into_comings_and_goings(http: Http) -> None:
    """What begins to match is ADDED, what ceases to is DELETED in its last matching state."""
    before = await _version(http)
    await http("POST", WIDGETS, widget("a"))
    for change in (
        {"metadata": {"labels": {"sel": "y"}}},
        {"spec": {"size": 2}},
        {"metadata": {"labels": {"sel": "n"}}},
        {"spec": {"size": 3}},
    ):
        await _patch(http, "a", change)
    await http("DELETE", f"{WIDGETS}/a")
    events = await _watched(http, f"resourceVersion={before}&labelSelector=sel%3Dy")
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED"]
    last = events[-1]["object"]
    assert last["metadata"]["labels"] == {"sel": "y"}
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert versions == sorted(set(versions))
    deleted = await _watched(http, f"resourceVersion={before}&labelSelector=sel%3Dn")
    assert [e["type"] for e in deleted] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_watch_sees_its_namespace_only(http: Http) -> None:
    """Without one it sees all."""
    before = await _version(http)
    await http("POST", WIDGETS, widget("a"))
    await http("POST", WIDGETS.replace("default", "kube-system"), widget("b"))
    assert _short(await _watched(http, f"resourceVersion={before}")) == [("ADDED", "a")]
    everywhere = await _watched(http, f"resourceVersion={before}", path=ALL)
    assert _short(everywhere) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_of_tables_sends_its_columns_once(http: Http) -> None:
    """kubectl get -w."""
    before = await _version(http)
    await http("POST", WIDGETS, widget("a"))
    await _patch(http, "a", {"spec": {"size": 2}})
    first, second = await _watched(http, f"resourceVersion={before}", TABLE)
    assert first["object"]["kind"] == second["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "a"
    bookmark = (await _watched(http, WATCH_LIST, TABLE))[-1]
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "Table")


async def test_a_watch_of_metadata(http: Http) -> None:
    """PartialObjectMetadata, bookmarks included."""
    await http("POST", WIDGETS, widget("a"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    added, bookmark = await _watched(http, WATCH_LIST, accept)
    assert added["object"]["kind"] == bookmark["object"]["kind"] == "PartialObjectMetadata"
    assert "spec" not in added["object"]


async def test_bookmarks_come_now_and_then(http: Http) -> None:
    """With the newest version of all kinds, so that a quiet watch does not fall behind."""
    before = await _version(http)
    await http("POST", "/api/v1/namespaces/default/configmaps", _config_map("x"))
    query = f"watch=1&allowWatchBookmarks=true&resourceVersion={before}"
    async with http.watching(f"{WIDGETS}?{query}") as following:
        bookmark = await following()
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(before)


def _config_map(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def test_a_watch_that_wants_no_bookmarks_sleeps(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their time passing wakes nobody."""
    taken = 0
    take = Cursor.take

    def counting(self: Cursor, limit: int = 100) -> list[Change]:
        nonlocal taken
        taken += 1
        return take(self, limit)

    monkeypatch.setattr(Cursor, "take", counting)
    async with http.watching(f"{WIDGETS}?watch=1") as following:
        await asyncio.sleep(0.2)  # several times what lies between two bookmarks
        await http("POST", WIDGETS, widget("a"))
        await following()
    assert taken <= 3


async def test_a_deletion_is_seen_by_whoever_saw_the_object(http: Http) -> None:
    """Also when the last write took it out of the selection, and only then."""
    await http("POST", WIDGETS, widget("a", labels={"sel": "y"}, finalizers=["x.io/f"]))
    await http("DELETE", f"{WIDGETS}/a")
    before = await _version(http)
    await _patch(http, "a", {"metadata": {"labels": {"sel": "n"}, "finalizers": None}})
    (event,) = await _watched(http, f"resourceVersion={before}&labelSelector=sel%3Dy")
    assert event["type"] == "DELETED"
    assert await _watched(http, f"resourceVersion={before}&labelSelector=sel%3Dn") == []


async def test_a_watch_of_the_other_group_of_events(http: Http) -> None:
    """Stored once, followed as either kind."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    async with http.watching(f"{path}?watch=1") as following:
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"namespace": "default"},
            "message": "said",
        }
        await http("POST", "/api/v1/namespaces/default/events", event)
        assert (await following())["object"]["note"] == "said"


async def test_a_watch_that_falls_off_the_window_is_told(tmp_path: Path) -> None:
    """410, so that the client lists again; the writers were never held up."""
    async with serving(tmp_path, event_window=5, bookmark_seconds=0.05) as http:
        before = await _version(http)
        await http("POST", WIDGETS, widget("a"))
        for n in range(20):
            await _patch(http, "a", {"spec": {"size": n + 2}})
        (event,) = await _watched(http, f"resourceVersion={before}")
        assert event["object"]["code"] == 410


async def test_a_client_that_does_not_read_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut off; others get every event meanwhile."""
    monkeypatch.setattr("gm.devcluster.watch._SLOW_SECONDS", 0.2)
    big = {"metadata": {"annotations": {"x": "y" * 200_000}}}
    async with serving(tmp_path) as http:
        await http("POST", WIDGETS, widget("a"))
        before = await _version(http)
        path = f"{WIDGETS}?watch=1&resourceVersion={before}"
        headers = {"Authorization": f"Bearer {http.server.token}"}
        async with http.session.get(http.server.url + path, headers=headers) as lazy:
            await _patch(http, "a", big)
            async with http.watching(path) as following:
                for n in range(2, 60):
                    await _patch(http, "a", {"spec": {"size": n}})
                    assert (await following())["type"] == "MODIFIED"
                await asyncio.sleep(0.5)  # the time that a slow client is given
            with pytest.raises(aiohttp.ClientError):
                await lazy.content.read()


async def test_a_client_that_leaves_is_forgotten(http: Http) -> None:
    """Its watch ends with its connection."""
    async with http.watching(f"{WIDGETS}?watch=1") as following:
        await http("POST", WIDGETS, widget("a"))
        await following()
    for n in range(3):
        assert (await http("POST", WIDGETS, widget(f"b{n}"))).status == 201


async def test_watches_end_with_the_server(tmp_path: Path) -> None:
    """At once and cleanly, so that clients connect to its next life."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(20):
        async with serving(tmp_path) as http:
            context = ssl.create_default_context(cafile=str(http.server.ca_path))
            headers = {"Authorization": f"Bearer {http.server.token}"}
            url = f"{http.server.url}{WIDGETS}?watch=1"
            response = await session.get(url, headers=headers, ssl=context)
            begun = asyncio.get_running_loop().time()
        assert await response.content.read() == b""
        assert asyncio.get_running_loop().time() - begun < 5


async def test_a_watch_ends_when_its_time_is_over(http: Http) -> None:
    """As the client asked."""
    answer = await http("GET", f"{WIDGETS}?watch=1&timeoutSeconds=1")
    assert (answer.status, answer.events) == (200, [])


def test_cutting_a_connection_that_is_gone() -> None:
    """There is nothing to close any more."""
    cut(SimpleNamespace(transport=None))  # type: ignore[arg-type]


async def test_a_bug_in_the_middle_of_a_watch_breaks_it_off(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is not left waiting for ever."""
    async with http.watching(f"{WIDGETS}?watch=1") as following:
        monkeypatch.setattr(Cursor, "take", lambda *_: 1 / 0)
        await http("POST", WIDGETS, widget("a"))
        with pytest.raises(aiohttp.ClientError):
            await following()
