"""What is served, for clients to discover: both the old documents and the aggregated one."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from gm.api.meta import Json, ResourceType
from gm.devcluster.definitions import git_version
from gm.devcluster.info import ResourceInfo, version_order
from gm.devcluster.registry import Registry

__all__ = [
    "Document",
    "aggregated",
    "api",
    "apis",
    "group",
    "resource_list",
    "version",
    "wants_aggregated",
]

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_SUBRESOURCE_VERBS = {
    "binding": ("create",),
    "eviction": ("create",),
    "log": ("get",),
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
}
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}


# the order in which each of the two documents has them
_CUSTOM_VERBS = (
    *("delete", "deletecollection", "get", "list", "patch"),
    *("create", "update", "watch"),
)


@dataclass(frozen=True)
class Document:
    """An answer that clients may cache by its ETag."""

    body: bytes
    content_type: str
    etag: str


def version() -> Json:
    """The answer of ``/version``: that of the Kubernetes whose kinds are served, marked as ours."""
    text = git_version()
    major, minor, _ = text.removeprefix("v").split(".", 2)
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{text}+gm",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }


def wants_aggregated(accept: str) -> str:
    """The version of aggregated discovery to answer with (``v2``, ``v2beta1``); empty for none.

    The first media type of the ``Accept`` header that can be served wins.
    """
    for item in accept.split(","):
        parameters = dict(
            part.strip().partition("=")[::2] for part in item.split(";")[1:] if "=" in part
        )
        if parameters.get("as") == "APIGroupDiscoveryList":
            if (wanted := parameters.get("v", "")) in ("v2", "v2beta1"):
                return wanted
        elif item.split(";")[0].strip() in ("application/json", "*/*", "application/*"):
            return ""
    return ""


def aggregated(registry: Registry, accept: str, *, core: bool) -> Document:
    """Aggregated discovery of ``/api`` (``core``) or ``/apis``."""
    wanted = wants_aggregated(accept)
    groups: dict[str, dict[str, list[ResourceInfo]]] = {}
    for info in registry.all():
        if (info.resource.group == "") == core:
            versions = groups.setdefault(info.resource.group, {})
            versions.setdefault(info.resource.version, []).append(info)
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated_resource(info) for info in infos],
                    "freshness": "Current",
                }
                for version, infos in _newest_first(versions)
            ],
        }
        for name, versions in groups.items()
    ]
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{wanted}",
        "metadata": {},
        "items": items,
    }
    body = msgspec.json.encode(document)
    etag = hashlib.sha512(body, usedforsecurity=False).hexdigest().upper()
    return Document(body, _AGGREGATED.format(wanted), f'"{etag}"')


def _newest_first(
    versions: dict[str, list[ResourceInfo]],
) -> Iterable[tuple[str, list[ResourceInfo]]]:
    return sorted(versions.items(), key=lambda item: version_order(item[0]))


def _aggregated_resource(info: ResourceInfo) -> Json:
    resource = info.resource
    # Built-ins leave group and version of the kind empty when they are those of the document.
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    kind = own if info.is_custom else {**own, "group": "", "version": ""}
    document: Json = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": [*info.verbs],
    }
    if info.short_names:
        document["shortNames"] = [*info.short_names]
    if info.categories:
        document["categories"] = [*info.categories]
    if info.subresources:
        document["subresources"] = [
            {
                "subresource": name,
                "responseKind": _subresource_kind(name, kind),
                "verbs": [*_SUBRESOURCE_VERBS[name]],
            }
            for name in sorted(info.subresources)
        ]
    return document


def _subresource_kind(name: str, own: Json) -> Json:
    if name not in _SUBRESOURCE_KINDS:
        return own
    group, version, kind = _SUBRESOURCE_KINDS[name]
    return {"group": group, "version": version, "kind": kind}


def api(registry: Registry, *, server_address: str) -> Json:
    """``/api`` without aggregation. ``server_address`` is HOST:PORT."""
    del registry  # there is one version of the core group
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
        ],
    }


def apis(registry: Registry) -> Json:
    """``/apis`` without aggregation."""
    names = dict.fromkeys(i.resource.group for i in registry.all() if i.resource.group)
    groups = [_group(registry, name) for name in names]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Json | None:
    """``/apis/NAME``; None if no such group is served."""
    found = _group(registry, name)
    return {"kind": "APIGroup", "apiVersion": "v1", **found} if found["versions"] else None


def _group(registry: Registry, name: str) -> Json:
    versions = {i.resource.version for i in registry.all() if i.resource.group == name}
    listed = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in sorted(versions, key=version_order)
    ]
    return {"name": name, "versions": listed, "preferredVersion": listed[0] if listed else {}}


def resource_list(registry: Registry, group: str, version: str) -> Json | None:
    """``/api/v1`` or ``/apis/GROUP/VERSION``; None if no such version is served."""
    infos = [
        info
        for info in registry.all()
        if (info.resource.group, info.resource.version) == (group, version)
    ]
    if not infos:
        return None
    resources: list[Json] = []
    for info in infos:
        resources.append(_listed(info))
        resources += [_listed_subresource(info, name) for name in sorted(info.subresources)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": infos[0].resource.api_version,
        "resources": resources,
    }


def _listed(info: ResourceInfo) -> Json:
    document: Json = {
        "name": info.resource.plural,
        "singularName": info.singular,
        "namespaced": info.resource.namespaced,
        "kind": info.resource.kind,
        "verbs": [v for v in _CUSTOM_VERBS if v in info.verbs] if info.is_custom else [*info.verbs],
    }
    if info.short_names:
        document["shortNames"] = [*info.short_names]
    if info.categories:
        document["categories"] = [*info.categories]
    if info.answer is None:
        document["storageVersionHash"] = _storage_hash(info.storage)
    return document


def _storage_hash(storage: ResourceType) -> str:
    """What tells clients that objects are kept in another version than before."""
    text = f"{storage.group}/{storage.version}/{storage.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _listed_subresource(info: ResourceInfo, name: str) -> Json:
    document: Json = {
        "name": f"{info.resource.plural}/{name}",
        "singularName": "",
        "namespaced": info.resource.namespaced,
        "kind": info.resource.kind,
        "verbs": [*_SUBRESOURCE_VERBS[name]],
    }
    if name in _SUBRESOURCE_KINDS:
        group, version, document["kind"] = _SUBRESOURCE_KINDS[name]
        document |= {"group": group, "version": version}
    return document
