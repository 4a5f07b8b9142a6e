"""What Go leaves out of the built-in kinds (``omitempty``), as far as their OpenAPI does not tell.

An empty text in a pointer is written out (``type: ""``); one in a plain field is left out, which
is what all optional texts are that are not named here. Of numbers and booleans most are pointers;
those that are not are named. Source: the ``types.go`` files of k8s.io/api.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_left_out", "is_written_null"]


def _fields(prefix: str, structs: dict[str, str]) -> frozenset[str]:
    return frozenset(
        f"{prefix}.{struct}.{field}" for struct, names in structs.items() for field in names.split()
    )


_POINTERS = (  # texts
    _fields(
        "core.v1",
        {
            "AppArmorProfile": "localhostProfile",
            "AzureDiskVolumeSource": "cachingMode fsType",
            "CSIVolumeSource": "fsType",
            "ClusterTrustBundleProjection": "name signerName",
            "Container": "restartPolicy",
            "ContainerStatus": "stopSignal",
            "EndpointAddress": "nodeName",
            "EndpointPort": "appProtocol",
            "EphemeralContainer": "restartPolicy",
            "GRPCAction": "service",
            "HostPathVolumeSource": "type",
            "ISCSIVolumeSource": "initiatorName",
            "Lifecycle": "stopSignal",
            "LoadBalancerIngress": "ipMode",
            "PersistentVolumeClaimSpec": "storageClassName volumeAttributesClassName volumeMode",
            "PersistentVolumeClaimStatus": "currentVolumeAttributesClassName",
            "PodDNSConfigOption": "value",
            "PodResourceClaim": "resourceClaimName resourceClaimTemplateName",
            "PodResourceClaimStatus": "resourceClaimName",
            "PodSecurityContext": "fsGroupChangePolicy seLinuxChangePolicy "
            "supplementalGroupsPolicy",
            "PodSpec": "hostnameOverride preemptionPolicy runtimeClassName",
            "PortStatus": "error",
            "SeccompProfile": "localhostProfile",
            "SecurityContext": "procMount",
            "ServicePort": "appProtocol",
            "ServiceSpec": "internalTrafficPolicy ipFamilyPolicy loadBalancerClass "
            "trafficDistribution",
            "TopologySpreadConstraint": "nodeAffinityPolicy nodeTaintsPolicy",
            "TypedLocalObjectReference": "apiGroup",
            "TypedObjectReference": "apiGroup namespace",
            "VolumeMount": "mountPropagation recursiveReadOnly",
            "VolumeMountStatus": "recursiveReadOnly",
            "WindowsSecurityContextOptions": "gmsaCredentialSpec gmsaCredentialSpecName "
            "runAsUserName",
        },
    )
    | _fields("autoscaling.v2", {"HPAScalingRules": "selectPolicy"})
    | _fields("coordination.v1", {"LeaseSpec": "holderIdentity preferredHolder strategy"})
    | _fields(
        "discovery.v1",
        {"Endpoint": "hostname nodeName zone", "EndpointPort": "appProtocol name protocol"},
    )
    | _fields(
        "apiextensions.v1",
        {
            "CustomResourceDefinitionVersion": "deprecationWarning",
            "CustomResourceSubresourceScale": "labelSelectorPath",
            "JSONSchemaProps": "$ref x-kubernetes-list-type x-kubernetes-map-type",
            "ServiceReference": "path",
            "ValidationRule": "reason",
            "WebhookClientConfig": "url",
        },
    )
)

_ALWAYS_WRITTEN = _fields("core.v1", {"Event": "reportingComponent reportingInstance"})

_PLAIN = (  # numbers and booleans
    _fields(
        "core.v1",
        {
            "Container": "stdin stdinOnce tty",
            "ContainerImage": "sizeBytes",
            "ContainerPort": "hostPort",
            "ContainerStateTerminated": "signal",
            "EphemeralContainer": "stdin stdinOnce tty",
            "Event": "count",
            "EventSeries": "count",
            "NFSVolumeSource": "readOnly",
            "NodeSpec": "unschedulable",
            "PersistentVolumeClaimVolumeSource": "readOnly",
            "PodCondition": "observedGeneration",
            "PodSpec": "hostIPC hostNetwork hostPID",
            "PodStatus": "observedGeneration",
            "Probe": "failureThreshold initialDelaySeconds periodSeconds successThreshold "
            "timeoutSeconds",
            "ServicePort": "nodePort",
            "ServiceSpec": "healthCheckNodePort publishNotReadyAddresses",
            "VolumeMount": "readOnly",
        },
    )
    | _fields(
        "apps.v1",
        {
            "DeploymentSpec": "minReadySeconds paused",
            "DeploymentStatus": "availableReplicas observedGeneration readyReplicas replicas "
            "unavailableReplicas updatedReplicas",
            "ReplicaSetSpec": "minReadySeconds",
            "ReplicaSetStatus": "availableReplicas fullyLabeledReplicas observedGeneration "
            "readyReplicas",
        },
    )
    | _fields("autoscaling.v2", {"HorizontalPodAutoscalerStatus": "currentReplicas"})
    | _fields(
        "apiextensions.v1",
        {
            "CustomResourceColumnDefinition": "priority",
            "CustomResourceDefinitionSpec": "preserveUnknownFields",
            "CustomResourceDefinitionVersion": "deprecated",
            "JSONSchemaProps": "exclusiveMaximum exclusiveMinimum nullable uniqueItems "
            "x-kubernetes-embedded-resource x-kubernetes-int-or-string",
        },
    )
)


_TIMES = (
    _fields(
        "core.v1",
        {
            "ContainerStateRunning": "startedAt",
            "ContainerStateTerminated": "finishedAt startedAt",
            "Event": "eventTime firstTimestamp lastTimestamp",
            "NamespaceCondition": "lastTransitionTime",
            "NodeCondition": "lastHeartbeatTime lastTransitionTime",
            "PersistentVolumeClaimCondition": "lastProbeTime lastTransitionTime",
            "PodCondition": "lastProbeTime lastTransitionTime",
        },
    )
    | _fields(
        "apps.v1",
        {
            "DeploymentCondition": "lastTransitionTime lastUpdateTime",
            "ReplicaSetCondition": "lastTransitionTime",
        },
    )
    | _fields("autoscaling.v2", {"HorizontalPodAutoscalerCondition": "lastTransitionTime"})
    | _fields("apiextensions.v1", {"CustomResourceDefinitionCondition": "lastTransitionTime"})
    | _fields("events.v1", {"Event": "deprecatedFirstTimestamp deprecatedLastTimestamp eventTime"})
)


def is_written_null(struct: str, field: str) -> bool:
    """Whether Go writes ``null`` where there is no time: in fields that are no pointers."""
    return f"{'.'.join(struct.split('.')[-3:])}.{field}" in _TIMES


def is_left_out(struct: str, field: str, value: Any) -> bool:
    """Whether Go leaves out an optional field that has this value.

    ``struct`` is a schema's name: ``io.k8s.api.core.v1.PodSpec``.
    """
    name = f"{'.'.join(struct.split('.')[-3:])}.{field}"
    if value == "":
        return name not in _POINTERS and name not in _ALWAYS_WRITTEN
    return name in _PLAIN and value in (0, False)
