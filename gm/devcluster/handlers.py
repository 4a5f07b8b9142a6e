"""The API's requests: from HTTP to the verbs and back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import msgspec
from aiohttp import web

from gm.api.meta import Json, ObjectKey
from gm.devcluster import binding, decoding, patch, tables
from gm.devcluster.answers import answer, raw_answer, read_body
from gm.devcluster.api import Api, WriteOptions, Written
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.info import ResourceInfo, User
from gm.devcluster.listing import ListOptions, Page, list_page, parse_bool, parse_version
from gm.devcluster.logs import LogProxy
from gm.devcluster.negotiate import Form, media_type, negotiate
from gm.devcluster.routes import Target
from gm.devcluster.status import (
    Cause,
    StatusError,
    bad_request,
    invalid,
    method_not_allowed,
    not_found,
    too_large_version,
    unsupported_media_type,
)
from gm.devcluster.store import Record
from gm.devcluster.watch import Watches, WatchOptions

__all__ = ["Handlers"]

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_UNSUPPORTED_PARTS = frozenset({"exec", "attach", "portforward", "proxy", "ephemeralcontainers"})


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One request, as far as it is understood."""

    request: web.BaseRequest
    info: ResourceInfo
    target: Target
    form: Form
    query: Mapping[str, str]

    @property
    def key(self) -> ObjectKey:
        namespace = self.target.namespace if self.info.resource.namespaced else ""
        return ObjectKey(namespace, self.target.name)


class Handlers:
    """Answers requests for resources."""

    def __init__(self, api: Api, watches: Watches, logs: LogProxy) -> None:
        self._api, self._watches, self._logs = api, watches, logs

    async def handle(
        self, request: web.BaseRequest, info: ResourceInfo, target: Target
    ) -> web.StreamResponse:
        """Answer one request. Raises: StatusError."""
        call = _Call(
            request=request,
            info=info,
            target=target,
            form=Form() if target.subresource == "log" else negotiate(_accept(request)),
            query=request.query,
        )
        if target.namespace and not info.resource.namespaced:
            raise _no_such_path()
        if target.subresource:
            return await self._part(call)
        if info.answer is not None:
            return await self._review(call, info.answer)
        verb = self._verb(call)
        if verb not in info.verbs:
            raise _no_such_method()
        verbs: dict[str, Callable[[_Call], Awaitable[web.StreamResponse]]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }
        return await verbs[verb](call)

    @staticmethod
    def _verb(call: _Call) -> str:
        verb = _VERBS.get(call.request.method)
        named = bool(call.target.name)
        if verb == "get" and not named:
            return "watch" if parse_bool(call.query.get("watch")) else "list"
        if verb == "delete" and not named:
            return "deletecollection"
        if call.info.is_custom:
            _check_custom(call, verb, named=named)
        elif verb is None or named == (verb == "create"):
            raise _no_such_method()
        assert verb is not None
        return verb

    # -- subresources ---------------------------------------------------------------------

    async def _part(self, call: _Call) -> web.StreamResponse:
        part, method, plural = call.target.subresource, call.request.method, call.info.storage
        if part == "status" and part in call.info.subresources:
            verbs = {"GET": self._get, "PUT": self._update, "PATCH": self._patch}
            if method in verbs:
                return await verbs[method](call)
            raise method_not_allowed(call.info.resource, _VERBS.get(method, ""))
        match plural.qualified, part, method:
            case "pods", "log", "GET":
                record = self._api.get(call.info, call.key)
                return await self._logs.stream(call.request, record)
            case "pods", "binding", "POST":
                body, _ = await self._object(call, "Binding")
                dry_run = _write_options(call.query, "CreateOptions").dry_run
                return answer(binding.bind(self._api, call.key, body, dry_run=dry_run), 201)
            case "pods", "eviction", "POST":
                body, _ = await self._object(call, "Eviction")
                options = DeleteOptions.parse(body.get("deleteOptions") or {}, call.query)
                delete(self._api, call.info, call.key, options)
                return answer(binding.SUCCESS, 201)
            case "namespaces", "finalize", "PUT":
                body, _ = await self._object(call)
                record = binding.finalize(self._api, call.key, body)
                return self._objects(call, record)
            case "pods", name, _ if name in _UNSUPPORTED_PARTS:
                message = f"{name} is not supported by this API server: it is no full cluster"
                raise StatusError(501, "NotImplemented", message, {"kind": "pods"})
        if call.info.is_custom:
            raise not_found(call.info.resource, call.target.name)
        if part in call.info.subresources:
            raise _no_such_method()
        raise _no_such_path()

    async def _review(
        self, call: _Call, review: Callable[[Json, User], Json]
    ) -> web.StreamResponse:
        if call.request.method != "POST" or call.target.name:
            raise method_not_allowed(call.info.resource, _VERBS.get(call.request.method, ""))
        body, _ = await self._object(call)
        resource = call.info.resource
        body = {**body, "kind": resource.kind, "apiVersion": resource.api_version}
        return answer(review(body, User()), 201, form=call.form)

    # -- reading --------------------------------------------------------------------------

    async def _get(self, call: _Call) -> web.StreamResponse:
        asked = parse_version(call.query.get("resourceVersion", ""))
        if asked > self._api.store.revision:
            raise too_large_version(asked, self._api.store.revision)
        return self._objects(call, self._api.get(call.info, call.key))

    async def _list(self, call: _Call) -> web.StreamResponse:
        options = ListOptions.parse(call.info, call.target.namespace, call.query)
        page = list_page(self._api.store, call.info, options)
        return self._page(call, page)

    async def _watch(self, call: _Call) -> web.StreamResponse:
        options = WatchOptions.parse(call.info, call.target.namespace, call.query)
        return await self._watches.stream(call.request, call.info, call.form, options)

    # -- writing --------------------------------------------------------------------------

    async def _create(self, call: _Call) -> web.StreamResponse:
        options = _write_options(call.query, "CreateOptions")
        body, duplicates = await self._object(call)
        options = replace(options, duplicates=tuple(duplicates))
        written = self._api.create(call.info, call.target.namespace, body, options)
        return self._written(call, written)

    async def _update(self, call: _Call) -> web.StreamResponse:
        options = _write_options(call.query, "UpdateOptions")
        body, duplicates = await self._object(call)
        options = replace(options, duplicates=tuple(duplicates))
        written = self._api.replace(
            call.info, call.key, body, subresource=call.target.subresource, options=options
        )
        return self._written(call, written)

    async def _patch(self, call: _Call) -> web.StreamResponse:
        options = _write_options(call.query, "PatchOptions")
        schema = call.info.patch_schema
        content_type = media_type(call.request.headers.get("Content-Type", ""))
        patch.check_type(content_type, schema)
        change = patch.decode(await read_body(call.request))
        written = self._api.patch(
            call.info,
            call.key,
            lambda obj: patch.apply_patch(content_type, obj, change, schema),
            subresource=call.target.subresource,
            options=options,
        )
        return self._written(call, written)

    async def _delete(self, call: _Call) -> web.StreamResponse:
        options = await self._delete_options(call)
        left = delete(self._api, call.info, call.key, options)
        return self._shown(call, [left]) if left["kind"] != "Status" else answer(left)

    async def _delete_collection(self, call: _Call) -> web.StreamResponse:
        options = await self._delete_options(call)
        listed = ListOptions.parse(call.info, call.target.namespace, call.query)
        page = list_page(self._api.store, call.info, listed)
        for record in page.records:
            delete(self._api, call.info, record.key, options)
        return self._page(call, page)

    async def _delete_options(self, call: _Call) -> DeleteOptions:
        raw = await read_body(call.request)
        body: Json = {}
        if raw:
            kind = media_type(call.request.headers.get("Content-Type", ""))
            body, _ = decoding.decode(raw, kind, kind="DeleteOptions")
        return DeleteOptions.parse(body, call.query)

    # -- bodies ---------------------------------------------------------------------------

    async def _object(self, call: _Call, kind: str = "") -> tuple[Json, list[str]]:
        raw = await read_body(call.request)
        content_type = media_type(call.request.headers.get("Content-Type", ""))
        if not content_type:  # a web page can send a body without one; no client of ours does
            raise unsupported_media_type(decoding.MEDIA_TYPES)
        expected = kind or call.info.resource.kind
        body, duplicates = decoding.decode(raw, content_type, kind=expected)
        if call.info.is_custom:
            lenient = call.query.get("fieldValidation") == "Ignore"
            version = call.info.resource.version if lenient else ""
            decoding.identify(body, kind=expected, body=raw, lenient_version=version)
        return body, duplicates

    def _written(self, call: _Call, written: Written) -> web.Response:
        response = self._objects(call, written.record, 201 if written.created else 200)
        for warning in written.warnings:
            text = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{text}"')
        return response

    def _objects(self, call: _Call, record: Record, status: int = 200) -> web.Response:
        obj = call.info.from_storage(record.object)
        if obj is record.object and not call.form.shown_as and not call.form.is_yaml:
            return raw_answer(record.encoded, status)
        return self._shown(call, [obj], status)

    def _shown(self, call: _Call, objects: list[Json], status: int = 200) -> web.Response:
        """One object in the form that was asked for."""
        if call.form.is_table:
            return answer(self._table(call, objects), status, form=call.form)
        if call.form.is_partial:
            return answer(tables.partial(objects[0]), status, form=call.form)
        return answer(objects[0], status, form=call.form)

    def _table(self, call: _Call, objects: list[Json], metadata: Json | None = None) -> Json:
        return tables.render(
            call.info,
            objects,
            now=time.time(),
            include_object=call.query.get("includeObject", "Metadata"),
            metadata=metadata,
        )

    def _page(self, call: _Call, page: Page) -> web.Response:
        info, form = call.info, call.form
        views = [info.from_storage(record.object) for record in page.records]
        if form.is_table:
            return answer(self._table(call, views, page.metadata), form=form)
        if form.is_partial:
            listed = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": page.metadata,
                "items": [tables.partial(view) for view in views],
            }
            return answer(listed, form=form)
        head = {"kind": info.list_kind, "apiVersion": info.resource.api_version}
        if not info.is_custom:
            listed = {**head, "metadata": page.metadata, "items": [_item(view) for view in views]}
            return answer(listed, form=form)
        metadata = {"continue": "", **page.metadata}
        if form.is_yaml:
            return answer({**head, "metadata": metadata, "items": views}, form=form)
        encoded = b",".join(
            record.encoded if view is record.object else msgspec.json.encode(view)
            for record, view in zip(page.records, views, strict=True)
        )
        opening = msgspec.json.encode({**head, "metadata": metadata})[:-1]
        return raw_answer(opening + b',"items":[' + encoded + b"]}")


def _item(view: Json) -> Json:
    """An object as lists of built-in kinds hold it: they say once what kind it is."""
    return {key: value for key, value in view.items() if key not in ("kind", "apiVersion")}


def _check_custom(call: _Call, verb: str | None, *, named: bool) -> None:
    """What custom resources' paths take; unlike those of built-in kinds, a create with a name."""
    if verb is None:
        raise method_not_allowed(call.info.resource, "")
    if verb in ("update", "patch") and not named:
        raise bad_request("name must be provided")


def _accept(request: web.BaseRequest) -> str:
    return ",".join(request.headers.getall("Accept", ()))


def _no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def _no_such_method() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def _write_options(query: Mapping[str, str], kind: str) -> WriteOptions:
    """The query parameters of a write. Raises: StatusError (422)."""
    causes: list[Cause] = []
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "")
    if dry_run not in ("", "All"):
        message = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
        causes.append(Cause("FieldValueNotSupported", message, "dryRun"))
    if validation not in ("", "Ignore", "Strict", "Warn"):
        listed = '"", "Ignore", "Strict", "Warn"'
        message = f'Unsupported value: "{validation}": supported values: {listed}'
        causes.append(Cause("FieldValueNotSupported", message, "fieldValidation"))
    if causes:
        raise invalid(kind, "meta.k8s.io", "", causes)
    return WriteOptions(dry_run=bool(dry_run), field_validation=validation or "Warn")
