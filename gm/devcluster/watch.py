"""Watches: a selection of one table's changes, as a stream of JSON lines."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from aiohttp import web

from gm.api.meta import Json
from gm.devcluster import tables
from gm.devcluster.answers import add_warnings
from gm.devcluster.cursors import Cursor
from gm.devcluster.info import ResourceInfo
from gm.devcluster.listing import ListOptions
from gm.devcluster.negotiate import Form
from gm.devcluster.query import parse_bool, parse_int, parse_version
from gm.devcluster.status import Cause, StatusError, expired, invalid
from gm.devcluster.store import Change, Expired, Record, Store, event_line

__all__ = ["WatchOptions", "Watches", "cut", "select"]

_BATCH = 100
_SLOW_SECONDS = 30
"""How long a client may not read before its watch is cut."""
_INITIAL_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Query parameters of a watch.

    ``replay`` sends what exists first; ``after`` is None when the watch begins now.
    """

    listed: ListOptions
    replay: bool
    after: int | None
    bookmarks: bool
    initial_end: bool
    seconds: float
    include_object: str = "Metadata"

    @classmethod
    def parse(cls, info: ResourceInfo, namespace: str, query: Mapping[str, str]) -> WatchOptions:
        """From a request. Raises: StatusError (400, 422, 500)."""
        listed = ListOptions.parse(info, namespace, query)
        version = parse_version(listed.resource_version)
        initial = query.get("sendInitialEvents")
        if causes := _wrong_options(listed):
            raise invalid("ListOptions", "meta.k8s.io", "", causes)
        bookmarks = parse_bool(query.get("allowWatchBookmarks"))
        wants_all = parse_bool(initial)
        replay = wants_all if initial is not None else version == 0
        timeout = parse_int(query, "timeoutSeconds") or 0
        return cls(
            listed=listed,
            replay=replay,
            after=version if version and not wants_all else None,
            bookmarks=bookmarks,
            initial_end=wants_all and bookmarks,
            seconds=timeout if timeout > 0 else random.uniform(1800, 3600),  # noqa: S311 - so that not all end at once
            include_object=query.get("includeObject", "Metadata"),
        )


def _wrong_options(listed: ListOptions) -> list[Cause]:
    """What keeps the parameters of a list from being those of a watch."""
    match, name = listed.match, "resourceVersionMatch"
    texts = []
    if listed.sends_initial and match != "NotOlderThan":
        texts.append("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match and not listed.sends_initial:
        texts.append(f"{name} is forbidden for watch unless sendInitialEvents is provided")
    if listed.token:
        texts.append(f"{name} is forbidden when continue is provided")
    causes = [Cause("FieldValueForbidden", f"Forbidden: {text}", name) for text in texts]
    if match not in ("", "NotOlderThan"):
        message = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
        causes.append(Cause("FieldValueNotSupported", message, name))
    return causes


def cut(request: web.BaseRequest) -> None:
    """Close the client's connection at once: what it got so far is not all."""
    if request.transport is not None:
        request.transport.abort()


def select(change: Change, info: ResourceInfo, options: ListOptions) -> tuple[str, Record] | None:
    """What a watch with these options says of a change: event type and object, or nothing.

    An object that begins to match is ADDED; one that ceases to is DELETED, with its last
    matching state and the version of the change.
    """
    if options.namespace and change.record.key.namespace != options.namespace:
        return None
    selector = options.selector
    if selector.is_empty:
        return change.type, change.record
    last = change.previous
    was_match = last is not None and selector.matches(last.view(info.from_storage))
    if change.type != "DELETED" and selector.matches(change.record.view(info.from_storage)):
        return ("MODIFIED" if was_match else "ADDED"), change.record
    if last is None or not was_match:
        return None
    if change.type == "DELETED":
        return change.type, change.record
    meta = {**last.meta, "resourceVersion": str(change.revision)}
    return "DELETED", Record(last.key, {**last.object, "metadata": meta}, change.revision)


class _Encoder:
    """Events in the form that one client asked for."""

    def __init__(self, info: ResourceInfo, form: Form, options: WatchOptions) -> None:
        self._info, self._form, self._options = info, form, options
        self._headers = True

    def changes(self, changes: list[Change]) -> Iterator[bytes]:
        for change in changes:
            selected = select(change, self._info, self._options.listed)
            if selected is not None:
                kind, record = selected
                if kind == change.type and record is change.record and not self._form.shown_as:
                    yield self._shared(change)
                else:
                    yield self.event(kind, record)

    def _shared(self, change: Change) -> bytes:
        if change.record.view(self._info.from_storage) is change.record.object:
            return change.line
        return self.event(change.type, change.record)

    def event(self, kind: str, record: Record) -> bytes:
        obj = record.view(self._info.from_storage)
        if self._form.is_table:
            return self._line(kind, self._table([obj]))
        if self._form.is_partial:
            return self._line(kind, tables.partial(obj, self._form.version))
        if obj is record.object:
            return event_line(kind, record.encoded)
        return self._line(kind, obj)

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        resource = self._info.resource
        meta: Json = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {_INITIAL_END: "true"}
        obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if self._form.is_table:
            obj = self._table([obj])
        elif self._form.is_partial:
            obj = tables.partial(obj, self._form.version)
        return self._line("BOOKMARK", obj)

    def error(self, error: StatusError) -> bytes:
        return self._line("ERROR", error.body())

    def _table(self, objects: list[Json]) -> Json:
        headers, self._headers = self._headers, False
        return tables.render(
            self._info,
            objects,
            now=time.time(),
            include_object=self._options.include_object,
            headers=headers,
            version=self._form.version,
        )

    @staticmethod
    def _line(kind: str, obj: Any) -> bytes:
        return event_line(kind, msgspec.json.encode(obj))


class Watches:
    """The watches that are open; they end when the server stops."""

    def __init__(self, store: Store, *, bookmark_seconds: float) -> None:
        self._store, self._bookmark_seconds = store, bookmark_seconds
        self._open: set[Cursor] = set()
        self._stopping = False

    def stop(self) -> None:
        """End all watches."""
        self._stopping = True
        for cursor in self._open:
            cursor.wake()

    async def stream(
        self, request: web.BaseRequest, info: ResourceInfo, form: Form, options: WatchOptions
    ) -> web.StreamResponse:
        """Answer a watch, until its time is over, the client goes or the server stops.

        Raises: StatusError (400), before anything is sent.
        """
        if form.is_table:
            tables.check_include(options.include_object)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        add_warnings(response, info.warning)
        response.enable_chunked_encoding()
        await response.prepare(request)
        encoder = _Encoder(info, replace(form, media_type="application/json"), options)
        try:
            await self._follow(request, response, info, encoder, options)
        except Expired as error:
            await self._write(request, response, encoder.error(expired(str(error))))
        except ConnectionError:
            return response  # the client went away
        except Exception:
            cut(request)  # an answer has begun: no other can take its place
            raise
        return response

    async def _follow(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        info: ResourceInfo,
        encoder: _Encoder,
        options: WatchOptions,
    ) -> None:
        table = self._store.table(info.storage.qualified)
        now = asyncio.get_running_loop().time
        ends = now() + options.seconds
        mark = now() + self._bookmark_seconds if options.bookmarks else ends
        # The position is taken and what exists is collected in one step: nothing is missed.
        position = self._store.revision if options.after is None else options.after
        initial = list(table.records(options.listed.namespace)) if options.replay else []
        with Cursor(table, position) as cursor:
            self._open.add(cursor)
            try:
                await self._replay(request, response, info, encoder, options, initial)
                if options.initial_end:
                    line = encoder.bookmark(position, initial_end=True)
                    await self._write(request, response, line)
                while not self._stopping and now() < ends:
                    changes = cursor.take(_BATCH)
                    if lines := b"".join(encoder.changes(changes)):
                        await self._write(request, response, lines)
                    if changes:
                        continue
                    if options.bookmarks and now() >= mark:
                        mark = now() + self._bookmark_seconds
                        revision = max(position, self._store.revision)
                        await self._write(request, response, encoder.bookmark(revision))
                    await self._wait(cursor, min(ends, mark) - now())
            finally:
                self._open.discard(cursor)

    async def _replay(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        info: ResourceInfo,
        encoder: _Encoder,
        options: WatchOptions,
        initial: list[Record],
    ) -> None:
        matches = options.listed.selector.matches
        chosen = [r for r in initial if matches(r.view(info.from_storage))]
        for start in range(0, len(chosen), _BATCH):
            lines = [encoder.event("ADDED", r) for r in chosen[start : start + _BATCH]]
            await self._write(request, response, b"".join(lines))

    @staticmethod
    async def _wait(cursor: Cursor, seconds: float) -> None:
        alarm = asyncio.get_running_loop().call_later(seconds, cursor.wake)
        try:
            await cursor.wait()
        finally:
            alarm.cancel()

    async def _write(
        self, request: web.BaseRequest, response: web.StreamResponse, lines: bytes
    ) -> None:
        await self._store.settled()  # what a client has seen, no crash may take back
        try:
            async with asyncio.timeout(_SLOW_SECONDS):
                await response.write(lines)
        except TimeoutError:
            cut(request)
            raise ConnectionResetError("the client reads too slowly") from None
