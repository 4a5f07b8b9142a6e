"""What a pod may be told about itself: fieldRef and resourceFieldRef."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gm.api.meta import Json
from gm.edge_stub.runner.quantity import divide_quantity

__all__ = ["PodFacts"]

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]\Z")


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as its API object has it, and what only its node knows."""

    pod: Json
    node: str
    host_ip: str
    pod_ip: str
    allocatable: Mapping[str, str] = {}

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return str(self.pod["metadata"]["uid"])

    @property
    def spec(self) -> Json:
        """The pod's spec."""
        spec: Json = self.pod["spec"]
        return spec

    def field(self, path: str) -> str:
        """Value of a fieldRef. Raises: ValueError for a path that no kubelet knows either."""
        meta: Json = self.pod["metadata"]
        keyed = _KEYED.match(path)
        if keyed is not None:
            return str((meta.get(keyed[1]) or {}).get(keyed[2], ""))
        try:
            return _FIELDS[path](self)
        except KeyError:
            raise ValueError(f"field label not supported: {path}") from None

    def resource(self, reference: Mapping[str, Any], container: Mapping[str, Any]) -> str:
        """Value of a resourceFieldRef; a limit that is not set is the node's allocatable.

        Raises: ValueError for what is no resource or no quantity.
        """
        wanted = reference.get("containerName")
        if wanted and wanted != container.get("name"):
            container = _container(self.spec, wanted)
        bound, _, name = str(reference.get("resource", "")).partition(".")
        if bound not in ("limits", "requests") or not name:
            raise ValueError(f"resource not supported: {reference.get('resource')}")
        resources = container.get("resources") or {}
        amount = (resources.get(bound) or {}).get(name)
        if amount is None:
            amount = self.allocatable.get(name, "0") if bound == "limits" else "0"
        return str(divide_quantity(str(amount), str(reference.get("divisor") or "1")))


def _container(spec: Json, name: str) -> Mapping[str, Any]:
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        if container["name"] == name:
            found: Mapping[str, Any] = container
            return found
    raise ValueError(f"container {name} not found")


def _map_lines(values: Mapping[str, str] | None) -> str:
    """Labels or annotations as a downwardAPI file has them: sorted ``key="value"`` lines."""
    return "\n".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted((values or {}).items())
    )


_FIELDS: dict[str, Callable[[PodFacts], str]] = {
    "metadata.name": lambda facts: facts.name,
    "metadata.namespace": lambda facts: facts.namespace,
    "metadata.uid": lambda facts: facts.uid,
    "metadata.labels": lambda facts: _map_lines(facts.pod["metadata"].get("labels")),
    "metadata.annotations": lambda facts: _map_lines(facts.pod["metadata"].get("annotations")),
    "spec.nodeName": lambda facts: facts.node,
    "spec.serviceAccountName": lambda facts: str(facts.spec.get("serviceAccountName") or ""),
    "status.hostIP": lambda facts: facts.host_ip,
    "status.hostIPs": lambda facts: facts.host_ip,
    "status.podIP": lambda facts: facts.pod_ip,
    "status.podIPs": lambda facts: facts.pod_ip,
}
