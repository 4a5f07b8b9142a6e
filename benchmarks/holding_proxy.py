"""An HTTP proxy between GM and the API server that can hold a write of GM on its way."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import enum
import ssl
import time
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web
from measured_gm import request_name

__all__ = ["Exchange", "Fate", "HoldingProxy"]

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOP = frozenset(
    {"host", "connection", "transfer-encoding", "content-length", "keep-alive", "server", "date"}
)


class Fate(enum.Enum):
    """What becomes of a held write once GM is dead."""

    LOST = "it never reached the API server"
    LATE = "it reached the API server when GM was dead"
    UNHEARD = "it was carried out, and GM did not hear of it"


class Exchange:
    """A write of GM on its way, in words, and how long ago it began."""

    def __init__(self, words: str) -> None:
        self.words = words
        self.began = time.monotonic()
        self.status: int | None = None
        self.is_lost = False

    def __str__(self) -> str:
        seconds = time.monotonic() - self.began
        answer = "no answer yet" if self.status is None else f"answered {self.status}"
        if self.is_lost:
            answer = "lost"
        return f"{self.words} ({seconds * 1000:.0f} ms ago, {answer})"


class _Meta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Hold:
    def __init__(self, wanted: Callable[[str], bool], fate: Fate) -> None:
        self.wanted, self.fate = wanted, fate
        self.is_taken = False
        self.caught: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        self.released = asyncio.Event()


class HoldingProxy:
    """Passes requests on; :meth:`hold` stops the next write that fits.

    Watches are passed on chunk by chunk. A write that has begun goes on when its sender dies, as
    it would on its way through a network.
    """

    def __init__(self, upstream: str, ca_path: str) -> None:
        self._upstream = upstream.rstrip("/")
        self._ca_path = ca_path
        self.url = ""
        self.in_flight: list[Exchange] = []
        self.recent: collections.deque[Exchange] = collections.deque(maxlen=3)
        self.writes = 0
        self._hold: _Hold | None = None
        self._group: asyncio.TaskGroup | None = None
        self._session: aiohttp.ClientSession | None = None

    @contextlib.asynccontextmanager
    async def running(self, address: str) -> AsyncIterator[HoldingProxy]:
        """Serve on a free port of ``address`` as long as the body runs."""
        trust = ssl.create_default_context(cafile=self._ca_path)
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        # the watches of a GM that is dead end at once; writes are shielded below
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        connector = aiohttp.TCPConnector(limit=0, ssl=trust)
        async with (
            aiohttp.ClientSession(
                connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(None)
            ) as self._session,
            asyncio.TaskGroup() as self._group,
        ):
            await runner.setup()
            site = web.TCPSite(runner, address, 0)
            await site.start()
            self.url = f"http://{address}:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                await runner.cleanup()

    @contextlib.asynccontextmanager
    async def hold(self, wanted: Callable[[str], bool], fate: Fate) -> AsyncIterator[_Hold]:
        """Hold the next write whose words are ``wanted``; with the body's end it meets ``fate``."""
        hold = self._hold = _Hold(wanted, fate)
        try:
            yield hold
        finally:
            self._hold = None
            hold.released.set()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        if request.method not in _WRITES:
            return await self._stream(request)
        assert self._group is not None
        body = await request.read()
        task = self._group.create_task(self._write(request, body))
        return await asyncio.shield(task)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        async with self._ask(request, None) as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers(answer.headers))
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):  # GM was killed
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            return response

    async def _write(self, request: web.Request, body: bytes) -> web.StreamResponse:
        exchange = Exchange(_words(request, body))
        self.writes += 1
        self.in_flight.append(exchange)
        hold = self._hold
        if hold is not None and (hold.is_taken or not hold.wanted(exchange.words)):
            hold = None
        if hold is not None:
            hold.is_taken = True
        try:
            if hold is not None and hold.fate is not Fate.UNHEARD:
                hold.caught.set_result(exchange)
                await hold.released.wait()
                if hold.fate is Fate.LOST:
                    exchange.is_lost = True
                    return web.Response(status=502)
            async with self._ask(request, body) as answer:
                content = await answer.read()
                exchange.status = answer.status
            if hold is not None and hold.fate is Fate.UNHEARD:
                hold.caught.set_result(exchange)
                await hold.released.wait()
            return web.Response(
                status=answer.status, headers=_headers(answer.headers), body=content
            )
        except aiohttp.ClientError as exc:
            return web.Response(status=502, text=str(exc))
        finally:
            self.in_flight.remove(exchange)
            self.recent.append(exchange)

    @contextlib.asynccontextmanager
    async def _ask(
        self, request: web.Request, body: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        async with self._session.request(
            request.method,
            self._upstream + request.raw_path,
            headers=_headers(request.headers),
            data=body,
        ) as answer:
            yield answer


def _headers(headers: object) -> dict[str, str]:
    items = headers.items()  # type: ignore[attr-defined]  # both sides' multidicts
    return {name: value for name, value in items if name.lower() not in _HOP}


def _words(request: web.Request, body: bytes) -> str:
    """``create pods job-3-train-0``."""
    path = urlsplit(request.raw_path).path.split("/")
    name = request_name(request.method, request.raw_path)
    if request.method == "POST":
        with contextlib.suppress(msgspec.MsgspecError):
            return f"{name} {msgspec.json.decode(body, type=_Named).metadata.name}"
    place = -2 if path[-1] in ("status", "binding") else -1
    return f"{name} {path[place]}"
