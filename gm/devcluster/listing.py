"""Lists: a page of objects as they were at one resource version."""

from __future__ import annotations

import base64
import bisect
import posixpath
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gm.api.meta import ObjectKey
from gm.devcluster.gojson import explain, type_name
from gm.devcluster.info import ResourceInfo
from gm.devcluster.query import parse_int, parse_version
from gm.devcluster.selectors import EVERYTHING, Selector
from gm.devcluster.status import (
    Cause,
    StatusError,
    bad_request,
    expired,
    invalid,
    too_large_version,
)
from gm.devcluster.store import Expired, Record, Store

__all__ = ["ListOptions", "Page", "list_page"]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - that of the token's form
_NEWEST = -1
"""The version in a token that goes on with the list as it is now."""
_REASONS = {"F": "FieldValueForbidden", "U": "FieldValueNotSupported"}
_BASE64 = frozenset(string.ascii_letters + string.digits + "-_")


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Query parameters of a list."""

    namespace: str = ""
    selector: Selector = EVERYTHING
    limit: int = 0
    token: str = ""
    resource_version: str = ""
    match: str = ""
    sends_initial: bool = False
    """Whether ``sendInitialEvents`` is asked for, which only watches may."""

    @classmethod
    def parse(cls, info: ResourceInfo, namespace: str, query: Mapping[str, str]) -> ListOptions:
        """From a request. Raises: StatusError (400)."""
        limit = parse_int(query, "limit") or 0
        parse_int(query, "timeoutSeconds")
        return cls(
            namespace=namespace,
            selector=Selector.parse(
                query.get("labelSelector", ""),
                query.get("fieldSelector", ""),
                info.selectable_fields,
                is_plain=not info.is_custom and not info.selectable_fields,
            ),
            limit=max(0, limit),
            token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            sends_initial=query.get("sendInitialEvents") is not None,
        )


@dataclass(frozen=True)
class Page:
    """One page; ``remaining`` is None when it is not known (with a selector) or nothing is left."""

    records: list[Record]
    revision: int
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The list's metadata."""
        metadata: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def list_page(store: Store, info: ResourceInfo, options: ListOptions) -> Page:
    """The objects that ``options`` ask for.

    Raises: StatusError (400, 410, 504).
    """
    table = store.table(info.storage.qualified)
    start, revision = ObjectKey("", ""), store.revision
    asked = _asked(options)
    if options.token:
        start, read = _read(options.token)
        revision = store.revision if read == _NEWEST else read
        if asked:
            raise bad_request("specifying resource version is not allowed when using continue")
    elif options.match == "Exact":
        revision = asked
    if max(asked, revision) > store.revision:
        raise too_large_version(max(asked, revision), store.revision)
    try:
        records = table.at(revision, options.namespace)
    except Expired:
        if options.token:
            raise expired(_TOO_OLD, token=_token(_NEWEST, start)) from None
        raise expired(_LIST_TOO_OLD) from None
    if options.token:
        del records[: bisect.bisect_right(records, start, key=lambda record: record.key)]
    if not options.selector.is_empty:
        matches = options.selector.matches
        records = [r for r in records if matches(r.view(info.from_storage))]
    if not options.limit or len(records) <= options.limit:
        return Page(records, revision)
    page = records[: options.limit]
    remaining = len(records) - len(page) if options.selector.is_empty else None
    return Page(page, revision, _token(revision, page[-1].key), remaining)


def _asked(options: ListOptions) -> int:
    """The resource version of a list. Raises: StatusError (400, 422)."""
    causes = _wrong_match(options)
    if options.sends_initial:
        why = "Forbidden: sendInitialEvents is forbidden for list"
        causes.append(Cause("FieldValueForbidden", why, "sendInitialEvents"))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)
    try:
        return parse_version(options.resource_version)
    except StatusError as error:
        raise bad_request(f"invalid resource version: {error.message}") from None


def _wrong_match(options: ListOptions) -> list[Cause]:
    match, name = options.match, "resourceVersionMatch"
    if not match:
        return []
    texts = []
    if not options.resource_version:
        texts.append(f"Forbidden: {name} is forbidden unless resourceVersion is provided")
    if options.token:
        texts.append(f"Forbidden: {name} is forbidden when continue is provided")
    if match not in ("Exact", "NotOlderThan"):
        listed = '"Exact", "NotOlderThan", ""'
        texts.append(f'Unsupported value: "{match}": supported values: {listed}')
    if match == "Exact" and options.resource_version == "0":
        texts.append(f'Forbidden: {name} "exact" is forbidden for resourceVersion "0"')
    return [Cause(_REASONS[text[0]], text, name) for text in texts]


def _token(revision: int, last: ObjectKey) -> str:
    token = _Token(_TOKEN_VERSION, revision, f"{last.namespace}/{last.name}")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _bad_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def _read(text: str) -> tuple[ObjectKey, int]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        at = next((n for n, letter in enumerate(text) if letter not in _BASE64), len(text))
        raise _bad_token(f"illegal base64 data at input byte {at}") from None
    token = _decoded(raw)
    if token.v != _TOKEN_VERSION:
        raise _bad_token(f"server does not recognize this encoded version {token.v}")
    if token.rv == 0:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {token.v})")
    if not token.start:
        raise _bad_token(f"encoded start key empty (version {token.v})")
    key = f"/{token.start.removeprefix('/')}"
    if posixpath.normpath(key) != key:
        raise _bad_token(token.start)
    namespace, _, name = token.start.partition("/")
    return ObjectKey(namespace, name), token.rv


def _decoded(raw: bytes) -> _Token:
    try:
        return msgspec.json.decode(raw, type=_Token | None) or _Token()
    except msgspec.ValidationError as error:
        if not isinstance(value := msgspec.json.decode(raw), dict):
            kind = type_name(value)
            why = f"json: cannot unmarshal {kind} into Go value of type storage.continueToken"
            raise _bad_token(why) from None
        raise _bad_token(str(error)) from None
    except msgspec.DecodeError as error:
        # byte by byte: what is no token is seldom UTF-8
        raise _bad_token(explain(raw.decode("latin-1").encode()) or str(error)) from None
