"""An API server in memory, with informers, for tests in virtual time: hours pass in moments."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from gm.api.core import Node, Pod, Service
from gm.api.meta import Json, ObjectKey, ResourceType
from gm.api.resources import (
    DATASETS,
    EVENTS,
    FEDERATED_LEARNING_JOBS,
    MODELS,
    NODES,
    PODS,
    SERVICES,
)
from gm.api.sedna import Dataset, FederatedLearningJob, Model
from gm.controllers.base import Controller
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning import Caches, JobReconciler, JobSettings
from gm.errors import AlreadyExists, Conflict, NotFound, ServiceError
from gm.kube.lister import EventType
from gm.kube.recorder import EventRecorder
from gm.kube.workqueue import Workqueue
from tests.controllers.fake_informer import FakeInformer
from tests.controllers.support import NAMESPACE, NOW, job_json

__all__ = ["Asked", "MemoryApi", "Rig"]

VIEWS: dict[ResourceType, type[Any]] = {
    FEDERATED_LEARNING_JOBS: FederatedLearningJob,
    PODS: Pod,
    SERVICES: Service,
    MODELS: Model,
    DATASETS: Dataset,
    NODES: Node,
}


class Asked(msgspec.Struct, frozen=True):
    """A request, and when it came."""

    at: float
    verb: str
    kind: str
    name: str


class MemoryApi:
    """The part of Client that the job controller uses. ``fail`` says what goes wrong."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, ObjectKey], Json] = {}
        self.asked: list[Asked] = []
        self.fail: Callable[[str, str, str], ServiceError | None] = lambda *_: None
        self.informers = {kind: FakeInformer(kind, view) for kind, view in VIEWS.items()}
        self._news: asyncio.Queue[tuple[EventType, ResourceType, Json]] = asyncio.Queue()
        self._version = 0

    async def run(self) -> None:
        """Deliver events, until cancelled."""
        while True:
            kind, resource, body = await self._news.get()
            await asyncio.sleep(0.001)
            informer = self.informers.get(resource)
            if informer is not None:
                await informer.show(kind, body)

    async def create(
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any], **_options: Any
    ) -> bytes:
        """See Client; it warns of nothing."""
        self._ask("create", resource, body["metadata"]["name"])
        return self.add(resource, body, namespace)

    def add(self, resource: ResourceType, body: Mapping[str, Any], namespace: str = "") -> bytes:
        """An object comes into being; returns it."""
        made = copy.deepcopy(dict(body))
        meta = made["metadata"]
        meta.setdefault("namespace", namespace)
        key = ObjectKey(meta["namespace"], meta["name"])
        if (resource.kind, key) in self.objects:
            raise AlreadyExists("create", code=409, reason="AlreadyExists")
        meta |= {"uid": meta.get("uid") or f"uid-{self._version}", "generation": 1}
        meta.setdefault("creationTimestamp", timestamp(NOW))
        if resource == PODS:
            made.setdefault("status", {"phase": "Pending"})
        for port in made["spec"]["ports"] if resource == SERVICES else ():
            port.setdefault("nodePort", 30000 + self._version)
        self.objects[resource.kind, key] = made
        return self._changed(EventType.ADDED, resource, made)

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """See Client."""
        self._ask("get", resource, key.name)
        return msgspec.json.encode(self._found(resource, key))

    async def patch(
        self, resource: ResourceType, key: ObjectKey, body: Any, *, subresource: str = ""
    ) -> bytes:
        """See Client."""
        self._ask(f"patch {subresource}".strip(), resource, key.name)
        return self.change(resource, key, body)

    def change(self, resource: ResourceType, key: ObjectKey, body: Json) -> bytes:
        """Merge ``body`` into an object; returns it."""
        found = self._found(resource, key)
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, found["metadata"]["resourceVersion"]):
            raise Conflict("patch", code=409, reason="Conflict")
        merged = _merged(found, body)
        if merged.get("spec") != found.get("spec"):
            merged["metadata"]["generation"] += 1
        self.objects[resource.kind, key] = merged
        return self._changed(EventType.MODIFIED, resource, merged)

    async def delete(self, resource: ResourceType, key: ObjectKey, **_: Any) -> None:
        """See Client; nothing takes its time here."""
        self._ask("delete", resource, key.name)
        self.remove(resource, key)

    def remove(self, resource: ResourceType, key: ObjectKey) -> None:
        """An object goes."""
        self._changed(EventType.DELETED, resource, self._found(resource, key))
        del self.objects[resource.kind, key]

    def keys(self, resource: ResourceType) -> list[ObjectKey]:
        """The objects of a kind."""
        return [key for kind, key in self.objects if kind == resource.kind]

    def _ask(self, verb: str, resource: ResourceType, name: str) -> None:
        moment = asyncio.get_running_loop().time()
        self.asked.append(Asked(moment, verb, resource.kind, name))
        failure = self.fail(verb, resource.kind, name)
        if failure is not None:
            raise failure

    def _found(self, resource: ResourceType, key: ObjectKey) -> Json:
        found = self.objects.get((resource.kind, key))
        if found is None:
            raise NotFound("get", code=404, reason="NotFound")
        return found

    def _changed(self, kind: EventType, resource: ResourceType, body: Json) -> bytes:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        body |= {"apiVersion": resource.api_version, "kind": resource.kind}
        self._news.put_nowait((kind, resource, copy.deepcopy(body)))
        return msgspec.json.encode(body)


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


class Rig:
    """The job controller over a MemoryApi, with the settings of production."""

    def __init__(self, settings: JobSettings | None = None) -> None:
        self.api = MemoryApi()
        settings = settings or JobSettings()
        client: Any = self.api
        caches: Any = Caches(
            jobs=self._follow(FEDERATED_LEARNING_JOBS),
            pods=self._follow(PODS),
            services=self._follow(SERVICES),
            models=self._follow(MODELS),
            datasets=self._follow(DATASETS),
            nodes=self._follow(NODES),
        )
        self.queue: Workqueue[ObjectKey] = Workqueue(
            base_seconds=settings.retry_first_seconds, max_seconds=settings.retry_max_seconds
        )
        self._recorder = EventRecorder(client, now=self.clock)
        self.reconciler = JobReconciler(
            client, self._recorder, caches, self.queue, settings, clock=self.clock
        )
        self._controller = Controller("job", self.reconciler, self.queue, workers=4)

    def _follow(self, resource: ResourceType) -> Any:
        return self.api.informers[resource]

    def clock(self) -> datetime:
        """The time, which begins at NOW."""
        return NOW + timedelta(seconds=asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def running(self, *, trainers: int = 2) -> AsyncIterator[MemoryApi]:
        """The controller runs, and all that jobs refer to is there."""
        api = self.api
        for name, address in [("cloud", "10.0.0.1"), *((f"edge{i}", "1") for i in range(trainers))]:
            addresses = [{"type": "InternalIP", "address": address}]
            ready = [{"type": "Ready", "status": "True"}]
            status = {"addresses": addresses, "conditions": ready}
            api.add(NODES, {"metadata": {"name": name}, "status": status})
        spec = {"url": "/m", "format": "pb"}
        api.add(MODELS, {"metadata": {"name": "m"}, "spec": spec}, NAMESPACE)
        for i in range(trainers):
            spec = {"url": f"/d/{i}", "format": "txt", "nodeName": f"edge{i}"}
            api.add(DATASETS, {"metadata": {"name": f"d{i}"}, "spec": spec}, NAMESPACE)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in (api.run(), self._recorder.run())]
            tasks.append(group.create_task(self._controller.run(asyncio.Event())))
            for informer in api.informers.values():
                await informer.sync()
            yield api
            for task in tasks:
                task.cancel()

    def submit(self, name: str = "job", **options: Any) -> ObjectKey:
        """A job is created; its key."""
        body = job_json(name, **options)
        body["metadata"]["uid"] = f"uid-of-{name}"
        self.api.add(FEDERATED_LEARNING_JOBS, body)
        return ObjectKey(NAMESPACE, name)

    def status(self, name: str = "job") -> Json:
        """Status of a job."""
        key = FEDERATED_LEARNING_JOBS.kind, ObjectKey(NAMESPACE, name)
        found: Json = self.api.objects[key].get("status") or {}
        return found

    def events(self, reason: str) -> list[Json]:
        """Events with ``reason``."""
        found = [body for (kind, _), body in self.api.objects.items() if kind == EVENTS.kind]
        return [event for event in found if event["reason"] == reason]
