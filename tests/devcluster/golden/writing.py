"""Writes of a custom resource: create, update, patch; what ``a`` is afterwards."""

from __future__ import annotations

from gm.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.devcluster.golden.objects import CRD, widget
from tests.devcluster.golden.steps import CRDS, WIDGETS, A, Step, get, patch, post, put

__all__ = ["STEPS"]

STEPS: tuple[Step, ...] = (
    post("crd", CRDS, CRD, serves=WIDGETS),
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
)
