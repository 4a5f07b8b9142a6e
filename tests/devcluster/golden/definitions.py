"""Definitions of custom resources, and what methods their paths take."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from gm.kube import JSON_PATCH, MERGE_PATCH
from tests.devcluster.golden.objects import CRD, widget
from tests.devcluster.golden.steps import CRDS, WIDGETS, Step, get, patch, post

__all__ = ["STEPS"]

UNSTRUCTURED = {
    **CRD,
    "metadata": {"name": "bads.$group"},
    "spec": {
        **CRD["spec"],
        "names": {"plural": "bads", "kind": "Bad"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"properties": {"spec": {"type": "object"}}}},
            }
        ],
    },
}


def changed_crd(plural: str, version: Json | None = None, **spec: Any) -> Json:
    """The definition of another kind, with changes to its version and its spec."""
    kind = plural.removesuffix("s").capitalize()
    whole = {**CRD["spec"]["versions"][0], **(version or {})}
    return {
        **CRD,
        "metadata": {"name": f"{plural}.$group"},
        "spec": {
            **CRD["spec"],
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [whole],
            **spec,
        },
    }


def schema(**root: Any) -> Json:
    """A version's schema, with these fields at its root."""
    return {"schema": {"openAPIV3Schema": {"type": "object", **root}}}


def field(**of: Any) -> Json:
    """A version's schema with one field in its spec."""
    return schema(properties={"spec": {"type": "object", "properties": {"f": of}}})


VERSION = CRD["spec"]["versions"][0]
BAD_CRDS: dict[str, Json] = {
    "crd that stores nothing": changed_crd("bads", {"storage": False}),
    "crd without versions": changed_crd("bads", versions=[]),
    "crd with a version twice": changed_crd("bads", versions=[VERSION, VERSION]),
    "crd that is nowhere": changed_crd("bads", scope="Foo"),
    "crd with an odd kind": changed_crd("bads", names={"plural": "bads", "kind": "bad_kind"}),
    "crd with an odd type": changed_crd("bads", field(type="foo")),
    "crd without a type": changed_crd("bads", field(description="x")),
    "crd with an array of nothing": changed_crd("bads", field(type="array")),
    "crd with a bad pattern": changed_crd("bads", field(type="string", pattern="(")),
    "crd with a bad default": changed_crd("bads", field(type="integer", default="x")),
    "crd with both kinds of properties": changed_crd(
        "bads", field(type="object", properties={}, additionalProperties={"type": "string"})
    ),
    "crd with a bad column": changed_crd(
        "bads", {"additionalPrinterColumns": [{"name": "A", "type": "foo", "jsonPath": "x"}]}
    ),
    "crd without a schema": changed_crd("bads", {"schema": None}),
    "crd with an odd list type": changed_crd(
        "bads",
        {**field(type="array", items={"type": "string"}, **{"x-kubernetes-list-type": "foo"})},
    ),
    "crd with an unknown field": changed_crd("bads", bogus=1),
}

STEPS: tuple[Step, ...] = (
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
    Step("options", "OPTIONS", WIDGETS),
    Step("post to an object", "POST", f"{WIDGETS}/x", {}),
    Step("put to a collection", "PUT", WIDGETS, widget("a")),
    Step("patch of a collection", "PATCH", WIDGETS, {}, content_type=MERGE_PATCH),
    Step("delete of a status", "DELETE", f"{WIDGETS}/x/status"),
    Step("unknown subresource", "GET", f"{WIDGETS}/x/scale"),
)
