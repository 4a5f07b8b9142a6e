"""Loading certificates and keys, with errors that say which file is wrong, and how.

The ssl module's own name neither file nor field: ``[Errno 2] No such file or directory``.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gm.errors import ConfigError

__all__ = ["PemFile", "load_identity", "reading_authorities"]

_CERTIFICATE, _KEY = b"CERTIFICATE-----", b"PRIVATE KEY-----"
# in the two forms that encrypted keys have
_ENCRYPTED = (b"BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED")


class PemFile(NamedTuple):
    """A file, and its ``title``: what people know it by, its path included."""

    title: str
    path: str | Path


def load_identity(context: ssl.SSLContext, cert: PemFile, key: PemFile | None) -> None:
    """Let ``context`` prove who it is; without ``key``: the key lies in the certificate's file.

    Raises: ConfigError naming the file that is missing or wrong.
    """
    if _CERTIFICATE not in _read(cert):
        raise ConfigError(f"{cert.title}: holds no certificate (PEM)")
    of_key = key or cert
    content = _read(of_key)
    if _KEY not in content:
        raise ConfigError(f"{of_key.title}: holds no private key (PEM)")
    if any(mark in content for mark in _ENCRYPTED):
        raise ConfigError(f"{of_key.title}: the private key is encrypted; one without is needed")
    path = None if key is None else key.path
    try:
        context.load_cert_chain(cert.path, path, password=_no_password)
    except OSError as exc:  # ssl.SSLError too
        if getattr(exc, "reason", None) == "KEY_VALUES_MISMATCH":
            why = f"the private key belongs to another certificate than {cert.title}"
            raise ConfigError(f"{of_key.title}: {why}") from None
        both = cert.title if key is None else f"{cert.title} with {key.title}"
        raise ConfigError(f"{both}: {_why(exc)}") from None


@contextlib.contextmanager
def reading_authorities(ca: PemFile) -> Iterator[None]:
    """The body reads the CA certificates in ``ca``. Raises: ConfigError naming the file."""
    if _CERTIFICATE not in _read(ca):
        raise ConfigError(f"{ca.title}: holds no certificate (PEM)")
    try:
        yield
    except OSError as exc:
        raise ConfigError(f"{ca.title}: {_why(exc)}") from None


def _read(file: PemFile) -> bytes:
    try:
        return Path(file.path).read_bytes()
    except OSError as exc:
        raise ConfigError(f"{file.title}: {_why(exc)}") from None


def _why(exc: OSError) -> str:
    if isinstance(exc, ssl.SSLError):
        reason = (exc.reason or "what it holds is broken").replace("_", " ").lower()
        return f"not usable ({reason})"
    return exc.strerror or str(exc)


def _no_password() -> str:
    """Without this OpenSSL would ask on the terminal for the key's password."""
    return ""
