"""The way to the API server breaks: what runs goes on, and what happened is told later."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from gm.api.resources import PODS
from gm.edge_stub.runner import pods
from gm.edge_stub.runner.facts import PodFacts
from tests.edge_stub.runner.harness import Edge
from tests.edge_stub.runner.support import is_alive, pids_in, wait_dead


class Link:
    """A TCP proxy to the test's API server that can be cut."""

    def __init__(self, host: str, port: int) -> None:
        self._far = (host, port)
        self._is_up = True
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen for the body's lifetime."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """Break all connections and let no new ones in."""
        self._is_up = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        """Work again."""
        self._is_up = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_up:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._far)
        both = {writer, far_writer}
        self._writers |= both
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        self._writers -= both
        for end in both:
            end.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture
async def link(node: Edge, tmp_path: Path) -> AsyncIterator[tuple[Link, Path]]:
    """A link to the API server, and the kubeconfig that leads through it."""
    config = node.cluster.read_kubeconfig()
    parts = urlsplit(config["clusters"][0]["cluster"]["server"])
    assert parts.hostname is not None
    assert parts.port is not None
    made = Link(parts.hostname, parts.port)
    async with made.open():
        server = f"https://127.0.0.1:{made.port}"
        config["clusters"][0]["cluster"]["server"] = server
        path = tmp_path / "through-link"
        path.write_text(yaml.safe_dump(config))
        yield made, path


VOLUME = {
    "volumes": [{"name": "v", "hostPath": {"path": "/v"}}],
    "container": {"volumeMounts": [{"name": "v", "mountPath": "/vol"}]},
}


async def test_what_runs_goes_on_and_its_end_is_told_later(
    node: Edge, link: tuple[Link, Path]
) -> None:
    """A container ends while nobody can be told."""
    cut, kubeconfig = link
    async with node.running(kubeconfig=kubeconfig):
        script = "echo $$$$ > /vol/pids; while [ ! -e /vol/go ]; do sleep 0.02; done; exit 3"
        await node.create("p", script, restartPolicy="Never", **VOLUME)
        (pid,) = await pids_in(node.root / "v" / "pids", 1)
        await node.wait_ready("p")
        cut.cut()
        assert is_alive(pid)
        (node.root / "v" / "go").touch()
        await wait_dead(pid)
        await asyncio.sleep(0.3)  # some attempts fail meanwhile
        cut.mend()
        pod = await node.wait_phase("p", "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 3


async def test_a_deletion_that_could_not_be_confirmed_is_confirmed_later(
    node: Edge, link: tuple[Link, Path]
) -> None:
    """The processes have ended long before."""
    cut, kubeconfig = link
    async with node.running(kubeconfig=kubeconfig):
        script = (
            "trap 'touch /vol/ending; while [ ! -e /vol/go ]; do sleep 0.02; done; exit 0' TERM; "
            "echo $$$$ > /vol/pids; while :; do sleep 0.02; done"
        )
        await node.create("p", script, terminationGracePeriodSeconds=600, **VOLUME)
        (pid,) = await pids_in(node.root / "v" / "pids", 1)
        await node.wait_ready("p")
        async with node.cluster.client() as client:
            await client.delete(PODS, node.cluster.key("p"))
        ending, go = node.root / "v" / "ending", node.root / "v" / "go"
        await node.cluster.wait_for(ending.exists, what="SIGTERM")
        cut.cut()
        go.touch()
        await wait_dead(pid)
        await asyncio.sleep(0.3)
        cut.mend()
        await node.wait_gone("p")


async def test_a_pod_waits_for_a_free_address(node: Edge) -> None:
    """And says so."""
    base = node.address.rpartition(".")[0]
    async with node.running(pod_addresses=f"{base}.200-{base}.200"):
        await node.create("one", "sleep 1000")
        await node.wait_ready("one")
        await node.create("two", "sleep 1000")
        event = await node.wait_event("two", "FailedCreatePodSandBox")
        assert "are in use" in event["message"]
        await node.delete("one")
        pod = await node.wait_ready("two")
        assert pod["status"]["podIP"] == f"{base}.200"


async def test_a_pod_that_the_runner_fails_at_does_not_take_the_others_along(
    node: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is Failed, with the reason; nothing of it keeps running."""
    original = pods.make_volumes

    def failing(facts: PodFacts, *arguments: object) -> object:
        if facts.name == "bad":
            raise RuntimeError("a bug")
        return original(facts, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pods, "make_volumes", failing)
    async with node.running():
        await node.create("good", "sleep 1000")
        await node.create("bad", "sleep 1000")
        pod = await node.wait_phase("bad", "Failed")
        assert pod["status"]["reason"] == "RunnerError"
        assert "RuntimeError" in pod["status"]["message"]
        assert "a bug" not in pod["status"]["message"], "it may hold what nobody should read"
        await node.wait_ready("good")
        await node.delete("bad")
