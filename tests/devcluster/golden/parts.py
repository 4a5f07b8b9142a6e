"""What can be done with an object beside writing it: bind, evict, finalize, delete, ask."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from tests.devcluster.golden.objects import core, pod
from tests.devcluster.golden.steps import CORE, Step, delete, get, patch, post, put

__all__ = ["STEPS"]

PODS, MAPS = f"{CORE}/pods", f"{CORE}/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1"


def binding(pod_name: str, **target: str) -> Json:
    """A pod's way to a node."""
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod_name}, "target": target}


def eviction(**fields: Any) -> Json:
    """What a drain sends."""
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "ev"}, **fields}


def review(name: str, kind: str, spec: Json) -> Step:
    """A question of what may be done."""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    return post(name, f"{REVIEWS}/{kind.lower()}s", body)


def conditions(body: Any) -> Any:
    """Picks what has become of a pod."""
    if body.get("kind") == "Status":
        return body
    told = [
        {k: v for k, v in c.items() if k in ("type", "status", "reason", "message")}
        for c in body["status"].get("conditions", ())
    ]
    meta = body["metadata"]
    return {"conditions": told, **{k: meta.get(k) for k in ("deletionGracePeriodSeconds",)}}


DELETIONS: dict[str, Any] = {
    "of an older version": {"kind": "DeleteOptions", "apiVersion": "v1"},
    "of their own version": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
    "of another kind": {"kind": "Foo", "apiVersion": "v1"},
    "that orphan": {"orphanDependents": True, "dryRun": ["All"]},
    "that orphan twice": {"orphanDependents": False, "propagationPolicy": "Orphan"},
    "that orphan by policy": {"propagationPolicy": "Orphan", "dryRun": ["All"]},
    "that wait": {"propagationPolicy": "Foreground", "dryRun": ["All"]},
    "that do not orphan": {"orphanDependents": False},
    "in no time": {"gracePeriodSeconds": -1},
    "with an unknown field": {"bogus": 1},
    "for a try": {"dryRun": ["All"]},
    "for an odd try": {"dryRun": ["Foo"]},
    "without conditions": {"preconditions": {}},
}
STEPS: tuple[Step, ...] = (
    post("unbound", PODS, pod("ub")),
    post("binding to an odd kind", f"{PODS}/ub/binding", binding("ub", kind="Foo", name="n")),
    post("binding to nothing", f"{PODS}/ub/binding", binding("ub")),
    post("binding of another", f"{PODS}/ub/binding", binding("zz", kind="Node", name="n")),
    post("binding", f"{PODS}/ub/binding", binding("ub", kind="Node", name="n1")),
    post("binding of what is bound", f"{PODS}/ub/binding", binding("ub", kind="Node", name="n2")),
    get("bound", f"{PODS}/ub", pick=conditions),
    get("binding is no object", f"{PODS}/ub/binding"),
    get("eviction is no object", f"{PODS}/ub/eviction"),
    get("no such part of a pod", f"{PODS}/ub/foo"),
    post("to be evicted", PODS, pod("ev", nodeName="n")),
    post("eviction for a try", f"{PODS}/ev/eviction", eviction(), query={"dryRun": "All"}),
    get("not evicted", f"{PODS}/ev", pick=conditions),
    post(
        "eviction",
        f"{PODS}/ev/eviction",
        eviction(deleteOptions={"gracePeriodSeconds": 5}),
    ),
    get("evicted", f"{PODS}/ev", pick=conditions),
    patch(
        "a label amid deletion", f"{PODS}/ev", {"metadata": {"labels": {"a": "b"}}}, pick=conditions
    ),
    delete("a shorter time", f"{PODS}/ev", query={"gracePeriodSeconds": "3"}, pick=conditions),
    delete("a longer time", f"{PODS}/ev", query={"gracePeriodSeconds": "10"}, pick=conditions),
    delete("no time", f"{PODS}/ev", query={"gracePeriodSeconds": "0"}, pick=conditions),
    put(
        "another end of a namespace",
        "/api/v1/namespaces/$ns/finalize",
        {**core("Namespace", "$ns"), "spec": {"finalizers": ["kubernetes", "x.io/y"]}},
        pick=lambda body: body.get("spec") or body,
    ),
    put(
        "the usual end of a namespace",
        "/api/v1/namespaces/$ns/finalize",
        {**core("Namespace", "$ns"), "spec": {"finalizers": ["kubernetes"]}},
        pick=lambda body: body.get("spec") or body,
    ),
    delete("the default namespace stays", "/api/v1/namespaces/default"),
    delete("all namespaces stay", "/api/v1/namespaces"),
    *(
        step
        for name, options in DELETIONS.items()
        for step in (
            post(f"to be deleted with options {name}", MAPS, core("ConfigMap", "gone")),
            delete(f"deleted with options {name}", f"{MAPS}/gone", options),
            delete(f"after options {name}", f"{MAPS}/gone", pick=lambda body: body.get("kind")),
        )
    ),
    post("to be deleted at last", MAPS, core("ConfigMap", "gone")),
    delete("deleted oddly", f"{MAPS}/gone", query={"propagationPolicy": "Foo"}),
    delete("deleted in no number", f"{MAPS}/gone", query={"gracePeriodSeconds": "x"}),
    delete(
        "deleted by an odd flag",
        f"{MAPS}/gone",
        query={"orphanDependents": "perhaps", "dryRun": "All"},
    ),
    delete("deleted for a try", f"{MAPS}/gone", query={"dryRun": "All"}),
    delete(
        "deleted as yaml",
        f"{MAPS}/gone",
        b"gracePeriodSeconds: 0\n",
        content_type="application/yaml",
    ),
    review("a review of nothing", "SelfSubjectAccessReview", {}),
    review("rules in no namespace", "SelfSubjectRulesReview", {}),
    post(
        "who am I",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        pick=lambda body: [body["kind"], body["apiVersion"], sorted(body["metadata"])],
    ),
)
