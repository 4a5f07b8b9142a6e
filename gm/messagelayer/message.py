"""What travels between GM and an edge node, and wire v1, Sedna's own: JSON text frames.

Every v1 frame but the first is ``{"header": {...}, "content": "<base64 of JSON>"}``; the first one
an LC sends is a bare header, its hello. Wire v2 is in :mod:`gm.messagelayer.v2`. Nothing here does
I/O, and bytes from a peer can raise :class:`MalformedFrame` only.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Collection

import msgspec
from msgspec.structs import force_setattr
from websockets.frames import Opcode

from gm.errors import GmError, ProtocolViolation

__all__ = [
    "DELETE",
    "DOWN",
    "HELLO_V1",
    "INSERT",
    "KINDS",
    "STATUS",
    "UP",
    "Desired",
    "MalformedFrame",
    "Report",
    "UnknownType",
    "V1Message",
    "WireKey",
    "check_json",
    "check_key",
    "decode_v1",
    "delete_frame_v1",
    "encode_v1",
    "insert_frame_v1",
    "server_frame",
    "wrong_shape",
]

KINDS = frozenset(
    {
        "dataset",
        "federatedlearningjob",
        "incrementallearningjob",
        "jointinferenceservice",
        "lifelonglearningjob",
        "model",
    }
)
"""Kinds as the wire writes them."""

INSERT, DELETE, STATUS = "insert", "delete", "status"
DOWN = frozenset({INSERT, DELETE})
"""Operations that an LC understands."""
UP = frozenset({STATUS})
"""Operations that GM understands."""

HELLO_V1 = b'{"namespace":"","resourceKind":"","resourceName":"","operation":""}\n'
"""The first frame of a v1 session, byte for byte as the Go LC sends it."""

_FRAGMENT_BYTES = 128 * 1024
_PING = b"\x89\x00"

_KIND = re.compile(r"[a-z][a-z0-9]{0,62}")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


class MalformedFrame(ProtocolViolation):
    """A frame that can not be understood; ``reason`` is one word for a counter's label.

    One such frame costs nothing but itself; many in a minute end the session with 1008.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message, close_code=1008)
        self.reason = reason


class UnknownType(GmError):
    """A frame without a fault, of a type that is unknown here: the peer is newer, ignore it."""


def wrong_shape(exc: msgspec.ValidationError) -> MalformedFrame:
    """Which field is not as it should be; nothing of what the peer wrote is repeated."""
    what = str(exc)
    if what.startswith("Invalid value"):
        what = "its type is not for this direction"
    return MalformedFrame(f"frame does not have the shape of a message: {what}", reason="shape")


class WireKey(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """Which object a frame is about; ``kind`` in lower case."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Desired(msgspec.Struct, frozen=True, eq=False):
    """One version of an object as a node shall hold it; the same instance serves all nodes.

    ``digest`` is a hash of what counts as a change, ``content`` the object as JSON.
    ``spec_identity`` is what a v1 node can not change in place (a Dataset's url): with another
    one, as with another ``uid``, the object is deleted there and inserted anew.
    """

    key: WireKey
    uid: str
    digest: str
    content: bytes
    spec_identity: str = ""
    # Encoded once, when the first node needs them, and then shared.
    _insert_v1: bytes | None = None
    _put_v2: bytes | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Desired) and self.key == other.key and self.same_version(other)

    def __hash__(self) -> int:
        return hash((self.key, self.uid, self.digest))

    def same_version(self, other: Desired) -> bool:
        """Whether sending ``other`` after this one would tell the node nothing new."""
        return (self.uid, self.digest, self.spec_identity) == (
            other.uid,
            other.digest,
            other.spec_identity,
        )

    @property
    def identity(self) -> int:
        """32 bits of uid and ``spec_identity``, never 0: what a record keeps of an incarnation."""
        return zlib.crc32(f"{self.uid}\0{self.spec_identity}".encode()) or 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A status report of ``node`` on an object of its own; ``content`` is well-formed JSON.

    ``uid`` is the object's, where the wire carries it (v2). ``ids`` are the agent's numbers of
    this report and of older ones that it replaces.
    """

    node: str
    key: WireKey
    operation: str = STATUS
    content: bytes
    uid: str = ""
    ids: tuple[int, ...] = ()


class V1Message(msgspec.Struct, frozen=True):
    """A v1 frame, decoded; ``operation`` is lower case, ``content`` valid JSON or empty."""

    key: WireKey
    operation: str
    content: bytes


class _Header(msgspec.Struct):
    namespace: str | None = None
    resource_kind: str | None = msgspec.field(default=None, name="resourceKind")
    resource_name: str | None = msgspec.field(default=None, name="resourceName")
    operation: str | None = None


class _V1Frame(_Header):
    header: _Header | None = None
    content: str | None = None


class _V1Out(msgspec.Struct):
    header: dict[str, str]
    content: str


_decode_frame = msgspec.json.Decoder(_V1Frame).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.Encoder().encode


def encode_v1(key: WireKey, operation: str, content: bytes) -> bytes:
    """A v1 frame, either way."""
    header = {
        "namespace": key.namespace,
        "resourceKind": key.kind,
        "resourceName": key.name,
        "operation": operation,
    }
    return _encode(_V1Out(header, base64.b64encode(content).decode()))


def decode_v1(
    frame: str | bytes, *, operations: Collection[str], max_bytes: int | None = None
) -> V1Message | None:
    """The message in ``frame``, None for the hello.

    Raises: MalformedFrame, whatever the bytes are.
    """
    if max_bytes is not None and len(frame) > max_bytes:
        raise MalformedFrame(f"frame of {len(frame)} bytes: {max_bytes} are allowed", reason="size")
    decoded = _parse(frame)
    if decoded.header is None:
        if decoded.content is None and not (decoded.resource_kind or decoded.resource_name):
            return None
        raise MalformedFrame("frame without header", reason="header")
    header = decoded.header
    key = check_key(header.resource_kind, header.namespace, header.resource_name)
    operation = (header.operation or "").lower()
    if operation not in operations:
        raise MalformedFrame(f"operation {operation[:32]!r} is unknown here", reason="operation")
    try:
        content = base64.b64decode(decoded.content or "", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise MalformedFrame("content is not base64", reason="base64") from exc
    if content or operation == STATUS:
        check_json(content)
    return V1Message(key, operation, content)


def _parse(frame: str | bytes) -> _V1Frame:
    try:
        return _decode_frame(frame)
    except msgspec.ValidationError as exc:
        raise wrong_shape(exc) from exc
    except (msgspec.DecodeError, ValueError) as exc:
        raise MalformedFrame("frame is not JSON", reason="json") from exc
    except RecursionError as exc:
        raise MalformedFrame("frame is nested too deeply", reason="nesting") from exc


def check_key(
    kind: str | None, namespace: str | None, name: str | None, *, takes_any_kind: bool = False
) -> WireKey:
    """The key that these three name, kind in lower case.

    Raises: MalformedFrame when the kind is unknown (``takes_any_kind``: could be no kind), or a
    name could not be a Kubernetes name.
    """
    lower = (kind or "").lower()
    if not (_KIND.fullmatch(lower) if takes_any_kind else lower in KINDS):
        raise MalformedFrame(f"kind {(kind or '')[:64]!r} is unknown", reason="kind")
    if not _NAMESPACE.fullmatch(namespace or "") or not _NAME.fullmatch(name or ""):
        raise MalformedFrame("namespace or name is no Kubernetes name", reason="name")
    return WireKey(lower, namespace or "", name or "")


def check_json(content: bytes) -> None:
    """Refuse ``content`` that is not JSON in UTF-8, or that is nested too deeply to be read.

    Raises: MalformedFrame.
    """
    try:
        content.decode()  # a raw decode looks at the structure only
        _decode_raw(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise MalformedFrame("content is not JSON", reason="content") from exc
    except RecursionError as exc:
        raise MalformedFrame("content is nested too deeply", reason="nesting") from exc


def server_frame(opcode: Opcode, payload: bytes) -> bytes:
    """A websocket message as a server writes it (unmasked), whole, so that it can be shared.

    A large one goes in fragments with pings between them. Their pongs show that the peer makes
    progress, also where a proxy on the way has swallowed the message at once.
    """
    size = len(payload)
    if size <= _FRAGMENT_BYTES:
        return _head(0x80 | opcode, size) + payload
    parts = []
    for start in range(0, size, _FRAGMENT_BYTES):
        fragment = payload[start : start + _FRAGMENT_BYTES]
        first = opcode if start == 0 else Opcode.CONT
        fin = 0x80 if start + _FRAGMENT_BYTES >= size else 0
        parts += [_head(fin | first, len(fragment)), fragment, _PING]
    return b"".join(parts)


def _head(first: int, size: int) -> bytes:
    """The header of an unmasked frame."""
    if size < 126:
        return bytes((first, size))
    if size < 65536:
        return bytes((first, 126)) + size.to_bytes(2)
    return bytes((first, 127)) + size.to_bytes(8)


def insert_frame_v1(desired: Desired) -> bytes:
    """The websocket frame that inserts or updates ``desired`` on a v1 node, encoded once."""
    frame = desired._insert_v1
    if frame is None:
        payload = encode_v1(desired.key, INSERT, desired.content)
        frame = server_frame(Opcode.TEXT, payload)
        force_setattr(desired, "_insert_v1", frame)
    return frame


def delete_frame_v1(key: WireKey) -> bytes:
    """The websocket frame that deletes ``key`` on a v1 node; the object itself may be forgotten."""
    content = _encode(
        {"kind": key.kind, "metadata": {"namespace": key.namespace, "name": key.name}}
    )
    return server_frame(Opcode.TEXT, encode_v1(key, DELETE, content))
