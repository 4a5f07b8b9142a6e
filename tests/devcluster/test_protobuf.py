"""Protobuf bodies, as kubectl sends them."""

from __future__ import annotations

import pytest

from gm.devcluster import protobuf
from gm.devcluster.status import StatusError


def field(number: int, content: bytes | str | int) -> bytes:
    """One field in protobuf's wire format."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    result = b""
    while value >= 0x80:
        result += bytes([value & 0x7F | 0x80])
        value >>= 7
    return result + bytes([value])


def body(kind: str, message: bytes, api_version: str = "v1") -> bytes:
    """A whole request body."""
    type_meta = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, type_meta) + field(2, message) + field(3, "") + field(4, "")


def entry(key: str, value: str) -> bytes:
    """One entry of a map."""
    return field(1, key) + field(2, value)


METADATA = (
    field(1, "n")
    + field(3, "")
    + field(7, 2)
    + field(8, field(1, 1_700_000_000) + field(2, 0))
    + field(11, entry("a", "b"))
    + field(12, entry("c", ""))
    + field(13, field(1, "Pod") + field(3, "p") + field(4, "u") + field(5, "v1") + field(6, 1))
    + field(14, "x.io/f")
)


def test_metadata_is_read() -> None:
    """Names, labels, owners, times; empty texts are left out, as in JSON."""
    read = protobuf.decode(body("Namespace", field(1, METADATA) + field(2, field(1, "kubernetes"))))
    assert read == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "n",
            "generation": 2,
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {"a": "b"},
            "annotations": {"c": ""},
            "ownerReferences": [
                {"kind": "Pod", "name": "p", "uid": "u", "apiVersion": "v1", "controller": True}
            ],
            "finalizers": ["x.io/f"],
        },
        "spec": {"finalizers": ["kubernetes"]},
    }


def test_secrets_and_config_maps_are_read() -> None:
    """Bytes become base64."""
    message = field(1, field(1, "s")) + field(2, entry("k", "value")) + field(3, "Opaque")
    secret = protobuf.decode(body("Secret", message + field(5, 0)))
    assert secret["data"] == {"k": "dmFsdWU="}
    assert (secret["type"], secret["immutable"]) == ("Opaque", False)
    message = field(1, field(1, "c")) + field(2, entry("k", "v")) + field(3, entry("b", "\x01"))
    config = protobuf.decode(body("ConfigMap", message))
    assert (config["data"], config["binaryData"]) == ({"k": "v"}, {"b": "AQ=="})


def test_access_reviews_are_read() -> None:
    """What kubectl auth can-i asks."""
    attributes = field(1, "ns") + field(2, "get") + field(5, "pods")
    message = field(1, b"") + field(2, field(1, attributes))
    review = protobuf.decode(body("SelfSubjectAccessReview", message, "authorization.k8s.io/v1"))
    expected = {"namespace": "ns", "verb": "get", "resource": "pods"}
    assert review["spec"] == {"resourceAttributes": expected}


def test_go_s_zero_time_is_no_time() -> None:
    """A Go time that was never set lies before year 1."""
    zero = field(8, field(1, (1 << 64) - 62_135_596_800))
    read = protobuf.decode(body("Namespace", field(1, field(1, "n") + zero)))
    assert read["metadata"] == {"name": "n"}


def test_unknown_fields_are_skipped() -> None:
    """Also those of fixed width."""
    fixed = varint(60 << 3 | 1) + b"12345678" + varint(61 << 3 | 5) + b"1234"
    read = protobuf.decode(body("Namespace", field(1, field(1, "n")) + field(50, "x") + fixed))
    assert read["metadata"] == {"name": "n"}


def test_other_kinds_are_refused_with_a_way_out() -> None:
    """415, and what to do instead."""
    with pytest.raises(StatusError, match=r"apps/v1 Deployment.*--dry-run=client -o yaml") as e:
        protobuf.decode(body("Deployment", b"", "apps/v1"))
    assert (e.value.code, e.value.reason) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "broken",
    [
        b"{}",
        b"k8s\x00" + b"\x0a\xff",
        b"k8s\x00" + b"\x0a" + b"\xff" * 12,
        b"k8s\x00" + b"\x0b",
        b"k8s\x00" + field(1, 7),
        body("Namespace", field(1, 5)),
        body("Namespace", field(1, field(1, b"\xff"))),
    ],
)
def test_broken_bytes_are_a_bad_request(broken: bytes) -> None:
    """Never a traceback."""
    with pytest.raises(StatusError) as caught:
        protobuf.decode(broken)
    assert caught.value.code == 400
