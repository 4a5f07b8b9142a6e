"""Where a kind keeps what its subresource ``scale`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gm.api.meta import Json
from gm.devcluster.metadata import invalid_value
from gm.devcluster.status import Cause

__all__ = ["ScalePaths", "at"]

_MAX = 2**31 - 1


def at(obj: Json, path: str) -> Any:
    """What stands at a dotted path; None if there is nothing."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


@dataclass(frozen=True, kw_only=True)
class ScalePaths:
    """Dotted paths: the replicas that are wanted, those that there are, a selector of pods.

    ``selector`` is the path of a text, or empty; built-in kinds have a LabelSelector in their spec.
    """

    replicas: str = "spec.replicas"
    ready: str = "status.replicas"
    selector: str = ""

    def put(self, obj: Json, replicas: int) -> None:
        """Set the replicas that are wanted, in place."""
        *parents, last = self.replicas.split(".")
        for part in parents:
            inner = obj.get(part)
            obj[part] = obj = dict(inner) if isinstance(inner, dict) else {}
        obj[last] = replicas

    def causes(self, obj: Json) -> Iterator[Cause]:
        """What keeps a custom object from being shown."""
        for path in (self.replicas, self.ready):
            yield from _number(at(obj, path), f".{path}")
        selector = at(obj, self.selector) if self.selector else None
        if selector is not None and not isinstance(selector, str):
            path = f".{self.selector}"
            why = f"{path} accessor error: {_spoken(selector)}, expected string"
            yield invalid_value(path, "", why)


def _number(value: Any, path: str) -> Iterator[Cause]:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        why = f"{path} accessor error: {_spoken(value)}, expected int64"
        yield invalid_value(path, 0, why)
    elif value < 0:
        yield invalid_value(path, value, "should be a non-negative integer")
    elif value > _MAX:
        yield invalid_value(path, value, f"should be less than or equal to {_MAX}")


def _spoken(value: Any) -> str:
    """A value and its type, as Go's accessors name them."""
    names = {str: "string", bool: "bool", int: "int64", float: "float64"}
    kind = names.get(type(value), "map[string]interface {}")
    return f"{value} is of the type {kind}"
