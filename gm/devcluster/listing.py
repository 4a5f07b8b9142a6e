"""Lists: a page of objects as they were at one resource version."""

from __future__ import annotations

import base64
import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gm.api.meta import ObjectKey
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

__all__ = ["ListOptions", "Page", "list_page", "parse_bool", "parse_version"]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. Start a new "
    "list without the continue parameter."
)
_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})


def parse_bool(text: str | None) -> bool:
    """A boolean query parameter as clients write it (``true``, ``True``, ``1``, ``t``)."""
    return text in _TRUE


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

    @classmethod
    def parse(cls, info: ResourceInfo, namespace: str, query: Mapping[str, str]) -> ListOptions:
        """From a request. Raises: StatusError (400)."""
        limit = query.get("limit", "") or "0"
        if not limit.removeprefix("-").isdecimal():
            raise bad_request(f'strconv.ParseInt: parsing "{limit}": invalid syntax')
        return cls(
            namespace=namespace,
            selector=Selector.parse(
                query.get("labelSelector", ""),
                query.get("fieldSelector", ""),
                info.selectable_fields,
            ),
            limit=max(0, int(limit)),
            token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
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
        records = [r for r in records if matches(info.from_storage(r.object))]
    if not options.limit or len(records) <= options.limit:
        return Page(records, revision)
    page = records[: options.limit]
    remaining = len(records) - len(page) if options.selector.is_empty else None
    return Page(page, revision, _token(revision, page[-1].key), remaining)


def _asked(options: ListOptions) -> int:
    """The resource version of a list. Raises: StatusError (400, 422)."""
    match = options.match
    if match not in ("", "Exact", "NotOlderThan"):
        listed = '"Exact", "NotOlderThan", ""'
        message = f'Unsupported value: "{match}": supported values: {listed}'
        raise _invalid_match("FieldValueNotSupported", message)
    if match and not options.resource_version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise _invalid_match("FieldValueForbidden", f"Forbidden: {why}")
    if match == "Exact" and options.resource_version == "0":
        why = 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
        raise _invalid_match("FieldValueForbidden", f"Forbidden: {why}")
    try:
        return parse_version(options.resource_version)
    except StatusError as error:
        raise bad_request(f"invalid resource version: {error.message}") from None


def _invalid_match(reason: str, message: str) -> StatusError:
    cause = Cause(reason, message, "resourceVersionMatch")
    return invalid("ListOptions", "meta.k8s.io", "", [cause])


def _token(revision: int, last: ObjectKey) -> str:
    token = _Token("meta.k8s.io/v1", revision, f"{last.namespace}/{last.name}")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read(text: str) -> tuple[ObjectKey, int]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None
    namespace, _, name = token.start.partition("/")
    return ObjectKey(namespace, name), token.rv
