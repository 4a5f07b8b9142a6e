"""Servers to download from: one that goes wrong as told, and a real S3-compatible one behind it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yarl
from aiohttp import web
from moto.server import ThreadedMotoServer

from gm.storage_init import Settings, Summary, initialize, parse_pairs
from gm.storage_init.paths import WORK_DIRECTORY

LAST_MODIFIED = "Mon, 30 Nov 2026 04:18:13 GMT"
MODIFIED_SECONDS = 1796012293
MIB = 1 << 20
BIG = bytes(range(256)) * (3 * MIB // 256) + b"end"
ACCESS, SECRET = "AKTESTACCESSKEY", "top/secret+key"  # the store takes any


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one request instead of a good answer."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    cut_after: int | None = None  # bytes of the good answer's body, once they are on disk
    stall_after: int | None = None  # bytes; then nothing more comes


class Request(msgspec.Struct, frozen=True):
    """A request as it came."""

    method: str
    path: str  # with the query
    headers: dict[str, str]

    @property
    def range(self) -> str:
        """Its Range header."""
        return self.headers.get("Range", "")


class Resource(msgspec.Struct, kw_only=True):
    """What lies at a path, and how well the server serves it."""

    body: bytes = b""
    etag: str = '"v1"'
    last_modified: str = LAST_MODIFIED
    knows_range: bool = True
    knows_if_range: bool = True
    most_bytes: int = 1 << 40  # of one range
    is_chunked: bool = False
    content_length: int | None = None  # a lie
    headers: dict[str, str] = {}


class Reply(msgspec.Struct):
    """A good answer, before any fault."""

    status: int
    headers: dict[str, str]
    body: bytes


class FileServer:
    """Serves `resources` on loopback, or what ``upstream`` answers; faults come first."""

    def __init__(self, upstream: str = "") -> None:
        self.resources: dict[str, Resource] = {}
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.hold = 0  # answer nothing before so many requests wait
        self.port = 0
        self.directory = Path("/nonexistent")  # where the client writes
        self._scheme = "http"
        self._at_once = 0
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None
        self._released = asyncio.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def put(self, path: str, body: bytes, **how: Any) -> Resource:
        """Serve ``body`` at ``path``."""
        self.resources[path] = Resource(body=body, **how)
        return self.resources[path]

    def fail(self, path: str, *faults: Fault) -> None:
        """Let the next GETs of ``path`` go wrong, in this order (``HEAD /x``: the next HEADs)."""
        self.faults[path].extend(faults)

    def of(self, path: str) -> list[Request]:
        """The GETs of ``path`` so far."""
        return [
            request
            for request in self.requests
            if request.method == "GET" and request.path.partition("?")[0] == path
        ]

    @contextlib.asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[FileServer]:
        """Serve as long as the body runs."""
        self._scheme = "https" if tls else "http"
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls)
            await site.start()
            self.port = runner.addresses[0][1]
            try:
                yield self
            finally:
                self._released.set()
                await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(Request(request.method, request.raw_path, dict(request.headers)))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            while self.most_at_once < self.hold:
                await asyncio.sleep(0.005)
            return await self._answer(request)
        finally:
            self._at_once -= 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        queue = self.faults["HEAD " * (request.method == "HEAD") + request.path]
        fault = queue.popleft() if queue else Fault()
        before = self._parts()
        if fault.status:
            return web.Response(status=fault.status, headers=fault.headers, body=fault.body)
        reply = await (self._relayed(request) if self._upstream else self._own(request))
        resource = self.resources.get(request.path, Resource())
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        if resource.is_chunked:
            response.enable_chunked_encoding()
        elif request.method != "HEAD":
            length = len(reply.body) if resource.content_length is None else resource.content_length
            response.content_length = length
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        end = fault.cut_after if fault.stall_after is None else fault.stall_after
        await response.write(reply.body[:end])
        if fault.stall_after is not None:
            await self._released.wait()
        if fault.cut_after is not None:
            await self._written(reply, fault.cut_after, before)
        is_short = resource.content_length is not None and resource.content_length > len(reply.body)
        if end is not None or is_short:
            if request.transport is not None:  # None: the client has left already
                request.transport.close()  # what is written still goes out
        else:
            await response.write_eof()
        return response

    async def _written(self, reply: Reply, count: int, before: dict[Path, os.stat_result]) -> None:
        """Wait for the client to have ``count`` more bytes: a cut loses what is on the way.

        A part that had that size ``before`` may be an old one, or have been written anew within a
        tick of the file system's clock: after a while it is taken for the latter.
        """
        start = reply.headers.get("Content-Range", "bytes 0-").removeprefix("bytes ")
        size = int(start.partition("-")[0]) + count
        clock = asyncio.get_running_loop().time
        deadline = clock() + 0.3
        while not self._released.is_set():
            for path, now in self._parts().items():
                is_new = path not in before or before[path].st_mtime_ns != now.st_mtime_ns
                if now.st_size == size and (is_new or clock() > deadline):
                    return
            await asyncio.sleep(0.005)

    def _parts(self) -> dict[Path, os.stat_result]:
        found = {}
        for path in self.directory.glob(f"{WORK_DIRECTORY}/*.part"):
            with contextlib.suppress(FileNotFoundError):
                found[path] = path.stat()
        return found

    async def _own(self, request: web.Request) -> Reply:
        resource = self.resources.get(request.path)
        if resource is None:
            return Reply(404, {}, b"no such file")
        headers = {"ETag": resource.etag, "Last-Modified": resource.last_modified}
        headers = {k: v for k, v in headers.items() if v} | resource.headers
        wanted = request.headers.get("Range", "")
        condition = request.headers.get("If-Range", "")
        current = condition in {resource.etag, resource.last_modified}
        if not wanted or not resource.knows_range or (resource.knows_if_range and not current):
            return Reply(200, headers, resource.body)
        start, size = int(wanted.removeprefix("bytes=").rstrip("-")), len(resource.body)
        if start >= size:
            return Reply(416, {"Content-Range": f"bytes */{size}"}, b"")
        body = resource.body[start : start + resource.most_bytes]
        headers["Content-Range"] = f"bytes {start}-{start + len(body) - 1}/{size}"
        return Reply(206, headers, body)

    async def _relayed(self, request: web.Request) -> Reply:
        assert self._session is not None
        skipped = {"host", "connection", "content-length", "transfer-encoding"}
        headers = {k: v for k, v in request.headers.items() if k.lower() not in skipped}
        url = yarl.URL(self._upstream + request.raw_path, encoded=True)
        async with self._session.request(request.method, url, headers=headers) as response:
            kept = {k: v for k, v in response.headers.items() if k.lower() not in skipped}
            return Reply(response.status, kept, await response.read())


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """A real S3-compatible server on a free loopback port; its URL."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


class Lines:
    """What a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines)


def quick(**changes: Any) -> Settings:
    """Settings whose waits are short."""
    defaults: dict[str, Any] = {"first_delay_seconds": 0.001, "read_timeout_seconds": 20}
    return Settings(**{**defaults, **changes})


async def bring(*arguments: object, settings: Settings | None = None, say: Any = None) -> Summary:
    """Run the initializer on ``arguments``."""
    texts = [str(argument) for argument in arguments]
    return await initialize(parse_pairs(texts), settings or quick(), say or Lines())


def md5(body: bytes) -> str:
    """The checksum of ``body`` as an ETag."""
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def tree(directory: Path) -> dict[str, bytes]:
    """All files below ``directory``."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
