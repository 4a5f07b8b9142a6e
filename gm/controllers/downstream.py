"""From watch events to desired state: which node shall hold which objects.

Events of all informers go through one bounded channel; when it is full the informers wait. State
is changed synchronously, so the hub never sees half of a step.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from gm.api.core import Pod
from gm.api.meta import ObjectKey
from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    INCREMENTAL_LEARNING_JOBS,
    JOINT_INFERENCE_SERVICES,
    MODELS,
)
from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
    Model,
)
from gm.controllers.edge_copy import edge_copy
from gm.controllers.placement import (
    dataset_nodes,
    federated_nodes,
    incremental_models,
    incremental_nodes,
    inference_nodes,
)
from gm.controllers.secret_copies import SecretCopies
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType, Stored
from gm.kube.recorder import EventRecorder, ObjectRef
from gm.messagelayer import Desired, Hub, WireKey

__all__ = ["Downstream", "Sources"]

logger = logging.getLogger(__name__)

_DATASET = DATASETS.kind.lower()
_MODEL = MODELS.kind.lower()
_FL = FEDERATED_LEARNING_JOBS.kind.lower()
_JI = JOINT_INFERENCE_SERVICES.kind.lower()
_IL = INCREMENTAL_LEARNING_JOBS.kind.lower()
_JI_PODS, _IL_PODS = "pods of " + _JI, "pods of " + _IL
_RESOURCES = {
    resource.kind.lower(): resource
    for resource in (
        DATASETS,
        MODELS,
        FEDERATED_LEARNING_JOBS,
        JOINT_INFERENCE_SERVICES,
        INCREMENTAL_LEARNING_JOBS,
    )
}
# What must have been applied before the desired state of a kind is whole: where an incremental
# job goes depends on its dataset and pods, and a model goes where such jobs go.
_NEEDS = {
    _DATASET: {_DATASET},
    _FL: {_FL},
    _JI: {_JI, _JI_PODS},
    _IL: {_IL, _DATASET, _IL_PODS},
    _MODEL: {_MODEL, _IL, _DATASET, _IL_PODS},
}
_PROBLEM_LOOK_SECONDS = 0.2
_EVENTS_PER_TURN = 32


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The informers that feed the downstream controller."""

    datasets: Informer[Dataset]
    models: Informer[Model]
    federated: Informer[FederatedLearningJob]
    inference: Informer[JointInferenceService]
    incremental: Informer[IncrementalLearningJob]
    inference_pods: Informer[Pod]
    incremental_pods: Informer[Pod]


class _Entry:
    """An object, its edge copy, and the nodes that shall hold it."""

    __slots__ = ("credential", "desired", "nodes", "stored")

    def __init__(self, stored: Stored[Any]) -> None:
        self.stored = stored
        self.desired: Desired | None = None
        self.credential: str | None = None
        self.nodes: frozenset[str] = frozenset()


class Downstream:
    """Feeds ``hub`` with what nodes shall hold.

    ``sends_credentials`` says whether copies carry the data of the Secret that they name.
    """

    name = "downstream"

    def __init__(
        self,
        hub: Hub,
        client: Client,
        sources: Sources,
        *,
        recorder: EventRecorder | None = None,
        channel_size: int = 1024,
        sends_credentials: bool = False,
        resync_seconds: float = 30.0,
    ) -> None:
        self._hub = hub
        self._recorder = recorder
        self._sources = sources
        self._sends_credentials = sends_credentials
        self.on_placed: Callable[[WireKey], None] = lambda _: None
        """Called with each object that names a Secret when other nodes shall hold it."""
        self._secrets = SecretCopies(client, self._secret_changed, resync_seconds=resync_seconds)
        self._channel: asyncio.Queue[tuple[str, Event[Any]]] = asyncio.Queue(channel_size)
        self._entries: dict[str, dict[WireKey, _Entry]] = {kind: {} for kind in _NEEDS}
        self._bound: dict[str, dict[ObjectKey, str]] = {}  # owner uid -> pod -> node
        self._applied: set[str] = set()  # sources whose first list went through the channel
        self._complete: set[str] = set()
        self._informers: dict[str, Informer[Any]] = {
            _DATASET: sources.datasets,
            _MODEL: sources.models,
            _FL: sources.federated,
            _JI: sources.inference,
            _IL: sources.incremental,
            _JI_PODS: sources.inference_pods,
            _IL_PODS: sources.incremental_pods,
        }
        for source, informer in self._informers.items():
            informer.add_handler(self._handler(source))
        hub.expect(_NEEDS)

    @property
    def waiting_events(self) -> int:
        """Events in the channel."""
        return self._channel.qsize()

    def problems(self) -> list[str]:
        """Kinds of which nothing is sent yet."""
        return [
            f"{_RESOURCES[kind].qualified}: desired state is not complete yet"
            for kind in sorted(_NEEDS.keys() - self._complete)
        ]

    def is_withheld(self, key: WireKey) -> bool | None:
        """Whether nodes hold an object without the credential that it names.

        None until the desired state of its kind is complete.
        """
        if key.kind not in self._complete:
            return None
        entry = self._entries[key.kind].get(key)
        if entry is None or self._sends_credentials or not entry.nodes:
            return False
        return bool(entry.stored.view.spec.credential_name)

    async def run(self) -> None:
        """Apply events until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._consume(), name="downstream-channel")
            group.create_task(self._secrets.run(), name="downstream-secrets")
            group.create_task(self._look_for_absent_kinds(), name="downstream-kinds")

    def _handler(self, source: str) -> Callable[[Event[Any]], Awaitable[None]]:
        async def put(event: Event[Any]) -> None:
            await self._channel.put((source, event))

        return put

    async def _consume(self) -> None:
        for number in itertools.count():
            source, event = await self._channel.get()
            self._apply(source, event)
            if not number % _EVENTS_PER_TURN:
                await asyncio.sleep(0)  # a long list must not keep sessions and pings waiting

    async def _look_for_absent_kinds(self) -> None:
        """A kind that can not be listed holds back itself only."""
        while len(self._complete) < len(_NEEDS):
            for kind, needs in _NEEDS.items():
                lacking = [self._informers[s] for s in needs if not self._informers[s].is_synced]
                if kind not in self._complete and any(i.problem for i in lacking):
                    self._hub.hold_back(kind)
            await asyncio.sleep(_PROBLEM_LOOK_SECONDS)

    # Events.

    def _apply(self, source: str, event: Event[Any]) -> None:
        if event.type is EventType.SYNCED:
            self._applied.add(source)
            self._settle()
        elif source in (_JI_PODS, _IL_PODS):
            self._apply_pod(source, event)
        elif event.type is EventType.DELETED:
            self._delete(source, event)
        else:
            self._change(source, event)

    def _change(self, kind: str, event: Event[Any]) -> None:
        stored = event.new
        assert stored is not None, "ADDED and MODIFIED have the new state"
        key = _wire_key(kind, stored.key)
        entry = self._entries[kind].get(key)
        if entry is None:
            entry = self._entries[kind][key] = _Entry(stored)
        else:
            entry.stored, entry.desired = stored, self._unless_renewed(entry, stored)
        self._want_secret(key, stored, entry_is_new=entry.desired is None)
        if kind == _IL:
            before = event.old.view if event.old is not None else None
            self._update_models(stored.view, before)
        self._update(key, entry)
        if kind == _DATASET:
            self._update_incremental(lambda job: job.spec.dataset.name == stored.key.name, key)

    def _unless_renewed(self, entry: _Entry, stored: Stored[Any]) -> Desired | None:
        """The copy made last, if what counts is unchanged: nothing is encoded again."""
        if entry.desired is None:
            return None
        made = self._encode(entry.desired.key, stored, entry.credential)
        return entry.desired if made.same_version(entry.desired) else made

    def _delete(self, kind: str, event: Event[Any]) -> None:
        stored = event.old
        assert stored is not None, "DELETED has the last known state"
        key = _wire_key(kind, stored.key)
        self._secrets.want(key, None)
        entry = self._entries[kind].pop(key, None)
        for node in entry.nodes if entry else ():
            self._hub.remove(node, key)
        if kind == _IL:
            self._update_models(None, stored.view)
        if kind == _DATASET:
            self._update_incremental(lambda job: job.spec.dataset.name == stored.key.name, key)

    def _apply_pod(self, source: str, event: Event[Pod]) -> None:
        pod = event.new or event.old
        if pod is None:
            return
        kind = _JI if source == _JI_PODS else _IL
        labels = pod.view.metadata.labels or {}
        prefix = f"{kind}.{_RESOURCES[kind].group}"
        uid = labels.get(f"{prefix}/uid", "")
        if kind == _JI and labels.get(f"{prefix}/worker-type") != "edge":
            return
        nodes = self._bound.setdefault(uid, {})
        before = dict(nodes)
        if event.type is EventType.DELETED or not pod.view.spec.node_name:
            nodes.pop(pod.key, None)
        else:
            nodes[pod.key] = pod.view.spec.node_name
        if not nodes:
            del self._bound[uid]
        if nodes != before:
            self._update_owner(kind, pod.key.namespace, uid)

    def _update_owner(self, kind: str, namespace: str, uid: str) -> None:
        for key, entry in self._entries[kind].items():
            if key.namespace == namespace and entry.stored.uid == uid:
                if kind == _IL:
                    self._update_models(entry.stored.view, None)
                self._update(key, entry)

    # Desired state.

    def _update(self, key: WireKey, entry: _Entry) -> None:
        """Put the object where it belongs, and take it from where it does not any more."""
        if not self._secrets.is_read(key):
            return  # its copy is made when the Secret was read
        credential = self._secrets.annotation(key)
        if entry.desired is None or credential != entry.credential:
            entry.credential = credential
            entry.desired = self._encode(key, entry.stored, credential)
        nodes = self._nodes(key, entry.stored)
        for node in entry.nodes - nodes:
            self._hub.remove(node, key)
        is_moved, entry.nodes = entry.nodes != nodes, nodes
        for node in sorted(nodes):
            self._hub.put(node, entry.desired)
        if is_moved and key.kind in (_DATASET, _MODEL) and entry.stored.view.spec.credential_name:
            self.on_placed(key)

    def _encode(self, key: WireKey, stored: Stored[Any], credential: str | None) -> Desired:
        return edge_copy(key, _RESOURCES[key.kind].kind, stored.raw, credential=credential)

    def _nodes(self, key: WireKey, stored: Stored[Any]) -> frozenset[str]:
        match stored.view:
            case Dataset() as dataset:
                return dataset_nodes(dataset)
            case FederatedLearningJob() as job:
                return federated_nodes(job)
            case JointInferenceService() as service:
                return inference_nodes(service, self._bound.get(stored.uid, {}).values())
            case IncrementalLearningJob() as incremental:
                return self._incremental_nodes(key.namespace, stored.uid, incremental)
            case _:
                return self._model_nodes(key)

    def _incremental_nodes(
        self, namespace: str, uid: str, job: IncrementalLearningJob
    ) -> frozenset[str]:
        data = self._entries[_DATASET].get(WireKey(_DATASET, namespace, job.spec.dataset.name))
        bound = self._bound.get(uid, {}).values()
        return incremental_nodes(job, data.stored.view if data else None, bound)

    def _model_nodes(self, key: WireKey) -> frozenset[str]:
        """Where the incremental jobs go that name the model."""
        found: set[str] = set()
        for other, entry in self._entries[_IL].items():
            if other.namespace == key.namespace:
                job = entry.stored.view
                if key.name in incremental_models(job):
                    found |= self._incremental_nodes(key.namespace, entry.stored.uid, job)
        return frozenset(found)

    def _update_models(
        self, job: IncrementalLearningJob | None, before: IncrementalLearningJob | None
    ) -> None:
        """Put the models of an incremental job, which go before it, where they belong now."""
        for version in filter(None, (job, before)):
            for name in incremental_models(version):
                key = WireKey(_MODEL, version.metadata.namespace, name)
                entry = self._entries[_MODEL].get(key)
                if entry is not None:
                    self._update(key, entry)

    def _update_incremental(
        self, concerns: Callable[[IncrementalLearningJob], bool], cause: WireKey
    ) -> None:
        for key, entry in self._entries[_IL].items():
            if key.namespace == cause.namespace and concerns(entry.stored.view):
                self._update_models(entry.stored.view, None)
                self._update(key, entry)

    # Credentials.

    def _want_secret(self, key: WireKey, stored: Stored[Any], *, entry_is_new: bool) -> None:
        if isinstance(stored.view, (FederatedLearningJob, JointInferenceService)):
            return  # their credentials are those of their datasets and models
        name = stored.view.spec.credential_name
        if self._sends_credentials:
            self._secrets.want(key, ObjectKey(key.namespace, name) if name else None)
        elif name and entry_is_new and key.kind == _IL:
            # the conditions of this kind are a history that its nodes read
            self._tell_withheld(key, stored)

    def _tell_withheld(self, key: WireKey, stored: Stored[Any]) -> None:
        resource = _RESOURCES[key.kind]
        if self._recorder is not None:
            self._recorder.event(
                ObjectRef(
                    api_version=resource.api_version,
                    kind=resource.kind,
                    namespace=key.namespace,
                    name=key.name,
                    uid=stored.uid,
                ),
                type="Warning",
                reason="CredentialWithheld",
                message="its node gets no S3 credential: websocket.credentials is "
                "never, or websocket.auth is none",
            )

    def _secret_changed(self, key: WireKey) -> None:
        entry = self._entries[key.kind].get(key)
        if entry is not None:
            self._update(key, entry)
        self._settle()

    # Completeness.

    def _settle(self) -> None:
        """Tell the hub which kinds are complete: everything of them applied, Secrets read."""
        for kind, needs in _NEEDS.items():
            if kind in self._complete or not needs <= self._applied:
                continue
            if all(self._secrets.is_read(key) for key in self._entries[kind]):
                self._complete.add(kind)
                self._hub.complete(kind)
                logger.info("desired state complete", extra={"kind": kind})


def _wire_key(kind: str, key: ObjectKey) -> WireKey:
    return WireKey(kind, key.namespace, key.name)
