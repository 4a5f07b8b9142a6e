"""What a CRD's schema may say of lists and maps, in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

from gm.api.meta import Json
from gm.devcluster.metadata import forbidden, invalid_value, required, unsupported
from gm.devcluster.status import Cause

__all__ = ["list_rules"]

_LIST_TYPE = "x-kubernetes-list-type"
_MAP_TYPE = "x-kubernetes-map-type"
_KEYS = "x-kubernetes-list-map-keys"


def list_rules(node: Json, path: str) -> Iterator[Cause]:
    """One node of a schema."""
    items = node.get("items")
    if node.get("type") == "array" and "items" not in node:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if node.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    yield from _types(node, path)
    declared: Json = items if isinstance(items, dict) else {}
    if node.get(_LIST_TYPE) == "set":
        yield from _set(declared, f"{path}.items")
    if node.get(_LIST_TYPE) == "map":
        yield from _map(node.get(_KEYS) or [], declared, path)
    elif node.get(_KEYS):
        why = f"must be map if {_KEYS} is non-empty"
        if _LIST_TYPE in node:
            yield invalid_value(f"{path}.{_LIST_TYPE}", node[_LIST_TYPE], why)
        else:
            yield required(f"{path}.{_LIST_TYPE}", why)


def _types(node: Json, path: str) -> Iterator[Cause]:
    for field, kind, allowed in (
        (_MAP_TYPE, "object", ["atomic", "granular"]),
        (_LIST_TYPE, "array", ["atomic", "set", "map"]),
    ):
        if (said := node.get(field)) is None:
            continue
        if node.get("type") != kind:
            why = f"must be {kind} if {field} is specified"
            yield invalid_value(f"{path}.type", node.get("type", ""), why)
        if said not in allowed:
            yield unsupported(f"{path}.{field}", said, allowed)


def _set(items: Json, path: str) -> Iterator[Cause]:
    if items.get("nullable"):
        yield forbidden(f"{path}.nullable", f"cannot be nullable when {_LIST_TYPE} is set")
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        why = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        yield invalid_value(f"{path}.{_MAP_TYPE}", items.get(_MAP_TYPE), why)
    elif items.get("type") == "array" and items.get(_LIST_TYPE, "atomic") != "atomic":
        why = f"must be atomic as item of a list with {_LIST_TYPE}=set"
        yield invalid_value(f"{path}.{_LIST_TYPE}", items[_LIST_TYPE], why)


def _map(keys: list[str], items: Json, path: str) -> Iterator[Cause]:
    where = f"{path}.{_KEYS}"
    if not keys:
        yield required(where, f"must not be empty if {_LIST_TYPE} is map")
    if (kind := items.get("type")) != "object":
        why = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid_value(f"{path}.items.type", kind or "", why)
        return
    if len({*keys}) != len(keys):
        yield invalid_value(where, keys, "must not contain duplicate entries")
    fields: Json = items.get("properties") or {}
    if any(key not in fields for key in keys):
        yield invalid_value(where, keys, "entries must all be names of item properties")
        return
    for key in dict.fromkeys(keys):
        there = f"{path}.items.properties[{key}]"
        if (kind := fields[key].get("type")) in ("object", "array"):
            why = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid_value(f"{there}.type", kind, why)
        if key not in (items.get("required") or []) and "default" not in fields[key]:
            yield required(
                f"{there}.default",
                f"this property is in {_KEYS}, so it must have a default or be a required property",
            )
