"""DELETE: preconditions, propagation, finalizers, and the grace that pods on a node get."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.call import dry_run_causes
from gm.devcluster.definitions import definitions
from gm.devcluster.gotime import timestamp
from gm.devcluster.info import ResourceInfo
from gm.devcluster.metadata import unsupported
from gm.devcluster.query import Query, parse_bool, parse_int
from gm.devcluster.schema import Schema, TypeMismatch, check_types
from gm.devcluster.status import Cause, bad_request, conflict, forbidden, invalid, success
from gm.devcluster.store import Record

__all__ = [
    "CRD_CLEANUP",
    "FOREGROUND",
    "ORPHAN",
    "DeleteOptions",
    "check_preconditions",
    "delete",
]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN, "Background": ""}
_CONTAINING = ("namespaces", "customresourcedefinitions.apiextensions.k8s.io")
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"

_ANSWER_WITH_OBJECT = frozenset(
    {"namespaces", "persistentvolumeclaims", "pods", "serviceaccounts", "services"}
)
_IMMORTAL = frozenset({"default", "kube-public", "kube-system"})


@dataclass(frozen=True, kw_only=True)
class DeleteOptions:
    """How to delete: ``propagation_policy`` is Background, Foreground, Orphan or empty."""

    grace_period_seconds: int | None = None
    propagation_policy: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False

    @classmethod
    def parse(cls, body: Mapping[str, Any] | None, query: Query) -> DeleteOptions:
        """From a request; where there is a body, what the query says does not count.

        Raises: StatusError (400, 422).
        """
        if body is not None:
            _check_types(body)
            return cls._build(body)
        raw: Json = {
            "gracePeriodSeconds": parse_int(query, "gracePeriodSeconds"),
            "propagationPolicy": query.get("propagationPolicy"),
            "dryRun": query.every("dryRun"),
        }
        if "orphanDependents" in query:
            raw["orphanDependents"] = parse_bool(query["orphanDependents"])
        return cls._build(raw)

    @classmethod
    def _build(cls, raw: Mapping[str, Any]) -> DeleteOptions:
        policy, orphan = raw.get("propagationPolicy"), raw.get("orphanDependents")
        dry_run: list[str] = raw.get("dryRun") or []
        causes: list[Cause] = []
        if policy is not None and orphan is not None:
            why = "orphanDependents and deletionPropagation cannot be both set"
            causes.append(
                Cause("FieldValueInvalid", f'Invalid value: "{policy}": {why}', "propagationPolicy")
            )
        elif policy not in (None, *_FINALIZERS):
            known = ["Foreground", "Background", "Orphan", "nil"]
            causes.append(unsupported("propagationPolicy", policy, known))
        if causes := [*causes, *dry_run_causes(dry_run)]:
            raise invalid("DeleteOptions", "meta.k8s.io", "", causes)
        if orphan is not None:
            policy = "Orphan" if orphan else "Background"
        preconditions = raw.get("preconditions") or {}
        grace = raw.get("gracePeriodSeconds")
        return cls(
            grace_period_seconds=1 if grace is not None and grace < 0 else grace,
            propagation_policy=policy or "",
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
            dry_run=bool(dry_run),
        )


def _check_types(body: Mapping[str, Any]) -> None:
    """Raises: StatusError (400) if a body is no DeleteOptions."""
    if (kind := body.get("kind") or "DeleteOptions") != "DeleteOptions":
        version = body.get("apiVersion") or ""
        raise bad_request(f'no kind "{kind}" is registered for version "{version}"')
    try:
        check_types(_schema(), body)
    except TypeMismatch as exc:
        raise bad_request(str(exc)) from exc


@functools.cache
def _schema() -> Schema:
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    return Schema({"$ref": f"#/components/schemas/{name}"}, definitions())


def delete(api: Api, info: ResourceInfo, key: ObjectKey, options: DeleteOptions) -> Json:
    """Delete an object, or begin to. Returns: what to answer: the object or a ``Status``.

    Raises: StatusError (404, 409).
    """
    if info.storage.qualified == "namespaces" and key.name in _IMMORTAL:
        raise forbidden(info.resource, key.name, "this namespace may not be deleted")
    record = api.get(info, key)
    check_preconditions(info, record, options)
    new = _marked(info, record, options)
    if new is None:  # it is being deleted already, and nothing about that changes
        return record.view(info.from_storage)
    waits = _waits(new)
    if waits and not options.dry_run:
        record = api.table(info).put(key, new)
    elif not options.dry_run:
        if info.storage.qualified == "pods":  # watchers see a pod terminate before it goes
            api.table(info).put(key, new)
        record = api.remove(info, key)
    if waits or info.storage.qualified in _ANSWER_WITH_OBJECT:
        return info.from_storage(new) if options.dry_run else record.view(info.from_storage)
    return success(info.resource, key.name, record.uid)


def check_preconditions(info: ResourceInfo, record: Record, options: DeleteOptions) -> None:
    """Raises: StatusError (409) if the object is another one than the client has seen."""
    name, kind = record.key.name, info.resource.kind
    if options.uid and options.uid != record.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({record.uid}). The object might have been deleted and then recreated"
        )
        raise conflict(info.resource, name, why, kind=kind)
    version = record.meta["resourceVersion"]
    if options.resource_version and options.resource_version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified"
        )
        raise conflict(info.resource, name, why, kind=kind)


def _waits(obj: Json) -> bool:
    meta = obj["metadata"]
    return bool(
        meta.get("finalizers")
        or meta.get("deletionGracePeriodSeconds")
        or (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
    )


def _marked(info: ResourceInfo, record: Record, options: DeleteOptions) -> Json | None:
    """The object as one that is being deleted; None if it is already, in this same way."""
    meta = dict(record.meta)
    finalizers = _finalizers(info, meta, options)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    new = {**record.object, "metadata": meta}
    if record.is_deleting:
        _shorten(meta, options)
        return new if meta != record.meta or not _waits(new) else None
    grace = _grace(info, record.object, options)
    meta["deletionTimestamp"] = timestamp(datetime.now(UTC) + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    if info.storage.qualified in _CONTAINING:  # upstream has code of its own for these
        del meta["deletionGracePeriodSeconds"]
        new["status"] = _terminating(new.get("status") or {}, meta["deletionTimestamp"])
    elif "generation" in meta:
        meta["generation"] += 1
    return new


def _terminating(status: Json, since: str) -> Json:
    """The status of a namespace, or of a CRD, that is being emptied."""
    if "conditions" not in status or "acceptedNames" not in status:
        return {**status, "phase": "Terminating"}
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": since,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will "
        "begin soon",
    }
    return {**status, "conditions": [*(status["conditions"] or ()), condition]}


def _finalizers(info: ResourceInfo, meta: Json, options: DeleteOptions) -> list[str]:
    finalizers: list[str] = list(meta.get("finalizers") or ())
    if options.propagation_policy:
        finalizers = [f for f in finalizers if f not in (FOREGROUND, ORPHAN)]
        if wanted := _FINALIZERS[options.propagation_policy]:
            finalizers.append(wanted)
    is_crd = info.storage.qualified == "customresourcedefinitions.apiextensions.k8s.io"
    if is_crd and "deletionTimestamp" not in meta and CRD_CLEANUP not in finalizers:
        finalizers.append(CRD_CLEANUP)
    return finalizers


def _grace(info: ResourceInfo, obj: Json, options: DeleteOptions) -> int:
    """Seconds that the node's agent has to stop a pod; nothing else has any."""
    if info.storage.qualified != "pods":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    if options.grace_period_seconds is not None:
        return options.grace_period_seconds
    return int(spec.get("terminationGracePeriodSeconds", 30))


def _shorten(meta: Json, options: DeleteOptions) -> None:
    """A grace period that runs already may only become shorter."""
    running, wanted = meta.get("deletionGracePeriodSeconds"), options.grace_period_seconds
    if not running or wanted is None or wanted >= running:
        return
    ends = datetime.fromisoformat(meta["deletionTimestamp"])
    meta["deletionTimestamp"] = timestamp(ends - timedelta(seconds=running - wanted))
    meta["deletionGracePeriodSeconds"] = wanted
