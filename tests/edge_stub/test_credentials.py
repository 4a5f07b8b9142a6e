"""Tokens and certificates of an LC: from start to the real server, and their renewal."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from gm import pki
from gm.config import TlsConfig
from gm.edge_stub.credentials import Credentials, is_loopback
from gm.edge_stub.settings import EdgeSettings
from gm.errors import ConfigError
from gm.messagelayer import Hub
from tests.edge_stub.conftest import StartEdge
from tests.edge_stub.test_controller import until
from tests.fakes.gm import FakeGM
from tests.messagelayer.support import desired, key, open_hub, serving

Settings = Callable[..., EdgeSettings]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of an LC that need not run."""

    def make(gm: str = "wss://gm.example:9000", **options: Any) -> EdgeSettings:
        return EdgeSettings(node="edge1", gm=gm, root=tmp_path, state=tmp_path, **options)

    return make


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Certificates of GM and of two nodes."""
    directory = tmp_path / "pki"
    pki.issue(directory, nodes=["edge1", "edge2"])
    return directory


def tls_of(files: Path) -> TlsConfig:
    """GM's side."""
    return TlsConfig(
        cert_file=str(files / "server.crt"),
        key_file=str(files / "server.key"),
        client_ca_file=str(files / "ca.crt"),
    )


def node_files(files: Path, node: str = "edge1") -> dict[str, Path]:
    """An LC's side."""
    stem = pki.node_stem(node)
    return {
        "ca_file": files / "ca.crt",
        "cert_file": files / f"{stem}.crt",
        "key_file": files / f"{stem}.key",
    }


def holding(hub: Hub, node: str = "edge1") -> Hub:
    """A hub that has something for ``node``."""
    hub.put(node, desired("d"))
    return hub


async def test_certificates_of_gm_pki_open_the_door_P0_032(
    start_edge: StartEdge, files: Path
) -> None:
    """Over TLS, each side knowing the other."""
    hub = holding(open_hub())
    async with (
        serving(hub, auth="mtls", tls=tls_of(files)) as server,
        start_edge(f"wss://localhost:{server.port}", **node_files(files)) as edge,
    ):
        await until(lambda: key("d") in edge.store.held)
        assert edge.agent.status().connected


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"cert_file": None, "key_file": None}, "refused with http 401: a client certificate"),
        ({"node": "edge2"}, "refused with http 403: the client certificate belongs to another"),
    ],
)
async def test_node_that_proves_nothing_or_another_name_hears_why_P0_032(
    start_edge: StartEdge, files: Path, options: dict[str, Any], cause: str
) -> None:
    """And holds nothing."""
    hub = holding(holding(open_hub()), "edge2")
    async with (
        serving(hub, auth="mtls", tls=tls_of(files)) as server,
        start_edge(f"wss://localhost:{server.port}", **{**node_files(files), **options}) as edge,
    ):
        await until(lambda: edge.agent.status().cause.startswith(cause))
        assert not edge.store.held


async def test_address_and_name_of_gm_may_differ_P1_049(
    start_edge: StartEdge, tmp_path: Path
) -> None:
    """Where the edge's network has no DNS for GM, or reaches it through another address."""
    files = tmp_path / "named"
    pki.issue(files, nodes=["edge1"], servers=["gm.example"])
    hub = holding(open_hub())
    async with serving(hub, auth="mtls", tls=tls_of(files), address="127.0.0.2") as server:
        url = f"wss://127.0.0.2:{server.port}"
        async with start_edge(url, **node_files(files)) as edge:
            await until(lambda: "of gm is not trusted: " in edge.agent.status().cause)
        for wrong_or_right in ("other.example", "gm.example"):
            named = {**node_files(files), "server_name": wrong_or_right}
            async with start_edge(url, **named) as edge:
                await until(lambda: edge.agent.status().cause or edge.agent.is_connected)
                assert edge.agent.is_connected is (wrong_or_right == "gm.example")
                if edge.agent.is_connected:
                    await until(lambda: key("d") in edge.store.held)


async def test_gm_that_a_node_does_not_trust_gets_nothing(
    start_edge: StartEdge, files: Path, tmp_path: Path
) -> None:
    """Neither the node's name nor its token."""
    pki.issue(tmp_path / "other", nodes=["edge1"])
    async with (
        serving(open_hub(), auth="mtls", tls=tls_of(files)) as server,
        start_edge(f"wss://localhost:{server.port}", **node_files(tmp_path / "other")) as edge,
    ):
        await until(lambda: "of gm is not trusted: " in edge.agent.status().cause)


async def test_gm_that_speaks_no_tls_is_named(start_edge: StartEdge, files: Path) -> None:
    """Neither end says anything that the other understands."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    plain = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with plain:
        url = f"wss://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        async with start_edge(url, **node_files(files)) as edge:
            await until(lambda: edge.agent.status().cause)
            assert edge.agent.status().cause.startswith("tls fails: ")


async def test_gm_of_another_name_is_not_trusted(start_edge: StartEdge, files: Path) -> None:
    """Its certificate is good, but not for the address that was dialled."""
    there: dict[str, Any] = {"address": "127.0.0.2", "auth": "mtls", "tls": tls_of(files)}
    async with (
        serving(open_hub(), **there) as server,
        start_edge(f"wss://127.0.0.2:{server.port}", **node_files(files)) as edge,
    ):
        await until(lambda: edge.agent.status().cause)
        cause = edge.agent.status().cause
        assert cause.startswith("the certificate of gm is not trusted: ")
        assert "127.0.0.2" in cause


async def test_renewed_certificate_is_used_for_the_next_connection(
    start_edge: StartEdge, files: Path, tmp_path: Path
) -> None:
    """No restart: from one that GM refuses to one that it takes."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for name, path in node_files(files, "edge2").items():
        shutil.copy(path, mine / name)
    hub = holding(open_hub())
    options: dict[str, Any] = {name: mine / name for name in node_files(files)}
    async with (
        serving(hub, auth="mtls", tls=tls_of(files)) as server,
        start_edge(f"wss://localhost:{server.port}", **options) as edge,
    ):
        await until(lambda: "belongs to another" in edge.agent.status().cause)
        for name, path in node_files(files).items():
            shutil.copy(path, mine / name)
        await until(lambda: key("d") in edge.store.held)


async def test_token_goes_with_the_handshake_and_is_read_again(
    start_edge: StartEdge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewed token needs no restart; a broken file leaves the token that was read before."""
    token = tmp_path / "token"
    token.write_text("one\n")
    async with FakeGM() as gm, start_edge(gm.url, token_file=token):
        first = await gm.session()
        assert first.headers["Authorization"] == "Bearer one"
        token.write_text("number-two")
        first.abort()
        second = await gm.session()
        assert second.headers["Authorization"] == "Bearer number-two"
        token.write_text("three words long")
        second.abort()
        third = await gm.session()
        assert third.headers["Authorization"] == "Bearer number-two"
    assert "credentials are not read again; those read before stay in use" in caplog.text
    assert "number-two" not in caplog.text
    assert "three words" not in caplog.text


async def test_token_is_good_for_its_node_P0_032(start_edge: StartEdge, tmp_path: Path) -> None:
    """With the real server."""
    tokens, token = tmp_path / "tokens", tmp_path / "token"
    tokens.write_text(f"{'a' * 20},edge1\n{'b' * 20},edge2\n")
    token.write_text("b" * 20)
    hub = holding(open_hub())
    async with (
        serving(hub, auth="token", token_file=str(tokens)) as server,
        start_edge(f"ws://127.0.0.1:{server.port}", token_file=token) as edge,
    ):
        await until(lambda: "403: the token belongs to another" in edge.agent.status().cause)
        token.write_text("a" * 20 + "\n")
        await until(lambda: key("d") in edge.store.held)


def test_files_that_are_wrong_end_the_start(settings: Settings, files: Path) -> None:
    """With the flag that names them; no password is asked for on the terminal."""
    missing = files / "none"
    with pytest.raises(ConfigError, match=r"^--ca .*none: No such file or directory$"):
        Credentials(settings(ca_file=missing))
    with pytest.raises(ConfigError, match=r"^--ca .*ca\.key: holds no certificate \(PEM\)$"):
        Credentials(settings(ca_file=files / "ca.key"))
    with pytest.raises(ConfigError, match=r"^--cert \S*none: No such file or directory$"):
        Credentials(settings(cert_file=missing, key_file=files / "node-edge1.key"))
    with pytest.raises(ConfigError, match=r"^--key \S*none: No such file or directory$"):
        Credentials(settings(cert_file=files / "node-edge1.crt", key_file=missing))
    with pytest.raises(ConfigError, match=r"^--cert .*edge1\.crt: holds no private key \(PEM\)$"):
        Credentials(settings(cert_file=files / "node-edge1.crt"))
    with pytest.raises(
        ConfigError, match=r"^--key .*edge2\.key: .* another certificate than --cert"
    ):
        Credentials(settings(cert_file=files / "node-edge1.crt", key_file=files / "node-edge2.key"))
    locked = files / "locked.key"
    key = serialization.load_pem_private_key((files / "node-edge1.key").read_bytes(), None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ConfigError, match=r"^--key .*locked\.key: the private key is encrypted"):
        Credentials(settings(cert_file=files / "node-edge1.crt", key_file=locked))
    with pytest.raises(ConfigError, match="--key without --cert"):
        Credentials(settings(key_file=files / "node-edge1.key"))
    with pytest.raises(ConfigError, match="--server-name is for wss:// URLs"):
        Credentials(settings("ws://gm.example:9000", server_name="gm.example"))
    with pytest.raises(ConfigError, match="--ca and --cert are for wss:// URLs"):
        Credentials(settings("ws://gm.example:9000", ca_file=files / "ca.crt"))
    with pytest.raises(ConfigError, match=r"^--token-file .*none: No such file or directory$"):
        Credentials(settings(token_file=missing))


@pytest.mark.parametrize("content", [b"", b"\n", b"two tokens", b"a\nb", b"\xff\xfe", b"a\x00b"])
def test_token_that_is_none_ends_the_start(
    settings: Settings, tmp_path: Path, content: bytes
) -> None:
    """A header must not be broken, nor an empty one sent."""
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="want one token, without spaces, and no more"):
        Credentials(settings(token_file=path))


def test_certificate_and_key_may_lie_in_one_file(settings: Settings, files: Path) -> None:
    """As some tools write them; without a CA the system's are trusted."""
    both = files / "both.pem"
    both.write_bytes(b"".join((files / f"node-edge1.{end}").read_bytes() for end in ("crt", "key")))
    headers, tls = Credentials(settings(cert_file=both)).current()
    assert headers == {}
    assert tls is not None
    assert tls.check_hostname


def test_token_in_clear_over_a_network_is_warned_of(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not on loopback, and not over TLS."""
    token = tmp_path / "token"
    token.write_text("a" * 20)
    with caplog.at_level(logging.WARNING):
        Credentials(settings("ws://127.0.0.1:9000", token_file=token))
        Credentials(settings("wss://gm.example:9000", token_file=token))
        assert not caplog.messages
        Credentials(settings("ws://gm.example:9000", token_file=token))
    assert "in clear" in caplog.text
    assert "a" * 20 not in caplog.text


def test_password_in_the_url_is_refused(settings: Settings) -> None:
    """It would be in logs and process lists, and GM does not ask for it."""
    with pytest.raises(ConfigError) as caught:
        settings("wss://me:secret@gm.example:9000")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("ws://127.0.0.1:1", True),
        ("ws://[::1]:1", True),
        ("ws://localhost:1", True),
        ("ws://10.0.0.1:1", False),
        ("ws://gm.example:1", False),
    ],
)
def test_loopback_is_recognised(url: str, is_here: bool) -> None:
    """By address or name."""
    assert is_loopback(url) is is_here
