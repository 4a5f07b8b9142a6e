"""What trainers and aggregator say to each other: MessagePack in websocket messages.

A trainer sends `Join` once a connection, then an `Update` for each `Train`, and `Acknowledge` for
`Final`. The aggregator sends `Welcome`, then what there is to do now; after a lost connection the
same again, so both sides may be restarted at any time.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from gm.examples.federated.learner import Weights

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Acknowledge",
    "Array",
    "Final",
    "FromAggregator",
    "FromTrainer",
    "Join",
    "ProtocolError",
    "Refused",
    "Train",
    "Update",
    "Welcome",
    "decode_from_aggregator",
    "decode_from_trainer",
    "encode",
    "pack",
    "unpack",
]

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A message beyond this ends the connection."""

_MAX_ARRAYS = 16


class ProtocolError(Exception):
    """The other side sent something that makes no sense."""


class Array(msgspec.Struct, frozen=True):
    """One array of 32-bit floats, little-endian, row by row."""

    shape: list[int]
    data: bytes


class Join(msgspec.Struct, frozen=True, tag="join", kw_only=True):
    """A trainer introduces itself; ``worker`` is its identity across restarts."""

    job: str
    worker: str
    dataset: str
    samples: int


class Update(msgspec.Struct, frozen=True, tag="update", kw_only=True):
    """The weights after training on ``samples`` samples in ``round``."""

    round: int
    samples: int
    weights: list[Array]


class Acknowledge(msgspec.Struct, frozen=True, tag="acknowledge"):
    """The trainer has the final model and leaves."""


class Welcome(msgspec.Struct, frozen=True, tag="welcome", kw_only=True):
    """How to learn, and the weights before the first round."""

    rounds: int
    epochs: int
    batch: int
    rate: float
    weights: list[Array]


class Train(msgspec.Struct, frozen=True, tag="train", kw_only=True):
    """Train from these weights, which the rounds before ``round`` gave."""

    round: int
    weights: list[Array]


class Final(msgspec.Struct, frozen=True, tag="final", kw_only=True):
    """The federation is done and its model is saved."""

    round: int
    weights: list[Array]


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The aggregator will not work with this trainer now."""

    reason: str


FromTrainer = Join | Update | Acknowledge
FromAggregator = Welcome | Train | Final | Refused

encode = msgspec.msgpack.Encoder().encode
_from_trainer = msgspec.msgpack.Decoder(FromTrainer)
_from_aggregator = msgspec.msgpack.Decoder(FromAggregator)


def decode_from_trainer(message: str | bytes) -> FromTrainer:
    """What a trainer said; raises `ProtocolError`."""
    try:
        return _from_trainer.decode(_binary(message))
    except msgspec.DecodeError as exc:
        raise ProtocolError(f"not a trainer's message: {exc}") from None


def decode_from_aggregator(message: str | bytes) -> FromAggregator:
    """What the aggregator said; raises `ProtocolError`."""
    try:
        return _from_aggregator.decode(_binary(message))
    except msgspec.DecodeError as exc:
        raise ProtocolError(f"not an aggregator's message: {exc}") from None


def _binary(message: str | bytes) -> bytes:
    if isinstance(message, str):
        raise ProtocolError("a text message instead of a binary one")
    return message


def pack(weights: Weights) -> list[Array]:
    """``weights`` ready to be sent."""
    return [
        Array(list(array.shape), np.ascontiguousarray(array, "<f4").tobytes()) for array in weights
    ]


def unpack(arrays: list[Array], *, like: Weights | None = None) -> Weights:
    """The weights in a message, with the shapes of ``like`` if given; raises `ProtocolError`."""
    if len(arrays) > _MAX_ARRAYS:
        raise ProtocolError(f"{len(arrays)} arrays")
    weights = tuple(_unpack_one(array) for array in arrays)
    if like is not None and [a.shape for a in weights] != [a.shape for a in like]:
        raise ProtocolError("the weights have another shape than this job's model")
    if not all(np.isfinite(array).all() for array in weights):
        raise ProtocolError("the weights are not finite; a smaller LEARNING_RATE may help")
    return weights


def _unpack_one(array: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if len(array.shape) > 2 or min(array.shape, default=0) < 0:
        raise ProtocolError(f"an array of shape {array.shape}")
    if math.prod(array.shape) * 4 != len(array.data):
        raise ProtocolError("an array whose size does not fit its shape")
    return np.frombuffer(array.data, "<f4").reshape(array.shape).astype(np.float32)
