"""What the caches do not show yet, or not any more: made, deleted and departed children."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from gm.api.core import Pod, Service
from gm.api.meta import ObjectKey, controller_of
from gm.controllers.conditions import now
from gm.controllers.federatedlearning.obstacles import host_ports
from gm.controllers.stored import OwnWrites
from gm.kube.lister import Event, EventType, Lister, Stored

__all__ = ["ChildCache", "Departed", "Endings", "HostPortUsers"]

T = TypeVar("T", Pod, Service)

_MADE_SECONDS = 30.0
_DELETED_SECONDS = 10.0
_MAX_DEPARTED = 200


class ChildCache(Generic[T]):
    """A lister, seen together with our own writes that its informer has not delivered yet.

    So a reconcile on a stale cache neither makes a child twice nor deletes one twice. What the
    informer never delivers (made and gone between two lists) is forgotten after a while.
    """

    def __init__(self, lister: Lister[T], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._lister: Lister[T] = lister
        self._clock = clock
        self._made: dict[ObjectKey, tuple[float, Stored[T]]] = {}
        self._changed: OwnWrites[T] = OwnWrites()
        self._deleted: dict[str, tuple[float, datetime]] = {}

    def seen(self, event: Event[T]) -> bool:
        """The informer has caught up with this key; call it with every event.

        Returns: whether it tells more than the API server's answer to our own write did.
        """
        stored = event.new or event.old
        if stored is None:
            return False
        if event.type is EventType.DELETED:
            self._deleted.pop(stored.uid, None)
            self._changed.forget(stored.key)
        made = self._made.get(stored.key)
        if made is None or made[1].uid != stored.uid:
            return True
        del self._made[stored.key]
        is_ours = made[1].resource_version == stored.resource_version
        return event.type is EventType.DELETED or not is_ours

    def made(self, stored: Stored[T]) -> None:
        """The API server has just told us that ``stored`` exists, or looks like this now."""
        known = self._lister.get(stored.key)
        if known is None or known.uid != stored.uid:
            self._made[stored.key] = self._clock() + _MADE_SECONDS, stored
        else:
            self._changed.note(stored, known)

    def deleted(self, uid: str) -> None:
        """We have just deleted the child with ``uid``."""
        self._deleted[uid] = self._clock() + _DELETED_SECONDS, now()

    def owned_by(self, uid: str) -> tuple[Stored[T], ...]:
        """Children of the owner with ``uid``."""
        self._expire()
        listed: list[Stored[T]] = self._lister.owned_by(uid)
        found = {stored.key: self._changed.newest(stored) or stored for stored in listed}
        for key, (_, stored) in self._made.items():
            owner = controller_of(stored.view.metadata)
            if key not in found and owner is not None and owner.uid == uid:
                found[key] = stored
        return tuple(self._as_it_is(stored) for stored in found.values())

    def _as_it_is(self, stored: Stored[T]) -> Stored[T]:
        meta = stored.view.metadata
        deleted = self._deleted.get(stored.uid)
        if deleted is None or meta.deletion_timestamp is not None:
            return stored
        gone = msgspec.structs.replace(meta, deletion_timestamp=deleted[1])
        changed = msgspec.structs.replace(stored.view, metadata=gone)
        return msgspec.structs.replace(stored, view=changed)

    def _expire(self) -> None:
        moment = self._clock()
        self._made = {k: v for k, v in self._made.items() if v[0] >= moment}
        self._deleted = {k: v for k, v in self._deleted.items() if v[0] >= moment}


class Endings:
    """Of pods that exist: whether each ended by itself, or was asked to go before it did.

    The order of what the API server told decides: times in objects are whole seconds, and each
    node has a clock of its own.
    """

    def __init__(self) -> None:
        self._alone: dict[str, bool] = {}

    def note(self, event: Event[Pod]) -> bool | None:
        """Call it with every event. Returns: what is known of the event's pod."""
        pod = event.new or event.old
        if pod is None:
            return None
        has_ended = pod.view.status.phase in ("Succeeded", "Failed")
        is_leaving = pod.view.metadata.deletion_timestamp is not None
        if has_ended and not is_leaving:
            self._alone[pod.uid] = True  # this proves it, whatever was thought before
        elif is_leaving and not has_ended:
            self._alone.setdefault(pod.uid, False)
        if event.type is EventType.DELETED:
            return self._alone.pop(pod.uid, None)
        return self._alone.get(pod.uid)

    def removing(self, uid: str) -> None:
        """We are about to delete the pod with ``uid``, of which no end is known."""
        self._alone.setdefault(uid, False)

    def of(self, pods: Iterable[Stored[Pod]]) -> dict[str, bool]:
        """What is known of ``pods``."""
        return {pod.uid: self._alone[pod.uid] for pod in pods if pod.uid in self._alone}


class Departed:
    """The last known states of pods that are gone, until their job's status remembers them."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, tuple[Stored[Pod], bool | None]]] = {}
        self._owners: dict[ObjectKey, set[str]] = {}

    def add(self, pod: Stored[Pod], ended_alone: bool | None = None) -> None:
        """``pod`` was deleted; nothing to remember of a pod without a controller.

        ``ended_alone`` is what :class:`Endings` knows of it.
        """
        owner = controller_of(pod.view.metadata)
        if owner is not None:
            pods = self._pods.setdefault(owner.uid, {})
            pods[pod.uid] = pod, ended_alone
            self._owners.setdefault(ObjectKey(pod.key.namespace, owner.name), set()).add(owner.uid)
            while len(pods) > _MAX_DEPARTED:
                del pods[next(iter(pods))]

    def of(self, uid: str) -> tuple[Stored[Pod], ...]:
        """Those of the job with ``uid``."""
        return tuple(pod for pod, _ in self._pods.get(uid, {}).values())

    def endings(self, uid: str) -> dict[str, bool]:
        """What was seen of how those of the job with ``uid`` ended."""
        known = self._pods.get(uid, {})
        return {pod: alone for pod, (_, alone) in known.items() if alone is not None}

    def keep_only(self, owner: ObjectKey, uid: str | None) -> None:
        """The owner of that name has ``uid`` now, or is gone: its predecessors do not matter."""
        for known in self._owners.pop(owner, set()):
            if known != uid:
                self._pods.pop(known, None)
            elif known in self._pods:
                self._owners[owner] = {known}

    def forget(self, uid: str, pods: Iterable[Stored[Pod]] | None = None) -> None:
        """The job's status tells of ``pods`` now; without them: the job is gone."""
        if pods is None:
            self._pods.pop(uid, None)
            return
        kept = self._pods.get(uid, {})
        for pod in pods:
            kept.pop(pod.uid, None)
        if not kept:
            self._pods.pop(uid, None)


class HostPortUsers:
    """Pods that take ports of their node, by node, and jobs that wait for such a pod to go."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[Stored[Pod], ...]] = {}
        self._waiting: dict[ObjectKey, frozenset[str]] = {}

    def note(self, event: Event[Pod]) -> frozenset[ObjectKey]:
        """Returns: the jobs that waited for what ``event`` tells."""
        pod = event.new or event.old
        node = pod.view.spec.node_name if pod is not None else None
        if pod is None or node is None or not host_ports(pod.view.spec):
            return frozenset()
        others = tuple(p for p in self.pods.get(node, ()) if p.key != pod.key)
        is_over = pod.view.status.phase in ("Succeeded", "Failed")
        if event.type is not EventType.DELETED and not is_over:
            self.pods[node] = (*others, pod)
            return frozenset()
        self.pods[node] = others
        if not others:
            del self.pods[node]
        woken = frozenset(job for job, nodes in self._waiting.items() if node in nodes)
        for job in woken:
            del self._waiting[job]  # it says again if it still has to wait
        return woken

    def wait(self, job: ObjectKey, nodes: frozenset[str]) -> None:
        """``job`` waits for a pod on one of ``nodes`` to go; without nodes: for nothing."""
        if nodes:
            self._waiting[job] = nodes
        else:
            self._waiting.pop(job, None)
