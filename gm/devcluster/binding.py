"""Two writes that are no updates: binding a pod to a node, finalizing a namespace."""

from __future__ import annotations

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.gotime import timestamp
from gm.devcluster.status import StatusError, bad_request, conflict
from gm.devcluster.store import Record

__all__ = ["SUCCESS", "bind", "finalize", "mark_evicted", "set_condition"]

SUCCESS: Json = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def set_condition(conditions: list[Json], condition: Json) -> list[Json]:
    """``conditions`` with one replaced or added; the transition time changes with the status."""
    old = next((c for c in conditions if c.get("type") == condition["type"]), None)
    if old is not None and old.get("status") == condition["status"]:
        changed = old.get("lastTransitionTime")
    else:
        changed = timestamp()
    new = {**condition, "lastTransitionTime": changed}
    return [*(new if c is old else c for c in conditions), *([] if old is not None else [new])]


def bind(api: Api, key: ObjectKey, body: Json, *, dry_run: bool = False) -> Json:
    """Give a pod to the node that a ``Binding`` names. Returns: the answer.

    Raises: StatusError (400, 404, 409, 422).
    """
    target = body.get("target") or {}
    node, name = target.get("name") or "", (body.get("metadata") or {}).get("name")
    if name and name != key.name:
        raise bad_request("name in URL does not match name in Binding object")
    if (kind := target.get("kind") or "") not in ("", "Node"):
        allowed = 'supported values: "Node", "<empty>"'
        raise StatusError(500, "", f'target.kind: Unsupported value: "{kind}": {allowed}')
    if not node:
        raise StatusError(500, "", "target.name: Required value")
    info = api.builtin("pods")
    record = api.get(info, key)
    spec = record.object["spec"]
    if record.is_deleting:
        why = f"pod {key.name} is being deleted, cannot be assigned to a host"
        raise conflict(info.resource, key.name, why, kind="pods/binding")
    if holder := spec.get("nodeName"):
        why = f'pod {key.name} is already assigned to node "{holder}"'
        raise conflict(info.resource, key.name, why, kind="pods/binding")
    status = record.object.get("status") or {}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    conditions = set_condition(status.get("conditions") or [], scheduled)
    new = {
        **record.object,
        "metadata": dict(record.meta),
        "spec": {**spec, "nodeName": node},
        "status": {**status, "conditions": conditions},
    }
    if not dry_run:
        api.table(info).put(key, new)
    return SUCCESS


def mark_evicted(api: Api, key: ObjectKey) -> None:
    """Say in a pod's status that it goes because of an eviction. Raises: StatusError (404)."""
    info = api.builtin("pods")
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def change(pod: Json) -> Json:
        status = pod.setdefault("status", {})
        status["conditions"] = set_condition(status.get("conditions") or [], target)
        return pod

    api.modify(info, key, change, subresource="status")


def finalize(api: Api, key: ObjectKey, body: Json) -> Record:
    """Set a namespace's ``spec.finalizers``; one that is terminating goes with the last."""
    info = api.builtin("namespaces")
    record = api.get(info, key)
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    spec = {k: v for k, v in (record.object.get("spec") or {}).items() if k != "finalizers"}
    if finalizers:
        spec["finalizers"] = finalizers
    return api.commit(info, record, {**record.object, "metadata": dict(record.meta), "spec": spec})
