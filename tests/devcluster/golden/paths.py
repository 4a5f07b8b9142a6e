"""Paths at which something is, and others; methods that are taken, and others."""

from __future__ import annotations

from typing import Any

from tests.devcluster.golden.steps import CORE, Step

__all__ = ["STEPS"]

HERE = (
    "/api/",
    "/api/v1/",
    "/apis/",
    "/apis/apps",
    "/apis/apps/",
    "/apis/apps/v1/",
    "/healthz",
    "/livez",
    "/readyz",
    "/healthz/ping",
    "/readyz/ping",
    f"{CORE}/pods/",
    f"{CORE}/",
    "/api/v1/namespaces/nope-$ns/pods",
    "/api/v1/namespaces/nope-$ns/pods/x",
)
NOT_HERE = (
    "/apis/apps/v9",
    "/apis/nope/v1",
    "/api/v2",
    "/api/v1/foo",
    f"{CORE}/pods/a/b/c",
    f"{CORE}/replicationcontrollers/a/b/c",
    "//api/v1/pods",
    "/api/v1//pods",
    "/readyz/nope",
    "/healthz/nope",
    "/version/nope",
    "/openapi",
    "/openapi/v3/apis/nope/v1",
    "/openapi/v3/api",
    "/swagger.json",
    "/apis/apps/v1/namespaces/$ns",
    "/apis/apps/v1/namespaces/$ns/nope",
)
METHODS = (
    ("POST", "/version"),
    ("DELETE", "/version"),
    ("POST", "/api"),
    ("PUT", "/apis"),
    ("POST", "/apis/apps"),
    ("PATCH", "/apis/apps/v1"),
    ("PATCH", "/healthz"),
    ("OPTIONS", f"{CORE}/configmaps"),
)


def kinds(body: Any) -> Any:
    """Picks what kind an answer is of; that of what is not there as a whole."""
    return body if body.get("kind") == "Status" else body.get("kind")


STEPS: tuple[Step, ...] = (
    *(Step(f"here: {path}", "GET", path, pick=kinds) for path in HERE),
    *(Step(f"not here: {path}", "GET", path, pick=kinds) for path in NOT_HERE),
    *(Step(f"{method} {path}", method, path, {}, pick=kinds) for method, path in METHODS),
)
