"""OpenAPI v3: what ``kubectl explain`` prints and ``kubectl apply`` looks up before it sends.

One document for each group and version, made from the registry; Kubernetes' own schemas for the
built-in kinds, those of the CRDs for custom ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from gm.api.meta import Json
from gm.devcluster.definitions import definitions, git_version
from gm.devcluster.discovery import Document
from gm.devcluster.info import ResourceInfo
from gm.devcluster.registry import Registry

__all__ = ["OpenApi", "schema_name"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


class OpenApi:
    """The documents of ``/openapi/v3``, made anew only when the registry has changed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._documents: dict[str, Document] = {}

    def index(self) -> Document:
        """``/openapi/v3``: where each document is, by the hash of its content."""
        paths = {
            key: {"serverRelativeURL": f"/openapi/v3/{key}?hash={document.etag.strip(chr(34))}"}
            for key, document in self._current().items()
        }
        return replace(_document({"paths": paths}), content_type="text/plain; charset=utf-8")

    def names(self) -> list[str]:
        """The keys of all documents."""
        return [*self._current()]

    def document(self, key: str) -> Document | None:
        """``/openapi/v3/KEY`` with KEY ``api/v1`` or ``apis/GROUP/VERSION``; None if unknown.

        With a query ``hash`` that is the document's (its ETag without quotes) the answer may be
        kept for ever; with another one, redirect (301) to ``/openapi/v3/KEY?hash=...``.
        """
        return self._current().get(key)

    def _current(self) -> dict[str, Document]:
        if self._revision != self._registry.revision:
            versions: dict[str, list[ResourceInfo]] = {}
            for info in self._registry.all():
                root = "apis/" if info.resource.group else "api/"
                versions.setdefault(root + info.resource.api_version, []).append(info)
            self._documents = {key: _document(_build(infos)) for key, infos in versions.items()}
            self._revision = self._registry.revision
        return self._documents


def _document(content: Json) -> Document:
    body = msgspec.json.encode(content)
    etag = hashlib.sha512(body, usedforsecurity=False).hexdigest().upper()
    return Document(body, "application/json", f'"{etag}"')


def schema_name(info: ResourceInfo) -> str:
    """The name of a kind's schema: ``io.k8s.api.core.v1.Pod``, ``io.sedna.v1alpha1.Dataset``."""
    if info.schema.reference:
        return info.schema.reference
    domain = ".".join(reversed(info.resource.group.split(".")))
    return f"{domain}.{info.resource.version}.{info.resource.kind}"


def _build(infos: list[ResourceInfo]) -> Json:
    paths: Json = {}
    schemas: Json = {}
    for info in infos:
        _add_schemas(info, schemas)
        paths |= _paths(info)
    known = definitions()
    waiting = [*_references(schemas), *_references(paths)]
    while waiting:
        name = waiting.pop()
        if name not in schemas and name in known:
            schemas[name] = known[name]
            waiting += _references(known[name])
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": git_version()},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _kind(info: ResourceInfo, kind: str = "") -> Json:
    resource = info.resource
    return {
        "group": resource.group,
        "version": resource.version,
        "kind": kind or resource.kind,
    }


def _add_schemas(info: ResourceInfo, schemas: Json) -> None:
    name = schema_name(info)
    if not info.is_custom:
        listed = f"{name}List"
        schemas |= {n: definitions()[n] for n in (name, listed) if n in definitions()}
        return
    schemas[name] = {
        **info.schema.raw,
        "x-kubernetes-group-version-kind": [_kind(info)],
    }
    schemas[f"{name}List"] = {
        "description": f"{info.list_kind} is a list of {info.resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"#/components/schemas/{_META}.ListMeta"},
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
        },
        "x-kubernetes-group-version-kind": [_kind(info, info.list_kind)],
    }


def _parameter(name: str, *, kind: str = "string") -> Json:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _path_parameter(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


_WRITE = [_parameter("dryRun"), _parameter("fieldManager"), _parameter("fieldValidation")]
_LIST = [
    _parameter("fieldSelector"),
    _parameter("labelSelector"),
    _parameter("limit", kind="integer"),
    _parameter("continue"),
    _parameter("resourceVersion"),
    _parameter("resourceVersionMatch"),
    _parameter("sendInitialEvents", kind="boolean"),
    _parameter("allowWatchBookmarks", kind="boolean"),
    _parameter("timeoutSeconds", kind="integer"),
    _parameter("watch", kind="boolean"),
]
_DELETE = [
    _parameter("dryRun"),
    _parameter("gracePeriodSeconds", kind="integer"),
    _parameter("propagationPolicy"),
]


def _operation(
    info: ResourceInfo,
    action: str,
    answer: str,
    *,
    parameters: list[Json],
    body: str = "",
    media_types: tuple[str, ...] = ("application/json", "application/yaml"),
) -> Json:
    content = {"schema": {"$ref": f"#/components/schemas/{answer}"}}
    operation: Json = {
        "description": f"{action} {info.resource.kind}",
        "operationId": f"{action}{info.resource.kind}",
        "parameters": parameters,
        "responses": {
            "200": {"description": "OK", "content": {"application/json": content}},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(info),
    }
    if body:
        sent = {"schema": {"$ref": f"#/components/schemas/{body}"}}
        operation["requestBody"] = {"content": dict.fromkeys(media_types, sent)}
    return operation


def _paths(info: ResourceInfo) -> Json:
    resource, name = info.resource, schema_name(info)
    verbs = set(info.verbs)
    place = resource.path("{namespace}")
    collection: Json = {"parameters": [_path_parameter("namespace")] if resource.namespaced else []}
    item: Json = {"parameters": [*collection["parameters"], _path_parameter("name")]}
    if "list" in verbs:
        collection["get"] = _operation(info, "list", f"{name}List", parameters=_LIST)
    if "create" in verbs:
        collection["post"] = _operation(info, "post", name, parameters=_WRITE, body=name)
    if "deletecollection" in verbs:
        collection["delete"] = _operation(
            info, "deletecollection", f"{_META}.Status", parameters=[*_DELETE, *_LIST]
        )
    paths: Json = {place: collection}
    if "get" in verbs:
        item |= _item_operations(info, name)
        item["delete"] = _operation(info, "delete", f"{_META}.Status", parameters=_DELETE)
        paths[f"{place}/{{name}}"] = item
    if "status" in info.subresources:
        paths[f"{place}/{{name}}/status"] = {
            "parameters": item["parameters"],
            **_item_operations(info, name),
        }
    if resource.namespaced and "list" in verbs:
        everywhere = _operation(info, "list", f"{name}List", parameters=_LIST)
        paths[resource.path()] = {"get": everywhere}
    return paths


def _item_operations(info: ResourceInfo, name: str) -> Json:
    patches = _PATCHES[:2] if info.is_custom else _PATCHES
    return {
        "get": _operation(info, "get", name, parameters=[]),
        "put": _operation(info, "put", name, parameters=_WRITE, body=name),
        "patch": _operation(
            info,
            "patch",
            name,
            parameters=[*_WRITE, _parameter("force", kind="boolean")],
            body=f"{_META}.Patch",
            media_types=patches,
        ),
    }
