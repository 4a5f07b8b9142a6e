"""NodePorts: every node listens, and forwards to a ready pod of any node.

Pods are found by the Service's selector and their status, not by Endpoints: a real API server
refuses loopback addresses there. TCP only; cluster IPs are not served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gm.api.core import Service, ServicePort
from gm.api.meta import Condition, ObjectKey, controller_of
from gm.api.resources import GROUP, PODS
from gm.edge_stub.runner.retry import Pause
from gm.edge_stub.runner.settings import Tuning
from gm.errors import ServiceError
from gm.kube import Client, Event, EventRecorder, ObjectRef, Stored

__all__ = ["NodePorts", "Target", "targets"]

logger = logging.getLogger(__name__)

_COPY_BYTES = 65536
_TURNS_TO_SERVE = 4  # of the loop: accept, make the transport, connect the protocol, begin to serve


class _Port(msgspec.Struct, rename="camel"):
    name: str | None = None
    container_port: int = 0
    protocol: str | None = None


class _Container(msgspec.Struct, rename="camel"):
    ports: list[_Port] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None


class _Status(msgspec.Struct, rename="camel"):
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: list[Condition] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Pod(msgspec.Struct, rename="camel"):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_decode_pod = msgspec.json.Decoder(_Pod).decode


class Target(msgspec.Struct, frozen=True):
    """Where a connection is forwarded to."""

    address: str
    port: int


def targets(pods: list[msgspec.Raw], port: ServicePort) -> list[Target]:
    """The ready pods among ``pods`` and the port of theirs that ``port`` means."""
    found = []
    for raw in pods:
        pod = _decode_pod(raw)
        number = _number(pod, port)
        if _is_ready(pod) and pod.status.pod_ip and number:
            found.append(Target(pod.status.pod_ip, number))
    return found


def _is_ready(pod: _Pod) -> bool:
    if pod.metadata.deletion_timestamp is not None:
        return False
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())


def _number(pod: _Pod, port: ServicePort) -> int | None:
    if not isinstance(port.target_port, str):
        return port.target_port or port.port
    for container in pod.spec.containers or ():
        for entry in container.ports or ():
            if entry.name == port.target_port:
                return entry.container_port
    return None


class _Forwarder:
    """One NodePort of one Service; `run` listens until cancelled."""

    def __init__(self, ports: NodePorts, key: ObjectKey, uid: str, number: int) -> None:
        self._ports, self._key, self._uid, self._number = ports, key, uid, number
        self.service: Service | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._known: list[Target] = []
        self._known_until = 0.0

    async def run(self) -> None:
        pause = Pause(self._ports.tuning)
        while True:
            try:
                # A socket of our own: start_server() leaks its one if it is cancelled half-way.
                listener = socket.create_server((self._ports.address, self._number))
                break
            except OSError as exc:
                self._event(
                    "Warning",
                    "NodePortInUse",
                    f"node {self._ports.node} can not listen on "
                    f"{self._ports.address}:{self._number}: {exc.strerror}",
                )
            await pause.sleep()
        server: asyncio.Server | None = None
        try:
            server = await asyncio.start_server(self._serve, sock=listener, start_serving=False)
            await server.start_serving()
            await asyncio.get_running_loop().create_future()  # it serves until this is cancelled
        finally:
            # Not serve_forever: from Python 3.12 on, its end waits for the connections' own.
            try:
                if server is not None:
                    await _stop_accepting(listener)
            finally:
                if server is not None:
                    server.close()
                listener.close()
                for writer in self._connections:
                    writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            connected = await self._connect()
            if connected is not None:  # else closed without a byte: nobody is there
                await self._join(reader, writer, *connected)
        finally:
            self._connections.discard(writer)
            await _close(writer)

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        self._connections.add(far_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, far_writer))
                group.create_task(_copy(far_reader, writer))
        finally:
            self._connections.discard(far_writer)
            await _close(far_writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to one of the ready pods; None if none can be reached."""
        for target in await self._targets():
            try:
                async with asyncio.timeout(self._ports.tuning.connect_seconds):
                    return await asyncio.open_connection(target.address, target.port)
            except (OSError, TimeoutError) as exc:
                logger.debug(
                    "pod not reached",
                    extra={"object": str(self._key), "why": str(exc)},
                )
        self._known_until = 0.0  # whom we know does not answer: ask anew for the next one
        return None

    async def _targets(self) -> list[Target]:
        """Ready pods in random order; asked for when a connection comes, kept for a moment."""
        now = asyncio.get_running_loop().time()
        if now >= self._known_until:
            try:
                self._known = await self._ports.find(self._key, self.service, self._number)
                self._known_until = now + self._ports.tuning.endpoints_seconds
            except ServiceError as exc:
                logger.warning(
                    "pods of a service not listed",
                    extra={"object": str(self._key), "why": str(exc)},
                )
        return random.sample(self._known, len(self._known))

    def _event(self, kind: Literal["Warning"], reason: str, message: str) -> None:
        involved = ObjectRef(
            api_version="v1",
            kind="Service",
            namespace=self._key.namespace,
            name=self._key.name,
            uid=self._uid,
        )
        self._ports.recorder.event(involved, type=kind, reason=reason, message=message)


class NodePorts:
    """Keeps one listener for each NodePort of the Services that `on_event` tells about.

    Unless ``any_service``, only of those whose controller is a sedna.io object.
    """

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        tuning: Tuning,
        group: asyncio.TaskGroup,
        *,
        node: str,
        address: str,
        any_service: bool,
    ) -> None:
        self.recorder, self.tuning, self.node, self.address = recorder, tuning, node, address
        self._client, self._group, self._any_service = client, group, any_service
        self._running: dict[tuple[str, int], tuple[_Forwarder, asyncio.Task[None]]] = {}

    async def on_event(self, event: Event[Service]) -> None:
        """Handle a change of a Service: an informer's handler."""
        stored = event.new or event.old
        if stored is None:
            return
        wanted = set(self._wanted(event.new.view)) if event.new is not None else set()
        for uid, number in [key for key in self._running if key[0] == stored.uid]:
            if number not in wanted:
                await self._stop(uid, number)
        for number in wanted:
            self._start(stored, number)

    def _wanted(self, service: Service) -> list[int]:
        owner = controller_of(service.metadata)
        is_sednas = owner is not None and owner.api_version.partition("/")[0] == GROUP
        return _node_ports(service) if self._any_service or is_sednas else []

    def _start(self, stored: Stored[Service], number: int) -> None:
        running = self._running.get((stored.uid, number))
        if running is not None:
            running[0].service = stored.view
            return
        forwarder = _Forwarder(self, stored.key, stored.uid, number)
        forwarder.service = stored.view
        task = self._group.create_task(forwarder.run(), name=f"nodeport-{number}")
        self._running[stored.uid, number] = forwarder, task

    async def _stop(self, uid: str, number: int) -> None:
        _, task = self._running.pop((uid, number))
        task.cancel()
        await asyncio.wait([task])  # the port may go to the next Service at once

    async def stop(self) -> None:
        """Stop listening everywhere."""
        for uid, number in list(self._running):
            await self._stop(uid, number)

    async def find(self, key: ObjectKey, service: Service | None, number: int) -> list[Target]:
        """The ready pods that NodePort ``number`` of ``service`` leads to."""
        if service is None or not service.spec.selector:
            return []
        port = next((p for p in service.spec.ports or () if p.node_port == number), None)
        if port is None:
            return []
        listed = await self._client.list(
            PODS, namespace=key.namespace, label_selector=_selector(service.spec.selector)
        )
        return targets(listed.items, port)


async def _stop_accepting(listener: socket.socket) -> None:
    """Take no more connections, and let those that were just taken become known.

    asyncio loses the socket of one whose server is closed before its transport is made.
    """
    asyncio.get_running_loop().remove_reader(listener)
    for _ in range(_TURNS_TO_SERVE):
        await asyncio.sleep(0)


def _selector(labels: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _node_ports(service: Service) -> list[int]:
    if service.spec.type not in ("NodePort", "LoadBalancer"):
        return []
    return [
        port.node_port
        for port in service.spec.ports or ()
        if port.node_port and (port.protocol or "TCP") == "TCP"
    ]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, then close that direction only: the other may still have much to say.

    A side that breaks takes the other with it; the copy in the other direction then ends too.
    """
    try:
        while data := await reader.read(_COPY_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
