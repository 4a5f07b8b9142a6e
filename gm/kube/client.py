"""Requests to a Kubernetes API server: bytes in and out, one method per verb.

No client-side throttle: the server has its own, and says so (``TooManyRequests``).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from gm.api.meta import ObjectKey, ResourceType
from gm.errors import ApiUnreachable, ResourceExpired
from gm.kube import nesting
from gm.kube.kubeconfig import load_access
from gm.kube.server_warnings import WarningLog, is_about_version
from gm.kube.transport import (
    JSON,
    Observer,
    Response,
    Status,
    Transport,
    error_of,
    status_error,
)

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Client",
    "ListResult",
    "WatchEvent",
]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


D = TypeVar("D")


class ListResult(msgspec.Struct, frozen=True):
    """Objects as JSON, and the version of the whole list: where a watch starts."""

    items: list[msgspec.Raw]
    resource_version: str


class WatchEvent(msgspec.Struct, frozen=True):
    """ADDED, MODIFIED, DELETED or BOOKMARK, and the object as JSON."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode
_decode_event = msgspec.json.Decoder(WatchEvent).decode
_decode_status = msgspec.json.Decoder(Status).decode
_encode = msgspec.json.Encoder().encode

# A list that expires again and again while it is read is worth a few fresh starts, not a loop.
_LIST_STARTS = 3


def _describe(verb: str, resource: ResourceType, key: ObjectKey | str = "") -> str:
    return f"{verb} {resource.qualified} {key}".rstrip()


def _body(body: Mapping[str, Any] | list[Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else _encode(body)


class Client:
    """A connection pool to one API server; an async context manager.

    ``server`` is its URL; ``namespace`` that of the kubeconfig's context, or of the pod. Every
    failure is a ``gm.errors.ServiceError`` that names verb, resource and object. What the server
    warns of while it carries out a write is logged once, unless ``create`` is told who hears it.
    """

    def __init__(self, transport: Transport, *, namespace: str = "default") -> None:
        self._transport = transport
        self._warnings = WarningLog()
        self.server = transport.server
        self.namespace = namespace

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        master: str | None = None,
        named_by: str | None = None,
        user_agent: str = "gm",
        observe: Observer | None = None,
    ) -> Client:
        """A client for the cluster of ``kubeconfig``; sends nothing yet.

        Without ``kubeconfig``: the environment variable KUBECONFIG, else the service account of
        the pod that this runs in. ``master`` (a URL) takes the place of the configured server.
        ``named_by`` is how people tell this program which ``kubeconfig``: a flag, say, instead of
        the setting. ``observe`` is told of each answer.

        Raises: ConfigError, which says what to do, when there is nothing usable.
        """
        access = await load_access(
            kubeconfig=kubeconfig,
            context=context,
            master=master,
            named_by=named_by or "setting kubeConfig",
        )
        transport = Transport(access, user_agent=user_agent, observe=observe)
        return cls(transport, namespace=access.namespace)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; running watches end with ``ApiUnreachable``."""
        await self._transport.close()

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """The object under ``key``, as JSON."""
        return await self._object("GET", "get", resource, key)

    async def list(
        self,
        resource: ResourceType,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str = "",
    ) -> ListResult:
        """All objects, in pages of ``limit``, as one consistent list.

        Starts over when the list expires between two pages.
        """
        starts = 0
        while True:
            starts += 1
            items: list[msgspec.Raw] = []
            version = ""
            try:
                async for page in self.pages(
                    resource,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    limit=limit,
                    resource_version=resource_version,
                ):
                    items += page.items
                    version = page.resource_version
            except ResourceExpired:
                # before the first page it is the version asked for that has expired
                if not items or starts == _LIST_STARTS:
                    raise
            else:
                return ListResult(items, version)

    async def pages(
        self,
        resource: ResourceType,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str = "",
    ) -> AsyncGenerator[ListResult, None]:
        """The pages of a list, each dropped before the next is asked for.

        Raises: ResourceExpired when the list expires between two pages: start over.
        """
        query = {
            "limit": str(limit) if limit else "",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
        }
        path, request = resource.path(namespace), _describe("list", resource, namespace)
        while True:
            page = _decode(_read_page, await self._read(path, request, query), request)
            yield ListResult(page.items or [], page.metadata.resource_version)
            if not page.metadata.continue_:
                return
            # the server refuses a resourceVersion beside a continue token
            query = query | {"continue": page.metadata.continue_, "resourceVersion": ""}

    async def create(
        self,
        resource: ResourceType,
        namespace: str,
        body: Mapping[str, Any] | bytes,
        *,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        """Create an object; returns it as the server stored it.

        ``on_warning`` is called with each text in which the server warns of ``body`` (a field that
        it does not know and leaves out, say), also before a refusal is raised.

        Raises: AlreadyExists when somebody holds the name.
        """
        data = _body(body)
        request = _describe("create", resource, _name_in(namespace, data))
        response = await self._answer("POST", resource.path(namespace), request, data)
        return self._done(request, resource, response, on_warning)

    async def replace(
        self,
        resource: ResourceType,
        key: ObjectKey,
        body: Mapping[str, Any] | bytes,
        *,
        subresource: str = "",
    ) -> bytes:
        """Replace the whole object, or its ``subresource``.

        Raises: Conflict when the object is no longer at the resourceVersion in ``body``.
        """
        return await self._object(
            "PUT", "replace", resource, key, subresource=subresource, body=_body(body)
        )

    async def patch(
        self,
        resource: ResourceType,
        key: ObjectKey,
        body: Mapping[str, Any] | list[Any] | bytes,  # type: ignore[valid-type]  # `list` above
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> bytes:
        """Change a part of the object; returns the whole as it is now.

        ``content_type`` says which kind of patch ``body`` is. Built-in kinds take all three,
        custom resources MERGE_PATCH and JSON_PATCH.
        """
        return await self._object(
            "PATCH",
            "patch",
            resource,
            key,
            subresource=subresource,
            body=_body(body),
            content_type=content_type,
        )

    async def delete(
        self,
        resource: ResourceType,
        key: ObjectKey,
        *,
        uid: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
    ) -> None:
        """Ask for removal of the object; it may take its time (finalizers, a pod's grace).

        With ``uid`` only that incarnation. Raises: Conflict when another one holds the name.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy is not None:
            options["propagationPolicy"] = propagation_policy
        await self._object("DELETE", "delete", resource, key, body=_encode(options))

    async def watch(
        self,
        resource: ResourceType,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
        timeout_seconds: int,
        read_deadline_seconds: float,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes since ``resource_version``, until the server ends the watch.

        The server is asked to end it after ``timeout_seconds``. A stream on which nothing has
        come for ``read_deadline_seconds``, which should be longer, counts as dead. ``on_open`` is
        called when the server has accepted the watch.

        Raises: ResourceExpired for a version that is too old, whether the server says so by HTTP
        410 or by an ERROR event; ApiUnreachable when the stream breaks or falls silent.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        request = _describe("watch", resource, namespace)
        lines = self._transport.lines(
            _target(resource.path(namespace), query),
            request,
            read_deadline_seconds=read_deadline_seconds,
            on_open=on_open,
        )
        async with contextlib.aclosing(lines):
            async for line in lines:
                event = _decode(_read_event, line, request)
                if event.type == "ERROR":
                    raise error_of(request, _decode(_decode_status, event.object, request))
                yield event

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Response:
        """Any request; the answer is returned whatever its status. Raises: ApiUnreachable."""
        return await self._transport.request(
            method,
            _target(path, query or {}),
            f"{method} {path}",
            body=body,
            content_type=content_type,
            accept=accept,
        )

    async def _object(
        self,
        method: str,
        verb: str,
        resource: ResourceType,
        key: ObjectKey,
        *,
        subresource: str = "",
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        path = resource.path(key.namespace, key.name, subresource)
        what = f"{key} {subresource}" if subresource else str(key)
        request = f"{verb} {resource.qualified} {what}"
        if method == "GET":
            return await self._read(path, request, {})
        response = await self._answer(method, path, request, body, content_type)
        return self._done(request, resource, response)

    async def _read(self, path: str, request: str, query: Mapping[str, str]) -> bytes:
        response = await self._answer("GET", _target(path, query), request)
        if response.status >= 300:
            raise status_error(request, response)
        return response.body

    async def _answer(
        self,
        method: str,
        target: str,
        request: str,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> Response:
        return await self._transport.request(
            method, target, request, body=body, content_type=content_type
        )

    def _done(
        self,
        request: str,
        resource: ResourceType,
        response: Response,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        """The body of the answer to a write, when its warnings have been told."""
        for text in response.warnings:
            # each object of the kind would be told of a deprecated version: that is no news
            if on_warning is None or is_about_version(text, resource):
                self._warnings.tell(request, resource, text)
            else:
                on_warning(text)
        if response.status >= 300:
            raise status_error(request, response)
        return response.body


def _target(path: str, query: Mapping[str, str]) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    generate_name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_decode_named = msgspec.json.Decoder(_Named).decode


def _name_in(namespace: str, body: bytes) -> str:
    """Which object a create is about, for messages only."""
    try:
        meta = _decode_named(body).metadata
        name = meta.name or f"{meta.generate_name}*"
    except msgspec.MsgspecError:
        name = "?"
    return f"{namespace}/{name}" if namespace else name


def _read_page(data: bytes | msgspec.Raw) -> _Page:
    try:
        return _decode_page(data)
    except RecursionError:  # one object in it is nested too deeply; the others are wanted
        parts = nesting.fields(bytes(data))
        metadata = msgspec.json.decode(parts["metadata"], type=_ListMeta)
        return _Page(metadata, [msgspec.Raw(item) for item in nesting.items(parts["items"])])


def _read_event(data: bytes | msgspec.Raw) -> WatchEvent:
    try:
        return _decode_event(data)
    except RecursionError:
        parts = nesting.fields(bytes(data))
        return WatchEvent(
            msgspec.json.decode(parts["type"], type=str), msgspec.Raw(parts["object"])
        )


def _decode(
    decode: Callable[[bytes | msgspec.Raw], D], data: bytes | msgspec.Raw, request: str
) -> D:
    try:
        return decode(data)
    except msgspec.MsgspecError as exc:
        raise ApiUnreachable(f"{request} failed: the answer is not Kubernetes JSON") from exc
