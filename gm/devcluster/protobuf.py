"""Request bodies in Kubernetes' protobuf, which kubectl sends for some ``create`` commands.

Only the kinds that kubectl creates without a file by common commands are read. Answers are always
JSON: every client that sends protobuf also accepts that. The numbers are those of the fields in
Kubernetes' generated.proto files.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gm.api.meta import Json
from gm.devcluster.status import StatusError, bad_request

__all__ = ["MEDIA_TYPE", "decode"]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


@dataclass(frozen=True)
class _Field:
    """A field's JSON name and how its bytes are read.

    ``type`` is string, bytes, bool, int, time, or a table for a nested message; ``many`` is
    ``list``, ``map`` or empty.
    """

    name: str
    type: str | Mapping[int, _Field] = "string"
    many: str = ""


_OWNER = {
    1: _Field("kind"),
    3: _Field("name"),
    4: _Field("uid"),
    5: _Field("apiVersion"),
    6: _Field("controller", "bool"),
    7: _Field("blockOwnerDeletion", "bool"),
}
_METADATA = _Field(
    "metadata",
    {
        1: _Field("name"),
        2: _Field("generateName"),
        3: _Field("namespace"),
        5: _Field("uid"),
        6: _Field("resourceVersion"),
        7: _Field("generation", "int"),
        8: _Field("creationTimestamp", "time"),
        9: _Field("deletionTimestamp", "time"),
        10: _Field("deletionGracePeriodSeconds", "int"),
        11: _Field("labels", many="map"),
        12: _Field("annotations", many="map"),
        13: _Field("ownerReferences", _OWNER, many="list"),
        14: _Field("finalizers", many="list"),
    },
)
_OBJECT_REFERENCE = {
    1: _Field("kind"),
    2: _Field("namespace"),
    3: _Field("name"),
    4: _Field("uid"),
    5: _Field("apiVersion"),
    6: _Field("resourceVersion"),
    7: _Field("fieldPath"),
}
_RESOURCE_ATTRIBUTES = {
    1: _Field("namespace"),
    2: _Field("verb"),
    3: _Field("group"),
    4: _Field("version"),
    5: _Field("resource"),
    6: _Field("subresource"),
    7: _Field("name"),
}
_ACCESS_REVIEW = {
    1: _Field("resourceAttributes", _RESOURCE_ATTRIBUTES),
    2: _Field("nonResourceAttributes", {1: _Field("path"), 2: _Field("verb")}),
}
_KINDS: dict[tuple[str, str], Mapping[int, _Field]] = {
    ("v1", "Namespace"): {
        1: _METADATA,
        2: _Field("spec", {1: _Field("finalizers", many="list")}),
        3: _Field("status", {1: _Field("phase")}),
    },
    ("v1", "Secret"): {
        1: _METADATA,
        2: _Field("data", "bytes", many="map"),
        3: _Field("type"),
        4: _Field("stringData", many="map"),
        5: _Field("immutable", "bool"),
    },
    ("v1", "ConfigMap"): {
        1: _METADATA,
        2: _Field("data", many="map"),
        3: _Field("binaryData", "bytes", many="map"),
        4: _Field("immutable", "bool"),
    },
    ("v1", "ServiceAccount"): {
        1: _METADATA,
        2: _Field("secrets", _OBJECT_REFERENCE, many="list"),
        3: _Field("imagePullSecrets", {1: _Field("name")}, many="list"),
        4: _Field("automountServiceAccountToken", "bool"),
    },
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): {
        1: _METADATA,
        2: _Field("spec", _ACCESS_REVIEW),
    },
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): {
        1: _METADATA,
        2: _Field("spec", {1: _Field("namespace")}),
    },
    ("authentication.k8s.io/v1", "SelfSubjectReview"): {1: _METADATA},
}


def decode(body: bytes) -> Json:
    """The object in a protobuf body, as JSON has it.

    Raises: StatusError, 415 for kinds that are not read here (with what to do instead), 400 for
    bytes that are no such body.
    """
    if not body.startswith(_MAGIC):
        raise bad_request("the body is not in Kubernetes' protobuf form: it must begin with k8s\\0")
    try:
        unknown = dict(_wire(body[len(_MAGIC) :]))
        type_meta = dict(_wire(_bytes(unknown.get(1, b""))))
        api_version = _bytes(type_meta.get(1, b"")).decode()
        kind = _bytes(type_meta.get(2, b"")).decode()
        table = _KINDS.get((api_version, kind))
        if table is None:
            raise _unsupported(kind, api_version)
        message = _message(table, _bytes(unknown.get(2, b"")))
    except (IndexError, ValueError) as exc:
        raise bad_request(f"the protobuf body can not be read: {exc}") from exc
    return {"apiVersion": api_version, "kind": kind, **message}


def _unsupported(kind: str, api_version: str) -> StatusError:
    known = ", ".join(sorted(kind for _, kind in _KINDS))
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"this embedded API server reads protobuf bodies of {known} only, not of {api_version} "
        f'{kind or "objects without a kind"}; send JSON or YAML: add "--dry-run=client -o yaml" '
        'to the command and pipe it into "kubectl create -f -"',
    )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers and lengths as protobuf's wire format has them."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                number, at = _varint(data, at)
                yield tag >> 3, number
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise ValueError("a field is longer than the message")
                yield tag >> 3, data[at : at + length]
                at += length
            case 1 | 5 as fixed:
                at += 8 if fixed == 1 else 4
            case other:
                raise ValueError(f"wire type {other} is not used by Kubernetes")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message was expected")
    return value


def _message(table: Mapping[int, _Field], data: bytes) -> Json:
    result: Json = {}
    for number, raw in _wire(data):
        if (field := table.get(number)) is None:
            continue
        match field.many:
            case "map":
                entry = dict(_wire(_bytes(raw)))
                key = _bytes(entry.get(1, b"")).decode()
                result.setdefault(field.name, {})[key] = _value(field, entry.get(2, b""))
            case "list":
                result.setdefault(field.name, []).append(_value(field, raw))
            case _:
                value = _value(field, raw)
                # Go writes empty strings and times too; in JSON they are left out.
                if value not in ("", None):
                    result[field.name] = value
    return result


def _value(field: _Field, raw: int | bytes) -> Any:
    if isinstance(field.type, Mapping):
        return _message(field.type, _bytes(raw))
    match field.type:
        case "bool":
            return bool(raw)
        case "int":
            return raw
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        case "time":
            seconds = dict(_wire(_bytes(raw))).get(1)
            if not isinstance(seconds, int) or seconds >= 1 << 62:
                return None
            return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case _:
            return _bytes(raw).decode()
