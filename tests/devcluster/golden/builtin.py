"""Built-in kinds: what differs from custom ones, and then the same again."""

from __future__ import annotations

from gm.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.devcluster.golden.objects import core, pod
from tests.devcluster.golden.steps import (
    CORE,
    PARTIAL,
    TABLE,
    Step,
    delete,
    get,
    patch,
    post,
    put,
    watch,
)

__all__ = ["STEPS"]

STEPS: tuple[Step, ...] = (
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
    get(
        "events of the newer group",
        "/apis/events.k8s.io/v1/namespaces/$ns/events",
        query={"fieldSelector": "metadata.name=e1"},
    ),
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
)
