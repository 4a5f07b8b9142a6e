"""Probes, against real servers and processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gm import __version__
from gm.edge_stub.runner.container import Order
from gm.edge_stub.runner.probes import Probe, ProbeResult, check, run_probe

CONTAINER: dict[str, Any] = {"name": "c", "ports": [{"name": "web", "containerPort": 1}]}


REDIRECTS = {
    "/to-good": "/204",
    "/to-bad": "500",
    "/away": "http://elsewhere.invalid/",
    "/round": "/round",
}


@pytest.fixture
def seen() -> list[list[str]]:
    """Headers of requests."""
    return []


@pytest.fixture
async def port(seen: list[list[str]]) -> AsyncIterator[int]:
    """A server that answers as its path says."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/slow":
            await asyncio.sleep(1000)
        if request.path == "/agent":
            names = ("User-Agent", "Accept", "Connection")
            seen.append([request.headers[name] for name in names])
        if request.path in REDIRECTS:
            return web.Response(
                status=302, text="moved", headers={"Location": REDIRECTS[request.path]}
            )
        if request.path == "/header":
            return web.Response(status=200 if request.headers.get("X-A") == "b" else 400)
        code = request.path.strip("/")
        return web.Response(status=int(code) if code.isdigit() else 200)

    app = web.Application()
    app.router.add_get("/{any:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """The container's order."""
    return Order(
        argv=("sleep", "1000"),
        env={"PATH": os.environ["PATH"], "A": "b"},
        cwd=tmp_path,
        log=tmp_path / "log",
        log_max_bytes=1000,
        marker=f"test-{tmp_path}",
        mounts={"/mnt": str(tmp_path)},
    )


async def look(order: Order, container: dict[str, Any] = CONTAINER, **action: Any) -> ProbeResult:
    """One look."""
    return await check(Probe.of({"timeoutSeconds": 20, **action}), container, "127.0.0.1", order)


@pytest.mark.parametrize(
    ("path", "passed"),
    [("/", True), ("/204", True), ("302", True), ("/400", False), ("/503", False)],
)
async def test_http_status_decides(order: Order, port: int, path: str, passed: bool) -> None:
    """200 to 399 pass."""
    result = await look(order, httpGet={"port": port, "path": path})
    message = "" if passed else f"HTTP probe failed with statuscode: {path.strip('/')}"
    assert result == ProbeResult(passed, message)


async def test_redirects_are_followed_within_the_host(order: Order, port: int) -> None:
    """What they lead to decides; one that leads away passes, with a warning."""

    async def at(path: str) -> ProbeResult:
        return await look(order, httpGet={"port": port, "path": path})

    assert await at("/to-good") == ProbeResult(True)
    assert await at("/to-bad") == ProbeResult(False, "HTTP probe failed with statuscode: 500")
    away = "Probe terminated redirects, Response body: moved"
    assert await at("/away") == ProbeResult(True, away)
    assert await at("/round") == ProbeResult(False, "stopped after 10 redirects")


async def test_a_probe_says_who_it_is(order: Order, port: int, seen: list[list[str]]) -> None:
    """As a kubelet's, unless the pod says otherwise."""
    await look(order, httpGet={"port": port, "path": "/agent"})
    own = [{"name": "User-Agent", "value": "me"}]
    await look(order, httpGet={"port": port, "path": "/agent", "httpHeaders": own})
    assert seen == [[f"kube-probe/gm-{__version__}", "*/*", "close"], ["me", "*/*", "close"]]


async def test_named_ports_headers_and_hosts(order: Order, port: int) -> None:
    """As the container declares them."""
    container = {"ports": [{"name": "web", "containerPort": port}]}
    headers = [{"name": "X-A", "value": "b"}]
    action = {"port": "web", "path": "/header", "httpHeaders": headers, "host": "127.0.0.1"}
    assert (await look(order, container, httpGet=action)).passed
    assert not (await look(order, httpGet={"port": "nope"})).passed
    assert (await look(order, tcpSocket={"port": str(port)})).passed


async def test_a_probe_that_hangs_fails_in_time(order: Order, port: int) -> None:
    """timeoutSeconds."""
    probe = Probe.of({"timeoutSeconds": 0.05, "httpGet": {"port": port, "path": "/slow"}})
    result = await check(probe, CONTAINER, "127.0.0.1", order)
    assert result == ProbeResult(False, "no answer within 0.05 s")


async def test_a_port_that_nobody_listens_on_fails(order: Order, unused_tcp_port: int) -> None:
    """Both kinds of network probe."""
    refused = f"dial tcp 127.0.0.1:{unused_tcp_port}: connect: connection refused"
    assert await look(order, tcpSocket={"port": unused_tcp_port}) == ProbeResult(False, refused)
    assert not (await look(order, httpGet={"port": unused_tcp_port})).passed
    assert not (await look(order, httpGet={"port": unused_tcp_port, "scheme": "HTTPS"})).passed


async def test_a_command_runs_in_the_containers_environment(order: Order, tmp_path: Path) -> None:
    """Its exit code decides; mount paths are real ones."""
    (tmp_path / "f").touch()
    good = await look(order, exec={"command": ["sh", "-c", "test $A = b && cat /mnt/f"]})
    assert good == ProbeResult(True, "")
    bad = await look(order, exec={"command": ["sh", "-c", "exit 4"]})
    assert bad == ProbeResult(False, "")
    why = await look(order, exec={"command": ["sh", "-c", "echo why; echo not >&2; exit 4"]})
    assert sorted(why.message.splitlines()) == ["not", "why"]
    missing = await look(order, exec={"command": ["no-such-program"]})
    assert "not found" in missing.message
    assert [path.name for path in tmp_path.iterdir()] == ["f"], "nothing is left behind"


async def test_a_command_that_hangs_is_killed(order: Order) -> None:
    """And fails the probe."""
    probe = Probe.of({"timeoutSeconds": 0.2, "exec": {"command": ["sleep", "1000"]}})
    result = await check(probe, CONTAINER, "127.0.0.1", order)
    message = 'command timed out: "sleep 1000" timed out after 0.2s'
    assert result == ProbeResult(False, message)


async def test_grpc_counts_as_passed(order: Order) -> None:
    """It is not supported, and restarting for it would be wrong."""
    assert (await look(order, grpc={"port": 1})).passed


async def test_thresholds_make_verdicts() -> None:
    """Single failures are no verdict; success needs as many as it says."""
    answers = iter([False, True, True, False, False, False, True, True])
    verdicts: list[bool] = []
    ended = asyncio.Event()

    async def look() -> bool:
        answer = next(answers, None)
        if answer is None:
            ended.set()
            await asyncio.sleep(1000)
        return bool(answer)

    probe = Probe(
        action={},
        initial_delay_seconds=0,
        period_seconds=0,
        timeout_seconds=1,
        failure_threshold=2,
        success_threshold=2,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_probe(probe, look, verdicts.append))
        await ended.wait()
        running.cancel()
    assert verdicts == [True, False, False, True]


def test_defaults_are_a_kubelets() -> None:
    """Nothing but the action need be given."""
    probe = Probe.of({"tcpSocket": {"port": 1}})
    assert (probe.period_seconds, probe.timeout_seconds) == (10, 1)
    assert (probe.failure_threshold, probe.success_threshold) == (3, 1)
    assert probe.initial_delay_seconds == 0
