"""The library's protocol core, set up as every connection needs it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from gm.messagelayer.v2 import SUBPROTOCOL

__all__ = ["BAD_REQUEST", "WebsocketProtocol"]

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
"""For what is no HTTP, where the library would hang up without a word."""

# The library logs frames, hence object bodies, at debug level: this one never gets there.
_library_logger = logging.getLogger("gm.messagelayer.websockets")
_library_logger.setLevel(logging.ERROR)


class WebsocketProtocol(ServerProtocol):
    """No extensions, so no compression; v2 where it is offered."""

    def __init__(self, *, max_size: int) -> None:
        super().__init__(max_size=max_size, logger=_library_logger)

    def select_subprotocol(self, subprotocols: Sequence[Subprotocol]) -> Subprotocol | None:
        """Ours if it is offered, else none: what a Go LC offers, nothing, is v1."""
        ours = Subprotocol(SUBPROTOCOL)
        return ours if ours in subprotocols else None
