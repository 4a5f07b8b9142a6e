"""Strategic merge patch: a merge patch whose lists are merged by key, as the schema says.

Directives: ``$patch`` (replace, delete), ``$retainKeys``, ``$setElementOrder/<field>`` and
``$deleteFromPrimitiveList/<field>``. The result's order of list elements is that of
kube-apiserver: elements that the patch names in the patch's order (or that of
``$setElementOrder``), the others where they were relative to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gm.api.meta import Json
from gm.devcluster.gojson import fingerprint, go_text
from gm.devcluster.status import StatusError, bad_request

__all__ = ["PatchSchema", "strategic_merge"]

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ELEMENT_ORDER = "$setElementOrder/"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


class PatchSchema(Protocol):
    """What patching asks of a schema node."""

    patch_merge_key: str
    patch_strategy: str

    def child(self, field: str) -> PatchSchema | None:
        """The node of an object's field."""

    @property
    def items(self) -> PatchSchema | None:
        """The node of a list's elements."""


def strategic_merge(original: Json, patch: Json, schema: PatchSchema | None) -> Json:
    """``original`` with ``patch`` applied; neither is changed.

    Raises: StatusError (400, 500) for a directive that makes no sense.
    """
    match patch.get(_PATCH):
        case None:
            pass
        case "replace":
            return {k: _plain(v) for k, v in patch.items() if k != _PATCH and v is not None}
        case "delete":
            return {}
        case other:
            raise _broken(f"unknown patch type: {other} in map: {go_text(patch)}")
    merged = _retain(original, patch)
    for key, values in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            field = key.removeprefix(_DELETE_PRIMITIVES)
            if isinstance(merged.get(field), list):
                if not isinstance(values, list):
                    raise bad_request("invalid patch format of primitive list")
                gone = {fingerprint(value) for value in values}
                merged[field] = [v for v in merged[field] if fingerprint(v) not in gone]
    ordered = {
        key.removeprefix(_ELEMENT_ORDER): order
        for key, order in patch.items()
        if key.startswith(_ELEMENT_ORDER)
    }
    if not all(isinstance(order, list) for order in ordered.values()):
        raise _broken("expected a list in $setElementOrder")
    for field, value in patch.items():
        if not field.startswith("$"):
            child = schema.child(field) if schema is not None else None
            _merge_field(merged, field, value, child, ordered.pop(field, None))
    for field, order in ordered.items():  # order alone: the patch has no elements of the field
        if isinstance(merged.get(field), list):
            child = schema.child(field) if schema is not None else None
            merged[field] = _arrange(merged[field], merged[field], order, _merge_key(child))
    return merged


def _broken(why: str) -> StatusError:
    """A patch that makes no sense: as upstream, 500 without a reason."""
    return StatusError(500, "", why)


def _retain(original: Json, patch: Json) -> Json:
    retained = patch.get(_RETAIN_KEYS)
    if retained is None:
        return dict(original)
    said = (key for key, value in patch.items() if value is not None and not key.startswith("$"))
    if not isinstance(retained, list) or any(key not in retained for key in said):
        raise bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in retained}


def _merge_field(
    merged: Json, field: str, value: Any, schema: PatchSchema | None, order: list[Any] | None
) -> None:
    if value is None:
        merged.pop(field, None)
        return
    current = merged.get(field)
    strategies = schema.patch_strategy.split(",") if schema is not None else []
    if isinstance(current, dict) and isinstance(value, dict) and "replace" not in strategies:
        merged[field] = strategic_merge(current, value, schema)
    elif isinstance(value, list) and "merge" in strategies:
        merged[field] = _merge_list(
            current if isinstance(current, list) else [], value, schema, order
        )
    else:
        merged[field] = _plain(value)


def _merge_key(schema: PatchSchema | None) -> str:
    return schema.patch_merge_key if schema is not None else ""


def _merge_list(
    original: list[Any], patch: list[Any], schema: PatchSchema | None, order: list[Any] | None
) -> list[Any]:
    key = _merge_key(schema)
    if not key:
        merged = _unique([*original, *patch])
        return _arrange(merged, original, patch if order is None else order, "")
    additions, remaining, replace = _special(original, patch, key)
    if replace:
        return [_plain(element) for element in additions]
    items = schema.items if schema is not None else None
    merged = list(remaining)
    positions = {_identity(element, key): n for n, element in enumerate(merged)}
    for element in additions:
        identity = _identity(element, key)
        if identity in positions:
            n = positions[identity]
            merged[n] = strategic_merge(merged[n], element, items)
        else:
            positions[identity] = len(merged)
            merged.append(_plain(element))
    return _arrange(merged, original, additions if order is None else order, key)


def _special(original: list[Any], patch: list[Any], key: str) -> tuple[list[Json], list[Any], bool]:
    """Elements to merge, what ``$patch: delete`` leaves of the original, whether to replace it."""
    additions: list[Json] = []
    remaining, replace = original, False
    for element in patch:
        if not isinstance(element, dict):
            shown = go_text([original, patch])
            raise _broken(f"list element types are not identical: {shown}")
        directive = element.get(_PATCH)
        if directive is None:
            additions.append(element)
        elif directive == "replace":
            replace = True
        elif directive == "delete":
            gone = _identity(element, key)
            remaining = [e for e in remaining if _identity(e, key) != gone]
        else:
            raise _broken(f"unknown patch type: {directive} in map: {go_text(element)}")
    return additions, remaining, replace


def _identity(element: Any, key: str) -> Any:
    """What tells an element from its siblings; hashable."""
    if not key:
        return (type(element).__name__, element) if not isinstance(element, list | dict) else None
    if not isinstance(element, dict) or key not in element:
        shown = go_text(element)
        raise _broken(f"map: {shown} does not contain declared merge key: {key}")
    found = element[key]
    return fingerprint(found) if isinstance(found, list | dict) else found


def _unique(values: Sequence[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for value in values:
        seen.setdefault(_identity(value, ""), value)
    return list(seen.values())


def _arrange(merged: list[Any], server: list[Any], order: list[Any], key: str) -> list[Any]:
    """``merged`` with the elements of ``order`` in that order and the rest between them."""
    wanted = {_identity(element, key): n for n, element in enumerate(order)}
    before = {_identity(element, key): n for n, element in enumerate(server)}

    def place(element: Any) -> Any:
        return _identity(element, key)

    named = sorted((e for e in merged if place(e) in wanted), key=lambda e: wanted[place(e)])
    others = [e for e in merged if place(e) not in wanted]
    others.sort(key=lambda e: before.get(place(e), -1))
    result: list[Any] = []
    left, right = 0, 0
    while left < len(others) and right < len(named):
        mine, theirs = before.get(place(others[left])), before.get(place(named[right]))
        if mine is not None and theirs is not None and mine < theirs:
            result.append(others[left])
            left += 1
        else:
            result.append(named[right])
            right += 1
    return result + others[left:] + named[right:]


def _plain(value: Any) -> Any:
    """``value`` as it is stored when there is nothing to merge with: no nulls, no directives."""
    if isinstance(value, dict):
        return {
            key: _plain(inner)
            for key, inner in value.items()
            if inner is not None and not _is_directive(key)
        }
    if isinstance(value, list):
        return [_plain(e) for e in value if not (isinstance(e, dict) and e.get(_PATCH) == "delete")]
    return value


def _is_directive(key: str) -> bool:
    return key in (_PATCH, _RETAIN_KEYS) or key.startswith((_ELEMENT_ORDER, _DELETE_PRIMITIVES))
