"""Objects without ``managedFields``, which nobody here reads and which is half of their size."""

from __future__ import annotations

import msgspec

__all__ = ["without_managed_fields"]

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def without_managed_fields(raw: bytes | msgspec.Raw) -> bytes:
    """A copy of the JSON object ``raw`` without ``metadata.managedFields``.

    The other fields are copied byte for byte, not decoded. It is a copy in any case: a slice
    would keep the whole list page alive that it came in.
    """
    data = bytes(raw)
    if b'"managedFields"' not in data:
        return data
    fields = _decode_fields(data)
    metadata = _decode_fields(fields.get("metadata", b"{}"))
    if metadata.pop("managedFields", None) is None:
        return data  # the word stood somewhere else
    fields["metadata"] = msgspec.Raw(_encode(metadata))
    return _encode(fields)
