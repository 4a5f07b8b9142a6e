"""Tokens and certificates over real sockets, their rotation, and settings that do not fit."""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from websockets.exceptions import InvalidMessage, InvalidStatus

from gm.config import TlsConfig, WebsocketConfig
from gm.errors import ConfigError
from gm.messagelayer import Hub, Server, Timing
from gm.messagelayer.auth import TokenAuthenticator
from gm.messagelayer.session import REVOKED
from tests.fakes.edge import Edge, EdgeV2
from tests.messagelayer.pki import Authority
from tests.messagelayer.support import desired, open_hub, serving, until

QUICK = Timing(reload_seconds=0.02, handshake_seconds=5, close_seconds=1)
TOKEN_1, TOKEN_2 = "a" * 20, "b" * 20


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A token file with one token for each of two nodes."""
    path = tmp_path / "tokens"
    path.write_text(f"# comment\n\n{TOKEN_1},edge1\n {TOKEN_2} , edge2 \n")
    return path


def bearer(token: str) -> dict[str, str]:
    """A header."""
    return {"Authorization": f"Bearer {token}"}


async def refusal(port: int, node: str, hub: Hub, **options: object) -> int:
    """The status with which a connection is refused."""
    with pytest.raises(InvalidStatus) as refused:
        async with Edge.connected(port, node, **options):  # type: ignore[arg-type]
            pass
    assert not hub.is_connected(node)
    return refused.value.response.status_code


async def test_token_is_good_for_its_node_only_P0_032(tokens: Path) -> None:
    """No or a foreign token: 401; another node's: 403; both are counted."""
    hub = open_hub()
    hub.put("edge1", desired("d"))
    async with serving(hub, auth="token", token_file=str(tokens)) as server:
        port = server.port
        assert await refusal(port, "edge1", hub) == 401
        assert await refusal(port, "edge1", hub, additional_headers=bearer("x" * 20)) == 401
        assert await refusal(port, "edge1", hub, additional_headers=bearer("")) == 401
        basic = {"Authorization": f"Basic {TOKEN_1}"}
        assert await refusal(port, "edge1", hub, additional_headers=basic) == 401
        assert await refusal(port, "edge1", hub, additional_headers=bearer(TOKEN_2)) == 403
        assert hub.counters["handshakes_refused_401"] == 4
        assert hub.counters["handshakes_refused_403"] == 1
        async with EdgeV2.connected(port, "edge1", additional_headers=bearer(TOKEN_1)) as edge:
            await edge.wait_for(lambda: bool(edge.held))


async def test_rotated_token_counts_at_once_and_the_old_one_no_more(
    tokens: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Sessions of a token that is gone are closed, the others stay."""
    hub = open_hub()
    settings = {"auth": "token", "token_file": str(tokens)}
    async with (
        serving(hub, timing=QUICK, **settings) as server,
        Edge.connected(server.port, "edge1", additional_headers=bearer(TOKEN_1)) as old,
        Edge.connected(server.port, "edge2", additional_headers=bearer(TOKEN_2)) as other,
    ):
        tokens.write_text("nonsense\n")
        await until(lambda: "tokens are not reloaded" in caplog.text)
        assert hub.session_count == 2
        tokens.write_text(f"{'c' * 20},edge1\n{TOKEN_2},edge2\n")
        assert await old.wait_closed() == (REVOKED, "the token of this node was revoked")
        async with Edge.connected(server.port, "edge1", additional_headers=bearer("c" * 20)):
            assert other.closed is None
            assert hub.session_count == 2
        assert TOKEN_1 not in caplog.text


async def test_tokens_of_a_mounted_secret_are_followed(tmp_path: Path) -> None:
    """A kubelet swaps a link to the directory; the file that is named stays as it is."""
    for version, token in (("v1", TOKEN_1), ("v2", TOKEN_2)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "tokens").write_text(f"{token},edge1\n")
    data, named = tmp_path / "..data", tmp_path / "tokens"
    data.symlink_to("v1")
    named.symlink_to("..data/tokens")
    hub = open_hub()
    settings = {"auth": "token", "token_file": str(named)}
    async with (
        serving(hub, timing=QUICK, **settings) as server,
        Edge.connected(server.port, "edge1", additional_headers=bearer(TOKEN_1)) as old,
    ):
        (tmp_path / "..next").symlink_to("v2")
        (tmp_path / "..next").replace(data)
        assert (await old.wait_closed())[0] == REVOKED
        assert await refusal(server.port, "edge1", hub, additional_headers=bearer(TOKEN_1)) == 401
        async with Edge.connected(server.port, "edge1", additional_headers=bearer(TOKEN_2)):
            assert hub.is_connected("edge1")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("short,edge1\n", "line 1"),
        (f"{TOKEN_1}\n", "line 1"),
        (f"{TOKEN_1},edge 1\n", "line 1"),
        (f"{TOKEN_1},edge1\n{TOKEN_1},edge2\n", "line 2"),
    ],
)
def test_wrong_token_file_stops_the_start(tokens: Path, text: str, problem: str) -> None:
    """It is named with the line, but never with the token."""
    tokens.write_text(text)
    with pytest.raises(ConfigError, match=problem) as wrong:
        TokenAuthenticator(str(tokens))
    assert TOKEN_1 not in str(wrong.value)


def test_missing_token_file_stops_the_start(tmp_path: Path) -> None:
    """The setting is named."""
    settings = WebsocketConfig(auth="token", token_file=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"websocket\.tokenFile .*none"):
        Server(open_hub(), settings)


def client_context(ca: Authority, certificate: tuple[str, str] | None = None) -> ssl.SSLContext:
    """What an edge trusts and shows."""
    context = ssl.create_default_context(cafile=str(ca.path))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def tls_settings(ca: Authority, clients: Authority, *, stem: str = "server") -> TlsConfig:
    """Settings with fresh files."""
    cert, key = ca.issue("gm", stem=stem)
    return TlsConfig(cert_file=cert, key_file=key, client_ca_file=str(clients.path))


async def test_certificate_is_good_for_its_node_only_P0_032(tmp_path: Path) -> None:
    """None: 401; one of a foreign CA: no TLS; another node's: 403."""
    ca, foreign = Authority(tmp_path), Authority(tmp_path, "foreign")
    hub = open_hub()
    hub.put("edge1", desired("d"))
    edge1 = client_context(ca, ca.issue("system:node:edge1"))
    async with serving(hub, auth="mtls", tls=tls_settings(ca, ca)) as server:
        assert await refusal(server.port, "edge1", hub, ssl=client_context(ca)) == 401
        assert await refusal(server.port, "edge2", hub, ssl=edge1) == 403
        plain_name = client_context(ca, ca.issue("edge1"))
        assert await refusal(server.port, "edge1", hub, ssl=plain_name) == 403
        impostor = client_context(ca, foreign.issue("system:node:edge1"))
        with pytest.raises((ssl.SSLError, ConnectionError, InvalidMessage)):
            async with Edge.connected(server.port, "edge1", ssl=impostor):
                pass
        assert not hub.is_connected("edge1")
        for _ in range(2):
            async with Edge.connected(server.port, "edge1", ssl=edge1) as edge:
                await edge.wait_for(lambda e=edge: bool(e.held))  # type: ignore[misc]


async def test_rotated_certificates_are_used_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The server's own and the clients' CA; live sessions stay."""
    caplog.set_level("INFO")
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    hub = open_hub()
    settings = tls_settings(old, old)
    of_old = client_context(old, old.issue("system:node:edge1"))
    of_new = client_context(new, new.issue("system:node:edge1"))
    async with (
        serving(hub, timing=QUICK, auth="mtls", tls=settings) as server,
        Edge.connected(server.port, "edge1", ssl=of_old) as edge,
    ):
        Path(settings.key_file).write_text("nonsense")
        await until(lambda: "certificates are not reloaded" in caplog.text)
        Path(settings.client_ca_file).write_bytes(new.path.read_bytes())
        new.issue("gm", stem="server")
        await until(lambda: "certificates reloaded" in caplog.text)
        with pytest.raises(ssl.SSLError):
            async with Edge.connected(server.port, "edge1", ssl=of_old):
                pass
        trusting_but_old = client_context(new, old.issue("system:node:edge1"))
        with pytest.raises((ssl.SSLError, ConnectionError, InvalidMessage)):
            async with Edge.connected(server.port, "edge1", ssl=trusting_but_old):
                pass
        assert edge.closed is None
        async with Edge.connected(server.port, "edge1", ssl=of_new):
            assert (await edge.wait_closed())[0] == 4001


async def test_large_objects_and_shutdown_over_tls(tmp_path: Path) -> None:
    """TLS without client certificates is a way, too."""
    ca = Authority(tmp_path)
    cert, key = ca.issue("gm", stem="server")
    hub = open_hub()
    hub.put("edge1", desired("big", padding=2_000_000))
    async with AsyncExitStack() as stack:
        async with serving(hub, tls=TlsConfig(cert_file=cert, key_file=key)) as server:
            edge = await stack.enter_async_context(
                Edge.connected(server.port, "edge1", ssl=client_context(ca))
            )
            await edge.wait_for(lambda: bool(edge.held))
        assert (await edge.wait_closed())[0] == 1001


def test_unusable_certificates_stop_the_start(tmp_path: Path) -> None:
    """The setting and the file are named."""
    ca = Authority(tmp_path)
    cert, key = ca.issue("gm", stem="server")
    for settings, match in (
        (
            TlsConfig(cert_file="/none", key_file=key),
            r"^websocket\.tls\.certFile /none: No such file or directory$",
        ),
        (TlsConfig(cert_file=cert, key_file="/none"), r"^websocket\.tls\.keyFile /none: No such"),
        (
            TlsConfig(cert_file=cert, key_file=cert),
            r"^websocket\.tls\.keyFile .*: holds no private",
        ),
        (
            TlsConfig(cert_file=cert, key_file=key, client_ca_file="/none"),
            r"^websocket\.tls\.clientCAFile /none: No such",
        ),
        (TlsConfig(cert_file=cert, key_file=key, client_ca_file=key), r"clientCAFile"),
    ):
        with pytest.raises(ConfigError, match=match):
            Server(open_hub(), WebsocketConfig(tls=settings))


async def test_tokens_in_clear_text_beyond_loopback_are_warned_of(
    tokens: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever listens has them."""
    async with serving(open_hub(), address="0.0.0.0", auth="token", token_file=str(tokens)):
        assert "clear text" in caplog.text
