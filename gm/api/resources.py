"""The kinds that this program reads or writes."""

from __future__ import annotations

from gm.api.meta import ResourceType

__all__ = [
    "CONFIG_MAPS",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "DATASETS",
    "DEPLOYMENTS",
    "EDGE_NODES",
    "EVENTS",
    "FEDERATED_LEARNING_JOBS",
    "GROUP",
    "IF_ABSENT",
    "INCREMENTAL_LEARNING_JOBS",
    "JOINT_INFERENCE_SERVICES",
    "LEASES",
    "MODELS",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SECRETS",
    "SERVICES",
    "VERSION",
]

GROUP = "sedna.io"
VERSION = "v1alpha1"
IF_ABSENT = "apply deploy/crds, or run `gm crds | kubectl apply -f -`"
"""What to do when an API server does not know the kinds of ``GROUP``."""

PODS = ResourceType(version="v1", kind="Pod", plural="pods")
SERVICES = ResourceType(version="v1", kind="Service", plural="services")
SECRETS = ResourceType(version="v1", kind="Secret", plural="secrets")
CONFIG_MAPS = ResourceType(version="v1", kind="ConfigMap", plural="configmaps")
EVENTS = ResourceType(version="v1", kind="Event", plural="events")
NODES = ResourceType(version="v1", kind="Node", plural="nodes", namespaced=False)
NAMESPACES = ResourceType(version="v1", kind="Namespace", plural="namespaces", namespaced=False)
LEASES = ResourceType(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases")
DEPLOYMENTS = ResourceType(group="apps", version="v1", kind="Deployment", plural="deployments")
CUSTOM_RESOURCE_DEFINITIONS = ResourceType(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)


def _sedna(kind: str, *, plural: str = "", namespaced: bool = True) -> ResourceType:
    return ResourceType(
        group=GROUP,
        version=VERSION,
        kind=kind,
        plural=plural or kind.lower() + "s",
        namespaced=namespaced,
    )


DATASETS = _sedna("Dataset")
MODELS = _sedna("Model")
FEDERATED_LEARNING_JOBS = _sedna("FederatedLearningJob")
JOINT_INFERENCE_SERVICES = _sedna("JointInferenceService")
INCREMENTAL_LEARNING_JOBS = _sedna("IncrementalLearningJob")
EDGE_NODES = _sedna("EdgeNode", namespaced=False)
