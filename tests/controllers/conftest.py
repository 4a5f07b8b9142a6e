"""GM against an API server: ``gm`` runs a Manager in the test's own namespace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from gm.api.meta import ObjectKey, PartialObject, ResourceType
from gm.api.resources import (
    DATASETS,
    EVENTS,
    FEDERATED_LEARNING_JOBS,
    MODELS,
    NODES,
    PODS,
    SERVICES,
)
from gm.config import Config, WebsocketConfig
from gm.controllers.edgenodes import EdgeNodeSettings
from gm.controllers.federatedlearning import JobSettings
from gm.controllers.manager import Manager
from gm.errors import NotFound
from gm.kube.client import Client
from gm.kube.informer import Informer, InformerSettings
from gm.messagelayer import Timing
from tests.cluster.cluster import Cluster
from tests.controllers.faults import Faults, FaultyClient
from tests.controllers.rights import Asked, Right, granted, right_of
from tests.controllers.support import template
from tests.fakes.edge import Edge, EdgeV2

FAST = InformerSettings(
    backoff_base_seconds=0.05, backoff_max_seconds=0.2, absent_retry_seconds=0.2
)


_SOON_SECONDS = 0.3

DISPENSABLE = {Right("", "namespaces", "create")}  # the namespace comes with the roles
GRANTED = granted("rbac.yaml", role="gm") | granted("rbac.yaml", role="gm-state")
"""What the roles that we ship let GM ask: each test of a whole GM looks that it is enough."""


class Site:
    """A cluster with nodes of its own, and a GM that can be started and stopped."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace
        self.manager: Manager | None = None
        self.config = Config(
            kube_config=cluster.kubeconfig,
            namespace=cluster.namespace,
            state_namespace=cluster.namespace,
            websocket=WebsocketConfig(address="127.0.0.1", port=0),
        )
        self.stopping = asyncio.Event()
        self.faults = Faults()
        self.asked: set[Asked] = set()
        """What GM has asked of the API server."""
        self.edge_nodes = EdgeNodeSettings()
        self.settings = JobSettings(
            completion_grace_seconds=1, remake_first_seconds=0.2, retry_first_seconds=0.5
        )

    def _observe(self, method: str, target: str, _status: int) -> None:
        self.asked.add(right_of(method, target))

    async def connect(self, **options: Any) -> Client:
        """GM's client: one that this test can make fail, and that counts."""
        client = await FaultyClient.connect(**options, observe=self._observe)
        assert isinstance(client, FaultyClient)
        client.faults = self.faults
        return client

    def node(self, name: str) -> str:
        """Name of a node of this test: Nodes are shared by all tests."""
        return f"{self.namespace}-{name}"

    @contextlib.asynccontextmanager
    async def gm(self, *, is_ready: bool = True) -> AsyncIterator[Manager]:
        """A running GM; stopped in order at the end."""
        manager = Manager(
            self.config,
            informer_settings=FAST,
            job_settings=self.settings,
            edge_node_settings=self.edge_nodes,
            timing=Timing(same_key_seconds=0.02),
            connect=self.connect,
        )
        self.stopping = stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run(stopping), name="manager")
            if is_ready:
                async with asyncio.timeout(20):
                    await manager.wait_ready()
            self.manager = manager
            try:
                yield manager
            finally:
                stopping.set()

    @contextlib.asynccontextmanager
    async def edge(self, name: str, **options: Any) -> AsyncIterator[Edge]:
        """A scripted edge that is connected to the running GM."""
        assert self.manager is not None
        port = self.manager.websocket_port
        async with Edge.connected(port, self.node(name), **options) as edge:
            yield edge

    @contextlib.asynccontextmanager
    async def edge_v2(self, name: str, **options: Any) -> AsyncIterator[EdgeV2]:
        """A scripted edge that speaks v2."""
        assert self.manager is not None
        port = self.manager.websocket_port
        async with EdgeV2.connected(port, self.node(name), **options) as edge:
            yield edge

    async def create(self, resource: ResourceType, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        namespace = self.namespace if resource.namespaced else ""
        full = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        async with self.cluster.client() as client:
            raw = await client.create(resource, namespace, full)
        created: dict[str, Any] = msgspec.json.decode(raw)
        return created

    async def patch(self, resource: ResourceType, name: str, body: dict[str, Any]) -> None:
        """Merge ``body`` into an object."""
        async with self.cluster.client() as client:
            await client.patch(resource, self.cluster.key(name), body)

    async def delete(self, resource: ResourceType, name: str, **options: Any) -> None:
        """Delete an object, if it is still there."""
        async with self.cluster.client() as client:
            with contextlib.suppress(NotFound):
                await client.delete(resource, self.cluster.key(name), **options)

    async def nodes(self, *names: str) -> None:
        """Create Nodes that are Ready."""
        for number, name in enumerate(names, start=1):
            node = {"metadata": {"name": self.node(name)}}
            await self.create(NODES, node)
            status = {
                "addresses": [{"type": "InternalIP", "address": f"10.9.0.{number}"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            async with self.cluster.client() as client:
                await client.raw(
                    "PATCH",
                    NODES.path(name=self.node(name), subresource="status"),
                    body=msgspec.json.encode({"status": status}),
                    content_type="application/merge-patch+json",
                )

    async def dataset(
        self, name: str, node: str, url: str = "/data/train.txt", **spec: Any
    ) -> None:
        """Create a Dataset."""
        fields = {"url": url, "format": "txt", "nodeName": self.node(node), **spec}
        await self.create(DATASETS, {"metadata": {"name": name}, "spec": fields})

    async def model(self, name: str = "m", url: str = "/model/m", **spec: Any) -> None:
        """Create a Model."""
        fields = {"url": url, "format": "pb", **spec}
        await self.create(MODELS, {"metadata": {"name": name}, "spec": fields})

    def job(self, name: str = "job", *, trainers: int = 2, **spec: Any) -> dict[str, Any]:
        """A job with its aggregator on ``cloud``, and trainers on ``edge0``, ``edge1``, ..."""
        return {
            "metadata": {"name": name},
            "spec": {
                "aggregationWorker": {
                    "model": {"name": "m"},
                    "template": template(nodeName=self.node("cloud")),
                },
                "trainingWorkers": [
                    {
                        "dataset": {"name": f"d{i}"},
                        "template": template(nodeName=self.node(f"edge{i}")),
                    }
                    for i in range(trainers)
                ],
                **spec,
            },
        }

    async def references(self, *, trainers: int = 2) -> None:
        """All that ``job`` refers to."""
        await self.nodes("cloud", *(f"edge{i}" for i in range(trainers)))
        await self.model()
        for number in range(trainers):
            await self.dataset(f"d{number}", f"edge{number}")

    async def submit(self, name: str = "job", **options: Any) -> dict[str, Any]:
        """Create a job."""
        return await self.create(FEDERATED_LEARNING_JOBS, self.job(name, **options))

    async def status(self, name: str = "job") -> dict[str, Any]:
        """Status of a job; empty while it has none."""
        found = await self.cluster.get(FEDERATED_LEARNING_JOBS, name)
        assert found is not None, f"job {name} is gone"
        status: dict[str, Any] = found.get("status") or {}
        return status

    async def wait_status(
        self,
        predicate: Callable[[dict[str, Any]], Any],
        name: str = "job",
        *,
        seconds: float = 30,
    ) -> dict[str, Any]:
        """Status of a job as soon as it fulfils ``predicate``."""

        async def look() -> dict[str, Any] | None:
            status = await self.status(name)
            return status if predicate(status) else None

        try:
            found = await self.cluster.wait_for(look, timeout_seconds=seconds)
        except AssertionError:
            raise AssertionError(f"status stays {await self.status(name)}") from None
        assert found is not None
        return found

    async def wait_phase(self, phase: str, name: str = "job") -> dict[str, Any]:
        """Status of a job as soon as it is in ``phase``."""
        return await self.wait_status(lambda status: status.get("phase") == phase, name)

    async def pods(self, name: str = "job") -> dict[str, dict[str, Any]]:
        """Pods of a job, by name."""
        label = f"federatedlearningjob.sedna.io/name={name}"
        return {p["metadata"]["name"]: p for p in await self.cluster.list(PODS, label)}

    async def wait_pods(self, count: int, name: str = "job") -> dict[str, dict[str, Any]]:
        """Pods of a job, when there are ``count``."""

        async def look() -> list[dict[str, dict[str, Any]]]:
            pods = await self.pods(name)
            return [pods] if len(pods) == count else []

        return (await self.cluster.wait_for(look, what=f"{count} pods of {name}"))[0]

    async def set_phase(self, phase: str, *names: str, **status: Any) -> None:
        """Put pods (by default: all of ``job``, trainers first) in ``phase``."""
        for name in names or sorted(await self.pods(), reverse=True):
            await self.cluster.set_pod_status(name, phase=phase, **status)

    async def run_job(self, name: str = "job", **options: Any) -> dict[str, dict[str, Any]]:
        """Submit a job and have its pods run; its pods."""
        trainers: int = options.get("trainers", 2)
        await self.submit(name, **options)
        pods = await self.wait_pods(trainers + 1, name)
        await self.set_phase("Running", *pods)
        await self.wait_phase("Running", name)
        return pods

    async def settled(self, *, but: tuple[str, ...] = ()) -> None:
        """Return when GM has seen all that is there, and has nothing left to do about it.

        What has not happened then, does not happen. ``but``: kinds whose events the test holds up.
        """

        async def is_settled() -> bool:
            # once more, since what GM did in between comes back to it as events
            return await self._is_seen(but) and self._is_idle() and await self._is_seen(but)

        await self.cluster.wait_for(lambda: self._twice(is_settled), what="GM is idle")

    async def _twice(self, is_so: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
        return await is_so() and await is_so()

    async def _is_seen(self, but: tuple[str, ...]) -> bool:
        """Whether GM's caches are as new as the API server."""
        assert self.manager is not None
        informers = self.manager._informers
        assert informers is not None
        followed: list[Informer[Any]] = [*informers.required(), informers.nodes]
        async with self.cluster.client() as client:
            for informer in followed:
                if informer.resource.kind in but:
                    continue
                listed = await client.list(
                    informer.resource,
                    namespace=informer._namespace,
                    label_selector=informer._label_selector,
                )
                metas = [msgspec.json.decode(i, type=PartialObject).metadata for i in listed.items]
                there = {m.key: m.resource_version for m in metas if self._is_ours(m.key)}
                known = {k: informer.lister.get(k) for k in informer.lister if self._is_ours(k)}
                seen = {key: found.resource_version for key, found in known.items() if found}
                for key in informer.undecodable:
                    there.pop(key, None)
                    seen.pop(key, None)
                if there != seen:
                    return False
        return True

    def _is_ours(self, key: ObjectKey) -> bool:
        """Nodes are shared with other tests."""
        return bool(key.namespace) or key.name.startswith(f"{self.namespace}-")

    def _is_idle(self) -> bool:
        """Whether no job is, or will soon be, looked at."""
        assert self.manager is not None
        queue = self.manager._jobs
        assert queue is not None
        soon = asyncio.get_running_loop().time() + _SOON_SECONDS
        is_waiting = any(timer.when() <= soon for timer in queue._delayed.values())
        return not (len(queue) or queue.processing_count or is_waiting)

    async def services(self) -> list[dict[str, Any]]:
        """Services of the namespace."""
        return [
            s for s in await self.cluster.list(SERVICES) if s["metadata"]["name"] != "kubernetes"
        ]

    async def events(self, reason: str) -> list[dict[str, Any]]:
        """Events with ``reason``."""
        return [e for e in await self.cluster.list(EVENTS) if e["reason"] == reason]


@pytest.fixture
async def site(cluster: Cluster) -> AsyncIterator[Site]:
    """A site without GM yet; its Nodes are removed at the end."""
    found = Site(cluster)
    yield found
    async with cluster.client() as client:
        listed = await client.list(NODES)
        for item in listed.items:
            name = msgspec.json.decode(item)["metadata"]["name"]
            if name.startswith(f"{cluster.namespace}-"):
                await client.raw("DELETE", NODES.path(name=name))
    beyond = {asked.right for asked in found.asked} - GRANTED - DISPENSABLE
    assert not beyond, f"deploy/rbac.yaml does not grant {sorted(beyond)} (P1-079)"
