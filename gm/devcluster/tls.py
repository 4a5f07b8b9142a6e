"""Who the server is, and who may talk to it: a CA of its own, a token, and the kubeconfig.

All three are kept in the server's directory and used again after a restart, so that a
kubeconfig stays valid as long as its directory lives.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import secrets
import ssl
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Identity", "write_private"]

_VALID = datetime.timedelta(days=3650)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step; nobody but the owner can read it, at no moment."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


class Identity:
    """CA, server certificate and token below ``directory``; made when they are missing.

    ``address`` is the IP address that the server listens on. ``token`` replaces the stored one.
    """

    def __init__(self, directory: Path, address: str, *, token: str | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.ca_path = directory / "ca.crt"
        self.kubeconfig_path = directory / "kubeconfig"
        self._ca_key_path = directory / "ca.key"
        self._server_path = directory / "server.pem"
        self._address = address
        self.token = token or self._stored_token(directory / "token")
        self._issue()

    def server_context(self) -> ssl.SSLContext:
        """TLS settings of the listening socket."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._server_path)
        return context

    def write_kubeconfig(self, url: str, *, name: str = "gm") -> Path:
        """Write a kubeconfig (0600) with everything in it, no paths to other files."""
        ca = _base64(self.ca_path.read_bytes())
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": url, "certificate-authority-data": ca}}
            ],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}
            ],
            "current-context": name,
        }
        write_private(self.kubeconfig_path, yaml.safe_dump(config, sort_keys=False).encode())
        return self.kubeconfig_path

    @staticmethod
    def _stored_token(path: Path) -> str:
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32).encode())
        return path.read_text().strip()

    def _issue(self) -> None:
        key, ca = self._ca()
        server_key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        if self._address != "127.0.0.1":
            names.append(x509.IPAddress(ipaddress.ip_address(self._address)))
        certificate = (
            _builder("gm-apiserver", ca.subject, server_key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        write_private(self._server_path, _pem(server_key) + _pem_certificate(certificate))

    def _ca(self) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        if self.ca_path.exists() and self._ca_key_path.exists():
            key = serialization.load_pem_private_key(self._ca_key_path.read_bytes(), None)
            if isinstance(key, ec.EllipticCurvePrivateKey):
                return key, x509.load_pem_x509_certificate(self.ca_path.read_bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        # The random part keeps two servers' CAs apart in one trust store.
        name = f"gm-ca-{secrets.token_hex(4)}"
        certificate = (
            _builder(name, None, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        write_private(self._ca_key_path, _pem(key))
        write_private(self.ca_path, _pem_certificate(certificate))
        return key, certificate


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _builder(
    name: str, issuer: x509.Name | None, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + _VALID)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _pem_certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
