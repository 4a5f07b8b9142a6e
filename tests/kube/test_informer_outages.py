"""The informer when the API server or the network fails, or a kind can not be had."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gm.api.meta import PartialObject
from gm.api.resources import DATASETS, PODS
from gm.kube import Client, Informer
from tests.fakes.kube_api import RESET, FakeKubeApi, Request, fake_kube_api, status
from tests.kube.following import FAST, GONE, eventually, following, listed, obj, running

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
