"""Certificates for trying out TLS between GM and its nodes: a CA, a server, nodes.

A CA like this one, whose key lies in a file, is for trials and small sites. Where there is a PKI
already, its certificates do as well: what GM looks at is written in docs/security.md.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gm.errors import ConfigError

__all__ = ["DEFAULT_DAYS", "NODE_USER", "how_to_use", "issue", "node_stem"]

DEFAULT_DAYS = 365
NODE_USER = "system:node:"
"""What the common name of a node's certificate begins with, as kubelets' do."""

_CA_DAYS = 3650
_MAX_COMMON_NAME = 64  # RFC 5280, ub-common-name
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
_DNS_NAME = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_CLOCK_SKEW = datetime.timedelta(hours=1)


def issue(
    directory: Path,
    *,
    nodes: Sequence[str] = (),
    servers: Sequence[str] = (),
    days: int = DEFAULT_DAYS,
) -> list[Path]:
    """Make what is missing in ``directory``; returns the new files.

    The first time that is a CA and a certificate for GM, good for this machine and for
    ``servers`` (names and IP addresses); each time a certificate for each of ``nodes``, valid
    for ``days``. Keys are readable by their owner only.

    Raises: ConfigError when a name does not fit, or a file would be overwritten; then nothing
    has been written.
    """
    if not 1 <= days <= _CA_DAYS:
        raise ConfigError(f"--days {days}: want 1 to {_CA_DAYS}")
    made: dict[str, bytes] = {}
    authority = _load_authority(directory)
    if authority is None:
        authority = _new_authority(made)
    if servers or not (directory / "server.crt").exists():
        _issue_server(authority, [*servers, *_LOCAL], days, made)
    for node in dict.fromkeys(nodes):
        _issue_node(authority, node, days, made)
    if not made:
        raise ConfigError(f"{directory}: CA and server certificate exist; name nodes with --node")
    return _write(directory, made)


def how_to_use(directory: Path, *, nodes: Sequence[str], servers: Sequence[str]) -> str:
    """What to say to GM, and on each node, so that they use the files."""
    lines = [
        "",
        "GM (environment, or the settings of these names in its file):",
        "  GM_WEBSOCKET_AUTH=mtls",
        f"  GM_WEBSOCKET_TLS_CERT_FILE={directory / 'server.crt'}",
        f"  GM_WEBSOCKET_TLS_KEY_FILE={directory / 'server.key'}",
        f"  GM_WEBSOCKET_TLS_CLIENT_CA_FILE={directory / 'ca.crt'}",
    ]
    host = servers[0] if servers else "localhost"
    for node in dict.fromkeys(nodes):
        stem = directory / node_stem(node)
        lines += [
            f"{node} (needs ca.crt and its own two files, nothing else):",
            f"  gm edge --name {node} --gm wss://{_in_url(host)}:9000 \\",
            f"      --ca {directory / 'ca.crt'} --cert {stem}.crt --key {stem}.key",
        ]
    return "\n".join([*lines, f"Keep {directory / 'ca.key'} to yourself: it makes any node."])


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def node_stem(node: str) -> str:
    """What a node's files are called, without ``.crt`` or ``.key``."""
    return f"node-{node}"


class _Authority:
    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key, self._certificate = key, certificate

    def sign(
        self,
        common_name: str,
        names: Sequence[x509.GeneralName],
        usage: x509.ObjectIdentifier,
        days: int,
    ) -> tuple[bytes, bytes]:
        """A certificate and its key, as PEM; the certificate ends with the CA's at the latest."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        end = min(now + datetime.timedelta(days=days), self._certificate.not_valid_after_utc)
        builder = (
            _builder(common_name, key.public_key())
            .issuer_name(self._certificate.subject)
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256())), _pem_key(key)


def _new_authority(made: dict[str, bytes]) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = f"gm-ca-{secrets.token_hex(4)}"  # so that two CAs can be told apart
    certificate = (
        _builder(name, key.public_key())
        .issuer_name(_subject(name))
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=_CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_ca=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    made["ca.crt"], made["ca.key"] = _pem(certificate), _pem_key(key)
    return _Authority(key, certificate)


def _load_authority(directory: Path) -> _Authority | None:
    """The CA in ``directory``; None if there is none."""
    key_path, path = directory / "ca.key", directory / "ca.crt"
    if not key_path.exists() and not path.exists():
        return None
    try:
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as exc:
        raise ConfigError(
            f"{exc.filename}: {exc.strerror}; ca.crt and ca.key go together"
        ) from None
    except (ValueError, TypeError) as exc:
        raise ConfigError(f"{directory}: ca.crt or ca.key can not be used: {exc}") from None
    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or key.public_key() != certificate.public_key()
    ):
        raise ConfigError(f"{directory}: ca.key is not the key of ca.crt")
    return _Authority(key, certificate)


def _issue_server(
    authority: _Authority, names: Sequence[str], days: int, made: dict[str, bytes]
) -> None:
    general = [_general_name(name) for name in dict.fromkeys(names)]
    common_name = names[0] if len(names[0]) <= _MAX_COMMON_NAME else "gm"
    made["server.crt"], made["server.key"] = authority.sign(
        common_name, general, ExtendedKeyUsageOID.SERVER_AUTH, days
    )


def _issue_node(authority: _Authority, node: str, days: int, made: dict[str, bytes]) -> None:
    if not _NODE_NAME.match(node):
        raise ConfigError(f"--node {node!r}: want a node name: lower-case letters, digits, - and .")
    longest = _MAX_COMMON_NAME - len(NODE_USER)
    if len(node) > longest:
        raise ConfigError(
            f"--node {node!r}: a certificate's name has room for {longest} characters; "
            "use websocket.auth token for this node"
        )
    stem = node_stem(node)
    made[f"{stem}.crt"], made[f"{stem}.key"] = authority.sign(
        f"{NODE_USER}{node}", [], ExtendedKeyUsageOID.CLIENT_AUTH, days
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if not _DNS_NAME.match(name):
            raise ConfigError(f"--server {name!r}: want a host name or an IP address") from None
        return x509.DNSName(name)


def _write(directory: Path, made: Mapping[str, bytes]) -> list[Path]:
    """Write all or nothing, and over nothing."""
    paths = {directory / name: content for name, content in made.items()}
    existing = [path for path in paths if path.exists()]
    if existing:
        raise ConfigError(f"{existing[0]} exists, and nothing is overwritten; remove it first")
    written: list[Path] = []
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in paths.items():
            mode = 0o600 if path.suffix == ".key" else 0o644
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            written.append(path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    except OSError as exc:
        for path in written:
            path.unlink()
        raise ConfigError(f"{exc.filename or directory}: {exc.strerror}") from None
    return written


def _subject(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(common_name: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(common_name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
