"""The informer against API servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from gm.api.meta import PartialObject, ResourceType
from gm.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from gm.kube import EventType, Informer
from tests.cluster.cluster import Cluster
from tests.fakes.proxy import Proxy
from tests.kube.conftest import custom_resource_definition
from tests.kube.following import FAST, Recording, eventually, running


async def test_an_informer_sees_what_happens_in_a_cluster(cluster: Cluster) -> None:
    """From before its start, and after."""
    body: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, body)
        informer = Informer(
            client,
            CONFIG_MAPS,
            PartialObject,
            namespace=cluster.namespace,
            field_selector="metadata.name!=kube-root-ca.crt",
        )
        recording = Recording()
        informer.add_handler(recording)
        async with running(informer):
            await informer.wait_synced()
            await client.patch(CONFIG_MAPS, cluster.key("a"), {"data": {"x": "2"}})
            await client.delete(CONFIG_MAPS, cluster.key("a"))
            await client.create(CONFIG_MAPS, cluster.namespace, body)
            await eventually(lambda: len(recording.seen) == 5)
        types = [event.type for event in recording.events]
        assert types == [
            EventType.ADDED,
            EventType.SYNCED,
            EventType.MODIFIED,
            EventType.DELETED,
            EventType.ADDED,
        ]
        assert informer.problem is None
        stored = informer.lister.get(cluster.key("a"))
        assert stored is not None
        assert b"managedFields" not in stored.raw


async def test_a_label_that_goes_is_a_deletion(cluster: Cluster) -> None:
    """An object that leaves the selection leaves the cache."""
    body = {"metadata": {"name": "a", "labels": {"mine": "yes"}}}
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, body)
        informer = Informer(
            client,
            CONFIG_MAPS,
            PartialObject,
            namespace=cluster.namespace,
            label_selector="mine=yes",
        )
        recording = Recording()
        informer.add_handler(recording)
        async with running(informer):
            await informer.wait_synced()
            await client.patch(
                CONFIG_MAPS, cluster.key("a"), {"metadata": {"labels": {"mine": "no"}}}
            )
            await eventually(lambda: len(recording.seen) == 3)
            assert recording.events[-1].type is EventType.DELETED
            assert len(informer.lister) == 0


async def test_a_crd_that_appears_later_is_followed_within_seconds_P1_080(
    cluster: Cluster, absent_widgets: ResourceType
) -> None:
    """The informer says what is missing, and goes on by itself."""
    settings = msgspec.structs.replace(FAST, absent_retry_seconds=0.1)
    async with cluster.client() as client:
        informer = Informer(
            client, absent_widgets, PartialObject, namespace=cluster.namespace, settings=settings
        )
        async with running(informer):
            await eventually(lambda: informer.problem)
            assert informer.problem == f"{absent_widgets.qualified}: the CRD is not installed"
            crd = custom_resource_definition(absent_widgets)
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
            async with asyncio.timeout(30):
                await informer.wait_synced()
            body = {
                "apiVersion": absent_widgets.api_version,
                "kind": absent_widgets.kind,
                "metadata": {"name": "a"},
            }
            await client.create(absent_widgets, cluster.namespace, body)
            await eventually(lambda: len(informer.lister) == 1)
            assert informer.problem is None


async def test_a_network_that_swallows_everything_is_noticed_P0_011(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Nobody says that the watch is dead; what happened meanwhile is found afterwards."""
    config = cluster.read_kubeconfig()
    url = urlsplit(config["clusters"][0]["cluster"]["server"])
    assert url.port is not None
    proxy = Proxy(url.port)
    proxy.host = url.hostname or ""
    async with proxy.running():
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        # a real server's bookmarks come once a minute, so a quiet watch is silent for long
        settings = msgspec.structs.replace(FAST, watch_timeout_seconds=60, read_deadline_seconds=1)
        async with cluster.client(str(path)) as client:
            informer = Informer(
                client,
                CONFIG_MAPS,
                PartialObject,
                namespace=cluster.namespace,
                field_selector="metadata.name!=kube-root-ca.crt",
                settings=settings,
            )
            async with running(informer):
                await informer.wait_synced()
                proxy.is_black_hole = True
                before = informer.restarts
                async with cluster.client() as other:
                    body = {"metadata": {"name": "a"}}
                    await other.create(CONFIG_MAPS, cluster.namespace, body)
                await eventually(lambda: informer.restarts > before)
                assert informer.problem is not None
                assert len(informer.lister) == 0
                proxy.is_black_hole = False
                await eventually(lambda: len(informer.lister) == 1)
                await eventually(lambda: informer.problem is None)


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_rights_that_come_later_are_enough_P1_079(cluster: Cluster) -> None:
    """Forbidden at first, named, and working after the grant without a restart."""
    settings = msgspec.structs.replace(FAST, absent_retry_seconds=0.1)
    async with cluster.client(cluster.limited_kubeconfig) as client:
        informer = Informer(
            client, CONFIG_MAPS, PartialObject, namespace=cluster.namespace, settings=settings
        )
        async with running(informer):
            await eventually(lambda: informer.problem)
            assert informer.problem == f"forbidden: list configmaps {cluster.namespace}"
            await cluster.kubectl(
                "create", "role", "reader", "--verb=list,watch", "--resource=configmaps"
            )
            await cluster.kubectl("create", "rolebinding", "r", "--role=reader", "--user=limited")
            async with asyncio.timeout(30):
                await informer.wait_synced()
            await eventually(lambda: informer.problem is None)
