"""Wire v1: what a Go LC sends and understands, and everything else that may come."""

from __future__ import annotations

import base64
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from websockets.frames import Opcode

from gm.messagelayer import DOWN, HELLO_V1, INSERT, UP, MalformedFrame, V1Message, decode_v1
from gm.messagelayer.message import (
    check_json,
    check_key,
    delete_frame_v1,
    encode_v1,
    insert_frame_v1,
    server_frame,
)
from tests.messagelayer.support import desired, key, payload_of

# Recorded from a Go LC.
REPORT = (
    '{"header":{"namespace":"default","resourceKind":"Dataset","resourceName":"d-csv",'
    '"operation":"status"},"content":"eyJudW1iZXJPZlNhbXBsZXMiOjJ9"}\n'
)


def test_bare_header_is_the_hello() -> None:
    """It has no wrapper and no key."""
    assert decode_v1(HELLO_V1, operations=UP) is None
    assert decode_v1(HELLO_V1.decode(), operations=UP) is None


def test_report_of_a_go_lc_is_read_with_its_kind_in_lower_case() -> None:
    """The Go LC writes Dataset with a capital."""
    assert decode_v1(REPORT, operations=UP) == V1Message(
        key("d-csv"), "status", b'{"numberOfSamples":2}'
    )


def test_encoded_frame_is_what_sedna_sends() -> None:
    """Field names and their order, and base64 of the object."""
    frame = encode_v1(key("d"), INSERT, b'{"a":1}')
    assert json.loads(frame) == {
        "header": {
            "namespace": "default",
            "resourceKind": "dataset",
            "resourceName": "d",
            "operation": "insert",
        },
        "content": base64.b64encode(b'{"a":1}').decode(),
    }
    assert frame.startswith(b'{"header":{"namespace":"default","resourceKind":"dataset"')
    assert decode_v1(frame, operations=DOWN) == V1Message(key("d"), "insert", b'{"a":1}')


def test_frames_of_an_object_are_encoded_once() -> None:
    """All nodes get the same bytes."""
    version = desired("d")
    frame = insert_frame_v1(version)
    assert insert_frame_v1(version) is frame
    decoded = decode_v1(payload_of(frame), operations=DOWN)
    assert decoded == V1Message(key("d"), "insert", version.content)


def test_delete_needs_no_object() -> None:
    """Its content names it, as the Go LC wants to parse one."""
    message = decode_v1(payload_of(delete_frame_v1(key("d"))), operations=DOWN)
    assert message is not None
    assert (message.key, message.operation) == (key("d"), "delete")
    assert json.loads(message.content)["metadata"] == {"name": "d", "namespace": "default"}


def test_large_message_is_fragmented_with_pings_between() -> None:
    """Pongs come while it is on its way, and the fragments are the message."""
    payload = bytes(range(256)) * 1200
    frame = server_frame(Opcode.BINARY, payload)
    parts, pings, opcodes = b"", 0, []
    while frame:
        length, start = frame[1], 2
        if length >= 126:
            size = 2 if length == 126 else 8
            length, start = int.from_bytes(frame[2 : 2 + size]), 2 + size
        opcode, body, frame = frame[0], frame[start : start + length], frame[start + length :]
        if opcode == 0x89:
            pings += 1
        else:
            opcodes.append(opcode)
            parts += body
    assert parts == payload
    assert opcodes == [0x02, 0x00, 0x80]
    assert pings == 3


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("", "json"),
        ("nul", "json"),
        (b"\xff\xfe", "json"),
        ("[1]", "shape"),
        ('{"header": 1}', "shape"),
        ('{"content": ""}', "header"),
        ('{"resourceKind": "dataset"}', "header"),
        (REPORT.replace("Dataset", "Gadget"), "kind"),
        (REPORT.replace('"Dataset"', "null"), "kind"),
        (REPORT.replace("status", "update"), "operation"),
        (REPORT.replace("d-csv", "D-csv"), "name"),
        (REPORT.replace("d-csv", ""), "name"),
        (REPORT.replace("d-csv", "x" * 254), "name"),
        (REPORT.replace('"default"', '"../etc"'), "name"),
        (REPORT.replace("eyJ", "e,J"), "base64"),
        (REPORT.replace("eyJudW1iZXJPZlNhbXBsZXMiOjJ9", "ey"), "base64"),
        (REPORT.replace("eyJudW1iZXJPZlNhbXBsZXMiOjJ9", "ZZZZ"), "content"),
        (REPORT.replace("eyJudW1iZXJPZlNhbXBsZXMiOjJ9", ""), "content"),
        ('{"a":' * 10_000, "nesting"),
        (REPORT.replace("eyJudW1iZXJPZlNhbXBsZXMiOjJ9", "W1tb" * 10_000), "nesting"),
        ("x" * 5_000_000, "size"),
    ],
)
def test_malformed_frame_says_what_is_wrong(frame: str | bytes, reason: str) -> None:
    """One word for a counter, and never a part of the frame that could be a secret."""
    with pytest.raises(MalformedFrame) as malformed:
        decode_v1(frame, operations=UP, max_bytes=4_000_000)
    assert malformed.value.reason == reason
    assert malformed.value.close_code == 1008


def test_content_must_be_utf_8() -> None:
    """Only its structure would pass a decoder that looks no closer."""
    with pytest.raises(MalformedFrame):
        check_json(b'{"a": "\xff"}')


def test_key_with_missing_parts_is_malformed() -> None:
    """Null is as good as nothing."""
    with pytest.raises(MalformedFrame):
        check_key(None, None, None)


def test_identity_tells_incarnations_apart() -> None:
    """A uid or a url makes another one, a new version does not."""
    assert desired("d", 1).identity == desired("d", 2).identity
    assert desired("d", uid="u1").identity != desired("d", uid="u2").identity
    assert desired("d").identity != desired("d", url="/x").identity


def test_equal_versions_are_equal_objects() -> None:
    """What is cached in them makes no difference."""
    one, other = desired("d"), desired("d")
    insert_frame_v1(one)
    assert one == other
    assert hash(one) == hash(other)
    assert one != desired("d", 2)
    assert one != "d"


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
header_like = st.fixed_dictionaries(
    {},
    optional={
        "namespace": st.sampled_from(["default", "", "../x"]) | json_like,
        "resourceKind": st.sampled_from(["dataset", "Dataset", "x"]) | json_like,
        "resourceName": st.sampled_from(["d", "D", ""]) | json_like,
        "operation": st.sampled_from(["status", "insert", ""]) | json_like,
    },
)
frame_like = st.fixed_dictionaries(
    {},
    optional={
        "header": header_like | json_like,
        "content": st.binary(max_size=30).map(lambda b: base64.b64encode(b).decode()) | json_like,
    },
)


def decodes_or_is_malformed(frame: str | bytes) -> None:
    try:
        message = decode_v1(frame, operations=UP)
    except MalformedFrame:
        return
    assert message is None or message.operation == "status"


@settings(derandomize=True, max_examples=500)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes_are_a_message_or_malformed_P1_050(frame: str | bytes) -> None:
    """Never another error."""
    decodes_or_is_malformed(frame)


@settings(derandomize=True, max_examples=500)
@given(frame_like | header_like | json_like)
def test_any_json_is_a_message_or_malformed_P1_050(value: object) -> None:
    """Never another error."""
    decodes_or_is_malformed(json.dumps(value))


@settings(derandomize=True, max_examples=300)
@given(st.data())
def test_any_damage_to_a_good_frame_is_a_message_or_malformed_P1_050(data: st.DataObject) -> None:
    """Never another error."""
    frame = bytearray(REPORT.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    decodes_or_is_malformed(bytes(frame))
