"""OpenAPI v2, which describes nothing here: clients then leave validation to the server.

kubectl reads it where a file holds a ``List``, and older ones (1.28) for whatever they apply. They
want protobuf, and are content with a document in which the kind does not occur.
"""

from __future__ import annotations

import hashlib

import msgspec

from gm.devcluster.definitions import git_version
from gm.devcluster.discovery import Document

__all__ = ["document"]

_TITLE, _SWAGGER = "Kubernetes", "2.0"
_PROTOBUF = "proto-openapi.spec.v2@v1.0+protobuf"
_PROTOBUF_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"  # with a dot for "@"


def document(accept: str) -> Document:
    """The document, in protobuf for clients that ask for it and in JSON for others."""
    if _PROTOBUF in accept:
        info = _field(1, _TITLE.encode()) + _field(2, git_version().encode())
        # numbers of fields: gnostic's openapi.v2.Document (8 paths, 9 definitions)
        body = _field(1, _SWAGGER.encode()) + _field(2, info) + _field(8, b"") + _field(9, b"")
        return _hashed(body, _PROTOBUF_TYPE)
    described = {"title": _TITLE, "version": git_version()}
    body = msgspec.json.encode(
        {"swagger": _SWAGGER, "info": described, "paths": {}, "definitions": {}}
    )
    return _hashed(body, "application/json")


def _field(number: int, value: bytes) -> bytes:
    """A field of bytes, a text or a message; all are short here."""
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def _hashed(body: bytes, content_type: str) -> Document:
    etag = hashlib.sha512(body, usedforsecurity=False).hexdigest().upper()
    return Document(body, content_type, f'"{etag}"')
