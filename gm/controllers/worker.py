"""Building the pods and Services of workers: pure functions from a template to an object."""

from __future__ import annotations

import msgspec

from gm.api.meta import Json, ObjectMeta, ResourceType
from gm.api.sedna import PodTemplate
from gm.controllers.names import label_value
from gm.controllers.storage import Storage, apply_storage
from gm.errors import InvalidSpec

__all__ = ["Owner", "PodRequest", "build_pod", "build_service", "labels_of", "uid_label"]


class Owner(msgspec.Struct, frozen=True):
    """The custom resource that children belong to."""

    resource: ResourceType
    meta: ObjectMeta

    def reference(self) -> Json:
        """The controller owner reference of a child."""
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.meta.name,
            "uid": self.meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


class PodRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a worker's pod beside its template.

    ``env`` goes to every container. ``host_network`` and ``restart_policy`` hold where the
    template says nothing. ``node_name`` is the older form: it gives way to the template's.
    """

    name: str
    worker_type: str
    template: PodTemplate | None
    env: dict[str, str]
    storage: Storage
    annotations: dict[str, str] = {}
    node_name: str | None = None
    host_network: bool = False
    restart_policy: str = "OnFailure"


def uid_label(resource: ResourceType) -> str:
    """Key of the label that all children of a kind carry; its value is the owner's uid."""
    return f"{_prefix(resource)}/uid"


def labels_of(owner: Owner, worker_type: str) -> dict[str, str]:
    """Labels and selector of the children of ``owner`` that play ``worker_type``."""
    prefix = _prefix(owner.resource)
    return {
        f"{prefix}/name": label_value(owner.meta.name),
        f"{prefix}/uid": owner.meta.uid,
        f"{prefix}/worker-type": worker_type.lower(),
    }


def build_pod(owner: Owner, request: PodRequest, *, initializer_image: str) -> Json:
    """The pod of ``request`` as it is sent to the API server.

    Everything in the template is kept, also fields that this program does not know.

    Raises: InvalidSpec for a template that can not become a pod.
    """
    template = request.template
    spec = _spec_of(template)
    try:
        _complete(spec, request, initializer_image)
    except (AttributeError, TypeError) as exc:  # a list where an object belongs, and the like
        raise InvalidSpec(f"template.spec can not become a pod: {exc}") from exc
    metadata = template.metadata if template else None
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": request.name,
            "namespace": owner.meta.namespace,
            "labels": {
                **((metadata and metadata.labels) or {}),
                **labels_of(owner, request.worker_type),
            },
            "annotations": {
                **((metadata and metadata.annotations) or {}),
                **request.annotations,
            },
            "ownerReferences": [owner.reference()],
        },
        "spec": spec,
    }


def build_service(
    owner: Owner,
    *,
    name: str,
    worker_type: str,
    port: int,
    node_port: bool = False,
    external_ips: tuple[str, ...] = (),
) -> Json:
    """A Service in front of the workers that play ``worker_type``."""
    spec: Json = {
        "type": "NodePort" if node_port else "ClusterIP",
        "selector": labels_of(owner, worker_type),
        "ports": [{"name": "tcp-0", "protocol": "TCP", "port": port, "targetPort": port}],
    }
    if external_ips:
        spec["externalIPs"] = list(external_ips)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": owner.meta.namespace,
            "labels": labels_of(owner, worker_type),
            "ownerReferences": [owner.reference()],
        },
        "spec": spec,
    }


def _prefix(resource: ResourceType) -> str:
    return f"{resource.kind.lower()}.{resource.group}"


def _spec_of(template: PodTemplate | None) -> Json:
    # a copy by way of JSON takes a tenth of deepcopy's time
    spec: Json = (
        msgspec.json.decode(msgspec.json.encode(template.spec))
        if template and template.spec
        else {}
    )
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        raise InvalidSpec("template.spec.containers: at least one container is required")
    if not all(isinstance(c, dict) for c in [*containers, *(spec.get("initContainers") or [])]):
        raise InvalidSpec("template.spec.containers: each container must be an object")
    return spec


def _complete(spec: Json, request: PodRequest, initializer_image: str) -> None:
    if request.node_name:
        spec.setdefault("nodeName", request.node_name)
    if request.host_network:
        spec.setdefault("hostNetwork", True)
    if spec.get("hostNetwork"):
        # else a hostNetwork pod resolves no cluster names
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    spec.setdefault("restartPolicy", request.restart_policy)
    _inject_env(spec, request)
    for container in spec["containers"]:
        # so that a job can tell what its worker said last; a message of its own is preferred
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    apply_storage(spec, request.storage, initializer_image=initializer_image)


def _inject_env(spec: Json, request: PodRequest) -> None:
    credentials = request.storage.credentials
    injected = [
        *(credentials.env() if credentials else []),
        *({"name": name, "value": value} for name, value in request.env.items()),
        *({"name": name, "value": value} for name, value in request.storage.env.items()),
    ]
    names = {variable["name"] for variable in injected}
    for container in spec["containers"]:
        own = [v for v in container.get("env") or [] if v.get("name") not in names]
        # ours first, so that the user's may refer to them as $(NAME)
        container["env"] = [*map(dict, injected), *own]
