"""What the requests of ``golden_requests`` send: objects, definitions, YAML, good and bad."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json

__all__ = ["BAD_CRDS", "CRD", "UNSTRUCTURED", "YAML", "core", "pod", "widget"]

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.$group"},
    "spec": {
        "group": "$group",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1},
                                    "color": {"type": "string", "default": "red"},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"phase": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
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


def widget(name: str, size: Any = 1, *, spec: Json | None = None, **meta: Any) -> Json:
    """A Widget."""
    return {
        "apiVersion": "$group/v1",
        "kind": "Widget",
        "metadata": {"name": name, **meta},
        "spec": {"size": size, **(spec or {})},
    }


def pod(name: str, **spec: Any) -> Json:
    """A Pod that no scheduler looks at."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}], **spec},
    }


def core(kind: str, name: str, **more: Any) -> Json:
    """An object of the core group."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


HEAD = "apiVersion: v1\nkind: ConfigMap\n"
YAML: dict[str, str] = {
    "yaml, keys that are no text": f"{HEAD}metadata: {{name: y1}}\ndata: {{2: a, true: b}}\n",
    "yaml, a key that is nothing": f"{HEAD}metadata: {{name: y2}}\ndata: {{null: a}}\n",
    "yaml, infinity": f"{HEAD}metadata: {{name: y3}}\ndata: {{a: .inf}}\n",
    "yaml, base64": f"{HEAD}metadata: {{name: y4}}\ndata: {{a: !!binary aGVsbG8=}}\n",
    "yaml, a set": f"{HEAD}metadata: {{name: y5}}\ndata: !!set {{a, b}}\n",
    "yaml, an alias": f"{HEAD}x: &x {{a: b}}\nmetadata: {{name: y6}}\ndata: {{<<: *x, c: d}}\n",
    "yaml, what contains itself": f"{HEAD}metadata: {{name: y7}}\nzz: &a [*a]\n",
    "yaml, a tag of Python's": f"{HEAD}metadata: {{name: y8}}\ndata: !!python/tuple {{}}\n",
    "yaml, two documents": f"{HEAD}metadata: {{name: y9}}\n---\n{HEAD}metadata: {{name: y10}}\n",
    "yaml, base 60": f'{HEAD}metadata: {{name: y11}}\ndata: {{a: 22:22, b: "0o17"}}\n',
    "yaml, a date": f"{HEAD}metadata: {{name: y12}}\ndata: {{a: 2020-01-01}}\n",
    "yaml, a number for a text": f"{HEAD}metadata: {{name: y13}}\ndata: {{a: 017}}\n",
    "yaml, nothing": "",
    "yaml, null": "null",
    "yaml, a text": "hello",
    "yaml, an open quote": f"{HEAD}metadata: {{name: 'y\n",
    "yaml, a tab": "a:\n\t- b\n",
    "yaml, a colon too much": "a: b: c\n",
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
