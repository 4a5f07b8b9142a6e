"""Who is it? Checks of a handshake, before the connection becomes a websocket."""

from __future__ import annotations

import hashlib
import logging
import re
import ssl
from pathlib import Path
from typing import Protocol

from websockets.datastructures import Headers
from websockets.http11 import Request

from gm.config import WebsocketConfig
from gm.errors import ConfigError, GmError
from gm.messagelayer.files import WatchedFiles

__all__ = [
    "Authenticator",
    "HandshakeRefused",
    "MtlsAuthenticator",
    "NoAuthenticator",
    "TokenAuthenticator",
    "make_authenticator",
    "node_name",
]

logger = logging.getLogger(__name__)

_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_CERTIFICATE_USER = "system:node:"  # as kubelets' certificates have it
_MIN_TOKEN = 16


class HandshakeRefused(GmError):
    """The connection does not become a websocket; it is answered with HTTP ``status``."""

    def __init__(self, status: int, message: str, *, retry_after_seconds: int = 0) -> None:
        super().__init__(message)
        self.status, self.retry_after_seconds = status, retry_after_seconds


class Authenticator(Protocol):
    """Decides whether a connection may speak for a node."""

    def check(self, node: str, request: Request, tls: ssl.SSLObject | None) -> str:
        """A proof that the peer is ``node``, to be shown to :meth:`is_valid` later.

        Raises: HandshakeRefused with 401 (it proves nothing) or 403 (it is somebody else).
        """

    def is_valid(self, node: str, proof: str) -> bool:
        """Whether what was accepted as ``proof`` would be accepted again."""

    def reload(self) -> bool:
        """Read again what has changed on disk; whether something has."""


class NoAuthenticator:
    """Everybody is who they say, as Sedna's Local Controllers know nothing else."""

    def check(self, node: str, request: Request, tls: ssl.SSLObject | None) -> str:
        """Accept."""
        return ""

    def is_valid(self, node: str, proof: str) -> bool:
        """Nothing was proved, so nothing can be revoked."""
        return True

    def reload(self) -> bool:
        """There is nothing to read."""
        return False


class MtlsAuthenticator(NoAuthenticator):
    """The common name of the client's certificate is ``system:node:<node>``.

    Whether the certificate is good has been decided by the TLS handshake.
    """

    def check(self, node: str, request: Request, tls: ssl.SSLObject | None) -> str:
        """See :class:`Authenticator`."""
        certificate = tls.getpeercert() if tls is not None else None
        if not certificate:
            raise HandshakeRefused(401, "a client certificate is needed")
        names = [value for rdn in certificate.get("subject", ()) for name, value in _pairs(rdn)]
        if f"{_CERTIFICATE_USER}{node}" not in names:
            raise HandshakeRefused(403, "the client certificate belongs to another node")
        return ""


def _pairs(rdn: object) -> list[tuple[str, str]]:
    """The common names among a certificate's relative distinguished name."""
    pairs = rdn if isinstance(rdn, tuple) else ()
    return [pair for pair in pairs if pair[0] == "commonName"]


class TokenAuthenticator:
    """A bearer token that a file maps to a node: lines ``token,node``, ``#`` for comments.

    Only hashes of the tokens are kept. When the file becomes unreadable, what it said before
    stays in force.
    """

    def __init__(self, path: str) -> None:
        self._file = WatchedFiles(path)
        self._nodes = _read_tokens(Path(path))

    def check(self, node: str, request: Request, tls: ssl.SSLObject | None) -> str:
        """See :class:`Authenticator`."""
        values = request.headers.get_all("Authorization")
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        proof = _hash(token.strip())
        owner = self._nodes.get(proof) if scheme.lower() == "bearer" else None
        if owner is None:
            raise HandshakeRefused(401, "a bearer token that GM knows is needed")
        if owner != node:
            raise HandshakeRefused(403, "the token belongs to another node")
        return proof

    def is_valid(self, node: str, proof: str) -> bool:
        """See :class:`Authenticator`."""
        return self._nodes.get(proof) == node

    def reload(self) -> bool:
        """See :class:`Authenticator`."""
        if not self._file.have_changed():
            return False
        try:
            self._nodes = _read_tokens(self._file.paths[0])
        except ConfigError as exc:
            logger.error(  # the message says it all
                "tokens are not reloaded; those read before stay valid", extra={"cause": str(exc)}
            )
            return False
        logger.info("tokens reloaded", extra={"tokens": len(self._nodes)})
        return True


def _hash(token: str) -> str:
    # Looking up a hash takes a time that says nothing about how much of a token was right.
    return hashlib.sha256(token.encode()).hexdigest()


def _read_tokens(path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        reason = (getattr(exc, "strerror", None) or str(exc)).lower()
        raise ConfigError(f"websocket.tokenFile {str(path)!r} can not be read: {reason}") from None
    nodes: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        token, _, node = (part.strip() for part in line.partition(","))
        if len(token) < _MIN_TOKEN or not _NODE_NAME.fullmatch(node):
            raise ConfigError(
                f"websocket.tokenFile {str(path)!r}, line {number}: 'token,node' is expected, with"
                f" a token of at least {_MIN_TOKEN} characters"
            )
        if nodes.setdefault(_hash(token), node) != node:
            raise ConfigError(
                f"websocket.tokenFile {str(path)!r}, line {number}: this token has another node"
                " further up"
            )
    return nodes


def make_authenticator(settings: WebsocketConfig) -> Authenticator:
    """What ``websocket.auth`` asks for.

    Raises: ConfigError when a file that it needs is missing or wrong.
    """
    match settings.auth:
        case "token":
            return TokenAuthenticator(settings.token_file)
        case "mtls":
            return MtlsAuthenticator()
        case _:
            return NoAuthenticator()


def node_name(headers: Headers) -> str:
    """The node that the peer claims to be.

    Raises: HandshakeRefused with 400 when header Node-Name is missing, doubled or no node's name.
    """
    values = headers.get_all("Node-Name")
    if len(values) != 1 or not values[0]:
        raise HandshakeRefused(400, "header Node-Name is missing or given more than once")
    if not _NODE_NAME.fullmatch(values[0]):
        raise HandshakeRefused(
            400,
            "header Node-Name is no node name: at most 253 letters, digits, '-', '.' or '_',"
            " with a letter or digit at both ends",
        )
    return values[0]
