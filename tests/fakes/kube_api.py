"""An API server that answers as its script says: for the faults that real ones show rarely."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

__all__ = ["RESET", "FakeKubeApi", "Request", "Stream", "fake_kube_api", "status"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        """Whether it opens a watch."""
        return self.query.get("watch") == "true"

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Stream:
    """One open watch: the test sends events and ends it as it likes."""

    def __init__(self, request: Request, response: web.StreamResponse) -> None:
        self.request = request
        self._response = response
        self._ended = asyncio.Event()

    async def send(self, kind: str, obj: Json) -> None:
        """Send one event."""
        await self.send_bytes(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    async def send_bytes(self, data: bytes) -> None:
        """Send any bytes, also half a line."""
        await self._response.write(data)

    def end(self) -> None:
        """End it in the regular way."""
        self._ended.set()

    def reset(self) -> None:
        """Cut the connection in the middle of the answer."""
        transport = self._response._req.transport  # type: ignore[union-attr]
        assert transport is not None
        transport.abort()
        self._ended.set()

    async def wait_ended(self) -> None:
        """Wait until the test ends it; used by the server."""
        await self._ended.wait()


RESET = "reset"
"""An answer: the connection is broken without a word."""

Answer = web.StreamResponse | str | Json | tuple[int, Json] | None
Handler = Callable[[Request], Awaitable[Answer] | Answer]


def status(code: int, reason: str, message: str = "", **details: Any) -> Json:
    """A failure ``Status``."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


@dataclass
class FakeKubeApi:
    """Records requests, answers from ``answers`` first (one each, in order), then ``handler``.

    An answer is a JSON object (200), a pair (code, object), a web.Response, or None: accept the
    watch and hand it to the test by ``next_watch``; or RESET.
    """

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    answers: list[Answer | Handler] = field(default_factory=list)
    handler: Handler = lambda request: (404, status(404, "NotFound", "nothing here"))
    _watches: asyncio.Queue[Stream] = field(default_factory=asyncio.Queue)

    async def next_watch(self) -> Stream:
        """The next watch that was opened."""
        return await self._watches.get()

    def lists(self) -> list[Request]:
        """List requests so far."""
        return [r for r in self.requests if r.method == "GET" and not r.is_watch]

    def watches(self) -> list[Request]:
        """Watch requests so far."""
        return [r for r in self.requests if r.is_watch]

    async def serve(self, incoming: web.Request) -> web.StreamResponse:
        """Answer one request."""
        request = Request(
            incoming.method,
            incoming.path,
            dict(incoming.query),
            dict(incoming.headers),
            await incoming.read(),
        )
        self.requests.append(request)
        answer: Any = self.answers.pop(0) if self.answers else self.handler
        if callable(answer):
            answer = answer(request)
            if asyncio.iscoroutine(answer):
                answer = await answer
        if answer == RESET:
            assert incoming.transport is not None
            incoming.transport.abort()
            return web.Response()
        if answer is None:
            return await self._stream(request, incoming)
        if isinstance(answer, web.StreamResponse):
            return answer
        code, body = answer if isinstance(answer, tuple) else (200, answer)
        return web.json_response(body, status=code)

    async def _stream(self, request: Request, incoming: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(incoming)
        stream = Stream(request, response)
        self._watches.put_nowait(stream)
        await stream.wait_ended()
        return response


@contextlib.asynccontextmanager
async def fake_kube_api(port: int = 0) -> AsyncIterator[FakeKubeApi]:
    """A scripted API server on loopback as long as the body."""
    fake = FakeKubeApi()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", fake.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield fake
    finally:
        await runner.cleanup()
