"""What someone who writes a Kubernetes API server gets wrong, and the test of each.

Most have theirs elsewhere: with the module, or as a request of the table that both servers
answer. Those that concern several requests at once are here, for both servers.
"""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gm.api.meta import Json, ObjectKey, ResourceType
from gm.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DATASETS
from gm.errors import NotFound
from gm.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from tests.cluster.cluster import Cluster
from tests.devcluster.core import crd
from tests.devcluster.golden import STEPS

ROOT = Path(__file__).parents[2]
DOCUMENT = " ".join((ROOT / "docs" / "devcluster.md").read_text().split())
REQUESTS = {step.name for step in STEPS}

# What is wrong with a server that does not know it; tests by module, requests after "table:".
TRAPS: dict[str, tuple[str, ...]] = {
    "1 kubectl sends protobuf and takes no 415 for an answer": (
        "test_protobuf.test_metadata_is_read",
        "test_protobuf.test_secrets_and_config_maps_are_read",
        "test_protobuf.test_access_reviews_are_read",
        "test_kubectl_writing.test_kubectl_writes_as_to_a_real_cluster",
    ),
    "2 booleans have many spellings": (
        "test_query.test_booleans",
        "table:watch spelled True",
        "test_traps.test_a_watch_is_asked_for_in_many_ways",
    ),
    "3 a watch that is too old answers 200 and then 410; 0 replays; the future waits": (
        "table:watch from a version that is too old",
        "table:watch from zero",
        "table:watch from now",
        "table:watch from a future version",
        "table:list at a future version",
    ),
    "4 a write that changes nothing is none": (
        "table:patch that changes nothing",
        "test_traps.test_a_write_that_changes_nothing_is_told_to_nobody",
    ),
    "5 generation counts changes of the spec, and the beginning of deletion": (
        "table:update",
        "table:update with a status that is ignored",
        "table:update the status with a spec that is ignored",
        "table:delete what has a finalizer",
    ),
    "6 a custom resource is updated with a version, most others without": (
        "table:update without a version",
        "table:update a built-in without a version",
    ),
    "7 finalizers hold an object, and none comes later": (
        "table:delete what has a finalizer",
        "table:add a finalizer amid deletion",
        "table:remove the finalizer",
    ),
    "8 pods on a node have their grace": (
        "table:delete a pod without a node",
        "table:delete a pod on a node",
        "table:delete it for good",
    ),
    "9 some deletions answer with the object": (
        "table:delete a config map",
        "table:delete a pod without a node",
        "table:delete a namespace",
        "test_deletion.test_services_answer_with_what_was_deleted",
    ),
    "10 a deletion has a version; selectors turn changes into comings and goings": (
        "table:watch from a version",
        "table:watch what begins and ceases to match",
    ),
    "11 unknown fields warn, fail or go": (
        "table:unknown field, Warn",
        "table:unknown field, by default",
        "table:unknown field, Strict",
        "table:unknown field, Ignore",
        "test_schema.test_custom_objects_keep_what_the_schema_says",
        "test_schema.test_embedded_objects_have_metadata",
    ),
    "12 a new default reaches old objects": (
        "test_traps.test_a_changed_kind_shows_what_it_has_by_its_rules_of_today",
        "test_crds.test_what_was_written_before_a_crd_changed_is_shown_by_its_rules_of_today",
    ),
    "13 built-in kinds drop what is empty, custom ones keep it": (
        "test_traps.test_what_is_empty_is_kept_in_custom_objects_only",
        "test_schema.test_built_in_objects_get_go_s_form",
    ),
    "14 strategic patches order lists": (
        "test_traps.test_strategic_patches_give_the_same_lists",
        "test_strategic.test_set_element_order_orders_what_it_names",
    ),
    "16 cells are rendered by the server, columns sent once": (
        "table:table of one",
        "table:watch tables",
    ),
    "17 aggregated discovery repeats its type; documents have the hash of their content": (
        "table:aggregated discovery",
        "test_openapi.test_a_changed_crd_changes_the_hash_of_its_document_only",
    ),
    "18 a new kind is established and described at once": (
        "test_crdhook.test_a_definition_is_established_at_once",
    ),
    "19 somebody must empty namespaces and collect what has no owner": (
        "test_kubectl_streams.test_a_namespace_goes_with_all_that_is_in_it",
        "test_namespaces.test_everything_in_a_namespace_goes_with_it",
        "test_gc.test_dependents_go_with_their_owner",
    ),
    "20 generated names collide": ("test_api.test_names_are_generated_until_one_is_free",),
    "21 a busy kind must not expire another's watches": (
        "test_store.test_a_busy_kind_does_not_expire_a_quiet_one",
    ),
    "22 what is stored is never changed in place": (
        "test_store.test_a_stored_object_is_never_changed_in_place",
    ),
}
# Not served, and said so: trap 15.
REFUSED = {"15 server-side apply": "| `kubectl apply --server-side` | 415 with the hint"}


@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_has_its_tests(trap: str) -> None:
    """They exist under the names that are given here."""
    for name in TRAPS[trap]:
        where, _, request = name.partition("table:")
        if request:
            assert request in REQUESTS
        else:
            module, _, test = where.partition(".")
            assert hasattr(importlib.import_module(f"tests.devcluster.{module}"), test), name


@pytest.mark.parametrize("trap", REFUSED)
def test_what_is_not_served_is_written_down(trap: str) -> None:
    """Nobody has to find it out."""
    assert REFUSED[trap] in DOCUMENT


async def made(client: Client, resource: ResourceType, namespace: str, obj: Json) -> Json:
    """An object as it was created."""
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    created: Json = msgspec.json.decode(await client.create(resource, namespace, whole))
    return created


async def patched(
    client: Client,
    resource: ResourceType,
    key: ObjectKey,
    change: Any,
    content_type: str = MERGE_PATCH,
) -> Json:
    """An object as it is after a patch."""
    answer = await client.patch(resource, key, change, content_type=content_type)
    changed: Json = msgspec.json.decode(answer)
    return changed


async def test_a_watch_is_asked_for_in_many_ways(cluster: Cluster) -> None:
    """Whatever does not say no."""

    async def kind_of(client: Client, spelling: str) -> str:
        query = f"watch={spelling}&timeoutSeconds=1&resourceVersion=0"
        answer = await client.raw("GET", f"{CONFIG_MAPS.path(cluster.namespace)}?{query}")
        return "list" if b'"ConfigMapList"' in answer.body else "watch"

    async with cluster.client() as client:
        await made(client, CONFIG_MAPS, cluster.namespace, {"metadata": {"name": "c"}})
        spellings = ["1", "t", "true", "TRUE", "yes", "F", "", "0", "false", "False"]
        kinds = await asyncio.gather(*(kind_of(client, text) for text in spellings))
    assert kinds == ["watch"] * 7 + ["list"] * 3


async def test_a_write_that_changes_nothing_is_told_to_nobody(cluster: Cluster) -> None:
    """A controller that writes what is there already must not wake itself."""
    key = cluster.key("d")
    spec = {"url": "/data/x", "format": "txt", "nodeName": "e"}
    async with cluster.client() as client:
        first = await made(
            client, DATASETS, cluster.namespace, {"metadata": {"name": "d"}, "spec": spec}
        )
        assert await patched(client, DATASETS, key, {"spec": spec}) == first
        again = msgspec.json.decode(await client.replace(DATASETS, key, first))
        assert again == first
        changed = await patched(client, DATASETS, key, {"spec": {"format": "csv"}})
        stream = client.watch(
            DATASETS,
            namespace=cluster.namespace,
            resource_version=first["metadata"]["resourceVersion"],
            timeout_seconds=20,
            read_deadline_seconds=25,
        )
        event = await anext(stream)
        await stream.aclose()
    assert msgspec.json.decode(event.object) == changed


async def test_what_is_empty_is_kept_in_custom_objects_only(cluster: Cluster) -> None:
    """Go leaves out what is empty; of custom resources it knows no types."""
    async with cluster.client() as client:
        plain = await made(
            client,
            CONFIG_MAPS,
            cluster.namespace,
            {
                "metadata": {"name": "c", "labels": {}, "finalizers": []},
                "data": {},
                "binaryData": None,
            },
        )
        custom = await made(
            client,
            DATASETS,
            cluster.namespace,
            {
                "metadata": {"name": "d", "labels": {}, "finalizers": [], "annotations": None},
                "spec": {"url": "/x", "format": "", "nodeName": "e"},
            },
        )
    assert plain.keys() == {"apiVersion", "kind", "metadata"}
    assert not {"labels", "finalizers"} & plain["metadata"].keys()
    assert custom["spec"] == {"url": "/x", "format": "", "nodeName": "e"}
    assert not {"labels", "finalizers", "annotations"} & custom["metadata"].keys()


CONTAINERS = [{"name": name, "image": "i", "env": [{"name": "A", "value": "1"}]} for name in "abc"]
DEPLOYMENTS = ResourceType(group="apps", version="v1", kind="Deployment", plural="deployments")
PATCHES: dict[str, tuple[Json, str]] = {
    "new ones come first": ({"containers": [{"name": "z", "image": "i"}]}, "z a b c"),
    "changed ones stay where they are": ({"containers": [{"name": "b", "image": "j"}]}, "a b c"),
    "the order that is asked for": (
        {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]},
        "c a b",
    ),
    "an order of some": (
        {
            "$setElementOrder/containers": [{"name": "z"}, {"name": "a"}],
            "containers": [{"name": "z", "image": "i"}],
        },
        "z a b c",
    ),
    "one is deleted": ({"containers": [{"name": "b", "$patch": "delete"}]}, "a c"),
    "all are replaced": (
        {"containers": [{"$patch": "replace"}, {"name": "n", "image": "i"}]},
        "n",
    ),
}


@pytest.mark.parametrize("case", PATCHES)
async def test_strategic_patches_give_the_same_lists(cluster: Cluster, case: str) -> None:
    """Merge keys, orders, and directives."""
    change, expected = PATCHES[case]
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}},
        },
    }
    async with cluster.client() as client:
        await made(client, DEPLOYMENTS, cluster.namespace, body)
        spec = {"spec": {"template": {"spec": change}}}
        changed = await patched(client, DEPLOYMENTS, cluster.key("d"), spec, STRATEGIC_MERGE_PATCH)
    containers = changed["spec"]["template"]["spec"]["containers"]
    assert " ".join(container["name"] for container in containers) == expected


async def test_a_changed_kind_shows_what_it_has_by_its_rules_of_today(cluster: Cluster) -> None:
    """A new default is there without a write, by get and by list; a field that went is not."""
    group = f"{cluster.namespace}.example.com"
    definition = crd(group=group)
    gadgets = ResourceType(group=group, version="v1", kind="Widget", plural="widgets")
    crd_key = ObjectKey("", f"widgets.{group}")
    async with cluster.client() as client:

        async def is_served() -> bool:
            try:
                await client.list(gadgets, namespace=cluster.namespace)
            except NotFound:
                return False
            return True

        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        await cluster.wait_for(is_served)
        before = await made(
            client, gadgets, cluster.namespace, {"metadata": {"name": "w"}, "spec": {"size": 1}}
        )
        assert before["spec"] == {"size": 1, "color": "red"}
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        fields = schema["properties"]["spec"]["properties"]
        fields["shape"] = {"type": "string", "default": "round"}
        del fields["color"]
        await client.patch(
            CUSTOM_RESOURCE_DEFINITIONS,
            crd_key,
            [{"op": "replace", "path": "/spec/versions", "value": definition["spec"]["versions"]}],
            content_type=JSON_PATCH,
        )

        async def seen() -> Json:
            read: Json = msgspec.json.decode(await client.get(gadgets, cluster.key("w")))
            return read

        async def is_of_today() -> bool:
            return bool((await seen())["spec"] == {"size": 1, "shape": "round"})

        await cluster.wait_for(is_of_today)
        (listed,) = (await client.list(gadgets, namespace=cluster.namespace)).items
        assert msgspec.json.decode(listed)["spec"] == {"size": 1, "shape": "round"}
        assert (await seen())["metadata"] == before["metadata"], "it was written"
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, crd_key)
