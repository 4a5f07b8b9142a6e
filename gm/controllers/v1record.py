"""The v1 record's shards as ConfigMaps of the state namespace."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from gm.api.meta import ObjectKey
from gm.api.resources import CONFIG_MAPS
from gm.controllers.statenamespace import create_namespace
from gm.errors import AlreadyExists, Conflict, NotFound
from gm.kube import Client
from gm.messagelayer import ShardConflict

__all__ = ["ConfigMapShards"]

_ENTRY = "record"


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    binary_data: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_ConfigMap).decode


class ConfigMapShards:
    """A :class:`gm.messagelayer.ShardStore`: one ConfigMap per shard, compare-and-swap by version.

    Each is made when the first key is written; a missing namespace is made, too.
    """

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def read(self, shard: int) -> tuple[bytes, str]:
        """See :class:`gm.messagelayer.ShardStore`."""
        try:
            config_map = _decode(await self._client.get(CONFIG_MAPS, self._key(shard)))
        except NotFound:
            return b"", ""
        content = (config_map.binary_data or {}).get(_ENTRY, "")
        return base64.b64decode(content), config_map.metadata.resource_version

    async def write(self, shard: int, content: bytes, version: str) -> str:
        """See :class:`gm.messagelayer.ShardStore`."""
        body = self._body(shard, content, version)
        try:
            if version:
                written = await self._client.replace(CONFIG_MAPS, self._key(shard), body)
            else:
                written = await self._create(body)
        except (AlreadyExists, Conflict) as exc:
            raise ShardConflict(str(exc)) from exc
        except NotFound as exc:
            if version:  # deleted by hand: what it held is lost, what is known is written anew
                raise ShardConflict(str(exc)) from exc
            raise
        return _decode(written).metadata.resource_version

    async def _create(self, body: dict[str, Any]) -> bytes:
        try:
            return await self._client.create(CONFIG_MAPS, self._namespace, body)
        except NotFound:
            await create_namespace(self._client, self._namespace)
            return await self._client.create(CONFIG_MAPS, self._namespace, body)

    def _key(self, shard: int) -> ObjectKey:
        return ObjectKey(self._namespace, f"gm-v1-record-{shard:02}")

    def _body(self, shard: int, content: bytes, version: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self._key(shard).name,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/managed-by": "gm"},
                "annotations": {
                    "sedna.io/about": "which objects edge nodes with a v1 Local Controller may"
                    " hold; without it deletes made while gm is down do not reach them"
                },
                **({"resourceVersion": version} if version else {}),
            },
            "binaryData": {_ENTRY: base64.b64encode(content).decode()},
        }
