"""The runner: plays one node of a cluster, running its pods as processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from gm.api.core import Service
from gm.api.meta import Json, ObjectKey, PartialObject
from gm.api.resources import PODS, SERVICES
from gm.edge_stub.runner import files
from gm.edge_stub.runner.addresses import AddressPool
from gm.edge_stub.runner.container import kill_marked
from gm.edge_stub.runner.context import Node
from gm.edge_stub.runner.images import ImageTable
from gm.edge_stub.runner.kubelet_api import KubeletApi
from gm.edge_stub.runner.node import NodeKeeper, machine_resources, runner_identity
from gm.edge_stub.runner.pods import PodWorker
from gm.edge_stub.runner.ports import NodePorts
from gm.edge_stub.runner.retry import Pause
from gm.edge_stub.runner.settings import DEFAULT_IMAGES, RunnerSettings, Tuning
from gm.edge_stub.runner.status import ContainerRecord
from gm.errors import BadRequest, ConfigError, Forbidden, ServiceError, Unauthorized
from gm.kube import Client, Event, EventRecorder, EventType, Informer

__all__ = ["Runner"]

logger = logging.getLogger(__name__)

_FAREWELL_SECONDS = 3.0


class Runner:
    """Registers a Node, runs the pods bound to it as local processes and reports on them."""

    def __init__(self, settings: RunnerSettings, tuning: Tuning | None = None) -> None:
        self.settings = msgspec.structs.replace(
            settings, root=settings.root.resolve(), state=settings.state.resolve()
        )
        self.tuning = tuning or Tuning()
        self._ready = asyncio.Event()
        self._workers: dict[str, PodWorker] = {}
        self._by_key: dict[ObjectKey, PodWorker] = {}

    async def wait_ready(self) -> None:
        """Return once the Node is registered and Ready, and pods are watched."""
        await self._ready.wait()

    async def run(self, stopping: asyncio.Event) -> None:
        """Play the node until ``stopping`` is set; then end every process and say NotReady.

        To its pods that is a reboot: their objects stay as they are, and a runner that starts
        again with the same state directory starts their containers again.

        Raises: ConfigError when there is no usable kubeconfig, when the Node name belongs to
        somebody else, or when the address can not be used.
        """
        with contextlib.ExitStack() as stack:
            directory = self._prepare_directory()
            stack.enter_context(_only_one(directory))
            addresses = AddressPool(self.settings.address, self.settings.pod_addresses)
            stack.callback(addresses.close)
            addresses.open()
            marker = hashlib.sha256(str(directory).encode()).hexdigest()[:16]
            kill_marked(f"{marker}/")  # a shim that was killed itself may have left some
            kubeconfig = self.settings.kubeconfig
            async with await Client.connect(
                kubeconfig=None if kubeconfig is None else str(kubeconfig),
                named_by="--kubeconfig",
                user_agent="gm-runner",
            ) as client:
                # as many different messages before they are combined as a kubelet's recorder has
                recorder = EventRecorder(client, component="gm-runner", max_messages=10)
                node = Node(
                    settings=self.settings,
                    tuning=self.tuning,
                    client=client,
                    recorder=recorder,
                    addresses=addresses,
                    images=ImageTable({**DEFAULT_IMAGES, **self.settings.images}),
                    pods_directory=directory / "pods",
                    allocatable=machine_resources(directory),
                    marker=marker,
                )
                await self._play(node, stopping)

    def _prepare_directory(self) -> Path:
        directory = self.settings.state / "runner"
        try:
            self.settings.root.mkdir(parents=True, exist_ok=True)
            (directory / "pods").mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(f"{exc.filename}: can not be made: {exc.strerror}") from exc
        return directory

    async def _play(self, node: Node, stopping: asyncio.Event) -> None:
        async with self._log_endpoint(node) as port:
            keeper = NodeKeeper(
                node.client,
                self.settings,
                self.tuning,
                identity=runner_identity(node.pods_directory.parent),
                resources=node.allocatable,
                port=port,
            )
            if await self._register(keeper, stopping):
                await self._live(node, keeper, stopping)

    async def _register(self, keeper: NodeKeeper, stopping: asyncio.Event) -> bool:
        """Register the Node, waiting for an API server that does not answer.

        Returns: False if the end came first. Raises: ConfigError, and what no waiting mends.
        """
        pause = Pause(self.tuning)
        while True:
            try:
                await keeper.register()
                return True
            except (Unauthorized, Forbidden, BadRequest):
                raise
            except ServiceError as exc:
                logger.warning("node not registered yet", extra={"why": str(exc)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause.next()):
                    await stopping.wait()
                    return False

    async def _live(self, node: Node, keeper: NodeKeeper, stopping: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as helpers:
            keeping = helpers.create_task(keeper.run(), name="node")
            recording = helpers.create_task(node.recorder.run(), name="event-recorder")
            await self._serve_pods(node, stopping)
            keeping.cancel()
            await asyncio.wait([keeping])
            try:
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await keeper.mark_not_ready()
            except (ServiceError, ConfigError, TimeoutError) as exc:
                logger.warning("node not marked NotReady", extra={"why": str(exc)})
            recording.cancel()

    async def _serve_pods(self, node: Node, stopping: asyncio.Event) -> None:
        """Run pods and forward ports until ``stopping``; then until no process is left."""
        name = self.settings.node
        async with asyncio.TaskGroup() as group:
            ports = NodePorts(
                node.client,
                node.recorder,
                self.tuning,
                group,
                node=name,
                address=self.settings.address,
                any_service=self.settings.any_pod,
            )
            services = Informer(node.client, SERVICES, Service, namespace=self.settings.namespace)
            services.add_handler(ports.on_event)
            pods = Informer(
                node.client, PODS, PartialObject, field_selector=f"spec.nodeName={name}"
            )

            async def on_pod(event: Event[PartialObject]) -> None:
                self._on_pod(node, group, event)

            pods.add_handler(on_pod)
            informers = [
                group.create_task(services.run(), name="services"),
                group.create_task(pods.run(), name="pods"),
            ]
            await self._announce(pods, stopping)
            await stopping.wait()
            for informer in informers:
                informer.cancel()
            await asyncio.wait(informers)
            for worker in self._workers.values():
                worker.stop()
            await ports.stop()

    async def _announce(self, pods: Informer[PartialObject], stopping: asyncio.Event) -> None:
        """Set ready once the pods are known, unless the end comes first."""
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(pods.wait_synced()), group.create_task(stopping.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        self._ready.set()

    def _on_pod(self, node: Node, group: asyncio.TaskGroup, event: Event[PartialObject]) -> None:
        if event.type is EventType.SYNCED:
            _remove_strangers(node.pods_directory, set(self._workers))
        elif event.type is EventType.DELETED and event.old is not None:
            worker = self._workers.pop(event.old.uid, None)
            if worker is not None:
                worker.gone()
                if self._by_key.get(worker.key) is worker:
                    del self._by_key[worker.key]
        elif event.new is not None:
            pod: Json = msgspec.json.decode(event.new.raw)
            worker = self._workers.get(event.new.uid)
            if worker is not None:
                worker.update(pod)
                return
            worker = PodWorker(node, pod)
            self._workers[event.new.uid] = self._by_key[worker.key] = worker
            group.create_task(worker.run(), name=f"pod-{worker.key}")

    @contextlib.asynccontextmanager
    async def _log_endpoint(self, node: Node) -> AsyncIterator[int]:
        api = KubeletApi(
            node=self.settings.node,
            address=self.settings.address,
            port=self.tuning.kubelet_port,
            directory=node.pods_directory.parent,
            find_log=self._find_log,
            has_pod=lambda namespace, name: ObjectKey(namespace, name) in self._by_key,
            client_ca=self.settings.kubelet_client_ca,
            poll_seconds=self.tuning.follow_poll_seconds,
        )
        async with api.serving() as port:
            yield port

    def _find_log(
        self, namespace: str, pod: str, container: str
    ) -> tuple[ContainerRecord, Path] | None:
        worker = self._by_key.get(ObjectKey(namespace, pod))
        return None if worker is None else worker.log(container)


@contextlib.contextmanager
def _only_one(directory: Path) -> Iterator[None]:
    """Hold the state directory, so that no second runner uses it at the same time."""
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise ConfigError(
                f"--state {directory.parent}: another runner uses this directory"
            ) from exc
        yield
    finally:
        os.close(lock)


def _remove_strangers(pods_directory: Path, known: set[str]) -> None:
    """Remove what pods left that were deleted while the runner was away."""
    for entry in pods_directory.iterdir():
        if entry.name not in known:
            files.remove(entry)
