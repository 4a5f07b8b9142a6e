"""Patches of all types of a pod, sensible ones and others."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from gm.kube import JSON_PATCH, STRATEGIC_MERGE_PATCH
from tests.devcluster.golden.steps import CORE, Step, patch, post

__all__ = ["STEPS"]

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "much-changed",
        "labels": {"a": "b"},
        "finalizers": ["a.b/c"],
    },
    "spec": {
        "schedulerName": "none",
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}]},
            {"name": "d", "image": "i"},
        ],
        "tolerations": [{"key": "t", "operator": "Exists"}],
    },
}
TOLERANCE: Json = {"key": "z", "operator": "Exists"}
OPERATIONS: dict[str, Any] = {
    "adds a label": [{"op": "add", "path": "/metadata/labels/x", "value": "y"}],
    "adds to nothing": [{"op": "add", "path": "/metadata/annotations/x", "value": "y"}],
    "replaces nothing": [{"op": "replace", "path": "/metadata/labels/zz", "value": "y"}],
    "removes nothing": [{"op": "remove", "path": "/metadata/labels/zz"}],
    "appends": [{"op": "add", "path": "/spec/tolerations/-", "value": TOLERANCE}],
    "inserts": [{"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/d"}],
    "inserts too far": [{"op": "add", "path": "/metadata/finalizers/9", "value": "a.b/d"}],
    "removes the last": [{"op": "remove", "path": "/metadata/finalizers/-1"}],
    "removes the one before the first": [{"op": "remove", "path": "/metadata/finalizers/-2"}],
    "removes too far": [{"op": "remove", "path": "/metadata/finalizers/9"}],
    "has an odd index": [{"op": "remove", "path": "/metadata/finalizers/x"}],
    "tests null": [{"op": "test", "path": "/metadata/annotations", "value": None}],
    "tests nothing": [{"op": "test", "path": "/metadata/zz", "value": "x"}],
    "tests what is another": [{"op": "test", "path": "/metadata/name", "value": "x"}],
    "moves": [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}],
    "moves nothing": [{"op": "move", "from": "/metadata/labels/q", "path": "/metadata/labels/b"}],
    "copies": [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/c"}],
    "copies nothing": [{"op": "copy", "from": "/zz", "path": "/metadata/labels/c"}],
    "has no value": [{"op": "add", "path": "/metadata/labels/d"}],
    "has no operation": [{"path": "/x"}],
    "has no path": [{"op": "add", "value": 1}],
    "has an odd path": [{"op": "add", "path": "x", "value": 1}],
    "is of lists": [[]],
    "is of texts": ["x"],
    "goes nowhere": [{"op": "add", "path": "/a/b/c", "value": 1}],
    "goes into a text": [{"op": "add", "path": "/metadata/name/b", "value": 1}],
    "escapes": [{"op": "add", "path": "/metadata/labels/x.io~1y", "value": "z"}],
    "is empty": [],
    "removes the metadata": [{"op": "remove", "path": "/metadata"}],
    "removes all": [{"op": "remove", "path": ""}],
    "tests the whole": [{"op": "test", "path": "", "value": {}}],
    "makes and removes": [
        {"op": "add", "path": "/metadata/annotations", "value": {"z": "1"}},
        {"op": "remove", "path": "/metadata/annotations/z"},
    ],
}
MERGES: dict[str, Any] = {
    "one variable": {"spec": {"containers": [{"name": "c", "env": [{"name": "E", "value": "2"}]}]}},
    "an image": {"spec": {"containers": [{"name": "d", "image": "j"}]}},
    "a container without a name": {"spec": {"containers": [{"image": "x"}]}},
    "a new container": {"spec": {"containers": [{"name": "new", "image": "x"}]}},
    "a container that goes": {"spec": {"containers": [{"name": "d", "$patch": "delete"}]}},
    "an order": {"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}]}},
    "an order of others": {"spec": {"$setElementOrder/containers": [{"name": "zz"}]}},
    "metadata anew": {"metadata": {"$patch": "replace", "name": "much-changed"}},
    "labels anew": {"metadata": {"labels": {"$patch": "replace", "only": "1"}}},
    "no labels": {"metadata": {"labels": {"$patch": "delete"}}},
    "no label": {"metadata": {"labels": {"a": None}}},
    "a finalizer": {"metadata": {"finalizers": ["a.b/d"]}},
    "a finalizer less": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}},
    "a text for containers": {"spec": {"containers": "x"}},
    "numbers for containers": {"spec": {"containers": [5]}},
    "an odd directive": {"$patch": "foo"},
    "an odd directive for an element": {"spec": {"containers": [{"name": "c", "$patch": "foo"}]}},
    "keys to keep": {"spec": {"$retainKeys": ["containers"]}},
    "a toleration": {"spec": {"tolerations": [TOLERANCE]}},
    "a volume": {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
    "a null": {"spec": None},
}


def changed(body: Any) -> Any:
    """Picks what the patches change."""
    if body.get("kind") == "Status":
        return body
    meta, spec = body["metadata"], body["spec"]
    return {
        **{field: meta.get(field) for field in ("labels", "annotations", "finalizers")},
        "tolerations": spec["tolerations"],
        "containers": [[c["name"], c["image"], c.get("env")] for c in spec["containers"]],
    }


THERE = f"{CORE}/pods/much-changed"
DRY = {"dryRun": "All"}
STEPS: tuple[Step, ...] = (
    post("a pod to change", f"{CORE}/pods", POD),
    *(
        patch(f"a patch that {name}", THERE, body, JSON_PATCH, query=DRY, pick=changed)
        for name, body in OPERATIONS.items()
    ),
    *(
        patch(f"a change of {name}", THERE, body, STRATEGIC_MERGE_PATCH, query=DRY, pick=changed)
        for name, body in MERGES.items()
    ),
)
