"""Pod templates as the CRDs describe them: the fields that people write in jobs.

Only ``kubectl explain``, validation and completion use these types. Nothing reads objects through
them: templates are passed on as they were written, with every field that a newer Kubernetes knows.
"""

from __future__ import annotations

from typing import Annotated, Any

from gm.api.schema import View, doc

__all__ = ["PodTemplateSpec"]

Quantity = int | str


class KeySelector(View, frozen=True, kw_only=True):
    """A key of a ConfigMap or Secret."""

    name: Annotated[str | None, doc("Name of the object.")] = None
    key: Annotated[str, doc("The key in it.", required=True)] = ""
    optional: Annotated[bool | None, doc("Go on without it if it does not exist.")] = None


class FieldSelector(View, frozen=True, kw_only=True):
    """A field of the pod."""

    field_path: Annotated[str, doc("Such as status.podIP or metadata.name.", required=True)] = ""
    api_version: Annotated[str | None, doc("Version that the path speaks of.")] = None


class ResourceSelector(View, frozen=True, kw_only=True):
    """A resource limit or request of a container."""

    resource: Annotated[str, doc("Such as limits.memory.", required=True)] = ""
    container_name: Annotated[str | None, doc("Container, where it is not this one.")] = None
    divisor: Annotated[Quantity | None, doc("Unit of the result.")] = None


class EnvVarSource(View, frozen=True, kw_only=True):
    """Where a variable's value comes from."""

    field_ref: Annotated[FieldSelector | None, doc("A field of the pod.")] = None
    config_map_key_ref: Annotated[KeySelector | None, doc("A key of a ConfigMap.")] = None
    secret_key_ref: Annotated[KeySelector | None, doc("A key of a Secret.")] = None
    resource_field_ref: Annotated[ResourceSelector | None, doc("A resource of a container.")] = None


class EnvVar(View, frozen=True, kw_only=True):
    """An environment variable."""

    name: Annotated[str, doc("Name of the variable.", required=True)] = ""
    value: Annotated[str | None, doc("Its value; $(OTHER) is expanded. Numbers in quotes.")] = None
    value_from: Annotated[EnvVarSource | None, doc("Where its value comes from instead.")] = None


class SourceReference(View, frozen=True, kw_only=True):
    """A ConfigMap or Secret."""

    name: Annotated[str | None, doc("Name of the object.")] = None
    optional: Annotated[bool | None, doc("Go on without it if it does not exist.")] = None


class EnvFromSource(View, frozen=True, kw_only=True):
    """Variables from a whole object."""

    prefix: Annotated[str | None, doc("Put before each name.")] = None
    config_map_ref: Annotated[SourceReference | None, doc("All keys of a ConfigMap.")] = None
    secret_ref: Annotated[SourceReference | None, doc("All keys of a Secret.")] = None


class ContainerPort(View, frozen=True, kw_only=True):
    """A port that the container listens on."""

    name: Annotated[str | None, doc("Name of the port.")] = None
    container_port: Annotated[int, doc("The port.", required=True, format="int32")] = 0
    host_port: Annotated[int | None, doc("Port of the node.", format="int32")] = None
    protocol: Annotated[str | None, doc("TCP, UDP or SCTP.")] = None


class ResourceRequirements(View, frozen=True, kw_only=True):
    """What the container needs and may use."""

    limits: Annotated[dict[str, Quantity] | None, doc("At most, such as memory: 2Gi.")] = None
    requests: Annotated[dict[str, Quantity] | None, doc("At least, such as cpu: 500m.")] = None


class VolumeMount(View, frozen=True, kw_only=True):
    """Where a volume appears in the container."""

    name: Annotated[str, doc("Name of the volume.", required=True)] = ""
    mount_path: Annotated[str, doc("Path in the container.", required=True)] = ""
    sub_path: Annotated[str | None, doc("Path in the volume.")] = None
    read_only: Annotated[bool | None, doc("Not to be written to.")] = None


class Container(View, frozen=True, kw_only=True):
    """A container of the pod."""

    name: Annotated[str, doc("Name of the container, its own in the pod.", required=True)] = ""
    image: Annotated[str | None, doc("Image to run.")] = None
    image_pull_policy: Annotated[str | None, doc("Always, IfNotPresent or Never.")] = None
    command: Annotated[
        tuple[str, ...] | None, doc("Program to run; unset: the image's. Numbers in quotes.")
    ] = None
    args: Annotated[tuple[str, ...] | None, doc("Arguments of the program. Numbers in quotes.")] = (
        None
    )
    working_dir: Annotated[str | None, doc("Directory to start in.")] = None
    env: Annotated[tuple[EnvVar, ...] | None, doc("Variables; those that GM sets come on top.")] = (
        None
    )
    env_from: Annotated[tuple[EnvFromSource, ...] | None, doc("Variables of whole objects.")] = None
    ports: Annotated[tuple[ContainerPort, ...] | None, doc("Ports it listens on.")] = None
    resources: Annotated[ResourceRequirements | None, doc("What it needs and may use.")] = None
    volume_mounts: Annotated[tuple[VolumeMount, ...] | None, doc("Volumes it sees.")] = None
    liveness_probe: Annotated[dict[str, Any] | None, doc("When to restart it.")] = None
    readiness_probe: Annotated[dict[str, Any] | None, doc("When it is ready.")] = None
    startup_probe: Annotated[dict[str, Any] | None, doc("When it has started.")] = None
    lifecycle: Annotated[dict[str, Any] | None, doc("What to do at its start and end.")] = None
    security_context: Annotated[dict[str, Any] | None, doc("What it may do.")] = None


class HostPathVolume(View, frozen=True, kw_only=True):
    """A path of the node."""

    path: Annotated[str, doc("Path on the node.", required=True)] = ""
    type: Annotated[str | None, doc("Such as Directory, DirectoryOrCreate or File.")] = None


class EmptyDirVolume(View, frozen=True, kw_only=True):
    """A directory that lives as long as the pod."""

    medium: Annotated[str | None, doc("Memory: kept in memory.")] = None
    size_limit: Annotated[Quantity | None, doc("How large it may become.")] = None


class KeyToPath(View, frozen=True, kw_only=True):
    """A key, and the file that it becomes."""

    key: Annotated[str, doc("The key.", required=True)] = ""
    path: Annotated[str, doc("The file.", required=True)] = ""
    mode: Annotated[int | None, doc("Permissions of the file.", format="int32")] = None


class ConfigMapVolume(View, frozen=True, kw_only=True):
    """A ConfigMap as files."""

    name: Annotated[str | None, doc("Name of the ConfigMap.")] = None
    items: Annotated[tuple[KeyToPath, ...] | None, doc("Only these keys.")] = None
    default_mode: Annotated[int | None, doc("Permissions of the files.", format="int32")] = None
    optional: Annotated[bool | None, doc("Go on without it if it does not exist.")] = None


class SecretVolume(View, frozen=True, kw_only=True):
    """A Secret as files."""

    secret_name: Annotated[str | None, doc("Name of the Secret.")] = None
    items: Annotated[tuple[KeyToPath, ...] | None, doc("Only these keys.")] = None
    default_mode: Annotated[int | None, doc("Permissions of the files.", format="int32")] = None
    optional: Annotated[bool | None, doc("Go on without it if it does not exist.")] = None


class ClaimVolume(View, frozen=True, kw_only=True):
    """A persistent volume claim."""

    claim_name: Annotated[str, doc("Name of the claim.", required=True)] = ""
    read_only: Annotated[bool | None, doc("Not to be written to.")] = None


class Volume(View, frozen=True, kw_only=True):
    """A volume of the pod; further kinds of volume are kept as written."""

    name: Annotated[str, doc("Name of the volume, its own in the pod.", required=True)] = ""
    host_path: Annotated[HostPathVolume | None, doc("A path of the node.")] = None
    empty_dir: Annotated[EmptyDirVolume | None, doc("Lives as long as the pod.")] = None
    config_map: Annotated[ConfigMapVolume | None, doc("A ConfigMap as files.")] = None
    secret: Annotated[SecretVolume | None, doc("A Secret as files.")] = None
    persistent_volume_claim: Annotated[ClaimVolume | None, doc("A claim.")] = None


class Toleration(View, frozen=True, kw_only=True):
    """A taint that the pod bears."""

    key: Annotated[str | None, doc("Key of the taint.")] = None
    operator: Annotated[str | None, doc("Exists or Equal.")] = None
    value: Annotated[str | None, doc("Value of the taint.")] = None
    effect: Annotated[str | None, doc("NoSchedule, PreferNoSchedule or NoExecute.")] = None
    toleration_seconds: Annotated[int | None, doc("How long it is borne.", format="int64")] = None


class HostAlias(View, frozen=True, kw_only=True):
    """Names of an address, for the pod's hosts file."""

    ip: Annotated[str, doc("The address.", required=True)] = ""
    hostnames: Annotated[tuple[str, ...] | None, doc("Its names.")] = None


class LocalReference(View, frozen=True, kw_only=True):
    """An object of the same namespace."""

    name: Annotated[str | None, doc("Name of the object.")] = None


class PodSpec(View, frozen=True, kw_only=True):
    """What runs in the pod, and where."""

    node_name: Annotated[str | None, doc("Node to run on, without the scheduler.")] = None
    node_selector: Annotated[dict[str, str] | None, doc("Labels that the node must have.")] = None
    affinity: Annotated[
        dict[str, Any] | None, doc("Nodes and pods to be near to or away from.")
    ] = None
    tolerations: Annotated[tuple[Toleration, ...] | None, doc("Taints that the pod bears.")] = None
    containers: Annotated[
        tuple[Container, ...], doc("Containers that run side by side.", required=True)
    ] = ()
    init_containers: Annotated[
        tuple[Container, ...] | None, doc("Containers that run before, one after the other.")
    ] = None
    volumes: Annotated[tuple[Volume, ...] | None, doc("Volumes that containers mount.")] = None
    restart_policy: Annotated[str | None, doc("Always, OnFailure or Never.")] = None
    host_network: Annotated[bool | None, doc("Use the node's network.")] = None
    dns_policy: Annotated[
        str | None, doc("ClusterFirst, ClusterFirstWithHostNet, Default or None.")
    ] = None
    host_aliases: Annotated[tuple[HostAlias, ...] | None, doc("Entries of the hosts file.")] = None
    service_account_name: Annotated[str | None, doc("ServiceAccount of the pod.")] = None
    image_pull_secrets: Annotated[
        tuple[LocalReference, ...] | None, doc("Secrets for pulling images.")
    ] = None
    termination_grace_period_seconds: Annotated[
        int | None, doc("Time between the request to stop and the kill.", format="int64")
    ] = None
    active_deadline_seconds: Annotated[
        int | None, doc("The pod fails when it has been active this long.", format="int64")
    ] = None
    priority_class_name: Annotated[str | None, doc("How important the pod is.")] = None
    runtime_class_name: Annotated[str | None, doc("Runtime that runs the pod.")] = None
    scheduler_name: Annotated[str | None, doc("Scheduler that places the pod.")] = None
    security_context: Annotated[dict[str, Any] | None, doc("What the pod may do.")] = None


class PodTemplateMetadata(View, frozen=True, kw_only=True):
    """Labels and annotations of the pod."""

    name: Annotated[str | None, doc("Has no effect: GM names the pods.")] = None
    namespace: Annotated[str | None, doc("Has no effect: pods lie beside their job.")] = None
    labels: Annotated[dict[str, str] | None, doc("Labels of the pod.")] = None
    annotations: Annotated[dict[str, str] | None, doc("Annotations of the pod.")] = None


class PodTemplateSpec(View, frozen=True, kw_only=True):
    """The pod to make."""

    metadata: Annotated[PodTemplateMetadata | None, doc("Labels and annotations of the pod.")] = (
        None
    )
    spec: Annotated[PodSpec, doc("What runs in the pod, and where.", required=True)] = PodSpec()
