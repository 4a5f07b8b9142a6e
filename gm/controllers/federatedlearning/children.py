"""The objects that a job owns: the aggregator's Service, and the pods of its workers."""

from __future__ import annotations

import msgspec

from gm.api.core import Node, Pod, Secret, Service
from gm.api.meta import Json
from gm.api.resources import FEDERATED_LEARNING_JOBS
from gm.api.sedna import Model
from gm.api.worker_names import AGGREGATION
from gm.controllers.credentials import S3Credentials, s3_credentials
from gm.controllers.federatedlearning.state import RESTARTS_ANNOTATION, WorkerState
from gm.controllers.federatedlearning.workers import HASH_ANNOTATION, WORKER_ANNOTATION, Worker
from gm.controllers.federatedlearning.world import World
from gm.controllers.names import service_name
from gm.controllers.storage import Location, Storage
from gm.controllers.worker import Owner, PodRequest, build_pod, build_service
from gm.kube.lister import Stored

__all__ = [
    "AGGREGATION_PORT",
    "Address",
    "NotYet",
    "aggregator_address",
    "desired_pod",
    "desired_service",
    "given_address",
    "leads_to_aggregator",
    "owner_of",
    "participants_told",
    "service_repair",
    "uses_node_port",
]

AGGREGATION_PORT = 7363


class Address(msgspec.Struct, frozen=True):
    """Where trainers find the aggregator: AGG_IP and AGG_PORT."""

    host: str
    port: int


class NotYet(msgspec.Struct, frozen=True):
    """Why there is no address yet: a word and a sentence."""

    reason: str
    message: str


def owner_of(world: World) -> Owner:
    """The job as owner of its children."""
    return Owner(FEDERATED_LEARNING_JOBS, world.job.view.metadata)


# --- the aggregator's Service and address ---


def uses_node_port(world: World, service: Stored[Service] | None, given: Address | None) -> bool:
    """Whether trainers come through a NodePort.

    A job keeps the way that it was made with: its Service and its trainers tell, a change of the
    setting holds for new jobs.
    """
    if service is not None and service.view.spec.type in ("NodePort", "ClusterIP"):
        return service.view.spec.type == "NodePort"
    if given is not None:
        return given.port != AGGREGATION_PORT
    return world.settings.aggregation_service == "nodePort"


def desired_service(world: World, *, node_port: bool, node: str | None) -> Json:
    """The aggregator's Service."""
    external: tuple[str, ...] = ()
    if node_port and world.settings.external_ips and node:
        found = (world.nodes or {}).get(node)
        address = found.address("ExternalIP", "InternalIP") if found else None
        external = (address,) if address else ()
    return build_service(
        owner_of(world),
        name=service_name(world.job.key.name, AGGREGATION),
        worker_type=AGGREGATION,
        port=AGGREGATION_PORT,
        node_port=node_port,
        external_ips=external,
    )


def service_repair(existing: Service, desired: Json) -> Json | None:
    """The merge patch that makes ``existing`` lead to the aggregator; None if it does already."""
    metadata, spec = desired["metadata"], desired["spec"]
    patch: Json = {}
    labels = existing.metadata.labels or {}
    missing = {k: v for k, v in metadata["labels"].items() if labels.get(k) != v}
    if missing:
        patch["metadata"] = {"labels": missing}
    selector = existing.spec.selector or {}
    if selector != spec["selector"]:
        # null takes a key away: with one too many the Service finds no pod
        surplus = {key: None for key in selector if key not in spec["selector"]}
        patch.setdefault("spec", {})["selector"] = {**surplus, **spec["selector"]}
    if not any(
        port.port == AGGREGATION_PORT and port.target_port == AGGREGATION_PORT
        for port in existing.spec.ports or ()
    ):
        patch.setdefault("spec", {})["ports"] = spec["ports"]
    external = spec.get("externalIPs")
    if external and list(existing.spec.external_ips or ()) != external:
        patch.setdefault("spec", {})["externalIPs"] = external
    if existing.spec.type not in ("NodePort", "ClusterIP"):
        patch.setdefault("spec", {})["type"] = spec["type"]
    return patch or None


def aggregator_address(
    world: World, service: Stored[Service], aggregator: WorkerState, *, node_port: bool
) -> Address | NotYet:
    """Where trainers find the aggregator, or why nobody knows yet."""
    if not node_port:
        return Address(f"{service.key.name}.{service.key.namespace}", AGGREGATION_PORT)
    port = _node_port(service.view)
    if port is None:
        return NotYet("NodePortPending", f"Service {service.key.name} has no node port yet")
    pod = aggregator.pod.view if aggregator.pod else None
    bound = pod.spec.node_name if pod else None
    node = bound or aggregator.worker.node
    if node is None:
        return NotYet(
            "AggregatorNotBound", "trainers wait until the aggregator's pod is bound to a node"
        )
    found = (world.nodes or {}).get(node)
    host = found.address("ExternalIP", "InternalIP") if found else None
    # the kubelet says it too, where GM may not read Nodes
    host = host or (pod.status.host_ip if pod else None)
    if host is None:
        return NotYet("NodeAddressUnknown", f"node {node} has no ExternalIP and no InternalIP")
    return Address(host, port)


def given_address(pod: Pod) -> Address | None:
    """The address that a trainer's pod was made with."""
    for container in pod.spec.containers or ():
        host, port = container.env_value("AGG_IP"), container.env_value("AGG_PORT")
        if host and port and port.isdecimal():
            return Address(host, int(port))
    return None


def participants_told(pod: Pod) -> int | None:
    """The PARTICIPANTS_COUNT that a worker's pod was made with."""
    for container in pod.spec.containers or ():
        count = container.env_value("PARTICIPANTS_COUNT")
        if count and count.isdecimal():
            return int(count)
    return None


def leads_to_aggregator(
    world: World, given: Address, wanted: Address, aggregator_node: str | None
) -> bool:
    """Whether ``given`` still leads to the aggregator that is now found at ``wanted``.

    A node port leads there from every node, so a trainer need not be replaced because the
    aggregator moved; but it must be a node that exists, and is not down.
    """
    if given == wanted:
        return True
    if given.port != wanted.port or world.nodes is None or wanted.port == AGGREGATION_PORT:
        return False
    for name, node in world.nodes.items():
        if any(given.host == entry.address for entry in node.status.addresses or ()):
            return name == aggregator_node or _is_ready(node)
    return False


def _node_port(service: Service) -> int | None:
    ports = service.spec.ports or ()
    return next((p.node_port for p in ports if p.port == AGGREGATION_PORT and p.node_port), None)


def _is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())


# --- pods ---


def desired_pod(
    world: World,
    state: WorkerState,
    address: Address | None,
) -> Json:
    """The pod of a worker; trainers need the aggregator's ``address``.

    All references of the job must be in ``world``.

    Raises: InvalidSpec when template, URL or credential can not become a pod.
    """
    worker = state.worker
    locations, extra = _locations(world, worker)
    request = PodRequest(
        name=worker.pod_name,
        worker_type=worker.role,
        template=worker.template,
        env=_env(world, worker, address),
        storage=Storage.of(locations, extra=extra),
        annotations={
            WORKER_ANNOTATION: worker.id,
            HASH_ANNOTATION: worker.digest,
            **({RESTARTS_ANNOTATION: str(state.restarts)} if state.restarts else {}),
        },
        node_name=worker.node,
        # Sedna runs trainers in the node's network: LC_SERVER is the node's loopback
        host_network=not worker.is_aggregator,
    )
    return build_pod(
        owner_of(world), request, initializer_image=world.settings.storage_initializer_image
    )


def _env(world: World, worker: Worker, address: Address | None) -> dict[str, str]:
    job, spec = world.job, world.job.view.spec
    s3 = spec.transmitter.s3 if spec.transmitter else None
    env = {
        "NAMESPACE": job.key.namespace,
        "WORKER_NAME": worker.name,
        "JOB_NAME": job.key.name,
        "PARTICIPANTS_COUNT": str(len(spec.training_workers)),
        "TRANSMITTER": "s3" if s3 else "ws",
        "COMPLETION_GRACE_SECONDS": f"{world.settings.completion_grace_seconds:g}",
    }
    if s3:
        env["AGG_DATA_PATH"] = s3.agg_data_path
    if worker.is_aggregator:
        env["AGG_BIND_PORT"] = str(AGGREGATION_PORT)
        if spec.min_participants:
            env["MIN_PARTICIPANTS"] = str(spec.min_participants)
        return env
    assert address is not None, "trainers are made when the aggregator's address is known"
    return env | {
        "AGG_IP": address.host,
        "AGG_PORT": str(address.port),
        "MODEL_NAME": spec.aggregation_worker.model.name,
        "DATASET_NAME": worker.dataset or "",
        "LC_SERVER": world.settings.lc_server,
    }


def _locations(world: World, worker: Worker) -> tuple[tuple[Location, ...], S3Credentials | None]:
    spec = world.job.view.spec
    names = [(spec.aggregation_worker.model.name, "MODEL_URL")]
    if spec.pretrained_model and spec.pretrained_model.name:  # Go clients write an empty one
        names.append((spec.pretrained_model.name, "PRETRAINED_MODEL_URL"))
    locations = [_model(world, world.models[name], variable) for name, variable in names]
    if worker.dataset is not None:
        data = world.datasets[worker.dataset].spec
        locations.append(
            Location(
                variable="TRAIN_DATASET_URL",
                urls=(data.url,),
                source=f"Dataset {worker.dataset}: spec.url",
                credentials=_credentials(world, data.credential_name),
            )
        )
    s3 = spec.transmitter.s3 if spec.transmitter else None
    return tuple(locations), _credentials(world, s3.credential_name if s3 else None)


def _model(world: World, model: Model, variable: str) -> Location:
    return Location(
        variable=variable,
        urls=(model.spec.url,),
        source=f"Model {model.metadata.name}: spec.url",
        create=True,
        credentials=_credentials(world, model.spec.credential_name),
    )


def _credentials(world: World, name: str | None) -> S3Credentials | None:
    if not name:
        return None
    secret: Secret | None = world.secrets.get(name)
    assert secret is not None, "pods are made when all Secrets were read"
    return s3_credentials(secret, inline=world.settings.inline_credentials)
