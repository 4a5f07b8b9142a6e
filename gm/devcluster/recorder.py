"""Events that the server's own controllers write."""

from __future__ import annotations

import hashlib

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.gotime import timestamp
from gm.devcluster.status import StatusError
from gm.devcluster.store import Record

__all__ = ["record_event"]


def record_event(
    api: Api, involved: Record, *, component: str, kind: str, reason: str, message: str
) -> None:
    """Say something about an object; the same thing said again raises a count.

    ``kind`` is Normal or Warning. An event that can not be stored is not worth a failure.
    """
    obj, key = involved.object, involved.key
    said = "\0".join((involved.uid, component, reason, message))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    namespace = key.namespace or "default"
    info = api.builtin("events")
    event_key = ObjectKey(namespace, f"{key.name}.{digest}")
    now = timestamp()

    def again(event: Json) -> Json:
        return {**event, "count": event.get("count", 1) + 1, "lastTimestamp": now}

    event: Json = {
        "metadata": {"name": event_key.name, "namespace": namespace},
        "involvedObject": {
            "kind": obj["kind"],
            "namespace": key.namespace,
            "name": key.name,
            "uid": involved.uid,
            "apiVersion": obj["apiVersion"],
            "resourceVersion": involved.meta["resourceVersion"],
        },
        "reason": reason,
        "message": message,
        "type": kind,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        if api.table(info).get(event_key) is None:
            api.make(info, namespace, event)
        else:
            api.modify(info, event_key, again)
    except StatusError:
        return
