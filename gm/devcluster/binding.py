"""What is posted to a pod: the node that it is bound to, and its eviction."""

from __future__ import annotations

from dataclasses import replace

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api, WriteOptions
from gm.devcluster.builtin import BINDING, EVICTION
from gm.devcluster.deletion import DeleteOptions, check_preconditions, delete
from gm.devcluster.gojson import go_text
from gm.devcluster.gotime import timestamp
from gm.devcluster.identity import check_kind, metadata_of, other_incarnation, set_namespace
from gm.devcluster.info import ResourceInfo
from gm.devcluster.query import Query
from gm.devcluster.status import StatusError, bad_request, conflict
from gm.devcluster.store import Record

__all__ = ["SUCCESS", "bind", "evict", "set_condition"]

_DEFAULTS = WriteOptions()

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


def _read(info: ResourceInfo, key: ObjectKey, body: Json, options: WriteOptions) -> list[str]:
    """Bring what is posted into its form, in place; returns warnings. Raises: StatusError (400)."""
    check_kind(info, body)
    uid = metadata_of(info, body).get("uid")
    warnings = info.prepare_create(
        body, field_validation=options.field_validation, duplicates=options.duplicates
    )
    meta = body["metadata"]
    set_namespace(info, meta, key.namespace)
    if meta.get("name") != key.name:
        kind = info.resource.kind
        raise bad_request(f"name in URL does not match name in {kind} object")
    if uid:
        meta["uid"] = uid  # here it is a condition
    return warnings


def bind(api: Api, key: ObjectKey, body: Json, options: WriteOptions = _DEFAULTS) -> list[str]:
    """Give a pod to the node that a ``Binding`` names; returns warnings.

    Raises: StatusError (400, 404, 409, 500 as upstream for a target that is none).
    """
    warnings = _read(BINDING, key, body, options)
    target = body.get("target") or {}
    node, uid = target.get("name") or "", body["metadata"].get("uid")
    if (kind := target.get("kind") or "") not in ("", "Node"):
        allowed = 'supported values: "Node", "<empty>"'
        raise StatusError(500, "", f'target.kind: Unsupported value: "{kind}": {allowed}')
    if not node:
        raise StatusError(500, "", "target.name: Required value")
    info = api.builtin("pods")
    record = api.get(info, key)
    spec = record.object["spec"]
    if uid and uid != record.uid:
        raise other_incarnation(info, key, uid, record.uid)
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
    if not options.dry_run:
        api.table(info).put(key, new)
    return warnings


def evict(api: Api, key: ObjectKey, body: Json, options: WriteOptions) -> list[str]:
    """Delete a pod as an ``Eviction`` says, and say in its status why; returns warnings.

    Raises: StatusError (400, 404, 409, 422, 500 for a dry run that is none).
    """
    if body.get("apiVersion") == "policy/v1beta1":  # of clients before Kubernetes 1.22
        body["apiVersion"] = EVICTION.resource.api_version
    warnings = _read(EVICTION, key, body, options)
    wanted = _delete_options(body.get("deleteOptions") or {}, options)
    info = api.builtin("pods")
    check_preconditions(info, api.get(info, key), wanted)
    if not wanted.dry_run:
        _mark(api, key)
        wanted = replace(wanted, resource_version="")  # it has just become another one
    delete(api, info, key, wanted)
    return warnings


def _delete_options(body: Json, options: WriteOptions) -> DeleteOptions:
    said, asked = body.get("dryRun") or [], ["All"] if options.dry_run else []
    if said and asked and said != asked:
        shown = f"{go_text(asked)} and {go_text(said)}"
        why = f"Non-matching dry-run options in request and content: {shown}"
        raise StatusError(500, "", why)
    return DeleteOptions.parse({**body, "dryRun": said or asked}, Query())


def _mark(api: Api, key: ObjectKey) -> Record:
    """Say in a pod's status that it goes because of an eviction."""
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

    return api.modify(api.builtin("pods"), key, change, subresource="status")
