"""Pods that nobody will stop any more: their node is gone, or does not want them."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.binding import set_condition
from gm.devcluster.controller import Controller
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.recorder import record_event
from gm.devcluster.scheduling import tolerates
from gm.devcluster.store import Change, Record

__all__ = ["PodCollector", "TaintEviction"]


class _ByNode(Controller[ObjectKey]):
    """Looks at pods that are on a node when they, or the node, change."""

    kinds = ("nodes", "pods")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._pods: dict[str, set[ObjectKey]] = {}

    def observe(self, change: Change) -> Iterable[ObjectKey]:
        """The pod, or all pods of the node."""
        key = change.record.key
        if change.table == "nodes":
            return sorted(self._pods.get(key.name, ()))
        node = change.record.object["spec"].get("nodeName")
        if not node:
            return []
        if change.type == "DELETED":
            self._pods.get(node, set()).discard(key)
        else:
            self._pods.setdefault(node, set()).add(key)
        return [key]


class PodCollector(_ByNode):
    """Removes pods whose node has not existed for ``grace_seconds``."""

    def __init__(self, api: Api, *, grace_seconds: float) -> None:
        super().__init__(api)
        self._grace_seconds = grace_seconds
        self._missed: dict[ObjectKey, float] = {}

    def reconcile(self, key: ObjectKey) -> float | None:
        """Look at one pod. Returns: when to look again while its node is missing."""
        record = self.store.table("pods").get(key)
        node = record.object["spec"].get("nodeName") if record else None
        if record is None or not node or self.store.table("nodes").get(ObjectKey("", node)):
            self._missed.pop(key, None)
            return None
        waited = self.now() - self._missed.setdefault(key, self.now())
        if waited < self._grace_seconds:
            return self._grace_seconds - waited
        self._missed.pop(key, None)
        info = self.api.builtin("pods")
        self._fail(record)
        delete(self.api, info, key, DeleteOptions(grace_period_seconds=0, uid=record.uid))
        return None

    def _fail(self, record: Record) -> None:
        """Whoever watches must see that it did not end well."""
        status = record.object.get("status") or {}
        if status.get("phase") in ("Failed", "Succeeded"):
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        conditions = set_condition(status.get("conditions") or [], condition)
        new_status = {**status, "phase": "Failed", "conditions": conditions}
        new = {**record.object, "metadata": dict(record.meta), "status": new_status}
        self.api.commit(self.api.builtin("pods"), record, new)


class TaintEviction(_ByNode):
    """Deletes pods from nodes with a NoExecute taint that they do not tolerate (any longer)."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._since: dict[ObjectKey, tuple[str, float]] = {}

    def reconcile(self, key: ObjectKey) -> float | None:
        """Look at one pod. Returns: when its toleration ends."""
        record = self.store.table("pods").get(key)
        seconds = None if record is None or record.is_deleting else self._tolerated(record)
        if record is None or seconds is None:
            self._since.pop(key, None)
            return None
        since = self._since.get(key)
        if since is None or since[0] != record.uid:
            since = self._since[key] = (record.uid, self.now())
        left = since[1] + seconds - self.now()
        if left > 0:
            return left
        del self._since[key]
        record_event(
            self.api,
            record,
            component="taint-eviction-controller",
            kind="Normal",
            reason="TaintManagerEviction",
            message=f"Marking for deletion Pod {key}",
        )
        delete(self.api, self.api.builtin("pods"), key, DeleteOptions(uid=record.uid))
        return None

    def _tolerated(self, record: Record) -> float | None:
        """Seconds that the pod bears its node's taints; None for as long as they last."""
        node = self.store.table("nodes").get(ObjectKey("", record.object["spec"]["nodeName"]))
        taints = ((node.object.get("spec") or {}).get("taints") or ()) if node else ()
        limits = [
            _limit(record.object["spec"].get("tolerations") or [], taint)
            for taint in taints
            if taint.get("effect") == "NoExecute"
        ]
        finite = [limit for limit in limits if limit is not None]
        return min(finite) if finite else None


def _limit(tolerations: list[Json], taint: Json) -> float | None:
    fitting = [t for t in tolerations if tolerates([t], taint)]
    if not fitting:
        return 0.0
    seconds = [t["tolerationSeconds"] for t in fitting if t.get("tolerationSeconds") is not None]
    return float(max(0, min(seconds))) if seconds else None
