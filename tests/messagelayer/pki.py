"""Certificates for tests: a CA, servers on loopback, nodes."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A CA; its certificate is at ``path``."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory, self._name = directory, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key.public_key(), is_ca=True)
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, common_name: str, *, stem: str = "") -> tuple[str, str]:
        """Paths of a certificate and its key, good for loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(common_name, key.public_key(), is_ca=False)
        stem = stem or f"{self._name}-{common_name.replace(':', '-')}"
        cert_path, key_path = self._directory / f"{stem}.crt", self._directory / f"{stem}.key"
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(cert_path), str(key_path)

    def _sign(
        self, common_name: str, public: ec.EllipticCurvePublicKey, *, is_ca: bool
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
