"""Request bodies, and the keys that they repeat."""

from __future__ import annotations

import pytest

from gm.devcluster import decoding
from gm.devcluster.status import StatusError

JSON, YAML = "application/json", "application/yaml"


def test_repeated_json_keys_are_named_with_their_path() -> None:
    """The last value counts."""
    body = b'{"a":1,"b":[{"c":1,"c":2}],"a":{"d":1}}'
    value, duplicates = decoding.decode(body, JSON, kind="Pod")
    assert value == {"a": {"d": 1}, "b": [{"c": 2}]}
    assert duplicates == ['duplicate field "b[0].c"', 'duplicate field "a"']


def test_repeated_yaml_keys_are_named_with_their_line() -> None:
    """The last value counts."""
    value, duplicates = decoding.decode(b"a: 1\nb:\n  c: 1\n  c: 2\n", YAML, kind="Pod")
    assert value == {"a": 1, "b": {"c": 2}}
    assert duplicates == ['line 4: key "c" already set in map']


def test_null_says_nothing() -> None:
    """So it is an object without fields, in both forms."""
    for media_type in (JSON, YAML):
        assert decoding.decode(b"null", media_type, kind="Pod") == ({}, [])


def test_yaml_times_stay_texts() -> None:
    """A date is a string to Kubernetes."""
    value, _ = decoding.decode(b"at: 2024-01-01T00:00:00Z\nday: 2024-01-01\n", YAML, kind="Pod")
    assert value == {"at": "2024-01-01T00:00:00Z", "day": "2024-01-01"}


def test_whole_numbers_are_integers_however_they_are_written() -> None:
    """As in Go's dynamic objects."""
    value, _ = decoding.decode(b'{"a":2.0,"b":1e3,"c":1.5,"d":1e40}', JSON, kind="Pod")
    assert value == {"a": 2, "b": 1000, "c": 1.5, "d": 1e40}
    assert isinstance(value["a"], int)
    assert isinstance(value["d"], float)


def test_protobuf_goes_to_its_own_decoder() -> None:
    """By its media type."""
    with pytest.raises(StatusError, match="protobuf"):
        decoding.decode(b"{}", "application/vnd.kubernetes.protobuf", kind="Pod")


@pytest.mark.parametrize(
    ("body", "media_type", "code", "words"),
    [
        (b"{bad", JSON, 400, "must be of type Pod.*json parse error"),
        (b"[]", JSON, 400, "cannot unmarshal array"),
        (b'"x"', JSON, 400, "cannot unmarshal string"),
        (b'{"apiVersion":1}', JSON, 400, r"number into Go struct field \.apiVersion of type str"),
        (b"kind: {a: b}", YAML, 400, r"object into Go struct field \.kind of type string"),
        (b'{"a":NaN}', JSON, 400, "NaN is no JSON value"),
        (b" ", JSON, 400, "unexpected end of JSON input"),
        (b"[" * 100_000, JSON, 400, "json parse error"),
        (b"a: b: c", YAML, 400, "yaml: mapping values are not allowed"),
        (b"{}", "text/plain", 415, "accepted media types include: application/json"),
    ],
)
def test_what_can_not_be_read_is_refused(
    body: bytes, media_type: str, code: int, words: str
) -> None:
    """With what was expected."""
    with pytest.raises(StatusError, match=words) as caught:
        decoding.decode(body, media_type, kind="Pod")
    assert caught.value.code == code


def test_an_object_says_what_it_is() -> None:
    """A kind is needed where nothing else tells; without a version it is of none."""
    decoding.identify({"kind": "A", "apiVersion": "v1"}, kind="A")
    with pytest.raises(StatusError, match=r"Object 'Kind' is missing in '\{\}' \(\{\}\)"):
        decoding.identify({}, kind="A", body=b"{}")
    said = {"kind": "A"}
    decoding.identify(said, kind="A")
    assert said == {"kind": "A", "apiVersion": ""}
