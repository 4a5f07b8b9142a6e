"""The client's watches: events, their end, and networks that fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gm.api.resources import PODS
from gm.errors import ApiUnreachable, ResourceExpired, TooManyRequests
from gm.kube import Client
from tests.fakes.kube_api import FakeKubeApi, status
from tests.kube.following import collect

WATCH = {"timeout_seconds": 5, "read_deadline_seconds": 8.0}


async def test_a_watch_gives_events_until_the_server_ends_it(
    api: FakeKubeApi, client: Client
) -> None:
    """It asks for bookmarks and an end in time."""
    api.answers = [None]
    opened: list[bool] = []
    events = client.watch(
        PODS,
        namespace="ns",
        resource_version="5",
        timeout_seconds=5,
        read_deadline_seconds=8,
        on_open=lambda: opened.append(True),
    )
    async with asyncio.TaskGroup() as group:
        seen = group.create_task(collect(events))
        stream = await api.next_watch()
        await stream.send("ADDED", {"metadata": {"name": "a"}})
        await stream.send("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
        stream.end()
    assert [event.type for event in seen.result()] == ["ADDED", "BOOKMARK"]
    assert opened == [True]
    assert api.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "5",
    }


async def test_a_line_of_many_mebibytes_arrives_whole(api: FakeKubeApi, client: Client) -> None:
    """No limit on the length of a line, and half lines wait for their rest."""
    api.answers = [None]
    events = client.watch(PODS, resource_version="5", **WATCH)  # type: ignore[arg-type]
    big = "x" * (24 * 2**20)
    async with asyncio.TaskGroup() as group:
        seen = group.create_task(collect(events))
        stream = await api.next_watch()
        line = json.dumps({"type": "ADDED", "object": {"data": big}}).encode()
        await stream.send_bytes(line[:1000])
        await stream.send_bytes(line[1000:] + b'\n\n{"type":"ADDED",')
        await stream.send_bytes(b'"object":{}}')
        stream.end()
    first, second = seen.result()
    assert msgspec.json.decode(first.object) == {"data": big}
    assert second.type == "ADDED"


async def test_an_expired_version_by_http_status_P0_010(api: FakeKubeApi, client: Client) -> None:
    """The first form of 410."""
    api.answers = [(410, status(410, "Expired", "too old resource version"))]
    with pytest.raises(ResourceExpired):
        await collect(client.watch(PODS, resource_version="1", **WATCH))  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
async def test_an_expired_version_by_an_error_event_P0_010(
    api: FakeKubeApi, client: Client, reason: str
) -> None:
    """The second form of 410: inside a stream that began with 200."""
    api.answers = [None]
    async with asyncio.TaskGroup() as group:
        watch = client.watch(PODS, resource_version="1", **WATCH)  # type: ignore[arg-type]
        task = group.create_task(_expect_expired(watch))
        stream = await api.next_watch()
        await stream.send("ERROR", status(410, reason, "too old resource version: 1 (9)"))
        assert await task == f"watch pods failed: 410 {reason}: too old resource version: 1 (9)"
        stream.end()


async def _expect_expired(events: AsyncIterator[Any]) -> str:
    with pytest.raises(ResourceExpired) as caught:
        await collect(events)
    return str(caught.value)


async def test_other_errors_in_a_stream_are_errors(api: FakeKubeApi, client: Client) -> None:
    """No event is made of a Status."""
    api.answers = [None]
    async with asyncio.TaskGroup() as group:
        watch = client.watch(PODS, resource_version="1", **WATCH)  # type: ignore[arg-type]
        task = group.create_task(_expect(watch, TooManyRequests))
        stream = await api.next_watch()
        await stream.send("ERROR", status(429, "TooManyRequests", "", retryAfterSeconds=4))
        error = await task
        stream.end()
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_seconds == 4


async def _expect(events: AsyncIterator[Any], kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as caught:
        await collect(events)
    return caught.value


async def test_a_silent_watch_is_given_up_P0_011(api: FakeKubeApi, client: Client) -> None:
    """The server accepts, then sends nothing and never closes."""
    api.answers = [None]
    with pytest.raises(ApiUnreachable, match="watch pods failed: no answer from"):
        await collect(
            client.watch(PODS, resource_version="1", timeout_seconds=1, read_deadline_seconds=0.2)
        )
    (await api.next_watch()).end()


async def test_a_cut_connection_ends_the_watch_P0_011(api: FakeKubeApi, client: Client) -> None:
    """What came before is kept, half an event is not."""
    api.answers = [None]
    seen: list[str] = []
    async with asyncio.TaskGroup() as group:

        async def follow() -> None:
            async for event in client.watch(PODS, resource_version="1", **WATCH):  # type: ignore[arg-type]
                seen.append(event.type)
                got_one.set()

        async def follow_to_the_end() -> None:
            with pytest.raises(ApiUnreachable):
                await follow()

        got_one = asyncio.Event()
        group.create_task(follow_to_the_end())
        stream = await api.next_watch()
        await stream.send("ADDED", {})
        await got_one.wait()
        await stream.send_bytes(b'{"type":"MODI')
        stream.reset()
    assert seen == ["ADDED"]


async def test_leaving_a_watch_closes_its_connection(api: FakeKubeApi, client: Client) -> None:
    """Or each re-list would leave one behind."""
    api.answers = [None]
    watch = client.watch(PODS, resource_version="1", **WATCH)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(anext(watch))
        stream = await api.next_watch()
        await stream.send("ADDED", {})
        await reading
        await watch.aclose()
    assert client._transport._session.connector is not None
    assert not client._transport._session.connector._acquired
    stream.end()
