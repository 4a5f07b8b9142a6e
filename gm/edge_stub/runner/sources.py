"""Secrets and ConfigMaps of a pod, read live when a container starts; never kept."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import msgspec

from gm.api.meta import ObjectKey
from gm.api.resources import CONFIG_MAPS, SECRETS
from gm.edge_stub.runner.env import Source, Sources
from gm.errors import NotFound
from gm.kube import Client

__all__ = ["read_sources"]


class _Data(msgspec.Struct, rename="camel"):
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_Data).decode


async def read_sources(client: Client, namespace: str, wanted: Iterable[Source]) -> Sources:
    """The data of each of ``wanted``; None where there is no such object.

    Raises: ServiceError when one can not be read.
    """
    return {source: await _read(client, namespace, source) for source in sorted(set(wanted))}


async def _read(client: Client, namespace: str, source: Source) -> dict[str, bytes] | None:
    resource = SECRETS if source.kind == "Secret" else CONFIG_MAPS
    if not source.name:
        return None
    try:
        found = _decode(await client.get(resource, ObjectKey(namespace, source.name)))
    except NotFound:
        return None
    if resource is SECRETS:
        return {key: base64.b64decode(value) for key, value in (found.data or {}).items()}
    texts = {key: value.encode() for key, value in (found.data or {}).items()}
    return texts | {k: base64.b64decode(v) for k, v in (found.binary_data or {}).items()}
