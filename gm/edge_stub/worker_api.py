"""The HTTP API that workers on the node report to, with the Go LC's answers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from gm.edge_stub.store import StoreError
from gm.errors import ConfigError

__all__ = ["WorkerInfo", "WorkerReport", "report_content", "serving_workers"]

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 1024 * 1024


class WorkerReport(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a post; Go's JSON takes null for anything, so do we."""

    name: str | None = None
    namespace: str | None = None
    owner_name: str | None = None
    owner_kind: str | None = None
    owner_info: dict[str, Any] | None = None
    kind: str | None = None
    status: str | None = None
    results: list[dict[str, Any] | None] | None = None


class WorkerInfo(msgspec.Struct, frozen=True):
    """A report that is to go up: whose it is as far as the worker knows, and what it says."""

    worker: str
    namespace: str
    owner_name: str
    owner_kind: str
    content: bytes


class _Output(msgspec.Struct, rename="camel"):
    models: list[dict[str, Any] | None] | None
    owner_info: dict[str, Any] | None


class _Up(msgspec.Struct):
    phase: str
    status: str
    output: _Output


_decode = msgspec.json.Decoder(WorkerReport).decode
# Maps sorted by key, fields as declared: byte for byte what the Go LC sends.
_encode = msgspec.json.Encoder(order="deterministic").encode


def report_content(report: WorkerReport) -> bytes:
    """What goes up to GM for ``report``."""
    output = _Output(report.results or None, report.owner_info)
    return _encode(_Up(report.kind or "", report.status or "", output))


Take = Callable[[WorkerInfo], Awaitable[None]]
"""Keeps a report; raises StoreError when it can not."""


@contextlib.asynccontextmanager
async def serving_workers(host: str, port: int, take: Take) -> AsyncIterator[int]:
    """Serve the worker API as long as the body runs; gives the port.

    Raises: ConfigError when the address can not be used.
    """
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app[_TAKE] = take
    app.router.add_post("/sedna/workers/{name}/info", _info)
    app.router.add_get("/healthz", _healthz)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as exc:
            raise ConfigError(_why_not(host, port, exc)) from None
        bound: int = runner.addresses[0][1]
        logger.info("worker api listens", extra={"address": f"{host}:{bound}"})
        yield bound
    finally:
        await runner.cleanup()


_TAKE: web.AppKey[Take] = web.AppKey("take")


def _why_not(host: str, port: int, exc: OSError) -> str:
    if exc.errno == errno.EADDRINUSE:
        return (
            f"--listen {host}:{port}: in use; stop the other local controller "
            "or give this one another address or port"
        )
    return f"--listen {host}:{port}: {exc.strerror or exc}"


async def _info(request: web.Request) -> web.Response:
    named = request.match_info["name"]
    try:
        report = _decode(await request.read())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        report = WorkerReport()  # the Go LC goes on with nothing, and finds that names differ
    except web.HTTPRequestEntityTooLarge:
        return _answer(413, f"the report is larger than {MAX_BODY_BYTES} bytes")
    if report.name != named:
        return _answer(
            400,
            f"worker name(name={named}) in the api is different from "
            f"that(name={report.name or ''}) in the message body",
        )
    info = WorkerInfo(
        worker=named,
        namespace=report.namespace or "",
        owner_name=report.owner_name or "",
        owner_kind=(report.owner_kind or "").lower(),
        content=report_content(report),
    )
    try:
        await request.app[_TAKE](info)
    except ValueError as exc:
        return _answer(400, str(exc))
    except StoreError as exc:
        logger.error("a worker's report can not be kept", extra={"cause": str(exc)})
        return _answer(500, str(exc))
    return _answer(200, "OK")


async def _healthz(request: web.Request) -> web.Response:
    # Alive means alive here: a GM that can not be reached is no reason to restart the LC.
    await asyncio.sleep(0)
    return web.Response(text="ok\n")


def _answer(status: int, message: str) -> web.Response:
    body = msgspec.json.format(
        msgspec.json.encode({"Status": status, "Message": message}), indent=1
    )
    return web.Response(status=status, body=body, content_type="application/json")
