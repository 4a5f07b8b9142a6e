"""Discovery and OpenAPI over HTTP: which document a path is, and what a client may keep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
from aiohttp import web

from gm.api.meta import Json
from gm.devcluster import discovery, openapi2
from gm.devcluster.discovery import Document
from gm.devcluster.openapi import OpenApi
from gm.devcluster.registry import Registry
from gm.devcluster.status import no_such_method

__all__ = ["Documents"]

_NO_CACHE = "no-cache, private"
_YEAR = timedelta(days=365)


class Documents:
    """Answers requests for what describes the API."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._openapi = OpenApi(registry)

    def respond(self, request: web.BaseRequest) -> web.Response | None:
        """The document at the request's path; None if the path is not one of a document.

        Raises: StatusError (405).
        """
        parts = request.path.strip("/").split("/")
        if parts == [""]:
            return _json({"paths": self._paths()})
        if parts[:2] == ["openapi", "v3"]:
            return self._open_api(request, "/".join(parts[2:]))
        if parts == ["openapi", "v2"]:
            return _cacheable(request, openapi2.document(_accept(request)), _NO_CACHE)
        if parts[0] not in ("api", "apis") or len(parts) > 3:
            return None
        is_core = parts[0] == "api"
        if is_core and len(parts) > 2:
            return None
        if is_core or len(parts) == 3:
            self._check_method(request, parts)
        accept = _accept(request)
        if len(parts) == 1 and discovery.wants_aggregated(accept):
            document = discovery.aggregated(self._registry, accept, core=is_core)
            return _cacheable(request, document, "public")
        found = self._legacy(parts, request.headers.get("Host", ""))
        return None if found is None else _json(found)

    def _check_method(self, request: web.BaseRequest, parts: list[str]) -> None:
        """Raises: StatusError (405) if a list of built-in resources is not just read."""
        is_builtin = parts[0] == "api" or self._registry.is_builtin(parts[1])
        if is_builtin and request.method != "GET":
            raise no_such_method()

    def _paths(self) -> list[str]:
        """What there is to read beside resources, for people who ask for ``/``."""
        kinds = [info.resource for info in self._registry.all()]
        groups = {f"/apis/{kind.group}" for kind in kinds if kind.group}
        versions = {f"/apis/{kind.api_version}" for kind in kinds if kind.group}
        documents = {f"/openapi/v3/{key}" for key in self._openapi.names()}
        others = {"/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3", "/version"}
        probes = {"/healthz", "/livez", "/readyz"}
        return sorted({*groups, *versions, *documents, *others, *probes})

    def _legacy(self, parts: list[str], host: str) -> Json | None:
        match parts:
            case ["api"]:
                return discovery.api(self._registry, server_address=host)
            case ["api", version]:
                return discovery.resource_list(self._registry, "", version)
            case ["apis"]:
                return discovery.apis(self._registry)
            case ["apis", group]:
                return discovery.group(self._registry, group)
            case ["apis", group, version]:
                return discovery.resource_list(self._registry, group, version)
        return None

    def _open_api(self, request: web.BaseRequest, key: str) -> web.Response | None:
        if not key:
            return _cacheable(request, self._openapi.index(), _NO_CACHE)
        document = self._openapi.document(key)
        if document is None:
            return None
        asked, actual = request.query.get("hash"), document.etag.strip('"')
        if asked is None:
            return _cacheable(request, document, _NO_CACHE)
        if asked != actual:
            location = f"/openapi/v3/{key}?hash={actual}"
            return web.Response(status=301, headers={"Location": location})
        response = _cacheable(request, document, "public, immutable")
        # kubectl keeps a document with an expiry date on disk: its hash is in the URL.
        response.headers["Expires"] = format_datetime(datetime.now(UTC) + _YEAR, usegmt=True)
        return response


def _accept(request: web.BaseRequest) -> str:
    return ",".join(request.headers.getall("Accept", ()))


def _json(document: Json) -> web.Response:
    headers = {"Content-Type": "application/json", "Cache-Control": _NO_CACHE}
    return web.Response(body=msgspec.json.encode(document), headers=headers)


def _cacheable(request: web.BaseRequest, document: Document, control: str) -> web.Response:
    headers = {"ETag": document.etag, "Cache-Control": control, "Vary": "Accept"}
    if request.headers.get("If-None-Match") == document.etag:
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = document.content_type
    return web.Response(body=document.body, headers=headers)
