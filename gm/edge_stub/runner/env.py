"""A container's environment variables: values, references, and ``$(VAR)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gm.edge_stub.runner.facts import PodFacts
from gm.errors import GmError

__all__ = ["ConfigProblem", "Source", "Sources", "container_env", "expand", "references"]

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


class ConfigProblem(GmError):
    """What a container refers to is missing or can not be used; it may come yet."""


class Source(msgspec.Struct, frozen=True, order=True):
    """A Secret or ConfigMap of the pod's namespace; ``kind`` is one of these words."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.name!r}"


Sources = Mapping[Source, Mapping[str, bytes] | None]
"""The data of each source, decoded; None where there is no such object."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """``text`` with each ``$(NAME)`` replaced; unknown ones stay, ``$$`` stands for ``$``."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def references(container: Mapping[str, Any]) -> Iterator[Source]:
    """The Secrets and ConfigMaps that the container's environment is made from."""
    for entry in container.get("envFrom") or ():
        if entry.get("secretRef"):
            yield Source("Secret", entry["secretRef"].get("name", ""))
        if entry.get("configMapRef"):
            yield Source("ConfigMap", entry["configMapRef"].get("name", ""))
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        if origin.get("secretKeyRef"):
            yield Source("Secret", origin["secretKeyRef"].get("name", ""))
        if origin.get("configMapKeyRef"):
            yield Source("ConfigMap", origin["configMapKeyRef"].get("name", ""))


def container_env(
    container: Mapping[str, Any], facts: PodFacts, sources: Sources
) -> dict[str, str]:
    """The variables that the pod's author asked for, in the order of their making.

    ``sources`` has an entry for each of `references`. A later variable of the same name wins,
    and ``$(VAR)`` sees only earlier ones, as in a kubelet.
    Raises: ConfigProblem, saying what is missing.
    """
    env: dict[str, str] = {}
    for entry in container.get("envFrom") or ():
        for kind, field in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
            if entry.get(field):
                prefix = entry.get("prefix") or ""
                for key, data in _all_of(kind, entry[field], sources).items():
                    env[prefix + key] = data.decode(errors="replace")
    for variable in container.get("env") or ():
        value = _value(variable, container, facts, sources, env)
        if value is not None:
            env[variable["name"]] = value
    return env


def _value(
    variable: Mapping[str, Any],
    container: Mapping[str, Any],
    facts: PodFacts,
    sources: Sources,
    env: Mapping[str, str],
) -> str | None:
    origin = variable.get("valueFrom")
    if not origin:
        return expand(variable.get("value") or "", env)
    try:
        if origin.get("fieldRef"):
            return facts.field(origin["fieldRef"].get("fieldPath", ""))
        if origin.get("resourceFieldRef"):
            return facts.resource(origin["resourceFieldRef"], container)
    except ValueError as exc:
        raise ConfigProblem(f"variable {variable['name']}: {exc}") from exc
    for kind, field in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
        if origin.get(field):
            return _key_of(kind, origin[field], sources, facts.namespace)
    raise ConfigProblem(f"variable {variable['name']}: the runner does not know its valueFrom")


def _all_of(kind: str, reference: Mapping[str, Any], sources: Sources) -> Mapping[str, bytes]:
    source = Source(kind, reference.get("name", ""))
    data = sources[source]
    if data is None:
        if reference.get("optional"):
            return {}
        raise ConfigProblem(f'{kind.lower()} "{source.name}" not found')
    return data


def _key_of(
    kind: str, reference: Mapping[str, Any], sources: Sources, namespace: str
) -> str | None:
    data, key = _all_of(kind, reference, sources), reference.get("key", "")
    if key in data:
        return data[key].decode(errors="replace")
    if reference.get("optional"):
        return None
    raise ConfigProblem(f"couldn't find key {key} in {kind} {namespace}/{reference.get('name')}")
