"""The transport: credentials, TLS names and proxies on real sockets."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from gm.errors import ApiUnreachable, Unauthorized
from gm.kube.credentials import Access, Credentials, Token
from gm.kube.transport import Response, Transport, status_error
from tests.fakes.kube_api import FakeKubeApi, Request, fake_kube_api, status
from tests.kube.certificates import self_signed


async def _next_token() -> Token:
    return Token("Bearer second")


def access(api: FakeKubeApi, *, server: str = "", proxy: str | None = None) -> Access:
    """Access to ``api`` with a token that can be renewed."""
    credentials = Credentials(Token("Bearer first"), _next_token, renew_seconds=0)
    return Access(server or api.url, "default", credentials, proxy=proxy)


async def test_a_refused_token_is_renewed_and_the_request_sent_again() -> None:
    """The caller notices nothing; the body is sent again as well."""

    def answer(request: Request) -> object:
        if request.headers["Authorization"] == "Bearer first":
            return 401, status(401, "Unauthorized")
        return {}

    async with fake_kube_api() as api:
        api.handler = answer  # type: ignore[assignment]
        transport = Transport(access(api), user_agent="gm/1")
        response = await transport.request("POST", "/x", "create x", body=b"{}")
        await transport.close()
    assert response.status == 200
    assert [request.body for request in api.requests] == [b"{}", b"{}"]
    assert api.requests[0].headers["User-Agent"] == "gm/1"


async def test_a_token_that_is_refused_twice_is_an_error() -> None:
    """No third attempt."""
    async with fake_kube_api() as api:
        api.handler = lambda request: (401, status(401, "Unauthorized"))
        transport = Transport(access(api), user_agent="gm")
        with pytest.raises(Unauthorized):
            async for _ in transport.lines("/x", "watch x", read_deadline_seconds=5):
                pass
        await transport.close()
    assert len(api.requests) == 2


async def test_an_observer_is_told_of_every_answer() -> None:
    """Refusals and streams too: what counts is what the server was asked."""
    seen: list[tuple[str, str, int]] = []

    def answer(request: Request) -> object:
        if request.headers["Authorization"] == "Bearer first":
            return 401, status(401, "Unauthorized")
        return {}

    async with fake_kube_api() as api:
        api.handler = answer  # type: ignore[assignment]
        transport = Transport(access(api), user_agent="gm", observe=lambda *told: seen.append(told))
        await transport.request("POST", "/x?dryRun=All", "create x", body=b"{}")
        async for _ in transport.lines("/x?watch=true", "watch x", read_deadline_seconds=5):
            pass
        await transport.close()
    assert seen == [
        ("POST", "/x?dryRun=All", 401),
        ("POST", "/x?dryRun=All", 200),
        ("GET", "/x?watch=true", 200),
    ]


async def test_requests_go_through_a_proxy() -> None:
    """The proxy sees the whole URL."""
    async with fake_kube_api() as proxy:
        proxy.handler = lambda request: {"via": "proxy"}
        behind = access(proxy, server="http://kubernetes.invalid", proxy=proxy.url)
        transport = Transport(behind, user_agent="gm")
        response = await transport.request("GET", "/version", "get version")
        await transport.close()
    assert response.body == b'{"via": "proxy"}'


async def test_a_certificate_is_checked_for_the_name_that_is_configured(tmp_path: Path) -> None:
    """tls-server-name replaces the host of the URL; without it the address must match."""
    certificate = self_signed("kube.test", names=["kube.test"])
    pem = tmp_path / "both.pem"
    pem.write_bytes(certificate.pem + certificate.key_pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pem)

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text="hello")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving)
    await site.start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    trusting = ssl.create_default_context(cadata=certificate.pem.decode())
    credentials = Credentials(Token(None))
    try:
        named = Access(url, "default", credentials, trusting, tls_server_name="kube.test")
        transport = Transport(named, user_agent="gm")
        assert (await transport.request("GET", "/", "get /")).body == b"hello"
        await transport.close()
        transport = Transport(Access(url, "default", credentials, trusting), user_agent="gm")
        with pytest.raises(ApiUnreachable, match=r"get / failed: no answer from .*certificate"):
            await transport.request("GET", "/", "get /")
        await transport.close()
    finally:
        await runner.cleanup()


async def test_a_watch_can_be_cancelled_at_any_time() -> None:
    """Cancellation is not turned into an error of the server."""
    async with fake_kube_api() as api:
        api.answers = [None]
        transport = Transport(access(api), user_agent="gm")

        async def read() -> None:
            async for _ in transport.lines("/x", "watch x", read_deadline_seconds=60):
                pass

        async with asyncio.TaskGroup() as group:
            task = group.create_task(read())
            stream = await api.next_watch()
            task.cancel()
        assert task.cancelled()
        stream.end()
        await transport.close()


def test_an_error_takes_reason_and_message_from_the_status() -> None:
    """The code is HTTP's."""
    error = status_error("get x", Response(500, {}, b'{"code":404,"reason":"NotFound"}'))
    assert (error.code, error.reason) == (500, "NotFound")
