"""JointInferenceService: a small model at the edge, a big one in the cloud for hard examples."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from gm.api.common import (
    NODE_NAME,
    TEMPLATE,
    HardExampleMining,
    Metric,
    PodTemplate,
    Reference,
)
from gm.api.meta import ObjectMeta
from gm.api.schema import View, doc

__all__ = [
    "CloudWorker",
    "EdgeWorker",
    "HorizontalPodAutoscaling",
    "JointInferenceService",
    "JointInferenceServiceSpec",
    "JointInferenceServiceStatus",
    "ServiceCondition",
]


class HorizontalPodAutoscaling(View, frozen=True, kw_only=True):
    """How the worker's Deployment scales; fields as in autoscaling/v2."""

    min_replicas: Annotated[
        int | None, doc("Never fewer replicas than this.", minimum=0, format="int32")
    ] = None
    max_replicas: Annotated[
        int, doc("Never more replicas than this.", required=True, minimum=1, format="int32")
    ] = 0
    metrics: Annotated[
        tuple[dict[str, Any], ...] | None, doc("Metrics that decide, as in autoscaling/v2.")
    ] = None
    behavior: Annotated[dict[str, Any] | None, doc("How fast to scale, as in autoscaling/v2.")] = (
        None
    )


class EdgeWorker(View, frozen=True, kw_only=True):
    """The worker at the edge."""

    model: Annotated[Reference, doc("The small model.", required=True)] = Reference()
    hard_example_mining: Annotated[
        HardExampleMining, doc("Which examples go to the cloud.", required=True)
    ] = HardExampleMining()
    node_name: Annotated[str | None, NODE_NAME] = None
    template: Annotated[PodTemplate | None, TEMPLATE] = None
    hpa: Annotated[HorizontalPodAutoscaling | None, doc("How the worker scales.")] = None


class CloudWorker(View, frozen=True, kw_only=True):
    """The worker in the cloud."""

    model: Annotated[Reference, doc("The big model.", required=True)] = Reference()
    node_name: Annotated[str | None, NODE_NAME] = None
    template: Annotated[PodTemplate | None, TEMPLATE] = None
    hpa: Annotated[HorizontalPodAutoscaling | None, doc("How the worker scales.")] = None


class JointInferenceServiceSpec(View, frozen=True, kw_only=True):
    """The two workers."""

    edge_worker: Annotated[EdgeWorker, doc("The worker at the edge.", required=True)] = EdgeWorker()
    cloud_worker: Annotated[CloudWorker, doc("The worker in the cloud.", required=True)] = (
        CloudWorker()
    )


class ServiceCondition(View, frozen=True, kw_only=True):
    """One statement about the service."""

    type: Annotated[str, doc("Pending, Running, Failed or another type.", required=True)] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    last_heartbeat_time: Annotated[datetime | None, doc("When the condition was last written.")] = (
        None
    )
    last_transition_time: Annotated[datetime | None, doc("When the status last changed.")] = None
    reason: Annotated[str | None, doc("One word for programs.")] = None
    message: Annotated[str | None, doc("A sentence for people.")] = None


class JointInferenceServiceStatus(View, frozen=True, kw_only=True):
    """How the service is doing."""

    conditions: Annotated[
        tuple[ServiceCondition, ...] | None, doc("Statements about the service.")
    ] = None
    start_time: Annotated[datetime | None, doc("When the service was first acted on.")] = None
    active: Annotated[int | None, doc("Workers that run.", format="int32")] = None
    failed: Annotated[int | None, doc("Workers that failed.", format="int32")] = None
    metrics: Annotated[
        tuple[Metric, ...] | None, doc("Metrics that the edge worker reported last.")
    ] = None


class JointInferenceService(View, frozen=True, kw_only=True):
    """A small model at the edge answers; hard examples go to a big one in the cloud."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        JointInferenceServiceSpec, doc("The two workers.", required=True, keep_unknown=True)
    ] = JointInferenceServiceSpec()
    status: Annotated[JointInferenceServiceStatus, doc("How the service is doing.")] = (
        JointInferenceServiceStatus()
    )
