"""From a request's body to an object, with the keys that it repeats."""

from __future__ import annotations

import json
from typing import Any

from gm.api.meta import Json
from gm.devcluster import protobuf, yamlbody
from gm.devcluster.gojson import MAX_DEPTH, NUMBERS, explain, readable, type_name
from gm.devcluster.schema import join
from gm.devcluster.status import StatusError, bad_request, unsupported_media_type

__all__ = [
    "MEDIA_TYPES",
    "decode",
    "identify",
    "identity_problem",
    "no_object",
    "read_json",
]

MEDIA_TYPES = ("application/json", "application/yaml", protobuf.MEDIA_TYPE)
_SUMMARY_BYTES = 30
_GO_TYPE = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its key-value pairs, before repeated keys are lost."""


def decode(body: bytes, media_type: str, *, kind: str) -> tuple[Json, list[str]]:
    """The object in ``body``, and one message for each repeated key (``duplicate field "..."``).

    ``media_type`` is the Content-Type without parameters (empty counts as JSON), ``kind`` what
    the resource holds. Raises: StatusError, 400 for what can not be read, 415 for other media
    types.
    """
    if media_type == protobuf.MEDIA_TYPE:
        return protobuf.decode(body), []
    if media_type in ("application/json", ""):
        value, duplicates = _decode_json(body, kind)
    elif media_type == "application/yaml":
        value, duplicates = _decode_yaml(body, kind)
    else:
        raise unsupported_media_type(MEDIA_TYPES)
    value = {} if value is None else value  # which says as little
    if not isinstance(value, dict):
        raise _unrecognised(kind, f"couldn't get version/kind; {no_object(value)}", body)
    if problem := identity_problem(value):
        raise _unrecognised(kind, problem, body)
    return value, duplicates


def identity_problem(obj: Json) -> str:
    """What is wrong with an object's ``apiVersion`` or ``kind`` that is no text; else empty."""
    for field in ("apiVersion", "kind"):
        if not isinstance(value := obj.get(field), str | None):
            got = f"cannot unmarshal {type_name(value)} into Go struct field .{field}"
            return f"couldn't get version/kind; json parse error: json: {got} of type string"
    return ""


def identify(obj: Json, *, kind: str, body: bytes = b"", lenient_version: str = "") -> None:
    """Raises: StatusError 400 if ``obj`` does not say what it is.

    ``lenient_version`` is the version that is asked for by a client that wants unknown fields
    ignored, who is told so in other words.
    """
    if not isinstance(obj.get("kind"), str) or not obj["kind"]:
        shown = body.decode(errors="replace").strip() or json.dumps(obj)
        why = f"Object 'Kind' is missing in '{shown}'"
        if lenient_version:
            what = f'{kind} in version "{lenient_version}"'
            raise bad_request(f"{what} cannot be handled as a {kind}: {why}")
        raise _unrecognised(kind, why, body)
    if not obj.get("apiVersion"):
        obj["apiVersion"] = ""  # said to be nothing, which is no version of this resource


def _unrecognised(kind: str, why: str, body: bytes) -> StatusError:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """The beginning of a body: as text if that is likely, otherwise in hexadecimal digits."""
    if not body:
        return "<empty>"
    start = body[:_SUMMARY_BYTES]
    shown = start.decode(errors="replace") if body.startswith(b"{") else start.hex()
    return f"{shown} ..." if len(body) > _SUMMARY_BYTES else shown


def no_object(value: Any) -> str:
    """What is wrong with a body that holds something else than an object."""
    names = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}
    got = names.get(type(value), "null")
    return f"json parse error: json: cannot unmarshal {got} into Go value of type {_GO_TYPE}"


def _decode_json(body: bytes, kind: str) -> tuple[Any, list[str]]:
    if not body.strip():
        why = "couldn't get version/kind; json parse error: unexpected end of JSON input"
        raise _unrecognised(kind, why, body)
    try:
        return read_json(body)
    except ValueError as exc:
        why = f"couldn't get version/kind; json parse error: {exc}"
        raise _unrecognised(kind, why, body) from exc


def read_json(body: bytes) -> tuple[Any, list[str]]:
    """What ``body`` says in JSON, and one message for each key that it repeats.

    Raises: ValueError, in the words of Go's decoder.
    """
    duplicates: list[str] = []
    try:
        parsed = json.loads(readable(body), object_pairs_hook=_Pairs, **NUMBERS)
        return _plain(parsed, "", duplicates), duplicates
    except (ValueError, RecursionError) as exc:
        raise ValueError(explain(body) or str(exc)) from exc


def _plain(value: Any, path: str, duplicates: list[str], depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("exceeded max depth")
    if isinstance(value, _Pairs):
        result: Json = {}
        for key, item in value:
            where = join(path, key)
            if key in result:
                duplicates.append(f'duplicate field "{where}"')
            result[key] = _plain(item, where, duplicates, depth + 1)
        return result
    if isinstance(value, list):
        return [_plain(item, f"{path}[{i}]", duplicates, depth + 1) for i, item in enumerate(value)]
    return value


def _decode_yaml(body: bytes, kind: str) -> tuple[Any, list[str]]:
    try:
        value, duplicates = yamlbody.decode(body)
    except yamlbody.YamlProblem as exc:
        raise _unrecognised(kind, str(exc), body) from exc
    return value, duplicates
