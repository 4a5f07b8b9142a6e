"""Logs, fetched from a node's agent."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, web

from gm.api.meta import Json
from gm.devcluster import logs
from gm.devcluster.query import parse_query
from gm.devcluster.status import StatusError
from gm.devcluster.store import Store
from tests.devcluster.core import Http, node, pod
from tests.devcluster.support import FakeKubelet, serving_kubelet

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


async def _node(http: Http, port: int, address: str = "127.0.0.1") -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    answer = await http("POST", "/api/v1/nodes", {**node("n"), "status": status})
    assert answer.status == 201


async def _pod(http: Http, name: str = "p", **spec: Any) -> None:
    assert (await http("POST", PODS, pod(name, nodeName="n", **spec))).status == 201


async def test_logs_come_from_the_node(http: Http, tmp_path: Path) -> None:
    """Options are passed on, others are not."""
    async with serving_kubelet(tmp_path) as kubelet:
        await _node(http, kubelet.port)
        await _pod(http)
        answer = await http("GET", f"{PODS}/p/log")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain")
        assert answer.body == b"c line 1\nc line 2\n"
        options = "tailLines=1&sinceSeconds=5&previous=true&limitBytes=9&timestamps=true&pretty=x"
        assert (await http("GET", f"{PODS}/p/log?container=c&{options}")).body == b"c line 2\n"
        path, _, query = kubelet.asked[-1].partition("?")
        assert path == "/containerLogs/default/p/c"
        assert sorted(query.split("&")) == sorted(options.removesuffix("&pretty=x").split("&"))


async def test_follow_streams_as_lines_come(http: Http, tmp_path: Path) -> None:
    """The first lines are there before the last exist."""
    async with serving_kubelet(tmp_path) as kubelet:
        await _node(http, kubelet.port)
        await _pod(http)
        headers = {"Authorization": f"Bearer {http.server.token}"}
        url = f"{http.server.url}{PODS}/p/log?follow=true"
        async with asyncio.timeout(20), http.session.get(url, headers=headers) as response:
            assert await response.content.readline() == b"c line 1\n"
            assert await response.content.readline() == b"c line 2\n"
            kubelet.release.set()
            assert await response.content.read() == b"the last line\n"


async def test_a_pod_without_a_node_has_no_logs_yet(http: Http) -> None:
    """204, as upstream."""
    await http("POST", PODS, pod("p", schedulerName="none"))
    assert (await http("GET", f"{PODS}/p/log")).status == 204


async def test_a_node_that_does_not_exist(http: Http) -> None:
    """404 about the node."""
    await _pod(http)
    answer = await http("GET", f"{PODS}/p/log")
    assert (answer.status, answer.json["message"]) == (404, 'nodes "n" not found')


async def test_a_node_that_does_not_answer(http: Http) -> None:
    """500 with the address that was tried."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        port = taken.getsockname()[1]
        await _node(http, port)
        await _pod(http)
        answer = await http("GET", f"{PODS}/p/log")
    assert answer.status == 500
    url = f"https://127.0.0.1:{port}/containerLogs/default/p/c"
    assert answer.json["message"].startswith(f'Internal error occurred: Get "{url}": ')


async def test_what_the_node_refuses_is_passed_on(
    http: Http, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the agent's own words."""

    async def refuse(self: FakeKubelet, request: web.Request) -> web.StreamResponse:
        del self
        status = int(request.query.get("tailLines", "500"))
        return web.Response(status=status, text="no such container\n" if status == 404 else "")

    monkeypatch.setattr(FakeKubelet, "handle", refuse)
    async with serving_kubelet(tmp_path) as kubelet:
        await _node(http, kubelet.port)
        await _pod(http)
        missing = await http("GET", f"{PODS}/p/log?tailLines=404")
        assert (missing.status, missing.json["message"]) == (404, "no such container")
        assert missing.json["reason"] == "NotFound"
        broken = await http("GET", f"{PODS}/p/log")
        assert (broken.status, broken.json["message"]) == (500, "the node answered 500")


async def test_a_container_that_waits_says_why(http: Http) -> None:
    """kubectl logs of a pod that can not start."""
    await _node(http, 1)
    await _pod(http)
    waiting = {"name": "c", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}
    status = {"status": {"containerStatuses": [waiting]}}
    patched = await http("PATCH", f"{PODS}/p/status", status, content_type=MERGE)
    assert patched.status == 200
    answer = await http("GET", f"{PODS}/p/log")
    assert answer.status == 400
    assert answer.json["message"] == (
        'container "c" in pod "p" is waiting to start: ErrImageNeverPull'
    )


LIMIT = "strconv.ParseInt: parsing "
WRONG: dict[str, tuple[int, str]] = {
    "tailLines=x": (400, f'{LIMIT}"x": invalid syntax'),
    "limitBytes=1.5": (400, f'{LIMIT}"1.5": invalid syntax'),
    "sinceSeconds=99999999999999999999": (400, f'{LIMIT}"99999999999999999999": value out of'),
    "sinceTime=2026-13-01T00:00:00Z": (400, 'parsing time "2026-13-01T00:00:00Z": month out of'),
    "tailLines=-1": (422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
    "limitBytes=0": (422, "limitBytes: Invalid value: 0: must be greater than 0"),
    "sinceSeconds=0": (422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
    "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z": (422, "[]: Forbidden: at most one of `since"),
    "stream=All": (422, "stream: Forbidden: may not be specified"),
}


@pytest.mark.parametrize("query", WRONG)
def test_options_that_make_no_sense(query: str) -> None:
    """400 for what can not be read, 422 for the rest, before the pod is looked for."""
    code, told = WRONG[query]
    with pytest.raises(StatusError) as caught:
        logs.LogOptions.parse("p", parse_query(query.encode()))
    head = 'PodLogOptions "p" is invalid: ' if code == 422 else ""
    assert caught.value.code == code
    assert caught.value.message.startswith(head + told)


def test_a_node_gets_the_options_that_are_set() -> None:
    """In the form that a real API server sends them in."""
    raw = b"follow=1&previous=False&timestamps=x&tailLines=%2B5&sinceTime=&pretty=true"
    options = logs.LogOptions.parse("p", parse_query(raw))
    assert options.parameters == {"follow": "true", "timestamps": "true", "tailLines": "5"}
    assert options.container == ""


TWO: Json = pod("p", containers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}])


def test_a_container_must_be_chosen_if_there_are_several() -> None:
    """The choice is listed; init containers can be named."""
    assert logs.choose_container(pod("p"), "") == "c"
    with pytest.raises(StatusError, match=r"choose one of: \[a b\]"):
        logs.choose_container(TWO, "")
    assert logs.choose_container(TWO, "b") == "b"
    with pytest.raises(StatusError, match="container x is not valid for pod p"):
        logs.choose_container(TWO, "x")
    init = pod("p", initContainers=[{"name": "i", "image": "i"}])
    assert logs.choose_container(init, "i") == "i"


def test_the_address_of_a_node() -> None:
    """In the order of a real API server; the port has a default."""

    def made(*addresses: tuple[str, str]) -> Json:
        listed = [{"type": kind, "address": address} for kind, address in addresses]
        return {**node("n"), "status": {"addresses": listed}}

    assert logs.node_endpoint(made(("InternalIP", "10.0.0.1"))) == ("10.0.0.1", 10250)
    both = made(("InternalIP", "10.0.0.1"), ("Hostname", "n.local"))
    assert logs.node_endpoint(both) == ("n.local", 10250)
    with pytest.raises(StatusError, match="has no address"):
        logs.node_endpoint(made())


async def test_a_proxy_must_be_entered() -> None:
    """Used outside its block it says so."""
    proxy = logs.LogProxy(Store())
    await proxy.__aexit__()
    with pytest.raises(RuntimeError, match="not entered"):
        await proxy._relay(None, "", {})  # type: ignore[arg-type]


async def test_a_node_that_dies_in_the_middle_of_a_log(
    http: Http, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream breaks: what came is no complete log."""

    async def die(self: FakeKubelet, request: web.Request) -> web.StreamResponse:
        del self
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"begun\n")
        assert request.transport is not None
        await asyncio.sleep(0.05)  # so that the first line is through
        request.transport.abort()
        return response

    monkeypatch.setattr(FakeKubelet, "handle", die)
    async with serving_kubelet(tmp_path) as kubelet:
        await _node(http, kubelet.port)
        await _pod(http)
        with pytest.raises(ClientError):
            await http("GET", f"{PODS}/p/log")


def test_a_container_that_has_run_before_has_logs() -> None:
    """Also while it waits to start again; so has one beside a waiting one."""
    waiting = {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    again = {**waiting, "lastState": {"terminated": {}}}
    logs.check_started({**pod("p"), "status": {"containerStatuses": [again]}}, "c")
    logs.check_started({**pod("p"), "status": {"containerStatuses": [waiting]}}, "other")
    logs.check_started({**pod("p"), "status": {"containerStatuses": [{"name": "c"}]}}, "c")
    bare = {"name": "c", "state": {"waiting": {}}}
    with pytest.raises(StatusError, match=r'"p" is waiting to start$'):
        logs.check_started({**pod("p"), "status": {"containerStatuses": [bare]}}, "c")
