"""Startup, readiness and liveness probes: httpGet, tcpSocket and exec.

A gRPC probe is not supported and counts as passed, as it would be wrong to restart for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from gm import __version__
from gm.edge_stub.runner.container import ContainerProcess, Order
from gm.edge_stub.runner.log_file import last_lines
from gm.edge_stub.runner.rewrite import Rewriter

__all__ = ["Probe", "ProbeResult", "check", "run_probe"]

_USER_AGENT = f"kube-probe/gm-{__version__}"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 10
_BODY_BYTES = _OUTPUT_BYTES = 10 * 1024


class ProbeResult(msgspec.Struct, frozen=True):
    """One look: whether it passed, and what was seen; also a pass may deserve a warning."""

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
    probe: Probe, look: Callable[[], Awaitable[bool]], tell: Callable[[bool], None]
) -> None:
    """Look again and again, until cancelled; ``tell`` hears each verdict that a threshold gives.

    A failed look that does not reach the threshold yet is no verdict.
    """
    await asyncio.sleep(probe.initial_delay_seconds)
    successes = failures = 0
    while True:
        passed = await look()
        if passed:
            successes, failures = successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        if successes >= probe.success_threshold or failures >= probe.failure_threshold:
            tell(passed)
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
        return ProbeResult(False, _too_slow(probe))
    except (OSError, aiohttp.ClientError, ValueError) as exc:
        return ProbeResult(False, str(exc))
    return ProbeResult(True)


def _too_slow(probe: Probe) -> str:
    command = (probe.action.get("exec") or {}).get("command")
    if not command:
        return f"no answer within {probe.timeout_seconds:g} s"
    return f'command timed out: "{" ".join(command)}" timed out after {probe.timeout_seconds:g}s'


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
    headers = {
        "User-Agent": _USER_AGENT,
        "Accept": "*/*",
        "Connection": "close",
        **{h["name"]: h.get("value", "") for h in action.get("httpHeaders") or ()},
    }
    # A kubelet does not verify certificates of what it probes either.
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(
        connector=connector, skip_auto_headers=("Accept-Encoding",)
    ) as session:
        return await _ask(session, URL(url, encoded=True), headers)


async def _ask(session: aiohttp.ClientSession, url: URL, headers: Mapping[str, str]) -> ProbeResult:
    """Ask ``url``; redirects are followed within its host, others count as passed."""
    host = url.host
    for _ in range(_MAX_REDIRECTS):
        async with session.get(url, headers=headers, allow_redirects=False) as answer:
            if not 200 <= answer.status < 400:
                message = f"HTTP probe failed with statuscode: {answer.status}"
                return ProbeResult(False, message)
            if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                return ProbeResult(True)
            url = url.join(URL(answer.headers["Location"]))
            if url.host != host:
                body = (await answer.content.read(_BODY_BYTES)).decode(errors="replace")
                return ProbeResult(True, f"Probe terminated redirects, Response body: {body}")
    return ProbeResult(False, f"stopped after {_MAX_REDIRECTS} redirects")


async def _tcp(action: Mapping[str, Any], container: Mapping[str, Any], pod_ip: str) -> ProbeResult:
    host = action.get("host") or pod_ip
    port = _port(action["port"], container)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return ProbeResult(False, f"dial tcp {host}:{port}: connect: connection refused")
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ProbeResult(True)


async def _exec(action: Mapping[str, Any], order: Order) -> ProbeResult:
    command = Rewriter(order.mounts).all(action.get("command") or ())
    with tempfile.TemporaryDirectory(dir=order.log.parent) as directory:
        return await _execute(
            msgspec.structs.replace(
                order,
                argv=tuple(command),
                log=Path(directory, "probe.log"),
                log_max_bytes=_OUTPUT_BYTES,
            )
        )


async def _execute(order: Order) -> ProbeResult:
    process = await ContainerProcess.start(order)
    try:
        ended = await process.wait()
    finally:
        if process.is_running:
            await process.kill_and_wait()
    if ended.code == 0:
        return ProbeResult(True)
    output = last_lines(order.log, lines=_OUTPUT_BYTES, max_bytes=_OUTPUT_BYTES)
    return ProbeResult(False, ended.message or output)
