"""What no client of Kubernetes' own sends: odd parameters, methods, patches and bodies."""

from __future__ import annotations

import base64
from typing import Any

from gm.api.meta import Json
from gm.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.devcluster.golden.objects import core, pod, widget
from tests.devcluster.golden.options import short
from tests.devcluster.golden.steps import CORE, WIDGETS, Step, delete, get, patch, post, put

__all__ = ["STEPS"]

MAPS, PODS = f"{CORE}/configmaps", f"{CORE}/pods"
ODD_MAP, ODD_WIDGET = f"{MAPS}/odd", f"{WIDGETS}/odd"
DRY = {"dryRun": "All"}
TOO_LONG = "9" * 25
LISTS: tuple[dict[str, str], ...] = (
    *({"limit": value} for value in ("", "+1", "1_0", "0x1", "1.0", TOO_LONG)),
    *({"timeoutSeconds": value} for value in ("", "-1", TOO_LONG)),
    *({"timeout": value} for value in ("", "0", "1m30s", "abc", "1", "1d", "99999999999h")),
    *({"resourceVersion": value} for value in ("007", "+1", TOO_LONG)),
    *({"fieldSelector": value} for value in ("=", "!=", ",", " ", "metadata.name =x")),
    *({"labelSelector": value} for value in (" ", "\0", "a\0b", "a=b\0c", "a>-1", "a>1", "a<+1")),
    {"labelSelector": "a>99999999999999999999"},
)
TOKENS = (
    '{"v":"meta.k8s.io/v2","rv":1,"start":"a"}',
    '{"v":"meta.k8s.io/v1","start":"a"}',
    '{"v":"meta.k8s.io/v1","rv":1}',
    '{"v":"meta.k8s.io/v1","rv":1,"start":"../../x"}',
    '{"v":"meta.k8s.io/v1","rv":-1,"start":"zz"}',
    "{}",
    "null",
    "[]",
)
WATCHES: tuple[dict[str, str], ...] = (
    *({"timeoutSeconds": value} for value in ("", TOO_LONG)),
    {"resourceVersion": TOO_LONG, "timeoutSeconds": "1"},
    {"timeout": "abc", "timeoutSeconds": "1"},
)
LOGS: tuple[dict[str, str], ...] = (
    *({"tailLines": value} for value in ("-1", "abc", "", TOO_LONG)),
    *({"limitBytes": value} for value in ("0", "1.5")),
    *({"sinceSeconds": value} for value in ("0", "-1")),
    *({"sinceTime": value} for value in ("abc", "2026-13-01T00:00:00Z")),
    {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"},
    *({"stream": value} for value in ("Stdout", "All", "")),
    {"tailLines": "-1", "limitBytes": "-1", "stream": "x"},
    {"tailLines": "1", "timeout": "abc"},
)
DELETIONS: tuple[dict[str, str], ...] = (
    {"dryRun": ""},
    *({**DRY, "gracePeriodSeconds": value} for value in ("", TOO_LONG)),
    {**DRY, "propagationPolicy": ""},
)
METHODS = (
    *((method, "/api/v1/configmaps") for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
    *((method, "/apis/$group/v1/widgets") for method in ("POST", "PUT", "PATCH", "DELETE")),
    *(("GET", f"/api/v1/pods/x{part}") for part in ("", "/log", "/exec")),
    *(("GET", f"/apis/$group/v1/widgets/x{part}") for part in ("", "/status")),
    *((method, f"{PODS}/x/exec") for method in ("PUT", "DELETE")),
    *((method, f"{PODS}/x/ephemeralcontainers") for method in ("POST", "DELETE")),
    *((method, "/api/v1/namespaces/$ns/finalize") for method in ("GET", "POST", "DELETE")),
    ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x"),
    *(("GET", path) for path in ("/healthz/", "/livez/ping/", "/apis//v1/x")),
    *(("HEAD", path) for path in ("/version", "/api", "/api/v1", "/apis/apps/v1", "/apis")),
    *(("HEAD", path) for path in (WIDGETS, ODD_WIDGET, f"{ODD_WIDGET}/status", ODD_MAP)),
)
PATCHES: tuple[tuple[str, str, bytes], ...] = (
    *(("null", kind, b"null") for kind in (MERGE_PATCH, JSON_PATCH, STRATEGIC_MERGE_PATCH)),
    ("a null for an operation", JSON_PATCH, b"[null]"),
    *(("nothing", kind, b"") for kind in (MERGE_PATCH, JSON_PATCH, STRATEGIC_MERGE_PATCH)),
    *(("{bad", kind, b"{bad") for kind in (MERGE_PATCH, STRATEGIC_MERGE_PATCH)),
    ("a list", STRATEGIC_MERGE_PATCH, b"[]"),
    ("another kind", STRATEGIC_MERGE_PATCH, b'{"kind":"Foo"}'),
    ("another version", STRATEGIC_MERGE_PATCH, b'{"apiVersion":"v9"}'),
    ("a key twice", MERGE_PATCH, b'{"data":{"b":"2"},"data":{"c":"3"}}'),
    ("an operation twice", JSON_PATCH, b'[{"op":"add","op":"test","path":"/kind","value":1}]'),
)
WIDGET_PATCHES: tuple[tuple[str, str, bytes], ...] = (
    ("no version", MERGE_PATCH, b'{"metadata":{"resourceVersion":null}}'),
    ("a version of another group", MERGE_PATCH, b'{"apiVersion":"v9"}'),
    ("a key twice", MERGE_PATCH, b'{"metadata":{},"metadata":{"labels":{"c":"3"}}}'),
    ("null", JSON_PATCH, b"null"),
)
BODIES = {"null": b"null", "nothing but space": b" \n", "two objects": b"{}{}", "an array": b"[]"}
BINDING: Json = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "no"}}
EVICTION: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "no"}}
POSTED: dict[str, Any] = {
    "nothing": {},
    "null": b"null",
    "a pod": core("Pod", "no"),
    "another name": {"metadata": {"name": "yes"}},
    "another namespace": {"metadata": {"name": "no", "namespace": "other"}},
}
FINALIZED: dict[str, Json] = {
    "nothing": {},
    "another": core("Namespace", "other"),
    "a stale one": {"metadata": {"name": "$ns", "resourceVersion": "1"}},
    "no finalizers": {"metadata": {"name": "$ns", "labels": {"a": "b"}}},
    "text for a list": {"metadata": {"name": "$ns"}, "spec": "x"},
    "an unknown field": {"metadata": {"name": "$ns"}, "foo": 1},
}


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _kind(body: Any) -> Any:
    """Picks the kind of a list, in which server-side apply has left something."""
    return body if body.get("kind") == "Status" else body["kind"]


def _spec(body: Any) -> Any:
    return body if body.get("kind") == "Status" else [body.get("spec"), body.get("status")]


STEPS: tuple[Step, ...] = (
    post("an odd map", MAPS, core("ConfigMap", "odd", data={"a": "1"})),
    post("an odd widget", WIDGETS, widget("odd")),
    *(get(f"odd list of maps: {query}", MAPS, query=query, pick=short) for query in LISTS),
    *(get(f"odd list of widgets: {query}", WIDGETS, query=query, pick=_kind) for query in LISTS),
    *(
        get(f"odd token: {token}", WIDGETS, query={"continue": _token(token)}, pick=short)
        for token in TOKENS
    ),
    *(
        get(f"odd watch: {query}", MAPS, query={"watch": "1", **query}, pick=short)
        for query in WATCHES
    ),
    get("one at a version that is too long", ODD_MAP, query={"resourceVersion": TOO_LONG}),
    *(get(f"odd log: {query}", f"{PODS}/no/log", query=query) for query in LOGS),
    post("write with an empty dry run", MAPS, core("ConfigMap", "o2"), query={"dryRun": ""}),
    post("create with a version for a try", WIDGETS, widget("v", resourceVersion="1"), query=DRY),
    *(delete(f"odd deletion: {query}", ODD_MAP, query=query) for query in DELETIONS),
    *(
        Step(f"odd method: {method} {path}", method, path, None if method == "GET" else b"{}")
        for method, path in METHODS
    ),
    *(
        patch(f"odd patch: {name} as {kind}", ODD_MAP, body, kind, query=DRY)
        for name, kind, body in PATCHES
    ),
    patch(
        "odd patch: a key twice, Strict",
        ODD_MAP,
        b'{"data":{"b":"2"},"data":{"c":"3"}}',
        query={**DRY, "fieldValidation": "Strict"},
    ),
    *(
        patch(f"odd patch of a widget: {name}", ODD_WIDGET, body, kind, query=DRY)
        for name, kind, body in WIDGET_PATCHES
    ),
    *(
        post(f"odd body of {kind}: {name}", path, body, query=DRY)
        for kind, path in (("maps", MAPS), ("widgets", WIDGETS))
        for name, body in BODIES.items()
    ),
    put("odd update: null", ODD_MAP, b"null", query=DRY),
    put(
        "odd update: a version that is too long",
        ODD_MAP,
        {**core("ConfigMap", "odd"), "metadata": {"name": "odd", "resourceVersion": TOO_LONG}},
    ),
    post("a list for a widget", WIDGETS, {"apiVersion": "v1", "kind": "List", "items": []}),
    *(
        post(f"odd {part}: {name}", f"{PODS}/no/{part}", body)
        for part in ("binding", "eviction")
        for name, body in POSTED.items()
    ),
    post("odd binding: text for a target", f"{PODS}/no/binding", {**BINDING, "target": "n"}),
    post("odd eviction: text", f"{PODS}/no/eviction", {**EVICTION, "deleteOptions": "x"}),
    post("to be evicted oddly", PODS, pod("oe", schedulerName="none")),
    post(
        "odd eviction: two dry runs",
        f"{PODS}/oe/eviction",
        {**EVICTION, "metadata": {"name": "oe"}, "deleteOptions": {"dryRun": ["x"]}},
        query=DRY,
    ),
    post(
        "odd eviction: of an old version",
        f"{PODS}/oe/eviction",
        {**EVICTION, "apiVersion": "policy/v1beta1", "metadata": {"name": "oe"}, "foo": 1},
    ),
    get("evicted oddly", f"{PODS}/oe"),
    *(
        put(f"odd end: {name}", "/api/v1/namespaces/$ns/finalize", body, query=DRY, pick=_spec)
        for name, body in FINALIZED.items()
    ),
    put(
        "a namespace's status without a phase",
        "/api/v1/namespaces/$ns/status",
        {"metadata": {"name": "$ns"}},
        query=DRY,
        pick=_spec,
    ),
    # what the query says does not count: it would be refused
    delete("deletion by an empty object", ODD_MAP, {}, query={"propagationPolicy": "Foo"}),
    get("deleted by an empty object", ODD_MAP),
    delete("deletion by null", ODD_WIDGET, b"null", query={"propagationPolicy": "Foo"}),
)
