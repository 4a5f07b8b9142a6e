"""What several kinds of ``sedna.io/v1alpha1`` are made of."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from gm.api.podtemplate import PodTemplateSpec
from gm.api.schema import View, doc

__all__ = [
    "CREDENTIAL_NAME",
    "NODE_NAME",
    "PLACES",
    "TEMPLATE",
    "HardExampleMining",
    "Metric",
    "Parameter",
    "PodTemplate",
    "Reference",
    "StatusCondition",
    "TemplateMetadata",
]

PLACES = "an absolute path on the node, s3://bucket/key or an http(s):// URL"
CREDENTIAL_NAME = doc("Secret with the S3 credentials, in the same namespace.")
TEMPLATE = doc(
    "The pod to make, as in a Deployment; fields that are not listed here are kept too.",
    required=True,
    keep_unknown=True,
    schema_of=PodTemplateSpec,
)
NODE_NAME = doc("Node of the worker; an older way to write template.spec.nodeName.")


class Reference(View, frozen=True, kw_only=True):
    """Another object of the same namespace."""

    name: Annotated[
        str, doc("Name of the object, in the namespace of this one.", required=True)
    ] = ""


class Metric(View, frozen=True, kw_only=True):
    """A measured value."""

    key: Annotated[str, doc("What was measured.", required=True)] = ""
    value: Annotated[str, doc("The value, as text or JSON.", required=True)] = ""


class StatusCondition(View, frozen=True, kw_only=True):
    """One statement about an object; at most one of each type is kept."""

    type: Annotated[str, doc("What the statement is about.", required=True)] = ""
    status: Annotated[
        str, doc("True, False or Unknown.", required=True, enum=["True", "False", "Unknown"])
    ] = ""
    last_probe_time: Annotated[datetime | None, doc("When the condition was last looked at.")] = (
        None
    )
    last_heartbeat_time: Annotated[datetime | None, doc("When the condition was last written.")] = (
        None
    )
    last_transition_time: Annotated[datetime | None, doc("When the status last changed.")] = None
    reason: Annotated[str | None, doc("One word for programs.")] = None
    message: Annotated[str | None, doc("A sentence for people.")] = None


class TemplateMetadata(View, frozen=True, kw_only=True):
    """The metadata that every pod made from the template gets."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplate(View, frozen=True, kw_only=True):
    """A pod template as the user wrote it: ``spec`` holds every field, also unknown ones."""

    metadata: TemplateMetadata | None = None
    spec: dict[str, Any] | None = None


class Parameter(View, frozen=True, kw_only=True):
    """A named parameter of an algorithm."""

    key: Annotated[str, doc("Name of the parameter.", required=True)] = ""
    value: Annotated[str, doc("Its value.", required=True)] = ""


class HardExampleMining(View, frozen=True, kw_only=True):
    """How hard examples are told from easy ones."""

    name: Annotated[str, doc("Name of the algorithm.", required=True)] = ""
    parameters: Annotated[tuple[Parameter, ...] | None, doc("Parameters of the algorithm.")] = None
