"""Submits manifests to an API server with the requests that ``kubectl apply`` makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from gm.api import resources
from gm.api.meta import Json, ObjectKey, ResourceType
from gm.errors import ConfigError, NotFound, api_error
from gm.kube import MERGE_PATCH, Client

__all__ = ["apply", "load_manifests"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_QUERY = {"fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"}
_KNOWN: dict[tuple[str, str], ResourceType] = {
    (resource.api_version, resource.kind): resource
    for resource in vars(resources).values()
    if isinstance(resource, ResourceType)
}


def load_manifests(path: Path) -> list[Json]:
    """The objects of a YAML file, in order.

    Raises: ConfigError naming the file if it can not be read, or is no list of objects.
    """
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except (OSError, yaml.YAMLError) as exc:
        raise ConfigError(f"can not read {path}: {exc}") from None
    manifests: list[Any] = [document for document in documents if document is not None]
    for manifest in manifests:
        if not isinstance(manifest, dict) or "kind" not in manifest:
            raise ConfigError(f"{path}: every document must be an object with a kind")
    return manifests


async def apply(client: Client, manifest: Json, *, namespace: str) -> str:
    """Create or update one object as ``kubectl apply`` would; returns what kubectl would say.

    ``namespace`` is used where the manifest names none.
    Raises: ServiceError; ConfigError for a kind that this program does not know.
    """
    api_version, kind = manifest.get("apiVersion", ""), manifest["kind"]
    resource = _KNOWN.get((api_version, kind))
    if resource is None:
        raise ConfigError(f"{api_version} {kind}: use kubectl apply for this kind")
    wanted = _annotated(manifest, namespace if resource.namespaced else "")
    meta = wanted["metadata"]
    key = ObjectKey(meta.get("namespace", ""), meta["name"])
    name = f"{resource.kind.lower()}.{resource.group}/{key.name}".replace("./", "/")
    try:
        live = msgspec.json.decode(await client.get(resource, key))
    except NotFound:
        await _write(client, "POST", resource.path(key.namespace), wanted, "application/json")
        return f"{name} created"
    if (live["metadata"].get("annotations") or {}).get(LAST_APPLIED) == meta["annotations"][
        LAST_APPLIED
    ]:
        return f"{name} unchanged"
    await _write(client, "PATCH", resource.path(key.namespace, key.name), wanted, MERGE_PATCH)
    return f"{name} configured"


def _annotated(manifest: Json, namespace: str) -> Json:
    """A copy with the namespace and kubectl's annotation, which holds the manifest itself."""
    wanted: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(manifest))
    meta = wanted.setdefault("metadata", {})
    if namespace:
        meta.setdefault("namespace", namespace)
    annotations = meta.setdefault("annotations", {})
    annotations.pop(LAST_APPLIED, None)
    annotations[LAST_APPLIED] = msgspec.json.encode(wanted, order="sorted").decode() + "\n"
    return wanted


async def _write(client: Client, method: str, path: str, body: Json, content_type: str) -> None:
    response = await client.raw(
        method, path, query=_QUERY, body=msgspec.json.encode(body), content_type=content_type
    )
    if response.status >= 300:
        status = msgspec.json.decode(response.body)
        raise api_error(
            f"{method} {path}",
            code=response.status,
            reason=status.get("reason", ""),
            message=status.get("message", ""),
        )
