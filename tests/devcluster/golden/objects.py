"""Objects that the requests send."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json

__all__ = ["CRD", "core", "pod", "widget"]

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
