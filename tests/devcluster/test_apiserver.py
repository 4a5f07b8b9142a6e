"""The server as a whole: start, stop, and the controllers at work."""

from __future__ import annotations

import asyncio
import socket
import stat
import time
from pathlib import Path

import pytest
from aiohttp import ClientError

from gm.devcluster.apiserver import ApiServerSettings, RunningServer, running, serve
from gm.errors import ConfigError
from tests.devcluster.core import Http, node, pod, serving, widget

PODS = "/api/v1/namespaces/default/pods"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


async def test_it_starts_within_half_a_second(tmp_path: Path) -> None:
    """With everything that a cluster has from the beginning."""
    begun = time.process_time()
    async with running(directory=tmp_path) as server:
        assert time.process_time() - begun < 0.5
        assert server.url == f"https://127.0.0.1:{server.port}"
        assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600
        assert server.ca_path.exists()


async def test_serve_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """It says when it is ready, by callback and file."""
    stopping, ready = asyncio.Event(), asyncio.Event()
    servers: list[RunningServer] = []

    def note(server: RunningServer) -> None:
        servers.append(server)
        ready.set()

    settings = ApiServerSettings(directory=tmp_path, ready_file=tmp_path / "ready")
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(serve(settings, stopping, ready=note))
        await ready.wait()
        assert (tmp_path / "ready").read_text() == servers[0].url
        stopping.set()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", servers[0].port)) != 0


async def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    """With address, reason and advice; nothing is left running."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: Address already in use; choose"):
            async with running(port, directory=tmp_path):
                raise AssertionError("it can not listen")


async def test_a_kubeconfig_outlives_a_restart(tmp_path: Path) -> None:
    """Same CA, same token; on the same port it is the same file."""
    async with running(directory=tmp_path) as first:
        before = first.kubeconfig.read_bytes()
    async with running(first.port, directory=tmp_path) as second:
        assert second.kubeconfig.read_bytes() == before
        assert second.token == first.token


async def test_another_life_answers_old_versions_with_410(tmp_path: Path) -> None:
    """Objects are gone, and clients that come back are told."""
    async with serving(tmp_path) as http:
        answer = await http("POST", WIDGETS, widget("w"))
        version = answer.json["metadata"]["resourceVersion"]
    await asyncio.sleep(0.01)  # versions follow the clock
    async with serving(tmp_path) as http:
        watched = await http("GET", f"{WIDGETS}?watch=1&resourceVersion={version}")
        assert watched.events[0]["object"]["code"] == 410


async def test_several_addresses_of_loopback(tmp_path: Path) -> None:
    """Two side by side don't collide."""
    async with serving(tmp_path / "1", address="127.0.5.1") as one:
        assert one.server.url.startswith("https://127.0.5.1:")
        async with serving(tmp_path / "2") as two:
            assert (await two("GET", "/readyz")).status == 200
            other = {"Authorization": f"Bearer {one.server.token}"}
            assert (await two("GET", "/api/v1/pods", headers=other)).status == 401
            with pytest.raises(ClientError):
                await two.session.get(one.server.url + "/readyz")


async def test_standard_namespaces_exist(http: Http) -> None:
    """As in every cluster."""
    listed = await http("GET", "/api/v1/namespaces")
    assert [i["metadata"]["name"] for i in listed.json["items"]] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]


async def test_the_controllers_work_together(http: Http) -> None:
    """A pod is scheduled once its node is ready; owner and namespace take theirs along."""
    owner = (await http("POST", WIDGETS, widget("w"))).json
    reference = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "w",
        "uid": owner["metadata"]["uid"],
    }
    await http("POST", PODS, pod("p", meta={"ownerReferences": [reference]}))
    await http("POST", "/api/v1/nodes", node("n"))
    await http.until(f"{PODS}/p", lambda a: a.json["spec"].get("nodeName") == "n")
    taints = (await http("GET", "/api/v1/nodes/n")).json["spec"].get("taints")
    assert taints is None
    await http("DELETE", f"{WIDGETS}/w")
    await http.until(f"{PODS}/p", lambda a: "deletionTimestamp" in a.json["metadata"])
    await http("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    await http("POST", "/api/v1/namespaces", namespace)
    await http("POST", WIDGETS.replace("default", "x"), widget("w"))
    await http("DELETE", "/api/v1/namespaces/x")
    await http.until("/api/v1/namespaces/x", lambda a: a.status == 404)


async def test_a_controller_that_dies_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never left half alive."""

    async def die(_self: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("gm.devcluster.scheduler.Scheduler.run", die)
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(20), running(directory=tmp_path):
            await asyncio.Event().wait()
    assert caught.group_contains(ValueError, match="a bug")


async def test_serve_tells_nobody_if_nobody_asks(tmp_path: Path) -> None:
    """Neither callback nor file is needed."""
    stopping = asyncio.Event()
    stopping.set()
    await serve(ApiServerSettings(directory=tmp_path), stopping)
    assert not (tmp_path / "ready").exists()


async def test_only_loopback_addresses_are_listened_on(tmp_path: Path) -> None:
    """Anything else would open the server to the network."""
    for address in ("0.0.0.0", "10.1.2.3", "example.org"):
        with pytest.raises(ConfigError, match="want a loopback address"):
            async with running(address=address, directory=tmp_path):
                pass


async def test_a_port_beyond_what_there_is_is_refused(tmp_path: Path) -> None:
    """The flag, the value and what is allowed."""
    for port in (-1, 70000):
        with pytest.raises(ConfigError, match=f"--port {port}: want 0"):
            async with running(port=port, directory=tmp_path):
                pass


async def test_a_running_servers_directory_is_not_taken(tmp_path: Path) -> None:
    """Its kubeconfig and certificate stay as they are."""
    async with running(directory=tmp_path) as server:
        before = server.kubeconfig.read_bytes()
        with pytest.raises(ConfigError, match="is in use by process"):
            async with running(directory=tmp_path):
                pass
        assert server.kubeconfig.read_bytes() == before
