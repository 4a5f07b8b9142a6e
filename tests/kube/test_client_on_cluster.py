"""The client against API servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import msgspec
import pytest

from gm.api.meta import PartialObject, ResourceType
from gm.api.resources import CONFIG_MAPS, PODS
from gm.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ResourceExpired,
    TooManyRequests,
    Unauthorized,
)
from gm.kube import JSON_PATCH, STRATEGIC_MERGE_PATCH
from tests.cluster.cluster import Cluster
from tests.kube.following import collect


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name}, "data": data}


async def test_an_object_lives_through_all_verbs(cluster: Cluster) -> None:
    """Create, read, replace, patch three ways, delete."""
    key = cluster.key("one")
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("one", a="1"))
        with pytest.raises(AlreadyExists, match=f"create configmaps {key} failed: 409"):
            await client.create(CONFIG_MAPS, cluster.namespace, config_map("one"))
        found = msgspec.json.decode(await client.get(CONFIG_MAPS, key))
        found["data"]["b"] = "2"
        await client.replace(CONFIG_MAPS, key, found)
        with pytest.raises(Conflict):
            await client.replace(CONFIG_MAPS, key, found)
        await client.patch(CONFIG_MAPS, key, {"data": {"a": None}})
        await client.patch(
            CONFIG_MAPS,
            key,
            [{"op": "add", "path": "/data/c", "value": "3"}],
            content_type=JSON_PATCH,
        )
        changed = await client.patch(
            CONFIG_MAPS, key, {"data": {"d": "4"}}, content_type=STRATEGIC_MERGE_PATCH
        )
        assert msgspec.json.decode(changed)["data"] == {"b": "2", "c": "3", "d": "4"}
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, key, uid="00000000-0000-0000-0000-000000000000")
        await client.delete(CONFIG_MAPS, key, uid=found["metadata"]["uid"])
        with pytest.raises(NotFound, match=f"get configmaps {key} failed: 404 NotFound"):
            await client.get(CONFIG_MAPS, key)


async def test_lists_are_paged_and_selected_P1_086(cluster: Cluster) -> None:
    """By label, by field, page by page, as one list."""
    async with cluster.client() as client:
        for n in range(5):
            body = config_map(f"n{n}")
            body["metadata"]["labels"] = {"parity": "odd" if n % 2 else "even"}
            await client.create(CONFIG_MAPS, cluster.namespace, body)

        async def names(**selection: Any) -> list[str]:
            result = await client.list(CONFIG_MAPS, namespace=cluster.namespace, **selection)
            assert result.resource_version
            objects = [msgspec.json.decode(raw, type=PartialObject) for raw in result.items]
            return [obj.metadata.name for obj in objects if obj.metadata.name[0] == "n"]

        assert await names(limit=2) == ["n0", "n1", "n2", "n3", "n4"]
        assert await names(limit=2, label_selector="parity=even") == ["n0", "n2", "n4"]
        assert await names(label_selector="parity notin (even)") == ["n1", "n3"]
        assert await names(field_selector="metadata.name=n3") == ["n3"]
        pages = client.pages(CONFIG_MAPS, namespace=cluster.namespace, limit=2)
        assert max([len(page.items) async for page in pages]) == 2


async def test_a_watch_follows_changes_from_a_list_on(cluster: Cluster) -> None:
    """Nothing between list and watch is lost, and its end is regular."""
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("a"))
        start = await client.list(CONFIG_MAPS, namespace=cluster.namespace)
        await client.patch(CONFIG_MAPS, cluster.key("a"), {"data": {"x": "1"}})
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("b"))
        await client.delete(CONFIG_MAPS, cluster.key("a"))
        events = client.watch(
            CONFIG_MAPS,
            namespace=cluster.namespace,
            resource_version=start.resource_version,
            timeout_seconds=1,
            read_deadline_seconds=20,
        )
        seen = [
            (event.type, msgspec.json.decode(event.object, type=PartialObject).metadata.name)
            async for event in events
            if event.type != "BOOKMARK"
        ]
    assert seen == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_a_version_from_before_all_memory_has_expired_P0_010(
    cluster: Cluster, widgets: ResourceType
) -> None:
    """The server knows nothing of the kind's history before it was installed."""
    async with cluster.client() as client:
        watch = client.watch(
            widgets, resource_version="1", timeout_seconds=5, read_deadline_seconds=20
        )
        with pytest.raises(ResourceExpired):
            await collect(watch)


async def test_status_and_annotations_of_a_custom_resource_are_patched_P1_076(
    cluster: Cluster, widgets: ResourceType
) -> None:
    """A status where there was none, an annotation, and an append guarded by the version."""
    key = cluster.key("one")
    async with cluster.client() as client:
        await client.create(widgets, cluster.namespace, widget(widgets, "one"))
        await client.patch(widgets, key, {"status": {"parts": ["a"]}}, subresource="status")
        patched = await client.patch(widgets, key, {"metadata": {"annotations": {"x": "y"}}})
        meta = msgspec.json.decode(patched)["metadata"]
        assert meta["annotations"] == {"x": "y"}
        append = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
            {"op": "add", "path": "/status/parts/-", "value": "b"},
        ]
        appended = await client.patch(
            widgets, key, append, subresource="status", content_type=JSON_PATCH
        )
        assert msgspec.json.decode(appended)["status"] == {"parts": ["a", "b"]}
        stale = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"parts": []}}
        with pytest.raises(Conflict):
            await client.patch(widgets, key, stale, subresource="status")
        with pytest.raises(Invalid):  # the failed test of a JSON patch
            await client.patch(widgets, key, append, subresource="status", content_type=JSON_PATCH)
        with pytest.raises(BadRequest, match="415"):
            await client.patch(widgets, key, {}, content_type=STRATEGIC_MERGE_PATCH)


async def test_a_refusal_of_validation_names_the_field(cluster: Cluster) -> None:
    """What the server says about the object reaches the user."""
    async with cluster.client() as client:
        with pytest.raises(Invalid, match=r"metadata\.name"):
            await client.create(CONFIG_MAPS, cluster.namespace, config_map("Not Allowed"))


async def test_a_kind_that_is_not_installed_is_not_found(cluster: Cluster) -> None:
    """As for an object."""
    missing = ResourceType(group="no.example", version="v1", kind="Thing", plural="things")
    async with cluster.client() as client:
        with pytest.raises(NotFound, match=r"list things.no.example failed: 404"):
            await client.list(missing)


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_a_user_without_rights_is_told_which_are_missing(cluster: Cluster) -> None:
    """Verb and resource."""
    async with cluster.client(cluster.limited_kubeconfig) as client:
        with pytest.raises(Forbidden, match=r"list pods failed: 403 Forbidden.*cannot list"):
            await client.list(PODS)


async def test_a_wrong_token_is_unauthorized(cluster: Cluster, tmp_path: Any) -> None:
    """After one attempt to renew it."""
    config = cluster.read_kubeconfig()
    config["users"][0]["user"] = {"token": "wrong"}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    async with cluster.client(str(path)) as client:
        with pytest.raises(Unauthorized):
            await client.list(PODS)


async def test_many_requests_at_once_use_many_connections(cluster: Cluster) -> None:
    """No client-side throttle stands before the server's own."""
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("a"))

        async def read() -> None:
            for _ in range(5):
                with contextlib.suppress(TooManyRequests):
                    await client.get(CONFIG_MAPS, cluster.key("a"))

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(read())


def widget(resource: ResourceType, name: str) -> dict[str, Any]:
    """An object of the tests' own kind."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
    }
