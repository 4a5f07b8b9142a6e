"""One request of the golden table, and the words that the table is written in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gm.api.meta import Json
from gm.kube import MERGE_PATCH

__all__ = [
    "AGGREGATED",
    "APPLY",
    "CORE",
    "CRDS",
    "PARTIAL",
    "TABLE",
    "WIDGETS",
    "A",
    "Step",
    "delete",
    "get",
    "judge",
    "patch",
    "post",
    "put",
    "watch",
]

APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/$group/v1/namespaces/$ns/widgets"
A = f"{WIDGETS}/a"
CORE = "/api/v1/namespaces/$ns"


def _same(body: Any) -> Any:
    return body


@dataclass(frozen=True)
class Step:
    """One request. ``$ns``, ``$group`` and what earlier steps saved are filled in.

    ``saves`` names dotted fields of the answer to keep under other names; ``pick`` is the part of
    an answer that is compared; ``serves`` is a path that is there some time after the answer.
    """

    name: str
    method: str
    path: str
    body: Any = None
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    content_type: str = "application/json"
    accept: str = "application/json"
    saves: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pick: Callable[[Any], Any] = _same
    serves: str = ""


def get(name: str, path: str, **more: Any) -> Step:
    """A read; ``more`` are fields of ``Step``."""
    return Step(name, "GET", path, **more)


def post(name: str, path: str, body: Any, **more: Any) -> Step:
    """A create."""
    return Step(name, "POST", path, body, **more)


def put(name: str, path: str, body: Any, **more: Any) -> Step:
    """An update."""
    return Step(name, "PUT", path, body, **more)


def patch(name: str, path: str, body: Any, content_type: str = MERGE_PATCH, **more: Any) -> Step:
    """A patch."""
    return Step(name, "PATCH", path, body, content_type=content_type, **more)


def delete(name: str, path: str, body: Any = None, **more: Any) -> Step:
    """A deletion."""
    return Step(name, "DELETE", path, body, **more)


def watch(name: str, path: str, accept: str = "application/json", **query: str) -> Step:
    """A watch that lasts for a second; the events are compared."""
    return get(name, path, query={"watch": "1", "timeoutSeconds": "1", **query}, accept=accept)


def judge(name: str, path: str, obj: Json, *fields: str, **more: Any) -> Step:
    """Whether a new object is taken, and what becomes of ``fields``: dotted places.

    Only they are compared, and what is said of an object that is refused.
    """

    def pick(body: Any) -> Any:
        if body["kind"] == "Status":
            return body
        return {field: _at(body, field) for field in fields}

    return post(name, path, obj, query={"dryRun": "All"}, pick=pick, **more)


def _at(body: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else None
        else:
            body = (body or {}).get(part)
    return body
