"""Wire v2, subprotocol ``gm.v2``: MessagePack maps in binary frames (docs/protocol.md).

The agent says what it holds, GM sends the difference, everything is acknowledged both ways.
Frames carry no sequence numbers: an ``ack`` names the version that it acknowledges, so that one
encoded ``put`` serves every node.
"""

from __future__ import annotations

from typing import Annotated, TypeVar, get_args

import msgspec
from msgspec.structs import force_setattr
from websockets.frames import Opcode

from gm.messagelayer.message import (
    Desired,
    MalformedFrame,
    UnknownType,
    WireKey,
    check_key,
    server_frame,
    wrong_shape,
)

__all__ = [
    "SUBPROTOCOL",
    "Ack",
    "Delete",
    "Error",
    "FromEdge",
    "FromGm",
    "Hello",
    "Holding",
    "Put",
    "Refused",
    "ReportAck",
    "ReportFrame",
    "Synced",
    "Welcome",
    "decode_from_edge",
    "decode_from_gm",
    "encode_v2",
    "frame_v2",
    "put_frame_v2",
]

T = TypeVar("T")

SUBPROTOCOL = "gm.v2"


class Holding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One line of an inventory: an object that the agent holds, and which version of it."""

    kind: str
    namespace: str
    name: str
    uid: str
    digest: str

    @property
    def key(self) -> WireKey:
        """Which object it is."""
        return WireKey(self.kind.lower(), self.namespace, self.name)


class _Frame(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """What all frames share: a map with ``type``; absent fields have their default."""


class _ObjectFrame(_Frame, frozen=True):
    """A frame about one object."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> WireKey:
        """Which object it is about."""
        return WireKey(self.kind.lower(), self.namespace, self.name)


class Hello(_Frame, frozen=True, tag="hello"):
    """Edge, first frame: who it is and everything it holds."""

    agent: str = ""
    inventory: tuple[Holding, ...] = ()


class Ack(_ObjectFrame, frozen=True, tag="ack"):
    """Edge: a ``put`` (uid and digest) or ``delete`` (uid, no digest) is done and durable."""

    uid: str = ""
    digest: str = ""


class Refused(_ObjectFrame, frozen=True, tag="refused"):
    """Edge: this version can not be taken; GM sends it no more, only a newer one."""

    uid: str = ""
    digest: str = ""
    reason: str = ""


class ReportFrame(_ObjectFrame, frozen=True, tag="report"):
    """Edge: status of an object; ``content`` is JSON as in v1, ``id`` counts up."""

    id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]  # what a signed column of SQL holds
    content: bytes
    uid: str = ""


class Welcome(_Frame, frozen=True, tag="welcome", rename="camel"):
    """GM, answer to ``hello``: the limits of this session."""

    max_frame_bytes: int
    report_window: int
    gm: str = ""


class Put(_ObjectFrame, frozen=True, tag="put"):
    """GM: hold this version of the object, in place of any other under its key."""

    uid: str
    digest: str
    content: bytes


class Delete(_ObjectFrame, frozen=True, tag="delete"):
    """GM: hold the object no more; ignored when another uid is held under its key."""

    uid: str = ""


class Synced(_Frame, frozen=True, tag="synced"):
    """GM: the first difference is out; what came before it is what the node shall hold."""


class ReportAck(_Frame, frozen=True, tag="report-ack"):
    """GM: the API server took report ``id``, or it is refused for good, with the reason.

    With ``later`` neither is so yet: the agent keeps it, but it takes no place in the window.
    """

    id: int
    error: str = ""
    later: bool = False


class Error(_Frame, frozen=True, tag="error"):
    """Either way: a frame was not understood; nothing else follows from it."""

    message: str = ""


FromEdge = Hello | Ack | Refused | ReportFrame | Error
FromGm = Welcome | Put | Delete | Synced | ReportAck | Error

_encoder = msgspec.msgpack.Encoder()
_edge_decoder = msgspec.msgpack.Decoder(FromEdge)
_gm_decoder = msgspec.msgpack.Decoder(FromGm)


class _AnyFrame(msgspec.Struct):
    """What is left of a frame of any type."""

    type: str


_any_decoder = msgspec.msgpack.Decoder(_AnyFrame)
_TYPES = frozenset(
    frame.__struct_config__.tag for frame in (*get_args(FromEdge), *get_args(FromGm))
)


def encode_v2(message: FromEdge | FromGm) -> bytes:
    """The payload of a binary frame."""
    return _encoder.encode(message)


def decode_from_edge(payload: bytes) -> FromEdge:
    """What an agent sent; its keys may name anything (``check_key`` looks at them).

    Raises: UnknownType, or MalformedFrame, whatever the bytes are.
    """
    return _decode(_edge_decoder, payload)


def decode_from_gm(payload: bytes) -> FromGm:
    """What GM sent; its kinds may be some that are not known here: a newer GM has more.

    Raises: UnknownType, or MalformedFrame, whatever the bytes are.
    """
    message = _decode(_gm_decoder, payload)
    if isinstance(message, _ObjectFrame):
        check_key(message.kind, message.namespace, message.name, takes_any_kind=True)
    return message


def _decode(decoder: msgspec.msgpack.Decoder[T], payload: bytes) -> T:
    try:
        try:
            return decoder.decode(payload)
        except msgspec.ValidationError:
            # It looks at the type before the rest, which may not even be MessagePack.
            if (name := _any_decoder.decode(payload).type) not in _TYPES:
                raise UnknownType(f"frames of type {name[:32]!r} are unknown here") from None
            raise
    except msgspec.ValidationError as exc:
        raise wrong_shape(exc) from exc
    except (msgspec.DecodeError, ValueError) as exc:
        raise MalformedFrame("frame is not MessagePack", reason="msgpack") from exc
    except RecursionError as exc:
        raise MalformedFrame("frame is nested too deeply", reason="nesting") from exc


def frame_v2(message: FromGm) -> bytes:
    """The websocket frame with which GM sends ``message``."""
    return server_frame(Opcode.BINARY, encode_v2(message))


def put_frame_v2(desired: Desired) -> bytes:
    """The websocket frame that puts ``desired`` on a v2 node, encoded once."""
    frame = desired._put_v2
    if frame is None:
        key = desired.key
        put = Put(key.kind, key.namespace, key.name, desired.uid, desired.digest, desired.content)
        frame = frame_v2(put)
        force_setattr(desired, "_put_v2", frame)
    return frame
