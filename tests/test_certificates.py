"""Certificates and keys that can not be loaded: which file is wrong, and how."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from gm import pki
from gm.certificates import PemFile, load_identity, reading_authorities
from gm.errors import ConfigError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Certificates and keys of two nodes, and some that are wrong."""
    pki.issue(tmp_path, nodes=["a", "b"])
    (tmp_path / "empty").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "words").write_text("not what was meant\n")
    for name, kind in (("broken.crt", "CERTIFICATE"), ("broken.key", "PRIVATE KEY")):
        (tmp_path / name).write_text(f"-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")
    key = serialization.load_pem_private_key((tmp_path / "node-a.key").read_bytes(), None)
    for name, form in (
        ("locked.key", serialization.PrivateFormat.PKCS8),
        ("old-locked.key", serialization.PrivateFormat.TraditionalOpenSSL),
    ):
        secret = serialization.BestAvailableEncryption(b"secret")
        (tmp_path / name).write_bytes(key.private_bytes(serialization.Encoding.PEM, form, secret))
    return tmp_path


def pem(title: str, path: Path) -> PemFile:
    """A file that messages call by ``title``."""
    return PemFile(title, path)


def context() -> ssl.SSLContext:
    """One that knows nothing yet."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def test_what_belongs_together_is_loaded(files: Path) -> None:
    """In two files or in one."""
    load_identity(context(), pem("C", files / "node-a.crt"), pem("K", files / "node-a.key"))
    both = files / "both"
    both.write_bytes((files / "node-a.key").read_bytes() + (files / "node-a.crt").read_bytes())
    load_identity(context(), pem("C", both), None)
    with reading_authorities(pem("A", files / "ca.crt")):
        context().load_verify_locations(files / "ca.crt")


@pytest.mark.parametrize(
    ("cert", "key", "message"),
    [
        ("none", "node-a.key", "C: No such file or directory"),
        ("node-a.crt", "none", "K: No such file or directory"),
        ("none", "none", "C: No such file or directory"),
        ("directory", "node-a.key", "C: Is a directory"),
        ("node-a.crt", "directory", "K: Is a directory"),
        ("empty", "node-a.key", "C: holds no certificate (PEM)"),
        ("node-a.key", "node-a.crt", "C: holds no certificate (PEM)"),
        ("node-a.crt", "words", "K: holds no private key (PEM)"),
        ("node-a.crt", "node-a.crt", "K: holds no private key (PEM)"),
        ("node-a.crt", None, "C: holds no private key (PEM)"),
        ("node-a.crt", "node-b.key", "K: the private key belongs to another certificate than C"),
        ("node-a.crt", "locked.key", "K: the private key is encrypted; one without is needed"),
        ("node-a.crt", "old-locked.key", "K: the private key is encrypted; one without is needed"),
        ("broken.crt", "node-a.key", "C with K: not usable ("),
        ("node-a.crt", "broken.key", "C with K: not usable ("),
    ],
)
def test_the_file_that_is_wrong_is_named(
    files: Path, cert: str, key: str | None, message: str
) -> None:
    """Certificate or key; never a number of errno, and no question for a password."""
    key_file = None if key is None else pem("K", files / key)
    with pytest.raises(ConfigError) as caught:
        load_identity(context(), pem("C", files / cert), key_file)
    told = str(caught.value)
    assert told == message or (message.endswith("(") and told.startswith(message))
    assert "Errno" not in told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "A: No such file or directory"),
        ("directory", "A: Is a directory"),
        ("empty", "A: holds no certificate (PEM)"),
        ("ca.key", "A: holds no certificate (PEM)"),
        ("broken.crt", "A: not usable ("),
    ],
)
def test_a_ca_that_is_wrong_is_named(files: Path, name: str, message: str) -> None:
    """Before or while it is loaded."""
    with pytest.raises(ConfigError) as caught, reading_authorities(pem("A", files / name)):
        context().load_verify_locations(files / name)
    assert str(caught.value).startswith(message)
