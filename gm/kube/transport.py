"""HTTP to one API server: connections, credentials, and errors in one vocabulary."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from gm.errors import ApiError, ApiUnreachable, api_error
from gm.kube.credentials import Access
from gm.kube.server_warnings import read_warnings

__all__ = ["JSON", "Observer", "Response", "Transport", "status_error"]

JSON = "application/json"

Observer = Callable[[str, str, int], None]
"""Told of each answer as it begins: HTTP method, path with query, status."""

_CONNECT_SECONDS = 10
_READ_SECONDS = 30  # silence while an answer is due; long lists keep sending, so no total limit
_MESSAGE_CHARACTERS = 500
_LARGE_BYTES = 512 * 1024


def _sendable(body: bytes | None) -> bytes | io.BytesIO | None:
    """``body`` as aiohttp wants it: large ones as a file, sent in chunks."""
    return io.BytesIO(body) if body is not None and len(body) > _LARGE_BYTES else body


class Response(msgspec.Struct, frozen=True):
    """An answer, whatever its status; header names are compared case-insensitively.

    ``warnings`` are the texts of its ``Warning`` headers.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()


class _Details(msgspec.Struct, rename="camel", frozen=True):
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True):
    """The ``Status`` object with which the API server says no."""

    code: int = 0
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(Status).decode


def status_error(request: str, response: Response) -> ApiError:
    """The error that fits a failure ``response`` to ``request`` ("VERB resource object")."""
    try:
        status = _decode_status(response.body)
    except msgspec.MsgspecError:  # a proxy, or the server's plain-text answers
        text = response.body[:_MESSAGE_CHARACTERS].decode(errors="replace")
        status = Status(message=" ".join(text.split()))
    return error_of(
        request,
        status,
        code=response.status,
        retry_after_seconds=_retry_after(response.headers.get("Retry-After")),
    )


def error_of(
    request: str, status: Status, *, code: int = 0, retry_after_seconds: float | None = None
) -> ApiError:
    """The error that fits a ``Status``; ``code`` is what HTTP said, if it said anything."""
    if retry_after_seconds is None and status.details is not None:
        retry_after_seconds = status.details.retry_after_seconds
    return api_error(
        request,
        code=code or status.code or 500,
        reason=status.reason or "Unknown",
        message=status.message or "",
        retry_after_seconds=retry_after_seconds,
    )


def _retry_after(header: str | None) -> float | None:
    """Seconds in a Retry-After header, which holds seconds or a date (RFC 9110)."""
    if not header:
        return None
    with contextlib.suppress(ValueError):
        return max(float(header), 0)
    with contextlib.suppress(ValueError):
        when = parsedate_to_datetime(header)
        return max((when - datetime.now(UTC)).total_seconds(), 0)
    return None


class Transport:
    """One aiohttp session to one API server. ``observe`` is for counting what is asked of it."""

    def __init__(self, access: Access, *, user_agent: str, observe: Observer | None = None) -> None:
        self.server = access.server
        self._access = access
        self._observe = observe
        self._base = access.server.rstrip("/")
        self._headers = {
            "User-Agent": user_agent,
            # compression costs both ends more than it saves beside a data centre's network
            "Accept-Encoding": "identity",
        }
        self._extra: dict[str, Any] = {}
        if access.tls_server_name:
            self._extra["server_hostname"] = access.tls_server_name
        if access.proxy:
            self._extra["proxy"] = access.proxy
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                ssl=access.ssl_context if access.ssl_context is not None else True,
                socket_factory=_keepalive_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=2**20,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def request(
        self,
        method: str,
        target: str,
        request: str,
        *,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Response:
        """Send one request and read the whole answer, whatever its status.

        ``target`` is path and encoded query; ``request`` names it in errors. Raises:
        ApiUnreachable.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        with self._translated(request):
            async with self._open(method, target, headers, body, self._timeout) as response:
                answered = response.headers
                warnings = read_warnings(answered.getall("Warning", ()))
                return Response(response.status, answered, await response.read(), warnings)

    async def lines(
        self,
        target: str,
        request: str,
        *,
        read_deadline_seconds: float,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed answer, of any length, until the server ends it.

        Raises: ApiError for an answer other than 200; ApiUnreachable when the stream breaks, or
        when nothing comes for ``read_deadline_seconds``.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=read_deadline_seconds
        )
        opened = self._open("GET", target, {"Accept": JSON}, None, timeout)
        with self._translated(request):
            async with opened as response:
                if response.status != 200:
                    body = await response.read()
                    raise status_error(request, Response(response.status, response.headers, body))
                if on_open is not None:
                    on_open()
                async for line in _split(response.content):
                    yield line

    @contextlib.asynccontextmanager
    async def _open(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = URL(self._base + target, encoded=True)
        renewed = False
        while True:
            authorization = await self._access.credentials.header()
            sent = self._headers | headers
            if authorization is not None:
                sent["Authorization"] = authorization
            async with self._session.request(
                method, url, headers=sent, data=_sendable(body), timeout=timeout, **self._extra
            ) as response:
                if self._observe is not None:
                    self._observe(method, target, response.status)
                # a token can be revoked before its time: fetch a new one, once
                if response.status == 401 and not renewed:
                    renewed = await self._access.credentials.renew(rejected=authorization)
                    if renewed:
                        continue
                yield response
                return

    @contextlib.contextmanager
    def _translated(self, request: str) -> Iterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            raise
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            reason = " ".join(str(exc).split()) or type(exc).__name__
            raise ApiUnreachable(
                f"{request} failed: no answer from {self.server}: {reason}"
            ) from exc


async def _split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a stream, without StreamReader's limit on their length.

    Chunks of an unfinished line are joined once, at its end: a line of many MiB costs linear time.
    """
    unfinished: list[bytes] = []
    async for chunk in content.iter_any():
        first, *rest = chunk.split(b"\n")
        unfinished.append(first)
        for piece in rest:
            line = b"".join(unfinished)
            unfinished = [piece]
            if line.strip():
                yield line
    line = b"".join(unfinished)
    if line.strip():
        yield line


def _keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket whose kernel notices within half a minute that the other machine is gone.

    A watch may be silent for minutes by right, so only the kernel can tell.
    """
    family, kind, protocol, _, _ = address
    sock = socket.socket(family=family, type=kind, proto=protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return sock
