"""How this program talks to a Kubernetes API server."""

from __future__ import annotations

from gm.kube.client import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Client,
    ListResult,
    WatchEvent,
)
from gm.kube.informer import Informer, InformerSettings
from gm.kube.leader import LeaderElector, LeaderSettings
from gm.kube.lister import Event, EventType, Lister, Stored, View
from gm.kube.recorder import EventRecorder, ObjectRef
from gm.kube.transport import Response
from gm.kube.workqueue import ShutDown, Workqueue

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Client",
    "Event",
    "EventRecorder",
    "EventType",
    "Informer",
    "InformerSettings",
    "LeaderElector",
    "LeaderSettings",
    "ListResult",
    "Lister",
    "ObjectRef",
    "Response",
    "ShutDown",
    "Stored",
    "View",
    "WatchEvent",
    "Workqueue",
]
