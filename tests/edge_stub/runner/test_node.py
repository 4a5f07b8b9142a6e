"""The Node object and its Lease."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gm.api.meta import ObjectKey
from gm.api.resources import LEASES, NAMESPACES, NODES
from gm.edge_stub.runner.node import NodeKeeper, machine_resources, runner_identity
from gm.errors import ConfigError
from gm.kube import Client
from tests.edge_stub.runner.harness import FAST, Edge

LEASE_NAMESPACE = "kube-node-lease"


def keeper(node: Edge, client: Client, identity: str = "me", **changes: Any) -> NodeKeeper:
    """A keeper of the test's Node."""
    return NodeKeeper(
        client,
        node.settings(**changes),
        FAST,
        identity=identity,
        resources={"cpu": "2", "memory": "1Gi", "pods": "110"},
        port=12345,
    )


def conditions(node: dict[str, Any]) -> dict[str, str]:
    """Condition types and their status."""
    return {c["type"]: c["status"] for c in node.get("status", {}).get("conditions", ())}


async def test_a_node_says_what_it_is(node: Edge) -> None:
    """Ready, its resources, its address, where its logs are, and that it is no kubelet."""
    async with node.cluster.client() as client:
        await keeper(node, client, labels={"zone": "edge"}).register()
    made = await node.node()
    assert conditions(made) == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }
    status = made["status"]
    assert status["addresses"] == [{"type": "InternalIP", "address": node.address}]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 12345
    assert status["capacity"]["cpu"] == status["allocatable"]["cpu"] == "2"
    assert "gm runner" in status["nodeInfo"]["osImage"]
    assert status["nodeInfo"]["kubeletVersion"].startswith("gm-runner-")
    labels = made["metadata"]["labels"]
    assert labels["zone"] == "edge"
    assert labels["kubernetes.io/hostname"] == node.name


async def test_the_not_ready_taint_is_removed_and_a_guest_has_its_own(node: Edge) -> None:
    """Real API servers add not-ready to every new Node; other taints are kept."""
    async with node.cluster.client() as client:
        await keeper(node, client, any_pod=False).register()
        own = {"key": "sedna.io/runner", "effect": "NoSchedule"}
        assert (await node.node())["spec"]["taints"] == [own]
        other = {"key": "example.com/x", "effect": "NoSchedule"}
        unready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        await client.patch(
            NODES, ObjectKey("", node.name), {"spec": {"taints": [other, unready, own]}}
        )
        await keeper(node, client, any_pod=False).register()
        assert (await node.node())["spec"]["taints"] == [other, own]
        await keeper(node, client).register()
        assert (await node.node())["spec"]["taints"] == [other], "now it runs any pod"


async def test_the_lease_is_owned_by_the_node_and_renewed(node: Edge) -> None:
    """What tells the cluster that the node lives."""
    key = ObjectKey(LEASE_NAMESPACE, node.name)

    async def lease() -> dict[str, Any]:
        import msgspec

        async with node.cluster.client() as client:
            found: dict[str, Any] = msgspec.json.decode(await client.get(LEASES, key))
        return found

    async with node.cluster.client() as client, asyncio.TaskGroup() as group:
        kept = keeper(node, client)
        await kept.register()
        first = await lease()
        running = group.create_task(kept.run())

        async def is_renewed() -> bool:
            return (await lease())["spec"]["renewTime"] != first["spec"]["renewTime"]

        await node.cluster.wait_for(is_renewed, what="a renewal")
        running.cancel()
    assert first["spec"]["holderIdentity"] == node.name
    assert first["spec"]["leaseDurationSeconds"] == 40
    (owner,) = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Node", node.name)


@pytest.mark.parametrize(
    ("annotations", "whose"),
    [({}, "not by a gm runner"), ({"sedna.io/runner": "other"}, "by another runner")],
)
async def test_somebody_elses_node_is_not_taken(
    node: Edge, annotations: dict[str, str], whose: str
) -> None:
    """The message says what to do; the Node stays as it is."""
    async with node.cluster.client() as client:
        await client.create(
            NODES, "", {"metadata": {"name": node.name, "annotations": annotations}}
        )
        before = await node.node()
        with pytest.raises(ConfigError) as caught:
            await keeper(node, client).register()
    assert f"node {node.name} exists already and was made {whose}" in str(caught.value)
    assert f"kubectl delete node {node.name}" in str(caught.value)
    assert (await node.node())["spec"] == before["spec"]


async def test_a_node_that_is_removed_comes_back(node: Edge) -> None:
    """Somebody deletes it while it lives."""
    async with node.cluster.client() as client, asyncio.TaskGroup() as group:
        kept = keeper(node, client)
        await kept.register()
        first = await node.node()
        running = group.create_task(kept.run())
        await client.delete(NODES, ObjectKey("", node.name))

        async def is_back() -> bool:
            found = await node.cluster.get(NODES, node.name)
            return (
                found is not None
                and found["metadata"]["uid"] != first["metadata"]["uid"]
                and conditions(found).get("Ready") == "True"
            )

        await node.cluster.wait_for(is_back, what="the Node's return")
        running.cancel()


async def test_a_cluster_without_the_leases_namespace_gets_one(
    node: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A very young one has none yet."""
    namespace = f"{node.cluster.namespace}-leases"
    monkeypatch.setattr("gm.edge_stub.runner.node._LEASE_NAMESPACE", namespace)
    async with node.cluster.client() as client:
        await keeper(node, client).register()
        await client.get(LEASES, ObjectKey(namespace, node.name))
        await client.delete(NAMESPACES, ObjectKey("", namespace))


async def test_somebody_writing_the_node_meanwhile_is_no_obstacle(node: Edge) -> None:
    """A conflict means look again."""
    async with node.cluster.client() as client, asyncio.TaskGroup() as group:
        kept = keeper(node, client)
        await kept.register()

        async def annotate() -> None:
            for n in range(20):
                change = {"metadata": {"annotations": {"n": str(n)}}}
                await client.patch(NODES, ObjectKey("", node.name), change)

        writing = group.create_task(annotate())
        while not writing.done():
            await kept.mark_not_ready()
            await keeper(node, client).register()
    assert conditions(await node.node())["Ready"] == "True"
    assert (await node.node())["metadata"]["annotations"]["n"] == "19"


async def test_a_node_that_stops_says_so_and_is_ready_again_later(node: Edge) -> None:
    """Conditions of others stay."""
    async with node.cluster.client() as client:
        kept = keeper(node, client)
        await kept.register()
        network = {"type": "NetworkUnavailable", "status": "False", "reason": "x", "message": "y"}
        await client.patch(
            NODES,
            ObjectKey("", node.name),
            {"status": {"conditions": [*(await node.node())["status"]["conditions"], network]}},
            subresource="status",
        )
        await kept.mark_not_ready()
        stopped = conditions(await node.node())
        assert (stopped["Ready"], stopped["NetworkUnavailable"]) == ("False", "False")
        await keeper(node, client).register()
        assert conditions(await node.node())["Ready"] == "True"


async def test_nothing_is_written_while_nothing_changes(node: Edge) -> None:
    """Between heartbeats only the Lease is."""
    async with node.cluster.client() as client:
        kept = keeper(node, client)
        await kept.register()

        async def version() -> str:
            return str((await node.node())["metadata"]["resourceVersion"])

        before = await version()
        await kept.register()
        assert await version() == before


def test_the_identity_is_kept_in_the_state_directory(tmp_path: Path) -> None:
    """So that a runner knows its own Node again."""
    first = runner_identity(tmp_path)
    assert first == runner_identity(tmp_path)
    assert len(first) == 36


def test_resources_are_this_machines(tmp_path: Path) -> None:
    """As quantities."""
    resources = machine_resources(tmp_path)
    assert int(resources["cpu"]) >= 1
    assert resources["memory"].endswith("Ki")
    assert resources["pods"] == "110"
