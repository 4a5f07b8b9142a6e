"""The ``cluster`` fixture itself."""

from __future__ import annotations

from typing import Any

import msgspec

from gm.api.meta import ObjectKey
from gm.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS
from tests.cluster.cluster import Cluster
from tests.cluster.keeper import crd_paths


def pod(name: str) -> dict[str, Any]:
    """The least that is a pod."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


async def test_a_pod_lives_from_binding_to_confirmed_deletion(cluster: Cluster) -> None:
    """The helpers play scheduler and kubelet, so that a pod's whole life can be tested."""
    async with cluster.client() as client:
        await client.create(PODS, cluster.namespace, pod("one"))
        await cluster.bind("one", "edge1")
        await cluster.set_pod_status("one", phase="Running", podIP="10.0.0.1")
        found = await cluster.get(PODS, "one")
        assert found is not None
        assert found["spec"]["nodeName"] == "edge1"
        assert found["status"]["phase"] == "Running"
        await client.delete(PODS, cluster.key("one"))
    terminating = await cluster.get(PODS, "one")
    assert terminating is not None, "only its kubelet may say that it has ended"
    assert terminating["metadata"]["deletionTimestamp"]
    await cluster.finish_delete("one")
    assert await cluster.get(PODS, "one") is None


async def test_each_test_has_a_namespace_of_its_own(cluster: Cluster) -> None:
    """Nothing of other tests is seen."""
    assert await cluster.list(PODS) == []
    assert await cluster.kubectl("get", "pods", "-o", "name") == ""


async def test_the_crds_of_this_project_are_installed(cluster: Cluster) -> None:
    """All of deploy/crds, once for the whole run."""
    for path in crd_paths():
        name = path.name.removesuffix(".yaml")
        found = await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        assert found is not None, name
        assert found["status"]["acceptedNames"]["plural"]


async def test_deletions_are_carried_out_by_controllers(cluster: Cluster) -> None:
    """What an owner or a namespace leaves behind goes away."""
    await cluster.start_controllers()
    namespace = await cluster.create_namespace()
    async with cluster.client() as client:
        owner = {"metadata": {"name": "owner"}}
        created = msgspec.json.decode(await client.create(CONFIG_MAPS, cluster.namespace, owner))
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": created["metadata"]["uid"],
        }
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        await client.create(CONFIG_MAPS, cluster.namespace, owned)
        await client.delete(CONFIG_MAPS, cluster.key("owner"), propagation_policy="Background")
        await client.delete(NAMESPACES, ObjectKey("", namespace))

    async def is_gone() -> bool:
        namespaces = {each["metadata"]["name"] for each in await cluster.list(NAMESPACES)}
        return namespace not in namespaces and await cluster.get(CONFIG_MAPS, "owned") is None

    await cluster.wait_for(is_gone, timeout_seconds=90)
