"""The ``cluster`` fixture itself."""

from __future__ import annotations

from typing import Any

from gm.api.resources import PODS
from tests.cluster.cluster import Cluster


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
