"""Messages between trainers and aggregator: nothing that comes in can do harm."""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.examples.federated.learner import initial_weights
from gm.examples.federated.protocol import (
    Array,
    Join,
    ProtocolError,
    Train,
    decode_from_aggregator,
    decode_from_trainer,
    encode,
    pack,
    unpack,
)

WEIGHTS = initial_weights(features=4, hidden=3, classes=2, seed=0)


def test_weights_survive_the_way() -> None:
    """Bit by bit."""
    message = decode_from_aggregator(encode(Train(round=1, weights=pack(WEIGHTS))))
    assert isinstance(message, Train)
    for a, b in zip(unpack(message.weights, like=WEIGHTS), WEIGHTS, strict=True):
        np.testing.assert_array_equal(a, b)


@given(st.binary(max_size=200) | st.text(max_size=20))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes | str) -> None:
    """Never anything else."""
    for decode in (decode_from_trainer, decode_from_aggregator):
        with contextlib.suppress(ProtocolError):
            decode(data)


def test_messages_go_one_way_only() -> None:
    """A trainer does not take orders from another trainer."""
    join = encode(Join(job="a/b", worker="w", dataset="d", samples=1))
    assert isinstance(decode_from_trainer(join), Join)
    with pytest.raises(ProtocolError):
        decode_from_aggregator(join)


@pytest.mark.parametrize(
    "array",
    [
        Array([2, 2], b"1234"),
        Array([-1], b""),
        Array([2**40, 2**40], b""),
        Array([1, 1, 1], b"1234"),
        Array([], b""),
    ],
)
def test_array_whose_size_does_not_fit_is_refused(array: Array) -> None:
    """Nothing is allocated for what is not there."""
    with pytest.raises(ProtocolError):
        unpack([array])


def test_weights_of_another_model_or_not_finite_are_refused() -> None:
    """One trainer must not spoil the model for all."""
    with pytest.raises(ProtocolError, match="another shape"):
        unpack(pack(WEIGHTS[:2]), like=WEIGHTS)
    with pytest.raises(ProtocolError, match="not finite"):
        unpack(pack(tuple(array * np.nan for array in WEIGHTS)), like=WEIGHTS)
    with pytest.raises(ProtocolError, match="arrays"):
        unpack([Array([1], b"1234")] * 100)


def test_unknown_fields_are_ignored() -> None:
    """So that newer and older workers understand each other."""
    message = msgspec.msgpack.encode(
        {"type": "join", "job": "a/b", "worker": "w", "dataset": "d", "samples": 1, "new": True}
    )
    assert isinstance(decode_from_trainer(message), Join)
