"""What a benchmark needs in a cluster: namespace, nodes, references, jobs, and a kubelet's part."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from gm.api.meta import Json, ObjectKey, ObjectMeta
from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    MODELS,
    NAMESPACES,
    NODES,
    PODS,
)
from gm.errors import NotFound, ServiceError, TooManyRequests
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType

T = TypeVar("T")

TRAINERS = 2
UID_LABEL = "federatedlearningjob.sedna.io/uid"
_HEARTBEAT_SECONDS = 10.0


class _PodSpec(msgspec.Struct, rename="camel", frozen=True):
    node_name: str | None = None


class SlimPod(msgspec.Struct, frozen=True):
    """The little that is looked at: a benchmark should not be what it measures."""

    metadata: ObjectMeta
    spec: _PodSpec = _PodSpec()


async def each(items: Iterable[T], work: Callable[[T], Awaitable[object]], *, at_once: int) -> None:
    """Do ``work`` for all items, ``at_once`` at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


async def patiently(request: Callable[[], Awaitable[T]]) -> T:
    """``request``, again as long as the server asks for patience."""
    while True:
        try:
            return await request()
        except TooManyRequests as exc:
            await asyncio.sleep(exc.retry_after_seconds)


class Playground:
    """A namespace with nodes of its own and all that its jobs refer to; removed at the end."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.namespace = f"bench-{secrets.token_hex(4)}"
        self.nodes = [f"{self.namespace}-{name}" for name in ("cloud", "edge0", "edge1")]

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Playground]:
        """Make everything, keep the nodes alive as long as the body runs, and tidy up."""
        try:
            await self._make()
            async with asyncio.TaskGroup() as group:
                heart = group.create_task(self._keep_nodes())
                yield self
                heart.cancel()
        finally:
            await self._remove()

    async def _make(self) -> None:
        client = self.client
        await _served(client)
        await client.create(NAMESPACES, "", {"metadata": {"name": self.namespace}})
        for number, name in enumerate(self.nodes, start=1):
            await self._node(name, f"10.99.0.{number}")
        for number in range(TRAINERS):
            spec = {
                "url": f"/data/{number}/train.npz",
                "format": "npz",
                "nodeName": self.nodes[number + 1],
            }
            body = _typed(DATASETS, {"metadata": {"name": f"d{number}"}, "spec": spec})
            await client.create(DATASETS, self.namespace, body)

    async def _remove(self) -> None:
        """No kubelet confirms the end of these pods: without a grace period none has to."""
        at_once = msgspec.json.encode({"kind": "DeleteOptions", "gracePeriodSeconds": 0})
        with contextlib.suppress(ServiceError):
            await self.client.delete(NAMESPACES, ObjectKey("", self.namespace))
        with contextlib.suppress(ServiceError):
            await self.client.raw("DELETE", PODS.path(self.namespace), body=at_once)
        for name in self.nodes:
            with contextlib.suppress(ServiceError):
                await self.client.delete(NODES, ObjectKey("", name))

    async def _keep_nodes(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            for name in self.nodes:
                with contextlib.suppress(ServiceError):
                    await self.heartbeat(name)

    async def models(self, names: Iterable[str]) -> None:
        """The models of jobs ``names``: two jobs that train one would be told so."""

        async def create(name: str) -> None:
            spec = {"url": f"/models/{name}", "format": "npz"}
            body = _typed(MODELS, {"metadata": {"name": name}, "spec": spec})
            await patiently(lambda: self.client.create(MODELS, self.namespace, body))

        await each(names, create, at_once=8)

    async def _node(self, name: str, address: str) -> None:
        await self.client.create(NODES, "", {"metadata": {"name": name}})
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        await self.client.patch(
            NODES, ObjectKey("", name), {"status": status}, subresource="status"
        )
        await self.heartbeat(name)

    async def heartbeat(self, name: str) -> None:
        """Say that node ``name`` is Ready, as its kubelet does."""
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": moment}
        body = {"status": {"conditions": [ready]}}
        await self.client.patch(NODES, ObjectKey("", name), body, subresource="status")

    def job(self, name: str, *, image: str = "bench:v1") -> Json:
        """A job with an aggregator and two trainers, each on its node."""

        def template(node: str) -> Json:
            return {"spec": {"nodeName": node, "containers": [{"name": "worker", "image": image}]}}

        cloud, *edges = self.nodes
        return {
            "apiVersion": "sedna.io/v1alpha1",
            "kind": "FederatedLearningJob",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "aggregationWorker": {"model": {"name": name}, "template": template(cloud)},
                "trainingWorkers": [
                    {"dataset": {"name": f"d{number}"}, "template": template(edge)}
                    for number, edge in enumerate(edges)
                ],
            },
        }

    async def foreign_pods(self, count: int) -> None:
        """Make pods that are none of GM's business, in the size of real ones."""
        pad = {f"example.com/annotation-{n}": "x" * 200 for n in range(8)}

        async def create(number: int) -> None:
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"foreign-{number}",
                    "labels": {"app": "foreign"},
                    "annotations": pad,
                },
                # bound, as most pods are: else an embedded scheduler tries all of them for ever
                "spec": {
                    "nodeName": self.nodes[0],
                    "containers": [{"name": "c", "image": "foreign:v1"}],
                },
            }
            encoded = msgspec.json.encode(body)
            await patiently(lambda: self.client.create(PODS, self.namespace, encoded))

        await each(range(count), create, at_once=16)


class Kubelet:
    """Plays scheduler and kubelets where there are none: binds pods and says that they run."""

    def __init__(self, playground: Playground, *, at_once: int = 8) -> None:
        self._playground = playground
        self._client = playground.client
        self._namespace = playground.namespace
        self._at_once = at_once
        self._seen: asyncio.Queue[SlimPod] = asyncio.Queue()
        self.writes = 0
        """Requests that were needed for that; none of them is GM's."""
        self.pods: set[str] = set()
        """Uids of all pods of jobs that were ever seen."""

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Informer[SlimPod]]:
        """Take note of pods as long as the body runs."""
        informer = Informer(
            self._client, PODS, SlimPod, namespace=self._namespace, label_selector=UID_LABEL
        )
        informer.add_handler(self._on_pod)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informer.run())
            await informer.wait_synced()
            yield informer
            task.cancel()

    async def _on_pod(self, event: Event[SlimPod]) -> None:
        if event.type is EventType.ADDED and event.new and event.new.uid not in self.pods:
            self.pods.add(event.new.uid)
            self._seen.put_nowait(event.new.view)

    async def run(self) -> None:
        """Have pods run as they come, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_once):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            pod = await self._seen.get()
            with contextlib.suppress(NotFound):
                await self._start(pod)

    async def _start(self, pod: SlimPod) -> None:
        key = pod.metadata.key
        if not pod.spec.node_name:
            target = {"apiVersion": "v1", "kind": "Node", "name": self._playground.nodes[0]}
            binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
            binding |= {"metadata": {"name": key.name, "namespace": key.namespace}}
            body = msgspec.json.encode(binding)
            path = PODS.path(key.namespace, key.name, "binding")
            await self._client.raw("POST", path, body=body)
            self.writes += 1
        status = {"phase": "Running", "startTime": datetime.now(UTC).isoformat()}
        await patiently(
            lambda: self._client.patch(PODS, key, {"status": status}, subresource="status")
        )
        self.writes += 1


async def _served(client: Client) -> None:
    """Wait until kinds whose CRDs have just been installed are served."""
    for resource in (MODELS, DATASETS, FEDERATED_LEARNING_JOBS):
        while True:
            with contextlib.suppress(NotFound):
                await client.list(resource, limit=1)
                break
            await asyncio.sleep(0.1)


def _typed(resource: Any, body: Json) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def config_file(path: os.PathLike[str], kubeconfig: str, **settings: Any) -> None:
    """Write a GM configuration that fits beside whatever else runs on this machine."""
    import yaml

    content = {
        "kubeConfig": str(kubeconfig),
        "websocket": {"address": "127.0.0.1", "port": 0},
        **settings,
    }
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(content, file)
