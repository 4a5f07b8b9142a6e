"""Nodes: a taint until they are ready, and what happens when one is not heard of any more."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.binding import set_condition
from gm.devcluster.controller import Controller
from gm.devcluster.gotime import timestamp
from gm.devcluster.recorder import record_event
from gm.devcluster.store import Change, Record

__all__ = ["LEASES", "NOT_READY", "UNREACHABLE", "NodeHook", "NodeLifecycle"]

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
LEASES = "leases.coordination.k8s.io"
_LEASE_NAMESPACE = "kube-node-lease"
_SILENT = "Kubelet stopped posting node status."


class NodeHook:
    """A new node takes no pods before it has been seen ready."""

    def creating(self, obj: Json, *, dry_run: bool) -> None:
        """Add the taint."""
        del dry_run
        spec = obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        taint = {"key": NOT_READY, "effect": "NoSchedule"}
        if not any(_is_same(taint, other) for other in taints):
            spec["taints"] = [*taints, taint]

    def updating(self, new: Json, old: Json, *, dry_run: bool) -> None:
        """Nothing to do."""

    def removed(self, obj: Json) -> None:
        """Nothing to do."""

    def restored(self, obj: Json) -> None:
        """Nothing to do: it has the taints that it had."""


class NodeLifecycle(Controller[str]):
    """Sets taints by the Ready condition, and Ready to Unknown after ``grace_seconds`` of silence.

    A node is heard of when its Lease or the heartbeat of its Ready condition changes; the
    server's own clock counts, never the node's.
    """

    kinds = ("nodes", LEASES)

    def __init__(self, api: Api, *, grace_seconds: float) -> None:
        super().__init__(api)
        self._grace_seconds = grace_seconds
        self._heard: dict[str, tuple[object, float]] = {}

    def observe(self, change: Change) -> Iterable[str]:
        """The node, or that of the Lease."""
        key = change.record.key
        if change.table == LEASES and key.namespace != _LEASE_NAMESPACE:
            return []
        return [key.name]

    def reconcile(self, key: str) -> float | None:
        """Look at one node. Returns: when its silence would be too long."""
        record = self.store.table("nodes").get(ObjectKey("", key))
        if record is None:
            self._heard.pop(key, None)
            return None
        silent = self._silent_seconds(key, record)
        ready = _ready(record)
        if silent >= self._grace_seconds and ready.get("status") != "Unknown":
            record = self._lost(record, ready)
        self._set_taints(record)
        return self._grace_seconds - silent if silent < self._grace_seconds else None

    def _silent_seconds(self, name: str, record: Record) -> float:
        lease = self.store.table(LEASES).get(ObjectKey(_LEASE_NAMESPACE, name))
        renewed = (lease.object.get("spec") or {}).get("renewTime") if lease else None
        signs = (record.uid, renewed, _ready(record).get("lastHeartbeatTime"))
        before = self._heard.get(name)
        if before is None or before[0] != signs:
            self._heard[name] = (signs, self.now())
            return 0.0
        return self.now() - before[1]

    def _lost(self, record: Record, ready: Json) -> Record:
        never = not ready
        condition = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
            "message": "Kubelet never posted node status." if never else _SILENT,
        }
        if "lastHeartbeatTime" in ready:
            condition["lastHeartbeatTime"] = ready["lastHeartbeatTime"]
        status = record.object.get("status") or {}
        conditions = set_condition(status.get("conditions") or [], condition)
        new = {
            **record.object,
            "metadata": dict(record.meta),
            "status": {**status, "conditions": conditions},
        }
        record = self.api.commit(self.api.builtin("nodes"), record, new)
        name = record.key.name
        record_event(
            self.api,
            record,
            component="node-controller",
            kind="Normal",
            reason="NodeNotReady",
            message=f"Node {name} status is now: NodeNotReady",
        )
        self._pods_not_ready(name)
        return record

    def _pods_not_ready(self, node: str) -> None:
        """Services must not send anything to pods that nobody has heard of."""
        info = self.api.builtin("pods")
        for pod in list(self.store.table("pods").records()):
            status = pod.object.get("status") or {}
            conditions = status.get("conditions") or []
            ready = next((c for c in conditions if c.get("type") == "Ready"), None)
            if pod.object["spec"].get("nodeName") != node or ready is None:
                continue
            if ready.get("status") == "True":
                lost = {**ready, "status": "False", "reason": "NodeNotReady"}
                status = {**status, "conditions": set_condition(conditions, lost)}
                new = {**pod.object, "metadata": dict(pod.meta), "status": status}
                self.api.commit(info, pod, new)

    def _set_taints(self, record: Record) -> None:
        ready = _ready(record).get("status")
        spec = record.object.get("spec") or {}
        taints = spec.get("taints") or []
        if ready is None:
            return  # not seen yet: the taint that it began with stays
        key = {"True": "", "False": NOT_READY}.get(ready, UNREACHABLE)
        kept = [t for t in taints if t.get("key") not in (NOT_READY, UNREACHABLE)]
        for effect in ("NoSchedule", "NoExecute") if key else ():
            wanted = {"key": key, "effect": effect}
            present = next((t for t in taints if _is_same(t, wanted)), None)
            if present is None and effect == "NoExecute":
                wanted["timeAdded"] = timestamp()
            kept.append(present or wanted)
        if sorted(map(str, kept)) == sorted(map(str, taints)):
            return
        new_spec = {k: v for k, v in spec.items() if k != "taints"}
        if kept:
            new_spec["taints"] = kept
        new = {**record.object, "metadata": dict(record.meta), "spec": new_spec}
        self.api.commit(self.api.builtin("nodes"), record, new)


def _is_same(one: Json, other: Json) -> bool:
    return (one.get("key"), one.get("effect")) == (other.get("key"), other.get("effect"))


def _ready(record: Record) -> Json:
    conditions = (record.object.get("status") or {}).get("conditions") or ()
    found: Json = next((c for c in conditions if c.get("type") == "Ready"), {})
    return found
