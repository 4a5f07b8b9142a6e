"""Frames come out the same however the bytes are cut, and whoever parses them."""

from __future__ import annotations

import tracemalloc

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from websockets.frames import Frame, Opcode
from websockets.protocol import CLOSED, OPEN, State
from websockets.server import ServerProtocol

from gm.messagelayer.incoming import Incoming

LIMIT = 70_000


def incoming(max_bytes: int = LIMIT) -> tuple[ServerProtocol, Incoming]:
    """An open connection."""
    protocol = ServerProtocol(state=State.OPEN, max_size=max_bytes)
    return protocol, Incoming(protocol, max_bytes=max_bytes)


def frame(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    """As a client sends it."""
    return Frame(opcode, payload, fin=fin).serialize(mask=True)


sizes = st.sampled_from([0, 1, 5, 125, 126, 300, 65535, 65536])
messages = st.lists(
    st.tuples(
        st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.PONG, Opcode.PING]),
        sizes,
        st.integers(1, 3),
    ),
    max_size=6,
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(messages, st.lists(st.integers(1, 40_000), max_size=12))
def test_messages_survive_any_cutting(sent: list[tuple[Opcode, int, int]], cuts: list[int]) -> None:
    """Whole or in fragments, with pongs and pings between them."""
    stream, expected, pings = b"", [], 0
    for opcode, size, parts in sent:
        payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
        if opcode in (Opcode.PING, Opcode.PONG):
            payload = payload[:125]
            stream += frame(opcode, payload)
            pings += opcode is Opcode.PING
            if opcode is Opcode.PONG:
                expected.append((opcode, payload))
            continue
        step = max(1, -(-size // parts))
        pieces = [payload[at : at + step] for at in range(0, size, step)] or [b""]
        for number, piece in enumerate(pieces):
            fin = number == len(pieces) - 1
            stream += frame(opcode if number == 0 else Opcode.CONT, piece, fin=fin)
            if not fin:
                stream += frame(Opcode.PONG, b"between")
                expected.append((Opcode.PONG, b"between"))
        expected.append((opcode, payload))
    protocol, parser = incoming()
    got = []
    for cut in cuts:
        got += parser.feed(stream[:cut]) if stream[:cut] else []
        stream = stream[cut:]
    got += parser.feed(stream) if stream else []
    assert got == expected
    assert len([data for data in protocol.data_to_send() if data[0] == 0x80 | Opcode.PONG]) == pings


def test_many_tiny_fragments_cost_no_more_than_their_bytes() -> None:
    """A peer that wants GM's memory would send them one byte at a time, or none."""
    _, parser = incoming()
    parser.feed(frame(Opcode.BINARY, b"", fin=False))
    byte, empty = frame(Opcode.CONT, b"x", fin=False), frame(Opcode.CONT, b"", fin=False)
    parser.feed(byte + empty)  # whatever is made once
    tracemalloc.start()
    try:
        for _ in range(10):
            assert parser.feed((byte + empty) * 1000) == []
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 80_000
    ((opcode, message),) = parser.feed(frame(Opcode.CONT, b""))
    assert (opcode, message) == (Opcode.BINARY, b"x" * 10_001)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (Frame(Opcode.TEXT, b"not masked").serialize(mask=False), 1002),
        (b"\x83\x80\0\0\0\0", 1002),  # an opcode that does not exist
        (b"\xf1\x80\0\0\0\0", 1002),  # reserved bits
        (frame(Opcode.CONT, b"of nothing"), 1002),
        (frame(Opcode.TEXT, b"one", fin=False) + frame(Opcode.TEXT, b"other"), 1002),
        (b"\x89\xfe\x00\x80" + b"\0" * 132, 1002),  # a long ping
        (frame(Opcode.TEXT, b"x" * 2000), 1009),
        (b"\x81\xff" + (2**40).to_bytes(8), 1009),
        (frame(Opcode.TEXT, b"x" * 800, fin=False) + frame(Opcode.CONT, b"x" * 800), 1009),
    ],
    ids=[
        "unmasked",
        "opcode",
        "reserved",
        "continuation",
        "interrupted",
        "long-ping",
        "too-big",
        "huge",
        "too-big-in-parts",
    ],
)
def test_broken_rules_end_the_connection_with_the_right_code(data: bytes, code: int) -> None:
    """Also when a good frame comes before; nothing that follows is looked at."""
    protocol, parser = incoming(1024)
    got = parser.feed(frame(Opcode.BINARY, b"good") + data + frame(Opcode.TEXT, b"late"))
    assert got == [(Opcode.BINARY, b"good")]
    assert protocol.close_sent is not None
    assert protocol.close_sent.code == code
    assert protocol.state is not OPEN
    assert parser.feed(frame(Opcode.TEXT, b"later")) == []


def test_close_is_answered_by_the_library() -> None:
    """And ends what is taken."""
    protocol, parser = incoming()
    close = frame(Opcode.CLOSE, (1000).to_bytes(2))
    assert parser.feed(close + frame(Opcode.TEXT, b"late")) == []
    assert protocol.close_rcvd is not None
    assert protocol.close_rcvd.code == 1000
    protocol.receive_eof()
    assert protocol.state is CLOSED


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8))
def test_any_bytes_are_frames_or_a_broken_rule_P1_050(chunks: list[bytes]) -> None:
    """Never an error; the same verdict as when the library sees everything."""
    protocol, parser = incoming(1024)
    alone = ServerProtocol(state=State.OPEN, max_size=1024)
    for chunk in [*chunks, bytes(20)]:  # zeros: the library complains before a header is whole
        parser.feed(chunk)
        alone.receive_data(chunk)
    ours = protocol.close_sent.code if protocol.close_sent else None
    theirs = alone.close_sent.code if alone.close_sent else None
    assert ours == theirs
