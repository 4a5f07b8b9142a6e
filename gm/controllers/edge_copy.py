"""What an edge node gets of an object, and what counts as a change of it; pure functions."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from gm.api.meta import Json
from gm.controllers.credentials import CREDENTIAL_ANNOTATION
from gm.messagelayer import Desired, WireKey

__all__ = ["edge_copy"]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The LC of incremental learning is driven by the job's conditions; no other LC reads status.
_STATUS_COUNTS = frozenset({"incrementallearningjob"})

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def edge_copy(key: WireKey, kind: str, raw: bytes, *, credential: str | None = None) -> Desired:
    """Object ``raw`` of ``kind`` as edge nodes shall hold it under ``key``.

    ``credential`` becomes its annotation ``sedna.io/credential``. An annotation of that name that
    somebody wrote on the object itself is never passed on: only GM vouches for it.
    """
    fields = _decode(raw)
    fields.pop("apiVersion", None)
    fields.pop("kind", None)
    metadata: Json = dict(fields.get("metadata") or {})
    metadata.pop("managedFields", None)
    annotations = {
        name: value
        for name, value in (metadata.pop("annotations", None) or {}).items()
        if name not in (_LAST_APPLIED, CREDENTIAL_ANNOTATION)
    }
    if credential is not None:
        annotations[CREDENTIAL_ANNOTATION] = credential
    if annotations:
        metadata["annotations"] = annotations
    fields["metadata"] = metadata
    spec = fields.get("spec") or {}
    return Desired(
        key=key,
        uid=metadata.get("uid", ""),
        digest=_digest(key, fields),
        content=_encode({"kind": kind, **fields}),
        spec_identity=str(spec.get("url", "")) if key.kind == "dataset" else "",
    )


def _digest(key: WireKey, fields: Json) -> str:
    counting = {name: value for name, value in fields.items() if name != "metadata"}
    if key.kind not in _STATUS_COUNTS:
        counting.pop("status", None)
    metadata = {k: v for k, v in fields["metadata"].items() if k != "resourceVersion"}
    encoded = _encode_sorted({**counting, "metadata": metadata})
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()
