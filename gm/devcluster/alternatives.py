"""What is wrong with an object whose schema has ``allOf``, ``anyOf``, ``oneOf`` or ``not``.

kube-apiserver says that of no field in particular, and then what is wrong by the alternative that
comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs

from gm.devcluster.formats import CHECKS
from gm.devcluster.schema import join
from gm.devcluster.status import Cause

__all__ = ["Leaf", "at", "explained", "validator"]

_NOWHERE = "<nil>"
_ALL = "must validate all the schemas (allOf)"
_ANY = "must validate at least one schema (anyOf)"
_ONE = "must validate one and only one schema (oneOf). Found "
_NOT = "must not validate the schema (not)"

Leaf = Callable[[jsonschema_rs.ValidationError, str], Cause]


def validator(schema: Mapping[str, Any]) -> jsonschema_rs.Draft4Validator:
    """Checks values against ``schema`` (draft 4), with its formats."""
    return jsonschema_rs.Draft4Validator(dict(schema), validate_formats=True, formats=CHECKS)


def at(path: str, steps: Iterable[str | int]) -> str:
    """``path`` and the steps below it, as messages name a field."""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else join(path, step)
    return path


def explained(
    errors: Iterable[jsonschema_rs.ValidationError],
    schema: Mapping[str, Any],
    path: str,
    leaf: Leaf,
) -> Iterator[Cause]:
    """What ``errors`` of the value at ``path`` mean; ``leaf`` says it of what has no alternatives.

    ``schema`` is what the value was checked against.
    """
    together: tuple[Any, ...] = ()
    failed: set[int] = set()
    parts: Sequence[Any] = ()
    where = ""
    for error in errors:
        prefix, depth = _all_of(schema, error.schema_path)
        group = (prefix, tuple(error.instance_path[:depth])) if prefix else ()
        if together and group != together:
            yield _all(where, failed, parts)
            failed = set()
        together = group
        if prefix:
            parts, where = _walk(schema, prefix), at(path, error.instance_path[:depth])
            failed.add(int(error.schema_path[len(prefix)]))
        yield from _one(error, schema, path, leaf)
    if together:
        yield _all(where, failed, parts)


def _all(where: str, failed: set[int], parts: Sequence[Any]) -> Cause:
    return _summary(where, _ALL if len(failed) < len(parts) else f"{_ALL}. None validated")


def _summary(where: str, why: str) -> Cause:
    return Cause("FieldValueInvalid", f'Invalid value: "": "{where}" {why}', _NOWHERE)


def _one(
    error: jsonschema_rs.ValidationError, schema: Mapping[str, Any], path: str, leaf: Leaf
) -> Iterator[Cause]:
    where, value = at(path, error.instance_path), error.instance
    match error.kind.name:
        case "not":
            yield _summary(where, _NOT)
        case "anyOf":
            yield _summary(where, _ANY)
            yield from _nearest(_walk(schema, error.schema_path), value, where, leaf)
        case "oneOf":
            parts = _walk(schema, error.schema_path)
            valid = sum(validator(part).is_valid(value) for part in parts)
            yield _summary(
                where, f"{_ONE}{f'{valid} valid alternatives' if valid else 'none valid'}"
            )
            if not valid:
                yield from _nearest(parts, value, where, leaf)
        case _:
            yield leaf(error, path)


def _nearest(
    parts: Sequence[Mapping[str, Any]], value: Any, where: str, leaf: Leaf
) -> Iterator[Cause]:
    """What is wrong by the first of the alternatives that say most of ``value``."""
    part = max(parts, key=lambda each: _matches(each, value))
    yield from explained(validator(part).iter_errors(value), part, where, leaf)


def _matches(schema: Mapping[str, Any], value: Any) -> int:
    """How many values in ``value`` a schema speaks of."""
    if isinstance(value, dict):
        fields = schema.get("properties") or {}
        return 1 + sum(_matches(fields[name], value[name]) for name in fields if name in value)
    items = schema.get("items")
    if isinstance(value, list) and items is not None:
        return 1 + sum(_matches(items, item) for item in value)
    return 1


def _walk(schema: Any, steps: Iterable[str | int]) -> Any:
    for step in steps:
        schema = schema[step]
    return schema


def _all_of(
    schema: Mapping[str, Any], steps: Sequence[str | int]
) -> tuple[tuple[str | int, ...], int]:
    """Where in a schema the first ``allOf`` on the way is, and how deep in the value that is."""
    place = depth = 0
    while place < len(steps):
        step = steps[place]
        if step == "allOf":
            return tuple(steps[: place + 1]), depth
        if step not in ("properties", "items", "additionalProperties"):
            break
        place += 2 if step == "properties" else 1
        depth += 1
    return (), 0
