"""Certificates for trying out: good ones, in files that only their owner reads, never replaced."""

from __future__ import annotations

import re
import shutil
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from gm import pki
from gm.errors import ConfigError


def modes(directory: Path) -> dict[str, str]:
    """Names and permissions of what lies in a directory."""
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in directory.iterdir()}


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, hostname: str) -> ssl.SSLObject:
    """The server's end of a TLS connection, after the handshake; no sockets are needed."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = client.wrap_bio(to_client, to_server, server_hostname=hostname)
    here = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [there, here]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return here
    raise AssertionError("the handshake does not end")


def server_context(directory: Path) -> ssl.SSLContext:
    """As GM's with auth mtls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    context.load_verify_locations(directory / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(directory: Path, stem: str) -> ssl.SSLContext:
    """As an edge's, and as strict as Python 3.13's default."""
    context = ssl.create_default_context(cafile=directory / "ca.crt")
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(directory / f"{stem}.crt", directory / f"{stem}.key")
    return context


def openssl(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and output of openssl."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_first_time_makes_ca_server_and_nodes(tmp_path: Path) -> None:
    """Keys are for their owner's eyes only."""
    directory = tmp_path / "new" / "pki"
    made = pki.issue(directory, nodes=["edge1", "edge2", "edge1"], servers=["gm.example"])
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in made} == modes(directory)
    assert modes(directory) == {
        "ca.crt": "0o644",
        "ca.key": "0o600",
        "server.crt": "0o644",
        "server.key": "0o600",
        "node-edge1.crt": "0o644",
        "node-edge1.key": "0o600",
        "node-edge2.crt": "0o644",
        "node-edge2.key": "0o600",
    }
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("hostname", ["gm.example", "10.1.2.3", "localhost", "127.0.0.1", "::1"])
def test_gm_and_node_know_each_other_by_them(tmp_path: Path, hostname: str) -> None:
    """Under each name of GM; the node's name is where GM looks for it."""
    pki.issue(tmp_path, nodes=["edge1"], servers=["gm.example", "10.1.2.3"])
    end = handshake(server_context(tmp_path), client_context(tmp_path, "node-edge1"), hostname)
    certificate = end.getpeercert()
    assert certificate is not None
    assert certificate["subject"] == ((("commonName", "system:node:edge1"),),)


def test_neither_takes_the_other_s_place(tmp_path: Path) -> None:
    """A node is no GM, GM is no node, and a name that was not asked for is none of GM's."""
    pki.issue(tmp_path, nodes=["edge1"])
    node = client_context(tmp_path, "node-edge1")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"gm\.example"):
        handshake(server_context(tmp_path), node, "gm.example")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(server_context(tmp_path), client_context(tmp_path, "server"), "localhost")
    context = server_context(tmp_path)
    context.load_cert_chain(tmp_path / "node-edge1.crt", tmp_path / "node-edge1.key")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, node, "localhost")


def test_another_ca_s_node_is_a_stranger(tmp_path: Path) -> None:
    """Also when it has the same name."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for directory in (ours, theirs):
        pki.issue(directory, nodes=["edge1"])
    stranger = ssl.create_default_context(cafile=ours / "ca.crt")
    stranger.load_cert_chain(theirs / "node-edge1.crt", theirs / "node-edge1.key")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(ours), stranger, "localhost")


def test_openssl_agrees(tmp_path: Path) -> None:
    """In its strict mode, for the purpose that each is for and no other."""
    pki.issue(tmp_path, nodes=["edge1"], servers=["gm.example"])
    verify = ("verify", "-x509_strict", "-CAfile", tmp_path / "ca.crt")
    node, server = tmp_path / "node-edge1.crt", tmp_path / "server.crt"
    assert openssl(*verify, "-purpose", "sslclient", node)[0] == 0
    assert (
        openssl(*verify, "-purpose", "sslserver", "-verify_hostname", "gm.example", server)[0] == 0
    )
    assert openssl(*verify, "-purpose", "sslserver", node)[0] != 0
    assert openssl(*verify, "-purpose", "sslclient", server)[0] != 0
    code, text = openssl("x509", "-in", node, "-noout", "-subject", "-ext", "keyUsage")
    assert code == 0
    assert re.search(r"CN\s*=\s*system:node:edge1", text)
    assert "Digital Signature" in text


def test_more_nodes_of_the_same_ca_can_come_later(tmp_path: Path) -> None:
    """CA and server certificate stay as they are."""
    pki.issue(tmp_path, nodes=["edge1"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    made = pki.issue(tmp_path, nodes=["edge2"])
    assert [path.name for path in made] == ["node-edge2.crt", "node-edge2.key"]
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    handshake(server_context(tmp_path), client_context(tmp_path, "node-edge2"), "localhost")


def test_nothing_is_overwritten_and_then_nothing_is_written(tmp_path: Path) -> None:
    """One name that exists is enough."""
    pki.issue(tmp_path, nodes=["edge1"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for options in (
        {"nodes": ["edge2", "edge1"]},
        {"servers": ["gm.example"]},
        {},
    ):
        with pytest.raises(ConfigError, match=r"exists, and nothing is overwritten|exist; name"):
            pki.issue(tmp_path, **options)  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_server_certificate_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    """That is how it is renewed."""
    pki.issue(tmp_path)
    for name in ("server.crt", "server.key"):
        (tmp_path / name).unlink()
    made = pki.issue(tmp_path, servers=["gm.example"])
    assert [path.name for path in made] == ["server.crt", "server.key"]


def test_validity_is_as_asked_and_within_the_ca_s(tmp_path: Path) -> None:
    """A clock that is a little behind is no obstacle."""
    pki.issue(tmp_path, nodes=["short"], days=30)
    pki.issue(tmp_path, nodes=["long"], days=3650)
    certificate = {
        stem: x509.load_pem_x509_certificate((tmp_path / f"{stem}.crt").read_bytes())
        for stem in ("ca", "node-short", "node-long")
    }
    short = certificate["node-short"]
    assert (short.not_valid_after_utc - short.not_valid_before_utc).days == 30
    assert certificate["node-long"].not_valid_after_utc == certificate["ca"].not_valid_after_utc


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": ["Edge"]}, "--node 'Edge': want a node name"),
        ({"nodes": [""]}, "want a node name"),
        ({"nodes": ["../x"]}, "want a node name"),
        ({"nodes": ["n" * 53]}, "room for 52 characters; use websocket.auth token"),
        ({"servers": ["gm example"]}, "--server 'gm example': want a host name or an IP"),
        ({"days": 0}, "--days 0: want 1 to 3650"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_written(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    """With what is allowed."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        pki.issue(tmp_path / "pki", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "pki").exists()


def test_node_name_of_full_length_fits(tmp_path: Path) -> None:
    """A certificate's common name has 64 characters; a server's long name goes elsewhere."""
    pki.issue(tmp_path, nodes=["n" * 52], servers=["s" * 60 + ".example"])
    client = client_context(tmp_path, f"node-{'n' * 52}")
    handshake(server_context(tmp_path), client, "s" * 60 + ".example")


def test_half_a_ca_or_another_one_s_key_is_no_ca(tmp_path: Path) -> None:
    """Rather than making a new one, which no node would know."""
    pki.issue(tmp_path / "a")
    pki.issue(tmp_path / "b")
    key = tmp_path / "a" / "ca.key"
    key.write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(ConfigError, match=r"ca\.key is not the key of ca\.crt"):
        pki.issue(tmp_path / "a", nodes=["edge1"])
    key.write_text("no key")
    with pytest.raises(ConfigError, match="can not be used"):
        pki.issue(tmp_path / "a", nodes=["edge1"])
    key.unlink()
    with pytest.raises(ConfigError, match=r"ca\.key: No such file.*go together"):
        pki.issue(tmp_path / "a", nodes=["edge1"])


def test_directory_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    """And nothing is left behind."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        pki.issue(tmp_path / "file" / "pki")
    (tmp_path / "server.key").symlink_to(tmp_path / "nowhere" / "x")
    with pytest.raises(ConfigError, match=r"server\.key"):
        pki.issue(tmp_path)
    assert sorted(modes_of_files(tmp_path)) == ["file"]


def modes_of_files(directory: Path) -> list[str]:
    """Names of regular files."""
    return [path.name for path in directory.iterdir() if path.is_file()]


def test_how_to_use_them_names_every_file(tmp_path: Path) -> None:
    """To be copied from the terminal; an IPv6 address has its brackets."""
    text = pki.how_to_use(tmp_path, nodes=["edge1"], servers=["fd00::1"])
    assert f"GM_WEBSOCKET_TLS_CLIENT_CA_FILE={tmp_path}/ca.crt" in text
    assert "gm edge --name edge1 --gm wss://[fd00::1]:9000" in text
    assert f"--cert {tmp_path}/node-edge1.crt --key {tmp_path}/node-edge1.key" in text
    assert "wss://localhost:9000" in pki.how_to_use(tmp_path, nodes=["e"], servers=[])
