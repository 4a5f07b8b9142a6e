"""Everything of ``gm run``: starts and stops the parts of GM in their order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

import msgspec

from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import CUSTOM_RESOURCE_DEFINITIONS, GROUP
from gm.config import Config, state_namespace
from gm.controllers.base import Controller
from gm.controllers.downstream import Downstream, Sources
from gm.controllers.edgenodes import EdgeNodes, EdgeNodeSettings
from gm.controllers.federatedlearning import Caches, JobReconciler, JobSettings
from gm.controllers.informers import Informers
from gm.controllers.removed_nodes import close_sessions_of_removed
from gm.controllers.statenamespace import create_namespace
from gm.controllers.upstream import Upstream
from gm.controllers.v1record import ConfigMapShards
from gm.controllers.withheld import WithheldCredentials
from gm.errors import ServiceError
from gm.kube.client import Client
from gm.kube.informer import Informer, InformerSettings
from gm.kube.leader import LeaderElector
from gm.kube.presence import Presence
from gm.kube.recorder import EventRecorder
from gm.kube.workqueue import Workqueue
from gm.messagelayer import Hub, Server, ShardedRecord, Timing

__all__ = ["Manager"]

logger = logging.getLogger(__name__)

_OUR_KINDS = frozenset(
    {
        "datasets",
        "models",
        "federatedlearningjobs",
        "jointinferenceservices",
        "incrementallearningjobs",
        "edgenodes",
    }
)
_FLUSH_SECONDS = 2.0


class Manager:
    """GM against one cluster.

    ``run`` returns after a clean stop; when a part crashes it raises the reason in an
    ExceptionGroup. ``websocket_port`` is the one that is listened on once ``wait_ready`` has
    returned. The keyword arguments are for tests; they make times small.
    """

    def __init__(
        self,
        config: Config,
        *,
        informer_settings: InformerSettings | None = None,
        job_settings: JobSettings | None = None,
        edge_node_settings: EdgeNodeSettings | None = None,
        timing: Timing | None = None,
        grace_seconds: float = 5.0,
        kubeconfig_from: str | None = None,
        connect: Callable[..., Awaitable[Client]] = Client.connect,
    ) -> None:
        self.config = config
        self._connect, self._kubeconfig_from = connect, kubeconfig_from
        self.websocket_port = config.websocket.port
        self.hub = Hub(namespace=config.namespace)
        self._informer_settings = informer_settings
        self._job_settings = job_settings or JobSettings.of(config)
        self._edge_node_settings = edge_node_settings or EdgeNodeSettings()
        self._timing = timing
        self._grace_seconds = grace_seconds
        self._ready = asyncio.Event()
        self._informers: Informers | None = None
        self._jobs: Workqueue[ObjectKey] | None = None
        self._downstream: Downstream | None = None

    async def wait_ready(self) -> None:
        """Return once the websocket listens, the caches have synced and controllers run."""
        await self._ready.wait()

    def problems(self) -> list[str]:
        """What keeps GM from being ready, in words for people; empty: it is ready."""
        if self._informers is None:
            return ["starting"]
        problems = self._informers.problems()
        return problems or ([] if self._ready.is_set() else ["starting"])

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until ``stopping`` is set, then drain and return."""
        config = self.config
        async with await self._connect(
            kubeconfig=config.kube_config or None,
            master=config.master or None,
            named_by=self._kubeconfig_from,
        ) as client:
            logger.info(
                "starting",
                extra={"server": client.server, "namespace": config.namespace or "(all)"},
            )
            await self._serve(client, stopping)
        logger.info("stopped")

    async def _serve(self, client: Client, stopping: asyncio.Event) -> None:
        """Parts nest in start order, so they stop in reverse."""
        config = self.config
        informers = Informers.make(
            client, namespace=config.namespace, settings=self._informer_settings
        )
        recorder = EventRecorder(client)
        shards = ConfigMapShards(client, namespace=state_namespace(config))
        self.hub.record = ShardedRecord(shards)
        server = Server(self.hub, config.websocket, timing=self._timing)
        downstream = self._make_downstream(client, recorder, informers)
        jobs = self._make_controller(client, recorder, informers)
        credentials = self._make_credentials(client, recorder, informers, downstream)
        controllers = _Together(jobs, credentials)
        upstream = self._make_upstream(client, informers)
        edge_nodes = self._make_edge_nodes(client, informers)
        close_sessions_of_removed(informers.nodes, self.hub)
        self._informers, self._downstream = informers, downstream
        async with (
            _recording(recorder),
            _running("hub", server.run()),
            _running("downstream", downstream.run()),
            _running("informers", informers.run()),
            _running("edgenodes", edge_nodes.run()),
            _running("inventory", _tell_unserved_kinds(client)),
            _running("presence", self._tell_of_others(client)),
        ):
            await server.wait_ready()
            self.websocket_port = server.port
            if not await _unless(stopping, informers.wait_synced()):
                return
            async with asyncio.TaskGroup() as group:
                group.create_task(self._lead(client, controllers, stopping), name="controllers")
                group.create_task(upstream.run(stopping), name="upstream")
                self._ready.set()
                logger.info("ready", extra={"websocket_port": self.websocket_port})
                await stopping.wait()
                self._ready.clear()
                logger.info("stopping")

    async def _lead(self, client: Client, controllers: _Together, stopping: asyncio.Event) -> None:
        """Run ``controllers``, with several replicas only in the one that holds the lease.

        The hub, downstream and upstream need none: each replica serves the nodes that are
        connected to it.
        """
        if not self.config.leader_election.enabled:
            await controllers.run(stopping)
            return
        await create_namespace(client, state_namespace(self.config))
        elector = LeaderElector(client, self._lease("gm"))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(elector.run(lambda: controllers.run(stopping)))
            stop = group.create_task(stopping.wait())
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if not elector.is_leader:  # a leader drains first and then gives the lease back
                task.cancel()

    async def _tell_of_others(self, client: Client) -> None:
        """Warn of another GM that works on the same objects, unless an election sees to it."""
        if not self.config.leader_election.enabled:
            alone = self._lease("gm.alone")
            await Presence(client, alone, elected=self._lease("gm")).run()

    def _lease(self, name: str) -> ObjectKey:
        """Of all GMs that serve the same objects; no namespace has a dot in its name."""
        scope = self.config.namespace
        return ObjectKey(state_namespace(self.config), f"{name}-{scope}" if scope else name)

    def _make_downstream(
        self, client: Client, recorder: EventRecorder, informers: Informers
    ) -> Downstream:
        websocket = self.config.websocket
        is_authenticated = websocket.auth != "none"
        if websocket.credentials == "always" and not is_authenticated:
            logger.warning(
                "S3 credentials go to whoever claims to be a node: websocket.credentials is "
                "always and websocket.auth is none"
            )
        sends = websocket.credentials == "always" or (
            websocket.credentials == "authenticated" and is_authenticated
        )
        return Downstream(
            self.hub,
            client,
            Sources(
                datasets=informers.datasets,
                models=informers.models,
                federated=informers.federated,
                inference=informers.inference,
                incremental=informers.incremental,
                inference_pods=informers.inference_pods,
                incremental_pods=informers.incremental_pods,
            ),
            recorder=recorder,
            channel_size=self.config.event_channel_size,
            sends_credentials=sends,
            resync_seconds=self.config.min_resync_period_seconds,
        )

    def _make_credentials(
        self,
        client: Client,
        recorder: EventRecorder,
        informers: Informers,
        downstream: Downstream,
    ) -> WithheldCredentials:
        credentials = WithheldCredentials(
            client,
            recorder,
            {"dataset": informers.datasets, "model": informers.models},
            downstream.is_withheld,
            grace_seconds=self._grace_seconds,
        )
        downstream.on_placed = credentials.look
        return credentials

    def _make_edge_nodes(self, client: Client, informers: Informers) -> EdgeNodes:
        config = self.config
        return EdgeNodes(
            self.hub,
            client,
            informers.nodes,
            writer=f"{state_namespace(config)}/{config.namespace or '*'}",
            is_alone=not config.leader_election.enabled,
            settings=self._edge_node_settings,
        )

    def _make_controller(
        self, client: Client, recorder: EventRecorder, informers: Informers
    ) -> Controller[ObjectKey]:
        settings = self._job_settings
        queue: Workqueue[ObjectKey] = Workqueue(
            base_seconds=settings.retry_first_seconds, max_seconds=settings.retry_max_seconds
        )
        self._jobs = queue
        caches = Caches(
            jobs=informers.federated,
            pods=informers.federated_pods,
            services=informers.federated_services,
            models=informers.models,
            datasets=informers.datasets,
            nodes=informers.nodes,
        )
        reconciler = JobReconciler(client, recorder, caches, queue, settings)
        return Controller(
            "federatedlearningjob",
            reconciler,
            queue,
            workers=self.config.workers,
            grace_seconds=self._grace_seconds,
        )

    def _make_upstream(self, client: Client, informers: Informers) -> Upstream:
        kinds: dict[str, Informer[Any]] = {
            "dataset": informers.datasets,
            "model": informers.models,
            "federatedlearningjob": informers.federated,
            "jointinferenceservice": informers.inference,
            "incrementallearningjob": informers.incremental,
        }
        return Upstream(
            self.hub,
            client,
            kinds,
            pods=informers.federated_pods,
            completion_grace_seconds=self._job_settings.completion_grace_seconds,
            workers=self.config.workers,
            grace_seconds=self._grace_seconds,
        )


class _Part(Protocol):
    name: str

    async def run(self, stopping: asyncio.Event) -> None: ...


class _Together:
    """Controllers that run and stop as one."""

    def __init__(self, *parts: _Part) -> None:
        self._parts = parts

    async def run(self, stopping: asyncio.Event) -> None:
        """Run all of them until ``stopping`` is set."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run(stopping), name=part.name)


@contextlib.asynccontextmanager
async def _running(name: str, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run ``work`` as long as the body; if it crashes, the body is cancelled."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work, name=name)
        yield
        task.cancel()  # not in `finally`: when the body raises, the group cancels for us


@contextlib.asynccontextmanager
async def _recording(recorder: EventRecorder) -> AsyncIterator[None]:
    """Write events as long as the body runs, then those that still wait."""
    async with _running("events", recorder.run()):
        yield
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FLUSH_SECONDS):
            await recorder.flush()


async def _unless(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do ``work``; give up when ``stopping`` is set. Returns: whether it was done."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        stop = group.create_task(stopping.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        is_done = task.done() and not stopping.is_set()
        task.cancel()
        stop.cancel()
    return is_done


class _Names(msgspec.Struct, frozen=True):
    kind: str = ""
    plural: str = ""


class _Version(msgspec.Struct, frozen=True):
    name: str = ""
    served: bool = False


class _CrdSpec(msgspec.Struct, frozen=True):
    group: str = ""
    names: _Names = _Names()
    versions: tuple[_Version, ...] = ()


class _Crd(msgspec.Struct, frozen=True):
    spec: _CrdSpec = _CrdSpec()


async def _tell_unserved_kinds(client: Client) -> None:
    """Say once which objects of Sedna's kinds lie in the cluster that this GM does not serve."""
    try:
        listed = await client.list(CUSTOM_RESOURCE_DEFINITIONS)
        specs = [msgspec.json.decode(item, type=_Crd).spec for item in listed.items]
        for spec in specs:
            served = next((v.name for v in spec.versions if v.served), None)
            if spec.group != GROUP or spec.names.plural in _OUR_KINDS or served is None:
                continue
            resource = ResourceType(
                group=spec.group,
                version=served,
                kind=spec.names.kind,
                plural=spec.names.plural,
            )
            objects = await client.list(resource)
            if objects.items:
                logger.warning(
                    "objects of a kind that this GM does not serve are left alone",
                    extra={"kind": resource.qualified, "objects": len(objects.items)},
                )
    except (ServiceError, msgspec.MsgspecError, RecursionError) as exc:
        # CRDs may not be listed with a namespaced role; nothing depends on it
        logger.debug("kinds in the cluster are not known", extra={"reason": str(exc)})
