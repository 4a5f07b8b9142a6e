"""Startup, readiness and liveness probes: httpGet, tcpSocket and exec.

A gRPC probe is not supported and counts as passed, as it would be wrong to restart for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from gm.edge_stub.runner.container import ContainerProcess, Order
from gm.edge_stub.runner.rewrite import Rewriter

__all__ = ["Probe", "ProbeResult", "check", "run_probe"]


class ProbeResult(msgspec.Struct, frozen=True):
    """One look: whether it passed, and what was seen."""

    passed: bool
    message: str = ""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A probe with a kubelet's defaults filled in; ``action`` is the probe as written."""

    action: Mapping[str, Any]
    initial_delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    failure_threshold: int
    success_threshold: int

    @classmethod
    def of(cls, probe: Mapping[str, Any]) -> Probe:
        """From a container's ``readinessProbe`` and the like."""
        return cls(
            action=probe,
            initial_delay_seconds=probe.get("initialDelaySeconds") or 0,
            period_seconds=probe.get("periodSeconds") or 10,
            timeout_seconds=probe.get("timeoutSeconds") or 1,
            failure_threshold=probe.get("failureThreshold") or 3,
            success_threshold=probe.get("successThreshold") or 1,
        )


async def run_probe(
    probe: Probe,
    look: Callable[[Probe], Awaitable[ProbeResult]],
    tell: Callable[[bool, str], None],
) -> None:
    """Look again and again, until cancelled; ``tell`` hears each verdict that a threshold gives.

    A failed look that does not reach the threshold yet is no verdict.
    """
    await asyncio.sleep(probe.initial_delay_seconds)
    successes = failures = 0
    while True:
        result = await look(probe)
        if result.passed:
            successes, failures = successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        if successes >= probe.success_threshold or failures >= probe.failure_threshold:
            tell(result.passed, result.message)
        await asyncio.sleep(probe.period_seconds)


async def check(
    probe: Probe, container: Mapping[str, Any], pod_ip: str, order: Order
) -> ProbeResult:
    """One look at the container that ``order`` started."""
    action = probe.action
    try:
        async with asyncio.timeout(probe.timeout_seconds):
            if action.get("httpGet"):
                return await _http(action["httpGet"], container, pod_ip)
            if action.get("tcpSocket"):
                return await _tcp(action["tcpSocket"], container, pod_ip)
            if action.get("exec"):
                return await _exec(action["exec"], order)
    except TimeoutError:
        return ProbeResult(False, f"no answer within {probe.timeout_seconds:g} s")
    except (OSError, aiohttp.ClientError, ValueError) as exc:
        return ProbeResult(False, str(exc))
    return ProbeResult(True)


def _port(port: int | str, container: Mapping[str, Any]) -> int:
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for entry in container.get("ports") or ():
        if entry.get("name") == port:
            return int(entry["containerPort"])
    raise ValueError(f"container has no port named {port}")


async def _http(
    action: Mapping[str, Any], container: Mapping[str, Any], pod_ip: str
) -> ProbeResult:
    scheme = str(action.get("scheme") or "HTTP").lower()
    host = action.get("host") or pod_ip
    path = str(action.get("path") or "/").lstrip("/")
    url = f"{scheme}://{host}:{_port(action['port'], container)}/{path}"
    headers = {h["name"]: h.get("value", "") for h in action.get("httpHeaders") or ()}
    # A kubelet does not verify certificates of what it probes either.
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url, headers=headers, allow_redirects=False) as answer,
    ):
        passed = 200 <= answer.status < 400
        message = "" if passed else f"HTTP probe failed with statuscode: {answer.status}"
        return ProbeResult(passed, message)


async def _tcp(action: Mapping[str, Any], container: Mapping[str, Any], pod_ip: str) -> ProbeResult:
    host = action.get("host") or pod_ip
    _, writer = await asyncio.open_connection(host, _port(action["port"], container))
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ProbeResult(True)


async def _exec(action: Mapping[str, Any], order: Order) -> ProbeResult:
    command = Rewriter(order.mounts).all(action.get("command") or ())
    process = await ContainerProcess.start(
        msgspec.structs.replace(
            order,
            argv=tuple(command),
            log=order.log.with_name("probe.log"),
            log_max_bytes=min(order.log_max_bytes, 65536),
        )
    )
    try:
        ended = await process.wait()
    finally:
        if process.is_running:
            process.kill()
            await process.wait()  # soon: the shim kills at once
    message = ended.message or f"command exited with {ended.code}"
    return ProbeResult(ended.code == 0, "" if ended.code == 0 else message)
