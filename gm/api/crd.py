"""CustomResourceDefinitions of ``sedna.io``, generated from the types in :mod:`gm.api.sedna`."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import yaml

from gm.api import resources, sedna
from gm.api.meta import ResourceType
from gm.api.schema import View, schema_of

__all__ = ["CATEGORY", "Column", "crd_yaml", "crds", "crds_yaml"]

CATEGORY = "sedna"


class Column(msgspec.Struct, frozen=True):
    """A column of ``kubectl get``; one that is wide is shown with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    is_wide: bool = False

    def body(self) -> dict[str, Any]:
        """The column as a CustomResourceDefinition has it."""
        body: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**body, "priority": 1} if self.is_wide else body


_AGE = Column("Age", ".metadata.creationTimestamp", "date")


class _Definition(msgspec.Struct, frozen=True, kw_only=True):
    resource: ResourceType
    view: type[View]
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    wide_columns: tuple[Column, ...] = ()


_DEFINITIONS = (
    _Definition(
        resource=resources.DATASETS,
        view=sedna.Dataset,
        # Not `ds`: that is Kubernetes' DaemonSet.
        short_names=("dset",),
        columns=(
            Column("Node", ".spec.nodeName"),
            Column("Samples", ".status.numberOfSamples", "integer"),
            Column("Format", ".spec.format"),
        ),
    ),
    _Definition(
        resource=resources.MODELS,
        view=sedna.Model,
        short_names=("mdl",),
        columns=(
            Column("Format", ".spec.format"),
            Column("URL", ".spec.url"),
            Column("Updated", ".status.updateTime", "date"),
        ),
    ),
    _Definition(
        resource=resources.FEDERATED_LEARNING_JOBS,
        view=sedna.FederatedLearningJob,
        short_names=("fl",),
        columns=(
            Column("Phase", ".status.phase"),
            Column("Round", ".status.round", "integer"),
            Column("Active", ".status.active", "integer"),
            Column("Succeeded", ".status.succeeded", "integer"),
            Column("Failed", ".status.failed", "integer"),
        ),
        # Last, since a message has any length.
        wide_columns=(
            Column("Reason", ".status.reason", is_wide=True),
            Column("Message", ".status.message", is_wide=True),
        ),
    ),
    _Definition(
        resource=resources.JOINT_INFERENCE_SERVICES,
        view=sedna.JointInferenceService,
        short_names=("ji",),
        columns=(Column("Ready", '.status.conditions[?(@.type=="Running")].status'),),
    ),
    _Definition(
        resource=resources.INCREMENTAL_LEARNING_JOBS,
        view=sedna.IncrementalLearningJob,
        short_names=("il",),
        # Conditions are a history: the last one is where the job stands.
        columns=(
            Column("Stage", ".status.conditions[-1:].stage"),
            Column("Status", ".status.conditions[-1:].type"),
        ),
    ),
    _Definition(
        resource=resources.EDGE_NODES,
        view=sedna.EdgeNode,
        short_names=("en",),
        columns=(
            Column("Node", ".metadata.name"),
            Column("Connected", ".status.connected", "boolean"),
            Column("Protocol", ".status.protocol"),
            Column("Pending", ".status.pending", "integer"),
            Column("Held", ".status.held", "integer"),
            Column("Last-Seen", ".status.lastSeen", "date"),
        ),
    ),
)


def crds() -> list[dict[str, Any]]:
    """One CustomResourceDefinition for each kind, as JSON objects."""
    return [_crd(definition) for definition in _DEFINITIONS]


def crd_yaml(crd: dict[str, Any]) -> str:
    """``crd`` as a YAML document, as it lies under deploy/crds."""
    return yaml.dump(crd, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def crds_yaml() -> str:
    """All of them as one YAML stream, for ``kubectl apply -f -``."""
    return "---\n".join(crd_yaml(crd) for crd in crds())


class _Dumper(yaml.SafeDumper):
    """Without anchors, which kubectl reads but people do not."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _crd(definition: _Definition) -> dict[str, Any]:
    resource = definition.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": list(definition.short_names),
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        column.body()
                        for column in (*definition.columns, _AGE, *definition.wide_columns)
                    ],
                    "schema": {"openAPIV3Schema": _root(definition.view)},
                }
            ],
        },
    }


def _root(view: type[View]) -> dict[str, Any]:
    """The schema of a whole object; its metadata is the API server's own business."""
    hints = get_type_hints(view, include_extras=True)
    schema = schema_of(view)
    properties = {
        "apiVersion": {"type": "string", "description": "Group and version of this object."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"},
    }
    properties |= {name: schema_of(hints[name]) for name in ("spec", "status") if name in hints}
    return {**schema, "properties": properties}
