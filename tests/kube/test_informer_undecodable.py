"""The informer and objects that it can not read: they stop nobody else."""

from __future__ import annotations

import json

import msgspec
from aiohttp import web

from gm.api.meta import ObjectKey, ObjectMeta
from gm.api.resources import PODS
from gm.kube import Client, Informer
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.following import FAST, GONE, Recording, following, listed, obj, running


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
