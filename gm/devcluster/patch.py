"""The three kinds of patch that are taken: merge, JSON and strategic merge."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointer, JsonPointerException

from gm.devcluster.decoding import no_object, read_json
from gm.devcluster.gojson import is_too_deep, type_name
from gm.devcluster.identity import bad_patch
from gm.devcluster.status import StatusError, bad_request, unsupported_media_type
from gm.devcluster.strategic import PatchSchema, strategic_merge

__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "accepted_types",
    "apply_patch",
    "check_type",
    "decode",
    "json_patch",
    "merge_patch",
]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_MAP = "map[string]interface {}"
_IDENTITY = ("kind", "apiVersion")
_NEGATIVE = re.compile("-[1-9][0-9]*")
_MAX_OPERATIONS = 10_000
_MAX_COPIED_BYTES = 3 * 1024 * 1024


def merge_patch(target: Any, patch: Any) -> Any:
    """``target`` with an RFC 7386 merge patch applied; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: dict[str, Any], operations: Any) -> Any:
    """``target`` with an RFC 6902 patch applied; ``target`` is not changed.

    Raises: StatusError, 422 when an operation can not be done, 400 when it is none.
    """
    if operations is None:
        return target
    if not isinstance(operations, list):
        raise _undecodable(operations, "[]handlers.jsonPatchOp")
    if len(operations) > _MAX_OPERATIONS:
        message = (
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
        raise StatusError(413, "RequestEntityTooLarge", message)
    document: Any = copy.deepcopy(target)
    copied = 0
    for operation in operations:
        document = _operate(document, operation)
        if operation.get("op") == "copy":
            source = JsonPointer(operation["from"]).resolve(document, None)
            copied += len(msgspec.json.encode(source))
            if copied > _MAX_COPIED_BYTES:  # or few bytes would become very many
                raise _rejected()
    return document


def _operate(document: Any, operation: Any) -> Any:
    if operation is None:
        raise _rejected()
    if not isinstance(operation, dict):
        raise _undecodable(operation, "handlers.jsonPatchOp")
    try:
        operation = _as_upstream(document, operation)
        return jsonpatch.apply_patch(document, [operation], in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, KeyError):
        raise _rejected() from None


def _as_upstream(document: Any, operation: dict[str, Any]) -> dict[str, Any]:
    """An operation that does by the RFC what this one does upstream.

    Raises: StatusError, KeyError, TypeError, JsonPointerException if that is nothing.
    """
    kind, path = operation.get("op"), operation["path"]
    if "" in (path, operation.get("from")) and kind != "replace":
        raise _rejected()  # the whole document can only be replaced
    operation = {**operation, "path": _from_the_start(document, path)}
    if kind in ("add", "replace", "test"):
        operation.setdefault("value", None)
    if kind == "replace":
        parent, _ = JsonPointer(operation["path"]).to_last(document)
        if isinstance(parent, dict):  # what is not there is replaced, too
            operation["op"] = "add"
    elif kind == "copy":
        parent, last = JsonPointer(operation["from"]).to_last(document)
        if isinstance(parent, dict) and last not in parent:  # a copy of nothing is null
            return {"op": "add", "path": operation["path"], "value": None}
    elif kind == "test" and operation["value"] is None:
        parent, last = JsonPointer(operation["path"]).to_last(document)
        if isinstance(parent, dict) and last not in parent:  # nothing is null
            return {"op": "test", "path": "", "value": document}
    return operation


def _from_the_start(document: Any, path: str) -> str:
    """A path in which numbers that count from the end of a list do so no more."""
    parts, here = JsonPointer(path).parts, document
    for index, part in enumerate(parts):
        if isinstance(here, list) and _NEGATIVE.fullmatch(part):
            parts[index] = part = str(len(here) + int(part))
        if isinstance(here, list):
            here = here[int(part)] if part.isdecimal() and int(part) < len(here) else None
        else:
            here = here.get(part) if isinstance(here, dict) else None
    return str(JsonPointer.from_parts(parts).path)


def _rejected() -> StatusError:
    """All that the real server says; which operation failed is in its log only."""
    text = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", text, {})


def _mismatch(value: Any, wanted: str) -> str:
    return f"json: cannot unmarshal {type_name(value)} into Go value of type {wanted}"


def _undecodable(value: Any, wanted: str) -> StatusError:
    return bad_request(f"error decoding patch: {_mismatch(value, wanted)}")


def accepted_types(schema: PatchSchema | None) -> Sequence[str]:
    """The content types that a PATCH may have; custom resources (no schema) lack strategic."""
    types = [JSON_PATCH, MERGE_PATCH]
    return types if schema is None else [*types, STRATEGIC_MERGE_PATCH]


def check_type(content_type: str, schema: PatchSchema | None) -> None:
    """Raises: StatusError (415) if patches of this content type are not taken."""
    accepted = accepted_types(schema)
    if content_type == APPLY_PATCH:
        hint = "server-side apply is not supported here; use kubectl apply without --server-side"
        raise unsupported_media_type(accepted, hint)
    if content_type not in accepted:
        raise unsupported_media_type(accepted)


def decode(content_type: str, body: bytes) -> tuple[Any, list[str]]:
    """The patch in a request's body, and one message for each key that it repeats.

    Raises: StatusError (400).
    """
    try:
        patch, duplicates = read_json(body)
    except ValueError as error:
        head = "" if content_type == STRATEGIC_MERGE_PATCH else "error decoding patch: "
        raise bad_request(f"{head}{error}") from None
    head = "json patch " if content_type == JSON_PATCH else ""
    return patch, [head + each for each in duplicates]


def apply_patch(
    content_type: str, original: dict[str, Any], patch: Any, schema: PatchSchema | None
) -> dict[str, Any]:
    """``original`` with a decoded patch of one of the content types applied.

    ``schema`` is None for custom resources. Raises: StatusError (400, 415, 422).
    """
    check_type(content_type, schema)
    if content_type == JSON_PATCH:
        patched = json_patch(original, patch)
    elif content_type == MERGE_PATCH:
        if patch is None:
            raise bad_request("Invalid JSON Patch")
        if not isinstance(patch, dict):
            raise _undecodable(patch, _MAP)
        patched = merge_patch(original, patch)
    else:
        if not isinstance(patch, dict | None):
            raise bad_request(_mismatch(patch, _MAP))
        merged = strategic_merge(original, patch or {}, schema)
        # What kind it is can not be patched so: it is merged into what is decoded already.
        patched = {**merged, **{key: original[key] for key in _IDENTITY if key in original}}
    if not isinstance(patched, dict):
        why = f"couldn't get version/kind; {no_object(patched)}"
        raise bad_patch(msgspec.json.encode(patched), why)
    if is_too_deep(patched):
        raise bad_request("exceeded max depth")
    return patched
