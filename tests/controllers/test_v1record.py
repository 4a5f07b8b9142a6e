"""Shards of the v1 record in ConfigMaps, against API servers."""

from __future__ import annotations

import asyncio
import json
import secrets

import pytest

from gm.api.meta import ObjectKey
from gm.api.resources import CONFIG_MAPS, NAMESPACES
from gm.controllers.v1record import ConfigMapShards
from gm.messagelayer import ShardConflict, ShardedRecord
from tests.cluster.cluster import Cluster
from tests.fakes.edge import Edge
from tests.messagelayer.support import desired, key, open_hub, serving


async def test_shard_is_written_only_over_the_version_that_was_read(cluster: Cluster) -> None:
    """Also where it does not exist yet, or any more."""
    async with cluster.client() as client:
        shards = ConfigMapShards(client, namespace=cluster.namespace)
        assert await shards.read(3) == (b"", "")
        version = await shards.write(3, b"\x00\xffone", "")
        assert await shards.read(3) == (b"\x00\xffone", version)
        with pytest.raises(ShardConflict):
            await shards.write(3, b"two", "")
        newer = await shards.write(3, b"two", version)
        with pytest.raises(ShardConflict):
            await shards.write(3, b"three", version)
        assert await shards.read(3) == (b"two", newer)
        assert await shards.read(4) == (b"", "")
        await client.delete(CONFIG_MAPS, ObjectKey(cluster.namespace, "gm-v1-record-03"))
        with pytest.raises(ShardConflict):
            await shards.write(3, b"three", newer)


async def test_missing_namespace_is_made(cluster: Cluster) -> None:
    """Outside a cluster nobody else would."""
    namespace = f"state-{secrets.token_hex(4)}"
    async with cluster.client() as client:
        shards = ConfigMapShards(client, namespace=namespace)
        assert await shards.read(0) == (b"", "")
        await asyncio.gather(*(shards.write(number, b"x", "") for number in range(4)))
        assert (await shards.read(0))[0] == b"x"
        assert json.loads(await client.get(NAMESPACES, ObjectKey("", namespace)))
        await client.delete(NAMESPACES, ObjectKey("", namespace))


async def test_largest_shard_fits_into_an_object(cluster: Cluster) -> None:
    """10,000 nodes with 100 keys each come to about 0.5 MiB a shard."""
    content = secrets.token_bytes(768 * 1024)
    async with cluster.client() as client:
        shards = ConfigMapShards(client, namespace=cluster.namespace)
        version = await shards.write(0, content, "")
        assert await shards.read(0) == (content, version)


async def test_delete_made_while_gm_was_down_reaches_the_node_P0_008(cluster: Cluster) -> None:
    """A new hub, with nothing but what the API server has."""
    async with cluster.client() as client:
        shards = ConfigMapShards(client, namespace=cluster.namespace)
        hub = open_hub(record=ShardedRecord(shards))
        hub.put("edge1", desired("stays"))
        hub.put("edge1", desired("goes"))
        async with serving(hub) as server, Edge.connected(server.port, "edge1") as edge:
            await edge.wait_for(lambda: len(edge.held) == 2)
            held = edge.held
        hub = open_hub(record=ShardedRecord(shards))
        hub.put("edge1", desired("stays"))
        async with serving(hub) as server, Edge.connected(server.port, "edge1", held=held) as edge:
            await edge.wait_for(lambda: set(held) == {str(key("stays"))})
