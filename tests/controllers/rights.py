"""What GM asks of an API server, and what the roles of deploy/ let it ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import yaml

__all__ = ["DEPLOY", "Asked", "Right", "documents", "granted", "right_of"]

DEPLOY = Path(__file__).parents[2] / "deploy"

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Right(NamedTuple):
    """As in a rule: ``resource`` with its subresource, ``group`` empty for the core."""

    group: str
    resource: str
    verb: str


class Asked(NamedTuple):
    """A request: a right, and where; ``namespace`` empty: in no namespace, or in all."""

    right: Right
    namespace: str


def right_of(method: str, target: str) -> Asked:
    """What has to be granted for a request."""
    url = urlsplit(target)
    _, root, *rest = url.path.split("/")
    group = rest.pop(0) if root == "apis" else ""
    rest.pop(0)  # the version
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(method) or ("get" if name else "list")
    if verb == "list" and parse_qs(url.query).get("watch") == ["true"]:
        verb = "watch"
    return Asked(
        Right(group, f"{resource}/{subresource}" if subresource else resource, verb), namespace
    )


def documents(file: str) -> list[dict[str, Any]]:
    """The objects of one of deploy's files."""
    return list(yaml.safe_load_all((DEPLOY / file).read_text()))


def granted(file: str, *, role: str) -> set[Right]:
    """All that a role, or cluster role, of the file grants."""
    (found,) = (
        document
        for document in documents(file)
        if document["kind"] in ("Role", "ClusterRole") and document["metadata"]["name"] == role
    )
    return {
        Right(group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
