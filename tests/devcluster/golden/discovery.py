"""Discovery, OpenAPI, reviews; and at last the end of the custom kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gm.api.meta import Json
from tests.devcluster.golden.steps import AGGREGATED, CRDS, Step, delete, get, post

__all__ = ["STEPS"]


def named(*names: str) -> Callable[[Any], Any]:
    """Picks the elements of a discovery document that have these names."""

    def pick(body: Any) -> Any:
        items: Iterable[Json] = body.get("resources") or body.get("items") or ()
        return [item for item in items if _name(item) in names]

    return pick


def _name(item: Json) -> str:
    name: str = item.get("name") or item["metadata"].get("name", "")
    return name


def without_hashes(body: Any) -> Any:
    """Picks the resources of a group, in order, without what depends on the group's name."""
    shown = [{k: v for k, v in r.items() if k != "storageVersionHash"} for r in body["resources"]]
    return sorted(shown, key=_name)


def fields(*names: str) -> Callable[[Any], Any]:
    """Picks fields of an object."""
    return lambda body: {name: body.get(name) for name in names}


STEPS: tuple[Step, ...] = (
    get("versions of the core", "/api", pick=fields("kind", "versions")),
    get("versions", "/version", pick=fields("major", "minor")),
    get("group", "/apis/$group"),
    get("groups", "/apis", pick=named("$group", "sedna.io", "apps")),
    get("resources of a group", "/apis/$group/v1", pick=without_hashes),
    get("resources of the core", "/api/v1", pick=named("pods", "pods/status", "services", "nodes")),
    get("aggregated discovery", "/apis", accept=AGGREGATED, pick=named("$group")),
    get(
        "openapi index",
        "/openapi/v3",
        pick=lambda body: sorted(p for p in body["paths"] if "NS" in p),
    ),
    get("openapi of version 2", "/openapi/v2", pick=fields("swagger")),
    post(
        "access review",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        },
    ),
    post(
        "token review",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "t"},
        },
    ),
    delete("delete the crd", f"{CRDS}/widgets.$group", pick=lambda body: None),
)
