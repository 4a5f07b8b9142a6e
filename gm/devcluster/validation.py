"""What is wrong with objects of the smaller built-in kinds, in the words of kube-apiserver."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from gm.api.meta import Json
from gm.devcluster.gojson import explain
from gm.devcluster.metadata import (
    forbidden,
    invalid_value,
    label_value,
    qualified_name,
    qualified_name_problems,
    quoted,
    required,
    unsupported,
)
from gm.devcluster.rules import EFFECTS, config_key
from gm.devcluster.status import Cause

__all__ = [
    "config_data",
    "config_data_change",
    "core_event",
    "lease",
    "namespace",
    "namespace_change",
    "new_event",
    "new_event_change",
    "node",
    "node_change",
    "secret",
    "secret_change",
]

_DATA_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable"
_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_JSON_KEYS = (".dockerconfigjson", ".dockercfg")
_ACCOUNT = "kubernetes.io/service-account.name"


# --- config maps and secrets ----------------------------------------------------------------------


def config_data(obj: Json, *, is_secret: bool = False) -> Iterator[Cause]:
    """The keys of a config map or secret are file names; together they have a MiB."""
    for key in obj.get("data") or {}:
        if key in (obj.get("binaryData") or {}):
            yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            yield from config_key(key, f"{field}[{key}]")
    plain = {} if is_secret else obj.get("data") or {}
    encoded = (obj.get("data") if is_secret else obj.get("binaryData")) or {}
    size = sum(len(value.encode()) for value in plain.values())
    size += sum(len(value) * 3 // 4 - value.count("=", -2) for value in encoded.values())
    if size > _DATA_BYTES:
        why = f"Too long: may not be more than {_DATA_BYTES} bytes"
        yield Cause("FieldValueTooLong", why, "data" if is_secret else "[]")  # named so upstream


def config_data_change(new: Json, old: Json) -> Iterator[Cause]:
    """A config map or secret that says ``immutable`` stays as it is."""
    if not old.get("immutable"):
        return
    why = "field is immutable when `immutable` is set"
    for field in ("immutable", "data", "binaryData"):
        if new.get(field) != old.get(field):
            yield forbidden(field, why)


def secret(obj: Json) -> Iterator[Cause]:
    """A secret; some types need certain keys."""
    yield from config_data(obj, is_secret=True)
    kind, data = obj.get("type", ""), obj.get("data") or {}
    for key in _SECRET_KEYS.get(kind, ()):
        if key not in data:
            yield required(f"data[{key}]")
        elif key in _JSON_KEYS:
            yield from _json_value(data[key], f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield required("data[username]")
        yield required("data[password]")
    annotations = obj["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")


def _json_value(encoded: str, path: str) -> Iterator[Cause]:
    raw = base64.b64decode(encoded)
    try:
        json.loads(raw)
    except ValueError as exc:
        yield invalid_value(path, "<secret contents redacted>", explain(raw) or str(exc))


def secret_change(new: Json, old: Json) -> Iterator[Cause]:
    """A secret keeps its type."""
    if new.get("type") != old.get("type"):
        yield invalid_value("type", new.get("type"), _IMMUTABLE)
    yield from config_data_change(new, old)


# --- namespaces, nodes, leases --------------------------------------------------------------------


def namespace(obj: Json) -> Iterator[Cause]:
    """A namespace's finalizers."""
    for finalizer in (obj.get("spec") or {}).get("finalizers") or []:
        if problem := qualified_name(finalizer):
            yield invalid_value("spec.finalizers", finalizer, problem)
        if "/" not in finalizer and finalizer != "kubernetes":
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value("spec.finalizers", finalizer, why)


def namespace_change(new: Json, _old: Json) -> Iterator[Cause]:
    """A namespace is terminating while it is being deleted, and only then."""
    phase = (new.get("status") or {}).get("phase", "")
    if new["metadata"].get("deletionTimestamp"):
        if phase != "Terminating":
            why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            yield invalid_value("status.Phase", phase, why)
    elif phase != "Active":
        why = "may only be 'Active' if `deletionTimestamp` is empty"
        yield invalid_value("status.Phase", phase, why)


def node(obj: Json) -> Iterator[Cause]:
    """A node's taints."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        path = f"metadata.taints[{index}]"  # the real server names it so
        key, value, effect = (taint.get(f) or "" for f in ("key", "value", "effect"))
        for problem in qualified_name_problems(key):
            yield invalid_value(f"{path}.key", key, problem)
        if problem := label_value(value):
            yield invalid_value(f"{path}.value", value, problem)
        if not effect:
            yield required(f"{path}.effect")
        elif effect not in EFFECTS:
            yield unsupported(f"{path}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect}
            yield Cause(
                "FieldValueDuplicate",
                f"Duplicate value: {quoted({**shown, 'TimeAdded': taint.get('timeAdded')})}: "
                "taints must be unique by key and effect pair",
                path,
            )
        seen.add((key, effect))


def node_change(new: Json, old: Json) -> Iterator[Cause]:
    """What a node has been given once stays."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field, said in (("podCIDR", "podCIDRs"), ("providerID", "providerID")):
        if before.get(field) and before.get(field) != after.get(field):
            why = f'node updates may not change {field} except from "" to valid'
            yield forbidden(f"spec.{said}", why)


def lease(obj: Json) -> Iterator[Cause]:
    """A lease."""
    spec = obj.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        why = "must be greater than or equal to 0"
        yield invalid_value("spec.leaseTransitions", transitions, why)


# --- events ---------------------------------------------------------------------------------------


def core_event(obj: Json, *, controller: str = "reportingComponent") -> Iterator[Cause]:
    """An event lies in the namespace of what it is about (``default`` for cluster-wide kinds).

    ``controller`` is what the API of the request calls who reports.
    """
    namespace = obj["metadata"].get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    if about != namespace if about else namespace != "default":
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if not obj.get("eventTime"):
        return
    if not (who := obj.get("reportingComponent")):
        yield required(controller)
    elif problem := qualified_name(who):
        yield invalid_value(controller, who, problem)
    for field in ("reportingInstance", "action", "reason"):
        if not obj.get(field):
            yield required(field)
        elif len(obj[field]) > 128:
            yield invalid_value(field, "", "can have at most 128 characters")
    if len(obj.get("message") or "") > 1024:
        yield invalid_value("message", "", "can have at most 1024 characters")


_OF_OLD = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED = (
    *("involvedObject", "reason", "message", "type", "action", "related", "eventTime"),
    *("reportingInstance", *_OF_OLD),
)


def new_event(obj: Json) -> Iterator[Cause]:
    """A core event that is written through events.k8s.io, which asks for more."""
    yield from core_event(obj, controller="reportingController")
    yield from _series(obj)
    if not obj.get("eventTime"):
        yield required("eventTime")
    if obj.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", "", f"has invalid value: {obj.get('type') or ''}")
    for field in _OF_OLD:
        if obj.get(field):
            yield invalid_value(field, "", "needs to be unset")


def _series(obj: Json) -> Iterator[Cause]:
    if (series := obj.get("series")) is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid_value("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def new_event_change(new: Json, old: Json) -> Iterator[Cause]:
    """Of a core event that is changed through events.k8s.io only the series may grow."""

    def said(obj: Json, field: str) -> Any:
        return obj.get(field) or None

    for field in _FIXED:
        if said(new, field) != said(old, field):
            yield invalid_value(field, new.get(field), _IMMUTABLE)
    if said(new, "reportingComponent") != said(old, "reportingComponent"):
        yield invalid_value("reportingController", new.get("reportingComponent"), _IMMUTABLE)
    yield from _series(new)
