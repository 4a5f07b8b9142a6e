"""Where the pods of the table run: on a real kubelet, or on the runner of this process."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec

from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import NAMESPACES, NODES
from gm.edge_stub.runner import Tuning
from gm.errors import NotFound
from gm.kube import Client
from tests.cluster.cluster import Cluster
from tests.edge_stub.runner.harness import edge
from tests.edge_stub.runner.pod_cases import IMAGE
from tests.edge_stub.runner.pod_observing import Ground

__all__ = ["kubelet_ground", "runner_ground"]

_SERVICE_ACCOUNTS = ResourceType(version="v1", kind="ServiceAccount", plural="serviceaccounts")
_START_SECONDS = 60


@contextlib.asynccontextmanager
async def kubelet_ground(paths: Mapping[str, str]) -> AsyncIterator[Ground]:
    """A namespace of a cluster whose first node is a real kubelet on this machine.

    ``paths`` are those of the server "kubelet".
    """
    async with await Client.connect(kubeconfig=paths["kubeconfig"]) as client:
        namespace = f"t-{secrets.token_hex(5)}"
        await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        await _wait_account(client, namespace)
        node = msgspec.json.decode((await client.list(NODES)).items[0])
        address = next(
            a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"
        )
        directory = Path(paths["directory"], namespace)
        directory.mkdir()
        yield Ground(
            client=client,
            namespace=namespace,
            node=node["metadata"]["name"],
            path=str(directory),
            directory=directory,
            server=_address_towards(address),
            version=node["status"]["nodeInfo"]["kubeletVersion"],
            patience_seconds=90,
        )


@contextlib.asynccontextmanager
async def runner_ground(cluster: Cluster, directory: Path) -> AsyncIterator[Ground]:
    """The test's namespace, and a node of the runner as quick as one that people start."""
    async with (
        edge(cluster, directory) as node,
        node.running(Tuning(), images={IMAGE: ("sh",)}),
        cluster.client() as client,
    ):
        # the server is shared: pods of other tests must not be scheduled here
        await client.patch(NODES, ObjectKey("", node.name), {"spec": {"unschedulable": True}})
        yield Ground(
            client=client,
            namespace=cluster.namespace,
            node=node.name,
            path="/data",
            directory=node.root / "data",
            own=node.directory,
            server="127.0.0.1",
            patience_seconds=40,
        )


async def _wait_account(client: Client, namespace: str) -> None:
    """Pods are refused before a controller has made the namespace's ServiceAccount."""
    async with asyncio.timeout(_START_SECONDS):
        while True:
            with contextlib.suppress(NotFound):
                await client.get(_SERVICE_ACCOUNTS, ObjectKey(namespace, "default"))
                return
            await asyncio.sleep(0.1)


def _address_towards(address: str) -> str:
    """The address of this machine from which packets to ``address`` go out; sends none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        own: str = probe.getsockname()[0]
    return own
