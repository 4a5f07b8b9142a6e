"""The document of OpenAPI v2, which describes nothing."""

from __future__ import annotations

import msgspec

from gm.devcluster import openapi2
from gm.devcluster.definitions import git_version

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def fields(data: bytes) -> list[tuple[int, bytes]]:
    """Numbers and values of a protobuf message whose fields are all short texts or messages."""
    found = []
    while data:
        assert data[0] & 7 == 2, "no field of a length"
        end = 2 + data[1]
        found.append((data[0] >> 3, data[2:end]))
        data = data[end:]
    return found


def test_clients_that_ask_for_protobuf_get_it() -> None:
    """The message is gnostic's: version, info, no paths, no definitions."""
    document = openapi2.document(PROTOBUF)
    assert document.content_type == PROTOBUF.replace("@", ".")
    version, info, *rest = fields(document.body)
    assert version == (1, b"2.0")
    assert info[0] == 2
    assert fields(info[1]) == [(1, b"Kubernetes"), (2, git_version().encode())]
    assert rest == [(8, b""), (9, b"")]


def test_others_get_the_same_in_json() -> None:
    """With an ETag of its own."""
    document = openapi2.document("application/json")
    body = msgspec.json.decode(document.body)
    assert (body["swagger"], body["paths"], body["definitions"]) == ("2.0", {}, {})
    assert document.etag != openapi2.document(PROTOBUF).etag
    assert document.etag == openapi2.document("").etag
