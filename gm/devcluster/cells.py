"""What cells of tables are made of: ages, labels, the parts of objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gm.api.meta import Json
from gm.devcluster.info import Column

__all__ = [
    "NAME_DESCRIPTION",
    "NONE",
    "UNKNOWN",
    "age",
    "age_column",
    "conditions_of",
    "human_duration",
    "labels_text",
    "meta_of",
    "name_column",
    "seconds_of",
    "selector_text",
    "spec_of",
    "status_of",
]

NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name "
    "automatically. Name is primarily intended for creation idempotence and configuration "
    "definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/"
    "working-with-objects/names#names"
)
NONE, UNKNOWN = "<none>", "<unknown>"


def human_duration(seconds: float) -> str:
    """A duration in the two units that matter: ``13s``, ``2m5s``, ``3h10m``, ``4d2h``, ``1y3d``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(hours // 24, "d", hours % 24, "h")
    days = hours // 24
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}" + (f"{small}{small_unit}" if small else "")


def seconds_of(timestamp: str) -> float | None:
    """An RFC 3339 time as seconds since the epoch; None if it is none."""
    try:
        parsed = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def age(timestamp: Any, now: float) -> str:
    """How long ago ``timestamp`` was; ``<unknown>`` without one."""
    at = seconds_of(timestamp) if timestamp else None
    return UNKNOWN if at is None else human_duration(now - at)


def meta_of(obj: Json) -> Json:
    """``metadata``; empty when there is none."""
    meta: Json = obj.get("metadata") or {}
    return meta


def spec_of(obj: Json) -> Json:
    """``spec``; empty when there is none."""
    spec: Json = obj.get("spec") or {}
    return spec


def status_of(obj: Json) -> Json:
    """``status``; empty when there is none."""
    status: Json = obj.get("status") or {}
    return status


def name_column() -> Column:
    """The first column of every table."""
    return Column(name="Name", format="name", cell=lambda obj, _: meta_of(obj).get("name", ""))


def age_column() -> Column:
    """The column that tells how long ago an object was made."""
    return Column(name="Age", cell=lambda obj, now: age(meta_of(obj).get("creationTimestamp"), now))


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Labels as one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Json | None) -> str:
    """A label selector as one line."""
    if not selector:
        return NONE
    parts = [(k, f"{k}={v}") for k, v in (selector.get("matchLabels") or {}).items()]
    for need in selector.get("matchExpressions") or []:
        key, values = need.get("key", ""), ",".join(sorted(need.get("values") or []))
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
        shown["DoesNotExist"] = f"!{key}"
        parts.append((key, shown.get(need.get("operator", ""), key)))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0])) or NONE


def conditions_of(obj: Json) -> dict[str, str]:
    """Status by type of the object's conditions."""
    found = status_of(obj).get("conditions") or []
    return {c.get("type", ""): c.get("status", "") for c in found}
