"""Tells on Datasets and Models that the S3 credential which they name does not reach the edge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from gm.api.meta import ObjectKey
from gm.api.resources import DATASETS, MODELS
from gm.controllers.base import Controller, Result
from gm.controllers.conditions import (
    find_condition,
    now,
    remove_conditions,
    set_condition,
    status_of,
    status_patch,
)
from gm.controllers.stored import OwnWrites, stored
from gm.errors import NotFound
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType
from gm.kube.recorder import EventRecorder, ObjectRef
from gm.kube.workqueue import Workqueue
from gm.messagelayer import WireKey

__all__ = ["CONDITION", "MESSAGE", "WithheldCredentials"]

CONDITION = "CredentialWithheld"
MESSAGE = (
    "the node's copy of this object carries no S3 credential: websocket.credentials is never, or "
    "websocket.auth is none; workers get theirs all the same"
)
_RESOURCES = {resource.kind.lower(): resource for resource in (DATASETS, MODELS)}
_LOOK_AGAIN_SECONDS = 1.0


class WithheldCredentials:
    """Keeps condition ``CredentialWithheld`` true to what the downstream controller does.

    ``is_withheld`` says whether a node's copy of an object lacks the credential that the object
    names; None while nobody knows yet. Objects without credential and condition cost nothing.
    """

    name = "credentials"

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        informers: dict[str, Informer[Any]],
        is_withheld: Callable[[WireKey], bool | None],
        *,
        grace_seconds: float = 5.0,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._informers = informers
        self._is_withheld = is_withheld
        self._written: dict[str, OwnWrites[Any]] = {kind: OwnWrites() for kind in informers}
        self._queue: Workqueue[WireKey] = Workqueue(base_seconds=0.5, max_seconds=360.0)
        self._controller = Controller(
            self.name, self, self._queue, workers=1, grace_seconds=grace_seconds
        )
        for kind, informer in informers.items():
            informer.add_handler(self._handler(kind))

    async def run(self, stopping: asyncio.Event) -> None:
        """Write conditions until ``stopping`` is set."""
        await self._controller.run(stopping)

    def look(self, key: WireKey) -> None:
        """What holds for this object may have changed."""
        if key.kind in self._informers:
            self._queue.add(key)

    def _handler(self, kind: str) -> Callable[[Event[Any]], Any]:
        async def handle(event: Event[Any]) -> None:
            thing = event.new or event.old
            if thing is None:
                return
            if event.type is EventType.DELETED:
                self._written[kind].forget(thing.key)
            elif thing.view.spec.credential_name or thing.view.status.conditions:
                self._queue.add(WireKey(kind, thing.key.namespace, thing.key.name))

        return handle

    async def reconcile(self, key: WireKey) -> Result:
        """Make the condition of object ``key`` say what holds."""
        resource, written = _RESOURCES[key.kind], self._written[key.kind]
        cached = self._informers[key.kind].lister.get(ObjectKey(key.namespace, key.name))
        found = written.newest(cached)
        if found is None or found.view.metadata.deletion_timestamp is not None:
            return Result()
        is_withheld = self._is_withheld(key)
        if is_withheld is None:
            return Result(requeue_after_seconds=_LOOK_AGAIN_SECONDS)
        old = status_of(found.raw)
        new: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(old))
        if is_withheld:
            set_condition(new, CONDITION, at=now(), reason=CONDITION, message=MESSAGE)
        else:
            remove_conditions(new, [CONDITION])
        patch = status_patch(old, new, resource_version=found.resource_version)
        if patch is None:
            return Result()
        try:
            raw = await self._client.patch(resource, found.key, patch, subresource="status")
        except NotFound:
            return Result()
        newer = stored(raw, type(found.view))
        written.note(newer, cached)
        if is_withheld and find_condition(old, CONDITION) is None:
            self._tell(resource.api_version, resource.kind, newer.key, newer.uid)
        return Result()

    def _tell(self, api_version: str, kind: str, key: ObjectKey, uid: str) -> None:
        involved = ObjectRef(
            api_version=api_version, kind=kind, namespace=key.namespace, name=key.name, uid=uid
        )
        self._recorder.event(involved, type="Warning", reason=CONDITION, message=MESSAGE)
