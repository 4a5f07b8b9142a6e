"""What is wrong with a pod template, where an API server would refuse the pod made from it.

Only the plain mistakes, so that a job's status can name the field in the job, not in the pod. The
API server has the last word when the pod is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gm.api.common import PodTemplate
from gm.api.problem import Problem

__all__ = ["template_problems"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


def template_problems(template: PodTemplate | None, where: str) -> Iterator[Problem]:
    """Everything that is plainly wrong with ``template``, which stands at field ``where``."""
    if template is None:
        yield Problem(where, "is missing; write the pod to make: spec.containers at least")
        return
    spec = template.spec or {}
    field = f"{where}.spec"
    node = spec.get("nodeName")
    if node is not None and not isinstance(node, str):
        yield Problem(f"{field}.nodeName", f"is {_shown(node)}; allowed is the name of a Node")
    containers = spec.get("containers")
    if not containers:
        yield Problem(f"{field}.containers", "is empty; write at least one container")
    names: set[str] = set()
    for key in ("initContainers", "containers"):
        yield from _containers(spec.get(key), f"{field}.{key}", names)
    yield from _volumes(spec.get("volumes"), f"{field}.volumes")


def _containers(value: object, where: str, names: set[str]) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(where, f"is {_shown(value)}; allowed is a list of containers")
        return
    for index, container in enumerate(value):
        field = f"{where}[{index}]"
        if not isinstance(container, dict):
            yield Problem(field, f"is {_shown(container)}; allowed is a container")
            continue
        yield from _container_name(container.get("name"), f"{field}.name", names)
        image = container.get("image")
        if not isinstance(image, str) or not image.strip():
            yield Problem(f"{field}.image", f"is {_shown(image)}; name the image to run")
        for key in ("command", "args"):
            yield from _strings(container.get(key), f"{field}.{key}")
        yield from _env(container.get("env"), f"{field}.env")


def _container_name(name: object, field: str, names: set[str]) -> Iterator[Problem]:
    if not isinstance(name, str) or not _LABEL.match(name):
        yield Problem(
            field,
            f"is {_shown(name)}; allowed are up to 63 lower-case letters, digits and -",
        )
    elif name in names:
        yield Problem(field, f"{name!r} is the name of two containers; rename one")
    else:
        names.add(name)


def _strings(value: object, where: str) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(where, f"is {_shown(value)}; allowed is a list of texts")
        return
    for index, item in enumerate(value):
        if not isinstance(item, str):
            yield Problem(
                f"{where}[{index}]", f'is {_shown(item)}; write it as text: "{_plain(item)}"'
            )


def _env(value: object, where: str) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(where, f"is {_shown(value)}; allowed is a list of name and value")
        return
    for index, entry in enumerate(value):
        field = f"{where}[{index}]"
        if not isinstance(entry, dict):
            yield Problem(field, f"is {_shown(entry)}; allowed is name and value")
            continue
        name, content = entry.get("name"), entry.get("value")
        if not isinstance(name, str) or not name:
            yield Problem(f"{field}.name", f"is {_shown(name)}; name the variable")
        # The content is not shown: it may be secret.
        if content is not None and not isinstance(content, str):
            yield Problem(f"{field}.value", f"is a {_kind(content)}; write it as text, in quotes")


def _volumes(value: object, where: str) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(where, f"is {_shown(value)}; allowed is a list of volumes")
        return
    names: set[str] = set()
    for index, volume in enumerate(value):
        field = f"{where}[{index}]"
        name = volume.get("name") if isinstance(volume, dict) else None
        if not isinstance(name, str) or not _LABEL.match(name):
            yield Problem(
                f"{field}.name",
                f"is {_shown(name)}; allowed are up to 63 lower-case letters, digits and -",
            )
        elif name in names:
            yield Problem(f"{field}.name", f"{name!r} is the name of two volumes; rename one")
        else:
            names.add(name)


def _kind(value: object) -> str:
    """The JSON type of ``value``, which is not text, in words."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case list():
            return "list"
        case _:
            return "mapping"


def _shown(value: object) -> str:
    """``value`` for a message: short, and never the inside of a mapping."""
    if value is None:
        return "missing"
    if isinstance(value, list | dict):
        return f"a {_kind(value)}"
    return repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."


def _plain(value: object) -> str:
    """``value`` as it would be written in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
