"""The subresource ``scale``, of a deployment and of a custom resource."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from gm.kube import JSON_PATCH, STRATEGIC_MERGE_PATCH
from tests.devcluster.golden.objects import CRD
from tests.devcluster.golden.steps import CRDS, TABLE, Step, delete, get, patch, post, put

__all__ = ["STEPS"]

NUMBER: Json = {"type": "object", "properties": {"r": {"type": "integer"}}}
KIND: Json = {
    **CRD,
    "metadata": {"name": "scaled.$group"},
    "spec": {
        **CRD["spec"],
        "names": {"plural": "scaled", "singular": "scale1", "kind": "Scaled"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.n.r",
                        "statusReplicasPath": ".status.n.r",
                        "labelSelectorPath": ".status.sel",
                    },
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"n": NUMBER}},
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}
SELECTOR: Json = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [
        {"key": "c", "operator": "NotIn", "values": ["z", "y"]},
        {"key": "q", "operator": "DoesNotExist"},
        {"key": "a", "operator": "Exists"},
    ],
}
DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "s", "labels": {"x": "y"}},
    "spec": {
        "replicas": 2,
        "selector": SELECTOR,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}


def scale(replicas: Any, name: str = "s", **meta: Any) -> Json:
    """A Scale."""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, "namespace": "$ns", **meta},
        "spec": {} if replicas is None else {"replicas": replicas},
    }


def scaling(kind: str, path: str) -> tuple[Step, ...]:
    """What can be asked of the scale of an object."""
    there = f"{path}/s/scale"
    strict = {"fieldValidation": "Strict"}
    return (
        get(f"{kind}: scale", there),
        get(f"{kind}: scale as a table", there, accept=TABLE),
        put(f"{kind}: scale to 3", there, scale(3)),
        put(f"{kind}: scale to less than nothing", there, scale(-1)),
        put(f"{kind}: scale of an old version", there, scale(4, resourceVersion="1")),
        put(f"{kind}: scale of another incarnation", there, scale(4, uid="u-1")),
        put(f"{kind}: scale of another name", there, scale(4, "other")),
        put(f"{kind}: scale of no name", there, {}),
        put(f"{kind}: scale for a try", there, scale(9), query={"dryRun": "All"}),
        put(f"{kind}: scale to nothing", there, scale(None)),
        patch(f"{kind}: scale by a patch", there, {"spec": {"replicas": 5}}),
        patch(f"{kind}: scale to a text", there, {"spec": {"replicas": "x"}}),
        patch(f"{kind}: scale to too many", there, {"spec": {"replicas": 10**10}}),
        patch(f"{kind}: scale with an unknown field", there, {"spec": {"bogus": 1}}),
        patch(f"{kind}: scale, strictly", there, {"spec": {"bogus": 1}}, query=strict),
        patch(f"{kind}: scale of an older version", there, {"metadata": {"resourceVersion": "1"}}),
        patch(
            f"{kind}: scale by an operation",
            there,
            [{"op": "replace", "path": "/spec/replicas", "value": 6}],
            JSON_PATCH,
        ),
        patch(
            f"{kind}: scale by a test that fails",
            there,
            [{"op": "test", "path": "/spec/replicas", "value": 99}],
            JSON_PATCH,
        ),
        patch(
            f"{kind}: scale strategically", there, {"spec": {"replicas": 8}}, STRATEGIC_MERGE_PATCH
        ),
        get(f"{kind}: scale of what is not there", f"{path}/zz/scale"),
        put(f"{kind}: scale to what is not there", f"{path}/zz/scale", scale(1, "zz")),
        delete(f"{kind}: scale is no object", there),
        post(f"{kind}: scale is there already", there, {}),
        get(
            f"{kind}: what has been scaled",
            f"{path}/s",
            pick=lambda body: {"generation": body["metadata"]["generation"], "spec": body["spec"]},
        ),
    )


SCALED = "/apis/$group/v1/namespaces/$ns/scaled"
STEPS: tuple[Step, ...] = (
    Step("to be scaled", "POST", "/apis/apps/v1/namespaces/$ns/deployments", DEPLOYMENT),
    *scaling("deployment", "/apis/apps/v1/namespaces/$ns/deployments"),
    post("a kind that is scaled", CRDS, KIND, pick=lambda body: None, serves=SCALED),
    post(
        "scaled", SCALED, {"apiVersion": "$group/v1", "kind": "Scaled", "metadata": {"name": "s"}}
    ),
    get("scale of what says no number", f"{SCALED}/s/scale"),
    put("scale to a first number", f"{SCALED}/s/scale", scale(1)),
    patch("scaled to", f"{SCALED}/s/status", {"status": {"n": {"r": 4}, "sel": "a=b"}}),
    *scaling("custom", SCALED),
    patch("a number below zero", f"{SCALED}/s", {"spec": {"n": {"r": -1}}}),
    patch("a number that is large", f"{SCALED}/s", {"spec": {"n": {"r": 2**33}}}),
    patch("a count below zero", f"{SCALED}/s/status", {"status": {"n": {"r": -4}}}),
    patch("a count that is a text", f"{SCALED}/s/status", {"status": {"n": {"r": "x"}}}),
    patch("a selector that is a number", f"{SCALED}/s/status", {"status": {"sel": 5}}),
)
