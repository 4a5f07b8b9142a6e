"""Gives pods to nodes."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.binding import bind, set_condition
from gm.devcluster.controller import Controller
from gm.devcluster.recorder import record_event
from gm.devcluster.scheduling import choose, explain
from gm.devcluster.store import Change, Record

__all__ = ["Scheduler"]

_NAME = "default-scheduler"


class Scheduler(Controller[ObjectKey]):
    """Binds pods without a node; says why when it can not."""

    kinds = ("nodes", "pods")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._waiting: set[ObjectKey] = set()
        self._by_node: dict[str, dict[ObjectKey, Json]] = {}

    def observe(self, change: Change) -> Iterable[ObjectKey]:
        """A new pod; or those that wait, when a node changes or a pod leaves one."""
        key = change.record.key
        if change.table == "nodes":
            # Heartbeats change status only, and matter to no pod.
            before, after = change.previous, change.record
            if change.type != "MODIFIED" or before is None or _offer(before) != _offer(after):
                return sorted(self._waiting)
            return []
        self._place(change)
        if change.type == "DELETED" or not _is_waiting(change.record):
            self._waiting.discard(key)
            is_release = change.type == "DELETED" or _is_over(change.record.object)
            return sorted(self._waiting) if is_release else []
        return [key]

    def reconcile(self, key: ObjectKey) -> float | None:
        """Bind one pod, or write why not."""
        record = self.store.table("pods").get(key)
        if record is None or not _is_waiting(record):
            self._waiting.discard(key)
            return None
        nodes = [n.object for n in self.store.table("nodes").records() if not n.is_deleting]
        pods = {name: list(pods.values()) for name, pods in self._by_node.items()}
        name, reasons = choose(record.object, nodes, pods)
        if not name:
            self._waiting.add(key)
            self._report(record, explain(reasons, len(nodes)))
            return None
        self._waiting.discard(key)
        bind(self.api, key, {"metadata": {"name": key.name}, "target": {"name": name}})
        # The binding comes back as a change; until then the next pod must know of it.
        self._by_node.setdefault(name, {})[key] = record.object
        message = f"Successfully assigned {key} to {name}"
        self._event(record, "Normal", "Scheduled", message)
        return None

    def _place(self, change: Change) -> None:
        record = change.record
        before = change.previous.object["spec"].get("nodeName") if change.previous else None
        name = record.object["spec"].get("nodeName")
        for node in {before, name} - {None, ""}:
            self._by_node.get(node, {}).pop(record.key, None)
        if name and change.type != "DELETED" and not _is_over(record.object):
            self._by_node.setdefault(name, {})[record.key] = record.object

    def _report(self, record: Record, message: str) -> None:
        status = record.object.get("status") or {}
        conditions = status.get("conditions") or []
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        old: Json = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
        if (old.get("status"), old.get("message")) == ("False", message):
            return
        new = {
            **record.object,
            "metadata": dict(record.meta),
            "status": {**status, "conditions": set_condition(conditions, condition)},
        }
        self.api.commit(self.api.builtin("pods"), record, new)
        self._event(record, "Warning", "FailedScheduling", message)

    def _event(self, record: Record, kind: str, reason: str, message: str) -> None:
        record_event(self.api, record, component=_NAME, kind=kind, reason=reason, message=message)


def _is_over(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _is_waiting(record: Record) -> bool:
    spec = record.object["spec"]
    return (
        not spec.get("nodeName")
        and not record.is_deleting
        and not spec.get("schedulingGates")
        and (spec.get("schedulerName") or _NAME) == _NAME
        and not _is_over(record.object)
    )


def _offer(record: Record) -> tuple[object, object]:
    return record.object.get("spec"), record.labels
