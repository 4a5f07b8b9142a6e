"""The API's requests: from HTTP to the verbs and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from gm.api.meta import Json, ObjectKey
from gm.devcluster import binding, decoding, patch, rendering, scale
from gm.devcluster.answers import add_warnings, answer, encode_status, read_body
from gm.devcluster.api import Api, WriteOptions, Written
from gm.devcluster.call import Call, understand, write_options
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.info import ResourceInfo, User
from gm.devcluster.listing import ListOptions, list_page
from gm.devcluster.logs import LogOptions, LogProxy
from gm.devcluster.negotiate import media_type
from gm.devcluster.query import Query, parse_bool, parse_version
from gm.devcluster.routes import Target
from gm.devcluster.scale import SCALE
from gm.devcluster.schema import Schema
from gm.devcluster.status import (
    StatusError,
    bad_request,
    method_not_allowed,
    no_such_method,
    no_such_path,
    not_found,
    too_large_version,
    unsupported_media_type,
)
from gm.devcluster.watch import Watches, WatchOptions

__all__ = ["Handlers"]

_VERBS = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_STREAMS = ("GET", "POST")
_UNSUPPORTED_PARTS = {
    "attach": _STREAMS,
    "ephemeralcontainers": ("GET", "PATCH", "PUT"),
    "exec": _STREAMS,
    "portforward": _STREAMS,
    "proxy": ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"),
}
"""What is not served, with the methods that are taken upstream."""


class Handlers:
    """Answers requests for resources."""

    def __init__(self, api: Api, watches: Watches, logs: LogProxy) -> None:
        self._api, self._watches, self._logs = api, watches, logs

    async def handle(
        self, request: web.BaseRequest, info: ResourceInfo, target: Target, query: Query
    ) -> web.StreamResponse:
        """Answer one request. Raises: StatusError."""
        call = understand(request, info, target, query)
        try:
            response = await self._answered(call)
        except StatusError as error:
            if not info.warning:
                raise
            response = encode_status(error)
        if not response.prepared:
            add_warnings(response, info.warning)
        return response

    async def _answered(self, call: Call) -> web.StreamResponse:
        info, target = call.info, call.target
        if target.namespace and not info.resource.namespaced:
            raise no_such_path()
        if target.subresource:
            return await self._part(call)
        if info.answer is not None:
            return await self._review(call, info.answer)
        verb = self._verb(call)
        if verb not in info.verbs:
            raise no_such_method()
        verbs: dict[str, Callable[[Call], Awaitable[web.StreamResponse]]] = {
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
    def _verb(call: Call) -> str:
        verb = _VERBS.get(call.method)
        named = bool(call.target.name)
        if verb == "get" and not named:
            watches = parse_bool(call.query.get("watch")) and call.request.method != "HEAD"
            return "watch" if watches else "list"
        if verb == "delete" and not named:
            return "deletecollection"
        if call.info.is_custom:
            _check_custom(call, verb, named=named)
        elif verb is None or named == (verb == "create"):
            raise no_such_method()
        assert verb is not None
        return verb

    # -- subresources ---------------------------------------------------------------------

    async def _part(self, call: Call) -> web.StreamResponse:
        part, method, plural = call.target.subresource, call.method, call.info.storage
        if part == "status" and part in call.info.subresources:
            verbs = {"GET": self._get, "PUT": self._update, "PATCH": self._patch}
            if method in verbs:
                return await verbs[method](call)
            if not call.info.is_custom:
                raise no_such_method()
            raise method_not_allowed(call.info.resource, _VERBS.get(method, ""))
        if part == "scale" and call.info.scale is not None:
            return await self._scale(call)
        match plural.qualified, part, method:
            case "pods", "log", "GET":
                options = LogOptions.parse(call.target.name, call.query)
                record = self._api.get(call.info, call.key)
                return await self._logs.stream(call.request, record, options)
            case "pods", "binding", "POST":
                return await self._posted(call, "Binding", binding.bind)
            case "pods", "eviction", "POST":
                return await self._posted(call, "Eviction", binding.evict)
            case "namespaces", "finalize", "PUT":
                return await self._update(call)
            case "namespaces", "finalize", _:
                raise no_such_method()
            case ("pods" | "nodes" | "services") as kind, name, _ if name in _UNSUPPORTED_PARTS:
                if name == "proxy" or kind == "pods":
                    if method not in _UNSUPPORTED_PARTS[name]:
                        raise no_such_method()
                    self._api.get(call.info, call.key)
                    message = f"{name} is not supported by this API server: it is no full cluster"
                    raise StatusError(501, "NotImplemented", message, {"kind": kind})
        if call.info.is_custom:
            raise not_found(call.info.resource, call.target.name)
        if part in call.info.subresources:
            raise no_such_method()
        raise no_such_path()

    async def _posted(
        self,
        call: Call,
        kind: str,
        act: Callable[[Api, ObjectKey, Json, WriteOptions], list[str]],
    ) -> web.StreamResponse:
        """Do what an object of ``kind`` says that is posted to a pod."""
        options = write_options(call.query, "CreateOptions")
        body, duplicates = await self._object(call, kind)
        warnings = act(self._api, call.key, body, replace(options, duplicates=tuple(duplicates)))
        response = answer(binding.SUCCESS, 201)
        add_warnings(response, *warnings)
        return response

    async def _scale(self, call: Call) -> web.StreamResponse:
        info, method = call.info, call.method
        if method == "GET":
            record = self._api.get(info, call.key)
            shown = scale.view(info, record.view(info.from_storage))
            return rendering.shown(call, [shown], of=scale.shown_as(info))
        if method not in ("PUT", "PATCH"):
            if info.is_custom:
                raise method_not_allowed(info.resource, _VERBS.get(method, ""))
            raise no_such_method()
        options = write_options(
            call.query, "PatchOptions" if method == "PATCH" else "UpdateOptions"
        )
        if method == "PUT":
            body, duplicates = await self._object(call, "Scale")
            options = replace(options, duplicates=tuple(duplicates))
            make = lambda _obj: body  # noqa: E731
        else:
            patch_schema = None if info.is_custom else SCALE.schema
            change, duplicates = await self._change(call, patch_schema)
            options = replace(options, duplicates=tuple(duplicates))
            make = lambda obj: change(scale.view(info, obj))  # noqa: E731
        shown, warnings = scale.write(
            self._api, info, call.key, make, options, is_patch=method == "PATCH"
        )
        response = rendering.shown(call, [shown], of=scale.shown_as(info))
        add_warnings(response, *warnings)
        return response

    async def _review(self, call: Call, review: Callable[[Json, User], Json]) -> web.StreamResponse:
        if call.target.name:
            raise no_such_path()
        if call.method != "POST":
            raise no_such_method()
        body, _ = await self._object(call)
        resource = call.info.resource
        body = {**body, "kind": resource.kind, "apiVersion": resource.api_version}
        return answer(review(body, User()), 201, form=call.form)

    # -- reading --------------------------------------------------------------------------

    async def _get(self, call: Call) -> web.StreamResponse:
        asked = parse_version(call.query.get("resourceVersion", ""))
        if asked > self._api.store.revision:
            raise too_large_version(asked, self._api.store.revision)
        return rendering.stored(call, self._api.get(call.info, call.key))

    async def _list(self, call: Call) -> web.StreamResponse:
        options = ListOptions.parse(call.info, call.target.namespace, call.query)
        page = list_page(self._api.store, call.info, options)
        return rendering.page(call, page)

    async def _watch(self, call: Call) -> web.StreamResponse:
        options = WatchOptions.parse(call.info, call.target.namespace, call.query)
        return await self._watches.stream(call.request, call.info, call.form, options)

    # -- writing --------------------------------------------------------------------------

    async def _create(self, call: Call) -> web.StreamResponse:
        options = write_options(call.query, "CreateOptions")
        body, duplicates = await self._object(call)
        options = replace(options, duplicates=tuple(duplicates))
        written = self._api.create(call.info, call.target.namespace, body, options)
        return self._written(call, written)

    async def _update(self, call: Call) -> web.StreamResponse:
        options = write_options(call.query, "UpdateOptions")
        body, duplicates = await self._object(call)
        options = replace(options, duplicates=tuple(duplicates))
        written = self._api.replace(
            call.info, call.key, body, subresource=call.target.subresource, options=options
        )
        return self._written(call, written)

    async def _patch(self, call: Call) -> web.StreamResponse:
        change, duplicates = await self._change(call, call.info.patch_schema)
        options = write_options(call.query, "PatchOptions")
        options = replace(options, duplicates=tuple(duplicates))
        written = self._api.patch(
            call.info,
            call.key,
            change,
            subresource=call.target.subresource,
            options=options,
        )
        return self._written(call, written)

    @staticmethod
    async def _change(
        call: Call, schema: Schema | None
    ) -> tuple[Callable[[Json], Json], list[str]]:
        """What a patch does to an object, and messages about keys that it repeats.

        Raises: StatusError (400, 413, 415).
        """
        content_type = media_type(call.request.headers.get("Content-Type", ""))
        patch.check_type(content_type, schema)
        change, duplicates = patch.decode(content_type, await read_body(call.request))
        return lambda obj: patch.apply_patch(content_type, obj, change, schema), duplicates

    async def _delete(self, call: Call) -> web.StreamResponse:
        options = await self._delete_options(call)
        left = delete(self._api, call.info, call.key, options)
        return rendering.shown(call, [left]) if left["kind"] != "Status" else answer(left)

    async def _delete_collection(self, call: Call) -> web.StreamResponse:
        options = await self._delete_options(call)
        listed = ListOptions.parse(call.info, call.target.namespace, call.query)
        page = list_page(self._api.store, call.info, listed)
        for record in page.records:
            delete(self._api, call.info, record.key, options)
        return rendering.page(call, page)

    async def _delete_options(self, call: Call) -> DeleteOptions:
        raw = await read_body(call.request)
        body: Json | None = None
        if raw:
            kind = media_type(call.request.headers.get("Content-Type", ""))
            body, _ = decoding.decode(raw, kind, kind="DeleteOptions")
        return DeleteOptions.parse(body, call.query)

    # -- bodies ---------------------------------------------------------------------------

    async def _object(self, call: Call, kind: str = "") -> tuple[Json, list[str]]:
        raw = await read_body(call.request)
        content_type = media_type(call.request.headers.get("Content-Type", ""))
        if not content_type:  # a web page can send a body without one; no client of ours does
            raise unsupported_media_type(decoding.MEDIA_TYPES)
        expected = kind or call.info.resource.kind
        body, duplicates = decoding.decode(raw, content_type, kind=expected)
        if call.info.is_custom and not kind:
            lenient = call.query.get("fieldValidation") == "Ignore"
            version = call.info.resource.version if lenient else ""
            decoding.identify(body, kind=expected, body=raw, lenient_version=version)
        return body, duplicates

    def _written(self, call: Call, written: Written) -> web.Response:
        response = rendering.stored(call, written.record, 201 if written.created else 200)
        add_warnings(response, *written.warnings)
        return response


def _check_custom(call: Call, verb: str | None, *, named: bool) -> None:
    """What custom resources' paths take; unlike those of built-in kinds, a create with a name."""
    if verb is None:
        raise method_not_allowed(call.info.resource, "")
    if verb in ("update", "patch") and not named:
        raise bad_request("name must be provided")
