"""Reading Secrets and ConfigMaps."""

from __future__ import annotations

from gm.api.resources import CONFIG_MAPS, SECRETS
from gm.edge_stub.runner.env import Source
from gm.edge_stub.runner.sources import read_sources
from tests.cluster.cluster import Cluster


async def test_data_is_decoded_and_what_is_missing_is_none(cluster: Cluster) -> None:
    """Both kinds, binary data, and objects without any."""
    namespace = cluster.namespace
    async with cluster.client() as client:
        await client.create(SECRETS, namespace, {"metadata": {"name": "s"}, "data": {"k": "AP8="}})
        await client.create(SECRETS, namespace, {"metadata": {"name": "empty"}})
        await client.create(
            CONFIG_MAPS,
            namespace,
            {"metadata": {"name": "m"}, "data": {"t": "é"}, "binaryData": {"b": "AP8="}},
        )
        wanted = [
            Source("Secret", "s"),
            Source("Secret", "s"),
            Source("Secret", "empty"),
            Source("Secret", "no"),
            Source("Secret", ""),
            Source("ConfigMap", "m"),
        ]
        assert await read_sources(client, namespace, wanted) == {
            Source("Secret", "s"): {"k": b"\x00\xff"},
            Source("Secret", "empty"): {},
            Source("Secret", "no"): None,
            Source("Secret", ""): None,
            Source("ConfigMap", "m"): {"t": "é".encode(), "b": b"\x00\xff"},
        }
        assert await read_sources(client, namespace, []) == {}


def test_a_source_reads_as_words() -> None:
    """For messages."""
    assert str(Source("ConfigMap", "m")) == "configmap 'm'"
