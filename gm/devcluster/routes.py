"""From a URL's path to what it names."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

__all__ = ["Target", "parse_path"]

_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A resource's collection, an object (``name``), or a part of one (``subresource``)."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(raw_path: str) -> Target | None:
    """What ``/api/v1/...`` or ``/apis/GROUP/VERSION/...`` names; None for other paths."""
    if raw_path.startswith("//"):
        return None
    parts = unquote(raw_path).strip("/").split("/")  # in this order, as upstream's routes do
    match parts:
        case ["api", version, plural, *rest]:
            group = ""
        case ["apis", group, version, plural, *rest]:
            pass
        case _:
            return None
    namespace = ""
    if plural == "namespaces" and len(rest) >= 2 and rest[1] not in _NAMESPACE_SUBRESOURCES:
        namespace, plural, *rest = rest
    if rest[1:2] == ["proxy"]:  # what comes after it is another server's
        rest = rest[:2]
    if len(rest) > 2:
        return None
    name, subresource = [*rest, "", ""][:2]
    return Target(
        group=group,
        version=version,
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )
