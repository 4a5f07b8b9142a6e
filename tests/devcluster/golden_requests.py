"""Requests that two API servers must answer alike, in the order in which they are sent.

``asking.ask`` sends them all; ``scripts/golden_apiserver.py`` keeps what a real kube-apiserver
answers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gm.api.meta import Json
from gm.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.devcluster.golden_objects import (
    BAD_CRDS,
    CRD,
    UNSTRUCTURED,
    YAML,
    core,
    pod,
    widget,
)

__all__ = ["STEPS", "Step"]

APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/$group/v1/namespaces/$ns/widgets"
CORE = "/api/v1/namespaces/$ns"


def _same(body: Any) -> Any:
    return body


@dataclass(frozen=True)
class Step:
    """One request. ``$ns``, ``$group`` and what earlier steps saved are filled in.

    ``saves`` names dotted fields of the answer to keep under other names; ``pick`` is the part of
    an answer that is compared.
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
    """Picks the resources of a group, without what depends on the group's name."""
    return [{k: v for k, v in r.items() if k != "storageVersionHash"} for r in body["resources"]]


def fields(*names: str) -> Callable[[Any], Any]:
    """Picks fields of an object."""
    return lambda body: {name: body.get(name) for name in names}


A = f"{WIDGETS}/a"
SSA = f"{WIDGETS}/ssa"
SELECTED = {"labelSelector": "sel=y"}

STEPS: tuple[Step, ...] = (
    post("crd", CRDS, CRD),
    # writing
    post("create", WIDGETS, widget("a"), saves={"old": "metadata.resourceVersion"}),
    post("create what exists", WIDGETS, widget("a")),
    post("create in no namespace", "/apis/$group/v1/namespaces/nope-$ns/widgets", widget("a")),
    post("create with a version", WIDGETS, widget("v", resourceVersion="1")),
    post("create in another namespace", WIDGETS, widget("v", namespace="other")),
    post("create without a name", WIDGETS, widget("")),
    get("no such object", f"{WIDGETS}/zz"),
    get("no such resource", "/apis/$group/v1/nope"),
    get("no such version", "/apis/$group/v2/widgets"),
    get("no such group", "/apis/nope.$group/v1/x"),
    get("no such path", "/nope"),
    put(
        "update",
        A,
        widget("a", 2, resourceVersion="$old"),
        saves={"rv": "metadata.resourceVersion"},
    ),
    put("update a stale one", A, widget("a", 3, resourceVersion="$old")),
    put("update without a version", A, widget("a", 3)),
    put("update under another name", A, widget("b", 3, resourceVersion="$rv")),
    put("update what is not there", f"{WIDGETS}/zz", widget("zz", resourceVersion="$rv")),
    put("update another incarnation", A, widget("a", resourceVersion="$rv", uid="u-1")),
    put(
        "update with a status that is ignored",
        A,
        {**widget("a", 2, resourceVersion="$rv"), "status": {"phase": "X"}},
    ),
    put(
        "update the status with a spec that is ignored",
        f"{A}/status",
        {**widget("a", 9, resourceVersion="$rv"), "status": {"phase": "X"}},
    ),
    get("status", f"{A}/status"),
    patch("patch that changes nothing", A, {"spec": {"size": 2}}),
    patch("json patch", A, [{"op": "test", "path": "/spec/size", "value": 2}], JSON_PATCH),
    patch(
        "json patch whose test fails",
        A,
        [{"op": "test", "path": "/spec/size", "value": 7}],
        JSON_PATCH,
    ),
    patch("json patch that is none", A, {"op": "remove"}, JSON_PATCH),
    patch("json patch of an odd operation", A, [{"op": "zap", "path": "/spec"}], JSON_PATCH),
    patch("merge patch that is none", A, [], MERGE_PATCH),
    patch("merge patch that is no JSON", A, b"{bad"),
    patch("merge patch of a wrong type", A, {"spec": {"size": "x"}}),
    patch("merge patch that removes a required field", A, {"spec": {"size": None}}),
    patch("merge patch of the name", A, {"metadata": {"name": "b"}}),
    patch("merge patch of the kind", A, {"kind": "Other"}),
    patch("merge patch that removes the kind", A, {"kind": None}),
    patch("merge patch of the version", A, {"apiVersion": "$group/v7"}),
    patch("merge patch that removes the metadata", A, {"metadata": None}),
    patch("json patch of the whole", A, [{"op": "replace", "path": "", "value": {}}], JSON_PATCH),
    patch("patch to another namespace", A, {"metadata": {"namespace": "other"}}),
    put("update in another namespace", A, widget("a", namespace="other", resourceVersion="$rv")),
    patch("merge patch of the uid", A, {"metadata": {"uid": "u-1"}}),
    patch(
        "merge patch of what the server owns",
        A,
        {"metadata": {"generation": 77, "creationTimestamp": None}},
    ),
    patch("merge patch with an unknown field", A, {"spec": {"bogus": 1}}),
    patch(
        "merge patch with an unknown field, Strict",
        A,
        {"spec": {"bogus": 1}},
        query={"fieldValidation": "Strict"},
    ),
    patch("merge patch, dry run", A, {"spec": {"size": 8}}, query={"dryRun": "All"}),
    patch(
        "status patch",
        f"{A}/status",
        {"status": {"phase": "Y"}, "metadata": {"labels": {"l": "1"}}},
    ),
    patch("status patch back", f"{A}/status", {"status": {"phase": "X"}}),
    patch("merge patch that empties", A, {"metadata": {"labels": {}}, "status": None}),
    patch("merge patch of a stale one", A, {"metadata": {"resourceVersion": "$old"}}),
    patch("merge patch of what is not there", f"{WIDGETS}/zz", {"spec": {"size": 2}}),
    patch("strategic patch of a custom resource", A, {"spec": {"size": 3}}, STRATEGIC_MERGE_PATCH),
    patch("patch of a wrong content type", A, b"{}", "text/plain"),
    # bodies
    post("no JSON", WIDGETS, b"{bad"),
    post("half of a JSON", WIDGETS, b'{"apiVersion":"$group/v1","kind":"Widget"'),
    post("no body", WIDGETS, b""),
    post("a list for a body", WIDGETS, b"[]"),
    post("an empty object for a body", WIDGETS, {}),
    post("a body without apiVersion", WIDGETS, {"kind": "Widget"}),
    post("unknown content type", WIDGETS, widget("b"), content_type="application/x-foo"),
    post("wrong kind", WIDGETS, {**widget("b"), "kind": "Wrong"}),
    post("wrong version", WIDGETS, {**widget("b"), "apiVersion": "$group/v7"}),
    post("wrong kind for a built-in", f"{CORE}/configmaps", core("Secret", "b")),
    post("no JSON for a built-in", f"{CORE}/configmaps", b"{bad"),
    post("bad name", WIDGETS, widget("Bad_Name")),
    post("bad label and wrong type", WIDGETS, widget("b", "x", labels={"a b": "c"})),
    post("bad label value", WIDGETS, widget("b", labels={"a": "b c"})),
    post("bad annotation key", WIDGETS, widget("b", annotations={"a b": "c"})),
    post("bad owner", WIDGETS, widget("b", ownerReferences=[{"name": "x"}])),
    post("bad finalizer", WIDGETS, widget("b", finalizers=["a b"])),
    post("number for a label", WIDGETS, widget("b", labels={"a": 1})),
    post("too small", WIDGETS, widget("b", 0)),
    post("required field is missing", WIDGETS, {**widget("b"), "spec": {}}),
    post("null for a required field", WIDGETS, widget("b", None)),
    post(
        "unknown field, Warn",
        WIDGETS,
        widget("warn", spec={"bogus": 1}),
        query={"fieldValidation": "Warn"},
    ),
    post("unknown field, by default", WIDGETS, widget("ign", spec={"bogus": 1})),
    post(
        "unknown field, Strict",
        WIDGETS,
        widget("strict", spec={"bogus": 1}),
        query={"fieldValidation": "Strict"},
    ),
    post(
        "unknown field, Ignore",
        WIDGETS,
        widget("quiet", spec={"bogus": 1}),
        query={"fieldValidation": "Ignore", "dryRun": "All"},
    ),
    post(
        "repeated field, Strict",
        WIDGETS,
        b'{"apiVersion":"$group/v1","kind":"Widget","metadata":{"name":"r"},"spec":{"size":1,"size":2}}',
        query={"fieldValidation": "Strict"},
    ),
    post("odd field validation", WIDGETS, widget("b"), query={"fieldValidation": "Foo"}),
    post("odd dry run", WIDGETS, widget("b"), query={"dryRun": "Foo"}),
    post(
        "yaml",
        WIDGETS,
        b"apiVersion: $group/v1\nkind: Widget\nmetadata: {name: y}\nspec: {size: 3}\n",
        content_type="application/yaml",
    ),
    post("no yaml", WIDGETS, b"a: [", content_type="application/yaml"),
    *(
        post(name, f"{CORE}/configmaps", text.encode(), content_type="application/yaml")
        for name, text in YAML.items()
    ),
    *(
        post(
            f"a number: {number}",
            WIDGETS,
            msgspec.json.encode(widget("n", "NUMBER")).replace(b'"NUMBER"', number.encode()),
            query={"dryRun": "All"},
        )
        for number in ("9" * 40, "1e999", "1.5", "2.0", "-0", "1e2")
    ),
    # lists
    get("first page", WIDGETS, query={"limit": "1"}, saves={"more": "metadata.continue"}),
    get("next page", WIDGETS, query={"limit": "1", "continue": "$more"}),
    get("bad continue", WIDGETS, query={"limit": "1", "continue": "zzz"}),
    get("continue that is no base64", WIDGETS, query={"continue": "!"}),
    get(
        "continue with a version",
        WIDGETS,
        query={"limit": "1", "continue": "$more", "resourceVersion": "$rv"},
    ),
    get("bad limit", WIDGETS, query={"limit": "x"}),
    get("selector", WIDGETS, query={"labelSelector": "a in (b,c),!d"}),
    get("bad selector", WIDGETS, query={"labelSelector": "a===b"}),
    get("bad selector: set not closed", WIDGETS, query={"labelSelector": "a in (b"}),
    get("bad selector: key", WIDGETS, query={"labelSelector": "a_=b"}),
    get("bad selector: value", WIDGETS, query={"labelSelector": "a=b c"}),
    get("bad field selector", WIDGETS, query={"fieldSelector": "metadata.name"}),
    get("field selector by name", WIDGETS, query={"fieldSelector": "metadata.name=a"}),
    get("unsupported field selector", WIDGETS, query={"fieldSelector": "spec.size=1"}),
    get(
        "unsupported field selector of pods", "/api/v1/pods", query={"fieldSelector": "spec.foo=1"}
    ),
    get("list at a future version", WIDGETS, query={"resourceVersion": "$future", "limit": "1"}),
    get("list at a bad version", WIDGETS, query={"resourceVersion": "abc"}),
    get(
        "list with an odd match",
        WIDGETS,
        query={"resourceVersion": "1", "resourceVersionMatch": "Foo"},
    ),
    get("list with a match of nothing", WIDGETS, query={"resourceVersionMatch": "Exact"}),
    get(
        "list at version zero, exactly",
        WIDGETS,
        query={"resourceVersion": "0", "resourceVersionMatch": "Exact"},
    ),
    get(
        "list as it was", WIDGETS, query={"resourceVersion": "$rv", "resourceVersionMatch": "Exact"}
    ),
    get("get at version zero", A, query={"resourceVersion": "0"}),
    get("get at a bad version", A, query={"resourceVersion": "abc"}),
    get("table of one", A, accept=TABLE),
    get("metadata only", WIDGETS, accept=PARTIAL),
    get(
        "table without objects",
        WIDGETS,
        query={"limit": "1", "includeObject": "None"},
        accept=TABLE,
    ),
    get("yaml answer", A, accept="application/yaml"),
    get("unknown answer", WIDGETS, accept="image/png"),
    get(
        "protobuf answer of a custom resource",
        WIDGETS,
        accept="application/vnd.kubernetes.protobuf",
    ),
    # watches
    patch("change while watched", A, {"spec": {"size": 11}}),
    delete("delete while watched", f"{WIDGETS}/warn"),
    patch("begin to match", A, {"metadata": {"labels": {"sel": "y"}}}),
    patch("go on matching", A, {"spec": {"size": 13}}),
    patch("cease to match", A, {"metadata": {"labels": {"sel": "n"}}}),
    watch("watch from a version", WIDGETS, resourceVersion="$rv"),
    watch("watch from now", WIDGETS),
    watch("watch from zero", WIDGETS, resourceVersion="0"),
    watch("watch one object", WIDGETS, resourceVersion="$rv", fieldSelector="metadata.name=warn"),
    watch("watch from a version that is too old", WIDGETS, resourceVersion="1"),
    watch("watch from a future version", WIDGETS, resourceVersion="$future"),
    watch("watch from a bad version", WIDGETS, resourceVersion="abc"),
    watch("watch with bookmarks", WIDGETS, resourceVersion="$rv", allowWatchBookmarks="true"),
    watch(
        "watch-list",
        WIDGETS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        resourceVersion="",
    ),
    watch("watch-list without a match", WIDGETS, sendInitialEvents="true"),
    watch("watch with a match", WIDGETS, resourceVersion="1", resourceVersionMatch="Exact"),
    watch("watch with a bad selector", WIDGETS, labelSelector="a===b"),
    watch("watch tables", WIDGETS, TABLE, resourceVersion="$rv"),
    watch(
        "watch what begins and ceases to match",
        WIDGETS,
        resourceVersion="$rv",
        labelSelector="sel=y",
    ),
    get(
        "watch spelled True",
        WIDGETS,
        query={"watch": "True", "timeoutSeconds": "1", "resourceVersion": "0"},
    ),
    # deletion
    patch("add a finalizer", A, {"metadata": {"finalizers": ["x.io/f"]}}),
    delete("delete what has a finalizer", A),
    delete("delete it again", A),
    patch("add a finalizer amid deletion", A, {"metadata": {"finalizers": ["x.io/f", "y.io/g"]}}),
    patch("remove the finalizer", A, {"metadata": {"finalizers": None}}),
    get("gone", A),
    delete("delete what is gone", A),
    delete("delete another incarnation", f"{WIDGETS}/ign", {"preconditions": {"uid": "zzz"}}),
    delete("delete another version", f"{WIDGETS}/ign", {"preconditions": {"resourceVersion": "1"}}),
    delete("delete with odd options", f"{WIDGETS}/ign", {"propagationPolicy": "Foo"}),
    delete("delete with no JSON", f"{WIDGETS}/ign", b"{bad"),
    delete("delete", f"{WIDGETS}/ign"),
    delete("delete all", WIDGETS),
    # server-side apply
    patch("apply", SSA, widget("ssa"), APPLY, query={"fieldManager": "m1"}),
    patch("apply that conflicts", SSA, widget("ssa", 2), APPLY, query={"fieldManager": "m2"}),
    patch(
        "apply by force",
        SSA,
        widget("ssa", 2),
        APPLY,
        query={"fieldManager": "m2", "force": "true"},
    ),
    patch("apply without a manager", SSA, widget("ssa"), APPLY),
    # built-in kinds
    post("secret from text", f"{CORE}/secrets", core("Secret", "s9", stringData={"a": "b"})),
    post("secret that is no base64", f"{CORE}/secrets", core("Secret", "s10", data={"a": "?"})),
    post(
        "service",
        f"{CORE}/services",
        core("Service", "svc", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]}),
    ),
    post("pod", f"{CORE}/pods", pod("pp")),
    post("pod without containers", f"{CORE}/pods", pod("pq", containers=None)),
    patch(
        "strategic patch",
        f"{CORE}/pods/pp",
        {"spec": {"containers": [{"name": "c", "image": "j"}]}},
        STRATEGIC_MERGE_PATCH,
    ),
    patch(
        "strategic patch of what is fixed",
        f"{CORE}/pods/pp",
        {"spec": {"hostNetwork": True}},
        STRATEGIC_MERGE_PATCH,
    ),
    delete("delete a pod without a node", f"{CORE}/pods/pp"),
    post("pod on a node", f"{CORE}/pods", pod("pr", nodeName="n-$ns")),
    delete("delete a pod on a node", f"{CORE}/pods/pr"),
    delete("delete it for good", f"{CORE}/pods/pr", {"gracePeriodSeconds": 0}),
    post("config map", f"{CORE}/configmaps", core("ConfigMap", "c", data={"a": "b"})),
    put("update a built-in without a version", f"{CORE}/configmaps/c", core("ConfigMap", "c")),
    put(
        "update a built-in with a bad version",
        f"{CORE}/configmaps/c",
        {**core("ConfigMap", "c"), "metadata": {"name": "c", "resourceVersion": "abc"}},
    ),
    delete("delete a config map", f"{CORE}/configmaps/c"),
    post(
        "event",
        f"{CORE}/events",
        core(
            "Event",
            "e1",
            involvedObject={
                "apiVersion": "$group/v1",
                "kind": "Widget",
                "namespace": "$ns",
                "name": "a",
            },
            reason="R",
            message="m",
            source={"component": "c"},
            firstTimestamp="2026-01-01T00:00:00Z",
            lastTimestamp="2026-01-01T00:00:00Z",
            count=1,
            type="Normal",
        ),
    ),
    get("events of the newer group", "/apis/events.k8s.io/v1/namespaces/$ns/events"),
    post(
        "lease",
        "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "renewTime": "2026-01-01T00:00:00.000000Z",
            },
        },
    ),
    # the same, asked of a built-in kind
    post(
        "built-in without kind",
        f"{CORE}/configmaps",
        {"metadata": {"name": "d"}},
        query={"dryRun": "All"},
    ),
    post(
        "built-in of another version",
        f"{CORE}/configmaps",
        {**core("ConfigMap", "d"), "apiVersion": "v7"},
    ),
    post("a list for a built-in", f"{CORE}/configmaps", b"[]"),
    post("no body for a built-in", f"{CORE}/configmaps", b""),
    post("no yaml for a built-in", f"{CORE}/configmaps", b"a: [", content_type="application/yaml"),
    post(
        "built-in with an unknown field",
        f"{CORE}/configmaps",
        core("ConfigMap", "d", bogus=1),
        query={"fieldValidation": "Strict"},
    ),
    post(
        "built-in with a field of a wrong type",
        f"{CORE}/configmaps",
        core("ConfigMap", "d", data=[]),
    ),
    post(
        "built-in with a bad label",
        f"{CORE}/configmaps",
        {**core("ConfigMap", "d"), "metadata": {"name": "d", "labels": {"a b": "c"}}},
    ),
    post(
        "built-in",
        f"{CORE}/configmaps",
        {
            **core("ConfigMap", "d", data={"a": "b"}),
            "metadata": {"name": "d", "finalizers": ["x.io/f"]},
        },
        saves={"d": "metadata.resourceVersion"},
    ),
    put("built-in, updated under another name", f"{CORE}/configmaps/d", core("ConfigMap", "e")),
    put(
        "built-in, updated though it is not there", f"{CORE}/configmaps/zz", core("ConfigMap", "zz")
    ),
    put(
        "built-in, updated in another incarnation",
        f"{CORE}/configmaps/d",
        {**core("ConfigMap", "d"), "metadata": {"name": "d", "uid": "u-1"}},
    ),
    patch("built-in, patched to nothing new", f"{CORE}/configmaps/d", {"data": {"a": "b"}}),
    patch("built-in, patched to another kind", f"{CORE}/configmaps/d", {"kind": "Secret"}),
    patch("built-in, patched to another name", f"{CORE}/configmaps/d", {"metadata": {"name": "e"}}),
    patch(
        "built-in, patched with an unknown field",
        f"{CORE}/configmaps/d",
        {"bogus": 1},
        query={"fieldValidation": "Strict"},
    ),
    patch("built-in, patched with a wrong type", f"{CORE}/configmaps/d", {"data": []}),
    patch(
        "built-in, json patch that fails",
        f"{CORE}/configmaps/d",
        [{"op": "remove", "path": "/data/zz"}],
        JSON_PATCH,
    ),
    patch(
        "built-in, strategic patch that is none", f"{CORE}/configmaps/d", [], STRATEGIC_MERGE_PATCH
    ),
    patch("built-in, patched as yaml", f"{CORE}/configmaps/d", b"data: {}", "application/yaml"),
    post(
        "built-in of an unknown content type",
        f"{CORE}/configmaps",
        core("ConfigMap", "d"),
        content_type="application/x-foo",
    ),
    get("built-ins", f"{CORE}/configmaps"),
    get("built-ins as yaml", f"{CORE}/configmaps", accept="application/yaml"),
    get("built-ins as a table", f"{CORE}/configmaps", accept=TABLE),
    get("built-ins, metadata only", f"{CORE}/configmaps", accept=PARTIAL),
    get("no such built-in", f"{CORE}/configmaps/zz"),
    get("part of a built-in that has none", f"{CORE}/configmaps/d/status"),
    get("built-in in a namespace that it has not", f"{CORE}/nodes"),
    watch("watch built-ins", f"{CORE}/configmaps", resourceVersion="$d"),
    watch("watch built-ins from zero", f"{CORE}/configmaps", resourceVersion="0"),
    delete("delete a built-in that has a finalizer", f"{CORE}/configmaps/d"),
    patch(
        "add a finalizer to a built-in amid deletion",
        f"{CORE}/configmaps/d",
        {"metadata": {"finalizers": ["x.io/f", "y.io/g"]}},
    ),
    delete(
        "delete another incarnation of a built-in",
        f"{CORE}/configmaps/d",
        {"preconditions": {"uid": "zzz"}},
    ),
    patch(
        "remove the finalizer of a built-in",
        f"{CORE}/configmaps/d",
        {"metadata": {"finalizers": None}},
    ),
    delete("delete all built-ins", f"{CORE}/configmaps"),
    Step("built-in, posted to an object", "POST", f"{CORE}/configmaps/x", {}),
    Step("built-in, put to a collection", "PUT", f"{CORE}/configmaps", core("ConfigMap", "x")),
    Step(
        "built-in, patch of a collection",
        "PATCH",
        f"{CORE}/configmaps",
        {},
        content_type=MERGE_PATCH,
    ),
    Step("built-in, options", "OPTIONS", f"{CORE}/configmaps"),
    Step("put to a pod's log", "PUT", f"{CORE}/pods/x/log", {}),
    get("log of no pod", f"{CORE}/pods/x/log"),
    post(
        "binding of no pod",
        f"{CORE}/pods/x/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "x"},
            "target": {"kind": "Node", "name": "n"},
        },
    ),
    post(
        "eviction of no pod",
        f"{CORE}/pods/x/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}},
    ),
    # namespaces
    post("namespace", "/api/v1/namespaces", core("Namespace", "$ns-x")),
    post(
        "what holds the namespace",
        "/api/v1/namespaces/$ns-x/configmaps",
        {**core("ConfigMap", "c"), "metadata": {"name": "c", "finalizers": ["x.io/f"]}},
    ),
    delete("delete a namespace", "/api/v1/namespaces/$ns-x"),
    post(
        "create in what is being deleted",
        "/api/v1/namespaces/$ns-x/configmaps",
        core("ConfigMap", "z"),
    ),
    patch(
        "let the namespace go",
        "/api/v1/namespaces/$ns-x/configmaps/c",
        {"metadata": {"finalizers": None}},
        pick=lambda body: None,
    ),
    # definitions
    get("stored crd", f"{CRDS}/widgets.$group"),
    patch(
        "rename the kind of a crd", f"{CRDS}/widgets.$group", {"spec": {"names": {"kind": "Zz"}}}
    ),
    patch("change the scope of a crd", f"{CRDS}/widgets.$group", {"spec": {"scope": "Cluster"}}),
    post("crd without structure", CRDS, UNSTRUCTURED),
    post("crd of a wrong name", CRDS, {**CRD, "metadata": {"name": "gadgets.$group"}}),
    *(post(name, CRDS, body, query={"dryRun": "All"}) for name, body in BAD_CRDS.items()),
    patch(
        "crd whose stored version goes",
        f"{CRDS}/widgets.$group",
        [{"op": "replace", "path": "/spec/versions/0/name", "value": "v2"}],
        JSON_PATCH,
    ),
    patch(
        "crd that becomes nonsense",
        f"{CRDS}/widgets.$group",
        [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/type", "value": "foo"}],
        JSON_PATCH,
    ),
    # methods
    Step("options", "OPTIONS", WIDGETS),
    Step("post to an object", "POST", f"{WIDGETS}/x", {}),
    Step("put to a collection", "PUT", WIDGETS, widget("a")),
    Step("patch of a collection", "PATCH", WIDGETS, {}, content_type=MERGE_PATCH),
    Step("delete of a status", "DELETE", f"{WIDGETS}/x/status"),
    Step("unknown subresource", "GET", f"{WIDGETS}/x/scale"),
    # discovery
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
