"""Events seen through events.k8s.io/v1: the same stored objects under other field names."""

from __future__ import annotations

from gm.api.meta import Json

__all__ = ["to_core", "to_events_v1"]

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
# Core events have these in any case, the others only if there is something to say.
_ALWAYS = frozenset({"reportingComponent", "reportingInstance"})
_BACK = {core: new for new, core in _RENAMED.items()}


def to_core(obj: Json) -> Json:
    """An ``events.k8s.io/v1`` event as the core event that is stored."""
    renamed = {_RENAMED.get(key, key): value for key, value in obj.items()}
    return {**renamed, "kind": "Event", "apiVersion": "v1"}


def to_events_v1(obj: Json) -> Json:
    """A stored core event as ``events.k8s.io/v1`` shows it."""
    renamed = {
        _BACK.get(key, key): value
        for key, value in obj.items()
        if value != "" or key not in _ALWAYS
    }
    return {**renamed, "kind": "Event", "apiVersion": "events.k8s.io/v1"}
