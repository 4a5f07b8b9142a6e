"""Bytes of an open websocket to messages, cheaply for the small frames that nodes send.

Whole, unfragmented, small frames are taken here. Every other frame goes, byte for byte, through
the library's parser, which knows all the rules and what to answer when one is broken. No frame is
seen by both, so neither notices the other.
"""

from __future__ import annotations

from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without the library's C extension
    from websockets.utils import apply_mask

__all__ = ["Incoming"]

_SMALL_BYTES = 65535  # beyond it the length has another form
_WHOLE = {0x80 | opcode: opcode for opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.PONG)}


class Incoming:
    """Messages and pongs of one connection, in order."""

    __slots__ = ("_max_bytes", "_message", "_opcode", "_owed", "_protocol", "_rest", "has_answers")

    def __init__(self, protocol: ServerProtocol, *, max_bytes: int) -> None:
        self._protocol = protocol
        self._max_bytes = min(max_bytes, _SMALL_BYTES)
        self._owed = 0  # bytes of the current frame that the library still has to get
        self._rest = b""  # the beginning of a frame's header
        self._opcode: Opcode | None = None  # of the message that is coming in fragments
        self._message = bytearray()  # not a list: fragments may be tiny, and many
        self.has_answers = False  # the library was at work: it may want to send something

    def feed(self, data: bytes) -> list[tuple[Opcode, bytes]]:
        """Complete messages and pongs; what the library wants to send is with the library."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        out: list[tuple[Opcode, bytes]] = []
        at, end = 0, len(data)
        while at < end:
            if self._owed or self._protocol.state is not OPEN:
                size = min(self._owed, end - at) if self._owed else end - at
                self._owed -= size if self._owed else 0
                self._through_library(data[at : at + size], out)
                at += size
                continue
            start, size = _header(data, at)
            if not start:
                self._rest = data[at:]
                break
            opcode = _WHOLE.get(data[at])
            is_simple = opcode is not None and size <= self._max_bytes and self._opcode is None
            if opcode is None or not is_simple or data[at + 1] < 0x80 or start + size > end:
                self._owed = start - at + size
                continue
            out.append((opcode, apply_mask(data[start : start + size], data[start - 4 : start])))
            at = start + size
        return out

    def _through_library(self, data: bytes, out: list[tuple[Opcode, bytes]]) -> None:
        self.has_answers = True
        self._protocol.receive_data(data)
        for frame in self._protocol.events_received():
            if isinstance(frame, Frame):
                self._assemble(frame, out)

    def _assemble(self, frame: Frame, out: list[tuple[Opcode, bytes]]) -> None:
        data = bytes(frame.data)
        match frame.opcode:
            case Opcode.PONG:
                out.append((Opcode.PONG, data))
            case Opcode.TEXT | Opcode.BINARY if frame.fin:
                out.append((frame.opcode, data))
            case Opcode.TEXT | Opcode.BINARY:
                self._opcode, self._message = frame.opcode, bytearray(data)
            case Opcode.CONT if self._opcode is not None:
                self._message += data
                if frame.fin:
                    out.append((self._opcode, bytes(self._message)))
                    self._opcode, self._message = None, bytearray()


def _header(data: bytes, at: int) -> tuple[int, int]:
    """Where the payload of the frame at ``at`` begins, and its size; 0 if not told yet."""
    if len(data) - at < 2:
        return 0, 0
    length = data[at + 1] & 0x7F
    extended = {126: 2, 127: 8}.get(length, 0)
    start = at + 2 + extended + (4 if data[at + 1] & 0x80 else 0)
    if start > len(data):
        return 0, 0
    if extended:
        length = int.from_bytes(data[at + 2 : at + 2 + extended])
    return start, length
