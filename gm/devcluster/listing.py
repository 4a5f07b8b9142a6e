"""Lists: a page of objects as they were at one resource version."""

from __future__ import annotations

import base64
import bisect
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gm.api.meta import ObjectKey
from gm.devcluster.gojson import explain
from gm.devcluster.info import ResourceInfo
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

__all__ = ["ListOptions", "Page", "list_page", "parse_bool", "parse_int", "parse_version"]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. Start a new "
    "list without the continue parameter."
)
_REASONS = {"F": "FieldValueForbidden", "U": "FieldValueNotSupported"}
_BASE64 = frozenset(string.ascii_letters + string.digits + "-_")


def parse_bool(text: str | None) -> bool:
    """A boolean query parameter: whatever is there and does not say no (``0``, ``False``)."""
    return text is not None and text.lower() not in ("0", "false")


def parse_int(text: str) -> int:
    """A whole number parameter; empty counts as 0. Raises: StatusError (400)."""
    if not text:
        return 0
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def parse_version(text: str) -> int:
    """A resourceVersion parameter; empty counts as 0. Raises: StatusError (500) as upstream."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()):
        quoted = f'"{text}"'
        why = f"strconv.ParseUint: parsing {quoted}: invalid syntax"
        raise StatusError(500, "", f"resourceVersion: Invalid value: {quoted}: {why}")
    return int(text)


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


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
        limit = parse_int(query.get("limit", ""))
        parse_int(query.get("timeoutSeconds", ""))
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
        start, revision = _read(options.token)
        if asked:
            raise bad_request("specifying resource version is not allowed when using continue")
    elif options.match == "Exact":
        revision = asked
    if max(asked, revision) > store.revision:
        raise too_large_version(max(asked, revision), store.revision)
    try:
        records = table.at(revision, options.namespace)
    except Expired as error:
        raise expired(_TOO_OLD if options.token else str(error)) from None
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
    token = _Token("meta.k8s.io/v1", revision, f"{last.namespace}/{last.name}")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _bad_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


def _read(text: str) -> tuple[ObjectKey, int]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        at = next((n for n, letter in enumerate(text) if letter not in _BASE64), len(text))
        raise _bad_token(f"illegal base64 data at input byte {at}") from None
    try:
        token = msgspec.json.decode(raw, type=_Token)
    except msgspec.DecodeError as error:
        # byte by byte: what is no token is seldom UTF-8
        raise _bad_token(explain(raw.decode("latin-1").encode()) or str(error)) from None
    namespace, _, name = token.start.partition("/")
    return ObjectKey(namespace, name), token.rv
