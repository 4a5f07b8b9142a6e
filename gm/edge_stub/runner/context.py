"""What the pods of a node share, and what the containers of a pod share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from gm.api.meta import Json, ObjectKey
from gm.edge_stub.runner.addresses import AddressPool
from gm.edge_stub.runner.facts import PodFacts
from gm.edge_stub.runner.images import ImageTable
from gm.edge_stub.runner.launch import Places
from gm.edge_stub.runner.settings import RunnerSettings, Tuning
from gm.edge_stub.runner.status import PodRecord
from gm.edge_stub.runner.status_writer import StatusWriter
from gm.kube import Client, EventRecorder, ObjectRef

__all__ = ["Node", "PodContext"]

_DEFAULT_GRACE_SECONDS = 30


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of this node share. ``marker`` begins the markers of all its processes."""

    settings: RunnerSettings
    tuning: Tuning
    client: Client
    recorder: EventRecorder
    addresses: AddressPool
    images: ImageTable
    pods_directory: Path
    allocatable: Mapping[str, str]
    marker: str


class PodContext:
    """One pod: its newest object, its record, its places, and ways to tell about it."""

    def __init__(self, node: Node, pod: Json, record: PodRecord) -> None:
        meta = pod["metadata"]
        self.node, self.record = node, record
        self.key = ObjectKey(meta["namespace"], meta["name"])
        self.uid: str = meta["uid"]
        self.directory = node.pods_directory / self.uid
        self.volumes: dict[str, Path] = {}
        self.status = StatusWriter(
            node.client,
            pod,
            record,
            retry_seconds=node.tuning.retry_seconds,
            retry_max_seconds=node.tuning.retry_max_seconds,
        )

    @property
    def pod(self) -> Json:
        """The newest version of the pod that is known."""
        return self.status.pod

    @property
    def spec(self) -> Json:
        """The pod's spec."""
        spec: Json = self.pod["spec"]
        return spec

    @property
    def facts(self) -> PodFacts:
        """What the pod may be told about itself."""
        return PodFacts(
            pod=self.pod,
            node=self.node.settings.node,
            host_ip=self.record.host_ip,
            pod_ip=self.record.pod_ip,
            allocatable=self.node.allocatable,
        )

    @property
    def places(self) -> Places:
        """Where its things lie."""
        return Places(self.directory, self.node.settings.root, self.volumes)

    @property
    def grace_seconds(self) -> float:
        """From SIGTERM to SIGKILL: what the deletion asks for, else the pod's spec."""
        grace: Any = self.pod["metadata"].get("deletionGracePeriodSeconds")
        if grace is None:
            grace = self.spec.get("terminationGracePeriodSeconds")
        return float(_DEFAULT_GRACE_SECONDS if grace is None else grace)

    def event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an Event about the pod."""
        involved = ObjectRef(
            api_version="v1",
            kind="Pod",
            namespace=self.key.namespace,
            name=self.key.name,
            uid=self.uid,
        )
        self.node.recorder.event(involved, type=kind, reason=reason, message=message)
