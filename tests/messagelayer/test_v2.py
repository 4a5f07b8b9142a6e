"""Wire v2 as bytes: any order of fields, unknown ones, and everything else that may come."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from gm.messagelayer import MalformedFrame, UnknownType, v2
from tests.messagelayer.support import desired, key, payload_of


def test_put_of_a_version_is_encoded_once() -> None:
    """All nodes get the same bytes."""
    version = desired("d")
    frame = v2.put_frame_v2(version)
    assert v2.put_frame_v2(version) is frame
    put = v2.decode_from_gm(payload_of(frame))
    assert put == v2.Put("dataset", "default", "d", "u1", "1-", version.content)


def test_fields_come_in_any_order_and_unknown_ones_are_ignored() -> None:
    """As another implementation may write them."""
    payload = msgspec.msgpack.encode(
        {
            "extra": [1, {"x": None}],
            "name": "d",
            "digest": "h",
            "namespace": "default",
            "uid": "u",
            "kind": "Dataset",
            "type": "ack",
        }
    )
    ack = v2.decode_from_edge(payload)
    assert isinstance(ack, v2.Ack)
    assert (ack.key, ack.uid, ack.digest) == (key("d"), "u", "h")


def test_directions_do_not_mix() -> None:
    """An agent can not put, GM can not report."""
    put = v2.encode_v2(v2.Put("dataset", "default", "d", "u", "h", b"{}"))
    report = v2.encode_v2(v2.ReportFrame("dataset", "default", "d", 1, b"{}"))
    with pytest.raises(MalformedFrame):
        v2.decode_from_edge(put)
    with pytest.raises(MalformedFrame):
        v2.decode_from_gm(report)


@pytest.mark.parametrize(
    ("kind", "name", "reason"), [("../gadget", "d", "kind"), ("dataset", "../d", "name")]
)
def test_agent_may_count_on_names_from_gm(kind: str, name: str, reason: str) -> None:
    """It uses them for files, perhaps."""
    with pytest.raises(MalformedFrame) as malformed:
        v2.decode_from_gm(v2.encode_v2(v2.Delete(kind, "default", name)))
    assert malformed.value.reason == reason


def test_agent_takes_kinds_that_it_does_not_know() -> None:
    """A newer GM has more; unanswered frames about them would end the session."""
    put = v2.Put("gadget", "default", "d", "u", "h", b"{}")
    assert v2.decode_from_gm(v2.encode_v2(put)) == put


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "msgpack"),
        (b"\xc1", "msgpack"),
        (b"\x80", "shape"),
        (b"\x90", "shape"),
        (b"\x81\xa4type\xa4nope\x00", "msgpack"),
        (b"\x82\xa4type\xa4nope\xa1x\xc1", "msgpack"),
        (b"\x82\xa4type\xa4nope\xa1x" + b"\x91" * 100_000, "nesting"),
        (b"\x81\xa4type\x01", "shape"),
        (b"\x81\xa4type\xc0", "shape"),
        (b"\x81\xa4type\xa3put", "shape"),
        (b"\x82\xa4type\xa4nope\xa4type\xa3ack", "shape"),
        (b"\x81\xa4type\xa3ack", "shape"),
        (b"\x91" * 100_000, "shape"),
        (b"\x82\xa4type\xa5hello\xa1x" + b"\x91" * 100_000, "nesting"),
    ],
)
def test_malformed_frame_says_what_is_wrong(payload: bytes, reason: str) -> None:
    """One word for a counter."""
    with pytest.raises(MalformedFrame) as malformed:
        v2.decode_from_edge(payload)
    assert malformed.value.reason == reason


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ({"type": "hello", "inventory": [["a", "b"]]}, "at `$.inventory[0]`"),
        ({"type": "report", "kind": "k", "name": "n", "namespace": "s", "content": b""}, "`id`"),
        ({"type": "ack", "kind": 5}, "Expected `str`, got `int` - at `$.kind`"),
        ({"type": "put", "content": "s3cr3t"}, "its type is not for this direction"),
    ],
)
def test_malformed_frame_names_the_field_and_repeats_nothing(frame: object, what: str) -> None:
    """Who writes an agent has only the `error` to go by; it is logged, too."""
    with pytest.raises(MalformedFrame, match="shape of a message") as malformed:
        v2.decode_from_edge(msgspec.msgpack.encode(frame))
    assert what in str(malformed.value)
    assert "s3cr3t" not in str(malformed.value)


@pytest.mark.parametrize("decode", [v2.decode_from_edge, v2.decode_from_gm])
@pytest.mark.parametrize("fields", [{}, {"kind": 5, "x": [None, {"y": b"z"}]}, {"inventory": 1}])
def test_type_that_a_newer_peer_may_have_is_no_fault_P1_050(
    decode: Callable[[bytes], object], fields: dict[str, object]
) -> None:
    """docs/protocol.md asks to ignore types that one does not know, whatever their fields."""
    frames = [{"type": "renewed", **fields}, {**fields, "type": "renewed"}]
    for frame in frames:
        with pytest.raises(UnknownType, match="frames of type 'renewed' are unknown here"):
            decode(msgspec.msgpack.encode(frame))


def test_name_of_an_unknown_type_is_told_in_short() -> None:
    """It goes to a log."""
    with pytest.raises(UnknownType) as unknown:
        v2.decode_from_edge(msgspec.msgpack.encode({"type": "x\n" * 10_000}))
    assert len(str(unknown.value)) < 100
    assert "\n" not in str(unknown.value)


@pytest.mark.parametrize("number", [0, -1, 2**63, 2**64 - 1])
def test_report_whose_id_is_no_positive_number_below_2_63_is_malformed(number: int) -> None:
    """docs/protocol.md asks for one; others do not fit the databases of agents."""
    payload = v2.encode_v2(v2.ReportFrame("dataset", "default", "d", number, b"{}"))
    with pytest.raises(MalformedFrame, match=r"`\$\.id`") as malformed:
        v2.decode_from_edge(payload)
    assert malformed.value.reason == "shape"


@pytest.mark.parametrize("number", [1, 2**63 - 1])
def test_report_ids_of_the_whole_range_are_understood(number: int) -> None:
    """The first and the last."""
    report = v2.ReportFrame("dataset", "default", "d", number, b"{}")
    assert v2.decode_from_edge(v2.encode_v2(report)) == report


packable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=10)
    | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
TYPES = ["hello", "ack", "refused", "report", "error", "put", "delete", "welcome", "synced"]
TYPES += ["report-ack"]
frame_like = st.fixed_dictionaries(
    {"type": st.sampled_from([*TYPES, "renewed"])},
    optional={
        name: st.sampled_from(["dataset", "default", "d", b"{}"]) | packable
        for name in (
            "kind",
            "namespace",
            "name",
            "uid",
            "digest",
            "id",
            "content",
            "reason",
            "inventory",
            "message",
        )
    },
)


def decodes_or_is_malformed(payload: bytes) -> None:
    for decode in (v2.decode_from_edge, v2.decode_from_gm):
        try:
            decode(payload)
        except MalformedFrame:
            continue
        except UnknownType:
            assert msgspec.msgpack.decode(payload, strict=False)["type"] not in TYPES


@settings(derandomize=True, max_examples=500)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_malformed_P1_050(payload: bytes) -> None:
    """Never another error."""
    decodes_or_is_malformed(payload)


@settings(derandomize=True, max_examples=800)
@given(frame_like | packable)
def test_any_messagepack_is_a_frame_or_malformed_P1_050(value: object) -> None:
    """Never another error."""
    decodes_or_is_malformed(msgspec.msgpack.encode(value))
