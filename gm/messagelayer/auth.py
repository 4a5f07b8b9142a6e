"""Who is it? Checks of a handshake, before the connection becomes a websocket."""

from __future__ import annotations

import re
import ssl
from typing import Protocol

from websockets.datastructures import Headers
from websockets.http11 import Request

from gm.errors import GmError

__all__ = ["Authenticator", "HandshakeRefused", "NoAuthenticator", "node_name"]

_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


class HandshakeRefused(GmError):
    """The connection does not become a websocket; it is answered with HTTP ``status``."""

    def __init__(self, status: int, message: str, *, retry_after_seconds: int = 0) -> None:
        super().__init__(message)
        self.status, self.retry_after_seconds = status, retry_after_seconds


class Authenticator(Protocol):
    """Decides whether a connection may speak for a node."""

    def check(self, node: str, request: Request, tls: ssl.SSLObject | None) -> None:
        """Return if the peer is ``node``.

        Raises: HandshakeRefused with 401 (it proves nothing) or 403 (it is somebody else).
        """


class NoAuthenticator:
    """Everybody is who they say, as Sedna's Local Controllers know nothing else."""

    def check(self, node: str, request: Request, tls: ssl.SSLObject | None) -> None:
        """Accept."""


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
