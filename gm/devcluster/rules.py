"""Rules that fields of several built-in kinds share, in the words of kube-apiserver."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from gm.api.meta import Json
from gm.devcluster.metadata import (
    forbidden,
    invalid_value,
    label_value,
    labels_causes,
    qualified_name,
    required,
    unsupported,
)
from gm.devcluster.status import Cause

__all__ = [
    "EFFECTS",
    "choice",
    "config_key",
    "ip_address",
    "label_selector",
    "no_backsteps",
    "not_negative",
    "operands",
    "port_name",
    "port_number",
    "relative_path",
]

EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
_PORT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def choice(obj: Json, path: str, field: str, allowed: list[str]) -> Iterator[Cause]:
    """A field that may be left out, and has one of a few values otherwise."""
    if (value := obj.get(field)) is not None and value not in allowed:
        yield unsupported(f"{path}.{field}", value, allowed)


def not_negative(obj: Json, path: str, *fields: str) -> Iterator[Cause]:
    """Fields that may be left out, and are numbers from 0 on otherwise."""
    for field in fields:
        if (obj.get(field) or 0) < 0:
            yield invalid_value(f"{path}.{field}", obj[field], "must be greater than or equal to 0")


def port_number(number: int, path: str) -> Iterator[Cause]:
    """The number of a port."""
    if not 1 <= number <= 65535:
        yield invalid_value(path, number, "must be between 1 and 65535, inclusive")


def port_name(name: str, path: str) -> Iterator[Cause]:
    """The name of a port."""
    if len(name) > 15:
        yield invalid_value(path, name, "must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        why = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield invalid_value(path, name, why)
    if not re.search("[a-z]", name):
        yield invalid_value(path, name, "must contain at least one letter (a-z)")


def config_key(key: str, path: str) -> Iterator[Cause]:
    """The key of a config map or secret, which is a file's name."""
    if len(key) > 253:
        yield invalid_value(path, key, "must be no more than 253 characters")
    if not _CONFIG_KEY.fullmatch(key):
        why = (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
            "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation "
            f"is '{_CONFIG_KEY.pattern}')"
        )
        yield invalid_value(path, key, why)
    if key in (".", ".."):
        yield invalid_value(path, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield invalid_value(path, key, "must not start with '..'")


def relative_path(value: str, path: str) -> Iterator[Cause]:
    """A path that stays below what it begins at."""
    if value.startswith("/"):
        yield invalid_value(path, value, "must be a relative path")
    yield from no_backsteps(value, path)


def no_backsteps(value: str, path: str) -> Iterator[Cause]:
    """A path that never goes up."""
    if ".." in value.split("/"):
        yield invalid_value(path, value, "must not contain '..'")


def ip_address(value: str, path: str) -> Iterator[Cause]:
    """An IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        yield invalid_value(path, value, why)


def label_selector(selector: Json, path: str) -> Iterator[Cause]:
    """A ``LabelSelector``."""
    yield from labels_causes(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, need in enumerate(selector.get("matchExpressions") or []):
        yield from _requirement(need, f"{path}.matchExpressions[{index}]")


def _requirement(need: Json, path: str) -> Iterator[Cause]:
    yield from operands(need, path, ("In", "NotIn"), ("Exists", "DoesNotExist"))
    if problem := qualified_name(need.get("key", "")):
        yield invalid_value(f"{path}.key", need.get("key", ""), problem)
    for number, value in enumerate(need.get("values") or []):
        if problem := label_value(value):
            yield invalid_value(f"{path}.values[{number}]", value, problem)


def operands(
    need: Json,
    path: str,
    many: Sequence[str],
    none: Sequence[str] = (),
    single: Sequence[str] = (),
) -> Iterator[Cause]:
    """Whether a requirement has as many values as its operator takes."""
    operator, values = need.get("operator", ""), need.get("values") or []
    where = f"{path}.values"
    if operator in many and not values:
        yield required(where, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in none and values:
        yield forbidden(where, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in single and len(values) != 1:
        yield required(where, "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif operator not in (*many, *none, *single):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
