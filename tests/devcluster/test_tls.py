"""CA, certificate, token and kubeconfig."""

from __future__ import annotations

import base64
import ssl
import stat
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from gm.devcluster.tls import Identity, write_private


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secrets_are_for_the_owner_only(tmp_path: Path) -> None:
    """Keys, token and kubeconfig; the directory is made."""
    directory = tmp_path / "state" / "api"
    identity = Identity(directory, "127.0.0.1")
    kubeconfig = identity.write_kubeconfig("https://127.0.0.1:1")
    private = [kubeconfig, directory / "ca.key", directory / "token", directory / "server.pem"]
    assert {_mode(path) for path in private} == {0o600}
    assert len(identity.token) >= 32


def test_identity_survives_a_restart(tmp_path: Path) -> None:
    """A kubeconfig stays valid as long as the directory lives."""
    first = Identity(tmp_path, "127.0.0.1")
    before = first.ca_path.read_bytes()
    second = Identity(tmp_path, "127.0.0.1")
    assert second.token == first.token
    assert second.ca_path.read_bytes() == before
    assert second.server_context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_two_servers_have_different_secrets(tmp_path: Path) -> None:
    """Two of them on one machine don't open to each other."""
    one, other = Identity(tmp_path / "1", "127.0.0.1"), Identity(tmp_path / "2", "127.0.0.1")
    assert one.token != other.token
    assert one.ca_path.read_bytes() != other.ca_path.read_bytes()


def test_a_given_token_is_used_and_not_stored(tmp_path: Path) -> None:
    """Whoever gives it keeps it."""
    assert Identity(tmp_path, "127.0.0.1", token="given").token == "given"
    assert not (tmp_path / "token").exists()


def test_the_certificate_is_for_the_address(tmp_path: Path) -> None:
    """And for localhost; the CA signed it."""
    Identity(tmp_path, "127.0.3.1")
    pem = (tmp_path / "server.pem").read_bytes()
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "127.0.3.1",
    ]
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    ca = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    certificate.verify_directly_issued_by(ca)


def test_the_kubeconfig_needs_no_other_file(tmp_path: Path) -> None:
    """It can be copied elsewhere."""
    identity = Identity(tmp_path, "127.0.0.1")
    path = identity.write_kubeconfig("https://127.0.0.1:9", name="dev")
    config = yaml.safe_load(path.read_text())
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:9"
    assert base64.b64decode(cluster["certificate-authority-data"]) == identity.ca_path.read_bytes()
    assert config["users"][0]["user"] == {"token": identity.token}
    assert config["current-context"] == "dev"
    assert config["contexts"][0]["context"]["namespace"] == "default"


def test_write_private_replaces_in_one_step(tmp_path: Path) -> None:
    """Nothing else is left beside it."""
    path = tmp_path / "secret"
    write_private(path, b"one")
    write_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_ca_of_another_kind_is_replaced(tmp_path: Path) -> None:
    """Its key is not one that we make."""
    Identity(tmp_path, "127.0.0.1")
    before = (tmp_path / "ca.crt").read_bytes()
    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_private(tmp_path / "ca.key", pem)
    Identity(tmp_path, "127.0.0.1")
    assert (tmp_path / "ca.crt").read_bytes() != before
