"""Who may ask, and how errors are answered."""

from __future__ import annotations

import asyncio
import logging
import ssl

import aiohttp
import pytest
import yarl

from gm.devcluster.registry import Registry
from gm.devcluster.server import Server
from tests.devcluster.core import Http, widget

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic Zm9v", "bearer"])
async def test_without_the_token_there_is_no_answer(http: Http, authorization: str) -> None:
    """401 as a Status, so that clients say what is wrong."""
    answer = await http("GET", "/api/v1/pods", headers={"Authorization": authorization})
    assert answer.status == 401
    assert answer.json["reason"] == "Unauthorized"


@pytest.mark.parametrize("header", [b"Authorization: Bearer \xff", b"Host: \xff"])
async def test_headers_of_any_bytes_are_refused_and_no_failure(http: Http, header: bytes) -> None:
    """They are compared as bytes, and shown as far as they are text."""
    url = yarl.URL(http.server.url)
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(url.host, url.port, ssl=tls)
    host = b"" if header.startswith(b"Host") else b"Host: localhost\r\n"
    writer.write(b"GET /api/v1/pods HTTP/1.1\r\n%bConnection: close\r\n%b\r\n\r\n" % (host, header))
    status = (await reader.read()).split(b" ", 2)[1]
    writer.close()
    await writer.wait_closed()
    assert status == (b"403" if header.startswith(b"Host") else b"401")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/etcd"])
async def test_probes_need_no_token(http: Http, path: str) -> None:
    """As upstream."""
    answer = await http("GET", path, headers={"Authorization": ""})
    assert (answer.status, answer.body) == (200, b"ok")


async def test_the_version_is_semver(http: Http) -> None:
    """Otherwise kubectl version fails; it says that it is no plain Kubernetes."""
    answer = await http("GET", "/version?timeout=32s", headers={"Authorization": ""})
    assert answer.json["gitVersion"].startswith("v1.34.")
    assert answer.json["gitVersion"].endswith("+gm")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:443", "10.0.0.1", ""])
async def test_a_page_that_rebinds_its_name_gets_nothing(http: Http, host: str) -> None:
    """The Host header must be an address of ours, even with the right token."""
    answer = await http("GET", "/api/v1/pods", headers={"Host": host})
    assert answer.status == 403
    assert "kubeconfig" in answer.json["message"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:99"])
async def test_names_of_this_machine_are_ours(http: Http, host: str) -> None:
    """With or without port."""
    assert (await http("GET", "/version", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "path",
    ["/nope", "//api/v1/pods", "/apis/nope.io/v1/x", "/apis/example.com/v1/nope", "/openapi/v9"],
)
async def test_unknown_paths_are_plain_404(http: Http, path: str) -> None:
    """Text, not a Status: kubectl tells the two apart."""
    answer = await http("GET", path)
    assert answer.status == 404
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.body == b"404 page not found\n"


async def test_a_bug_is_logged_and_answered(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """500 with the name of the error, never its text or a traceback."""

    def broken(*_: object) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr("gm.devcluster.handlers.list_page", broken)
    with caplog.at_level(logging.ERROR, logger="gm.devcluster.server"):
        answer = await http("GET", WIDGETS)
    assert answer.status == 500
    assert answer.json["message"] == "Internal error occurred: ValueError"
    assert [r.getMessage() for r in caplog.records] == ["request failed"]


async def test_clear_text_http_is_not_served(http: Http) -> None:
    """Only TLS."""
    url = http.server.url.replace("https", "http")
    with pytest.raises(aiohttp.ClientError):
        await http.session.get(url + "/healthz")


async def test_many_requests_at_once(http: Http) -> None:
    """Each gets its own answer."""
    answers = await asyncio.gather(
        *(http("POST", WIDGETS, widget(f"w{n}", size=n + 1)) for n in range(40))
    )
    assert {a.status for a in answers} == {201}
    assert [a.json["spec"]["size"] for a in answers] == [n + 1 for n in range(40)]


def test_a_server_that_starts_is_not_ready() -> None:
    """But alive."""
    server = Server(Registry(), None, token="t", hosts=["h"])  # type: ignore[arg-type]
    assert server._probe("readyz", is_verbose=True).status == 500
    assert server._probe("livez", is_verbose=False).status == 200
    server.is_ready = True
    assert server._probe("readyz", is_verbose=False).status == 200


async def test_a_client_that_is_gone_gets_no_answer(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is logged as a bug."""

    def gone(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr("gm.devcluster.handlers.list_page", gone)
    with pytest.raises(aiohttp.ClientError):
        await http("GET", WIDGETS)
    assert caplog.records == []
