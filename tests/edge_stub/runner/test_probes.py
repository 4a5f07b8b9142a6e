"""Probes, against real servers and processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gm.edge_stub.runner.container import Order
from gm.edge_stub.runner.probes import Probe, ProbeResult, check, run_probe

CONTAINER: dict[str, Any] = {"name": "c", "ports": [{"name": "web", "containerPort": 1}]}


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server that answers as its path says."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/slow":
            await asyncio.sleep(1000)
        if request.path == "/header":
            return web.Response(status=200 if request.headers.get("X-A") == "b" else 400)
        return web.Response(status=int(request.path.strip("/") or 200))

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
    """200 to 399 pass; redirects are not followed."""
    result = await look(order, httpGet={"port": port, "path": path})
    assert result.passed is passed
    assert passed or path.strip("/") in result.message


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
    assert not (await look(order, tcpSocket={"port": unused_tcp_port})).passed
    assert not (await look(order, httpGet={"port": unused_tcp_port})).passed
    assert not (await look(order, httpGet={"port": unused_tcp_port, "scheme": "HTTPS"})).passed


async def test_a_command_runs_in_the_containers_environment(order: Order, tmp_path: Path) -> None:
    """Its exit code decides; mount paths are real ones."""
    (tmp_path / "f").touch()
    good = await look(order, exec={"command": ["sh", "-c", "test $A = b && cat /mnt/f"]})
    assert good == ProbeResult(True, "")
    bad = await look(order, exec={"command": ["sh", "-c", "exit 4"]})
    assert bad == ProbeResult(False, "command exited with 4")
    missing = await look(order, exec={"command": ["no-such-program"]})
    assert "not found" in missing.message


async def test_a_command_that_hangs_is_killed(order: Order) -> None:
    """And fails the probe."""
    probe = Probe.of({"timeoutSeconds": 0.2, "exec": {"command": ["sleep", "1000"]}})
    result = await check(probe, CONTAINER, "127.0.0.1", order)
    assert not result.passed


async def test_grpc_counts_as_passed(order: Order) -> None:
    """It is not supported, and restarting for it would be wrong."""
    assert (await look(order, grpc={"port": 1})).passed


async def test_thresholds_make_verdicts() -> None:
    """Single failures are no verdict; success needs as many as it says."""
    answers = iter([False, True, True, False, False, False, True, True])
    verdicts: list[tuple[bool, str]] = []
    ended = asyncio.Event()

    async def look(_probe: Probe) -> ProbeResult:
        answer = next(answers, None)
        if answer is None:
            ended.set()
            await asyncio.sleep(1000)
        return ProbeResult(bool(answer), "" if answer else "bad")

    probe = Probe(
        action={},
        initial_delay_seconds=0,
        period_seconds=0,
        timeout_seconds=1,
        failure_threshold=2,
        success_threshold=2,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            run_probe(probe, look, lambda passed, why: verdicts.append((passed, why)))
        )
        await ended.wait()
        running.cancel()
    assert verdicts == [(True, ""), (False, "bad"), (False, "bad"), (True, "")]


def test_defaults_are_a_kubelets() -> None:
    """Nothing but the action need be given."""
    probe = Probe.of({"tcpSocket": {"port": 1}})
    assert (probe.period_seconds, probe.timeout_seconds) == (10, 1)
    assert (probe.failure_threshold, probe.success_threshold) == (3, 1)
    assert probe.initial_delay_seconds == 0
