"""Runs one container of a pod, again and again as its restart policy wants."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from gm.edge_stub.runner.container import Backoff, ContainerProcess, Exit, Order, should_restart
from gm.edge_stub.runner.context import PodContext
from gm.edge_stub.runner.env import ConfigProblem, references
from gm.edge_stub.runner.files import MountProblem
from gm.edge_stub.runner.images import UnknownImage
from gm.edge_stub.runner.launch import container_order
from gm.edge_stub.runner.log_file import last_lines
from gm.edge_stub.runner.probes import Probe, ProbeResult, check, run_probe
from gm.edge_stub.runner.retry import Pause
from gm.edge_stub.runner.sources import read_sources
from gm.edge_stub.runner.status import ContainerRecord
from gm.errors import ServiceError

__all__ = ["ContainerRunner"]

_MESSAGE_LINES, _MESSAGE_BYTES = 80, 2048  # of the log, as a kubelet takes them


class ContainerRunner:
    """One container. Cancelling `keep_running` leaves ``process`` running, for the pod to stop."""

    def __init__(
        self, pod: PodContext, container: Mapping[str, Any], record: ContainerRecord
    ) -> None:
        self.record = record
        self.process: ContainerProcess | None = None
        self.started = asyncio.Event()
        """Set once the container runs and its startup probe, if any, has passed."""
        self._pod, self._container = pod, container

    async def keep_running(self, policy: str) -> None:
        """Run the container until ``policy`` wants it no more."""
        record, tuning = self.record, self._pod.node.tuning
        backoff = Backoff(
            first_seconds=tuning.backoff_first_seconds, max_seconds=tuning.backoff_max_seconds
        )
        # It may have run before the node was restarted.
        attempt = record.restarts + (record.ended is not None)
        while True:
            ended = await self._run_once(attempt)
            record.end(ended)
            self._pod.status.touch()
            if not should_restart(policy, ended.code):
                return
            wait = backoff.next((ended.finished_at - ended.started_at).total_seconds())
            if wait:
                self._back_off(wait)
                await asyncio.sleep(wait)
            attempt += 1

    def _back_off(self, seconds: float) -> None:
        pod = f"{self._pod.key.name}_{self._pod.key.namespace}({self._pod.uid})"
        name = self.record.name
        self.record.wait(
            "CrashLoopBackOff",
            f"back-off {seconds:g}s restarting failed container={name} pod={pod}",
        )
        self._pod.event(
            "Warning", "BackOff", f"Back-off restarting failed container {name} in pod {pod}"
        )
        self._pod.status.touch()

    async def _run_once(self, attempt: int) -> Exit:
        order = await self._get_order(attempt)
        self.process = process = await ContainerProcess.start(order)
        self.record.restarts = attempt
        self._remove_log(attempt - 2)  # `kubectl logs --previous` asks for no older one
        if process.is_running:
            self.record.run(process.started_at, f"gm-runner://{order.marker}")
            self._pod.status.touch()
            self._pod.event("Normal", "Started", f"Started container {self.record.name}")
            ended = await self._watch(process, order)
        else:
            ended = await process.wait()
            self._pod.event("Warning", "Failed", f"Error: {ended.message}")
        self.process = None
        self.started.clear()
        return self._explained(order, ended)

    async def _get_order(self, attempt: int) -> Order:
        """What to execute; waits, saying why, for what the container needs and is not there."""
        pause = Pause(self._pod.node.tuning)
        while True:
            try:
                return await self._make_order(attempt)
            except UnknownImage as exc:
                reason, message = "ErrImageNeverPull", str(exc)
            except (ConfigProblem, MountProblem, ServiceError) as exc:
                reason, message = "CreateContainerConfigError", str(exc)
            except OSError as exc:
                reason, message = "CreateContainerError", f"{exc.filename}: {exc.strerror}"
            self.record.wait(reason, message)
            told = reason if reason == "ErrImageNeverPull" else "Failed"
            self._pod.event("Warning", told, f"Error: {message}")
            self._pod.status.touch()
            await pause.sleep()

    async def _make_order(self, attempt: int) -> Order:
        pod, name = self._pod, self.record.name
        sources = await read_sources(
            pod.node.client, pod.key.namespace, references(self._container)
        )
        return container_order(
            self._container,
            pod.facts,
            places=pod.places,
            images=pod.node.images,
            sources=sources,
            attempt=attempt,
            log_max_bytes=pod.node.tuning.log_max_bytes,
            marker=f"{pod.node.marker}/{pod.uid}/{name}/{attempt}",
        )

    def _remove_log(self, attempt: int) -> None:
        log = self._pod.places.log(self.record.name, attempt)
        for suffix in ("", ".1"):
            log.with_name(log.name + suffix).unlink(missing_ok=True)

    def _explained(self, order: Order, ended: Exit) -> Exit:
        """``ended`` with the end of the log as its message, where the pod asks for that."""
        policy = self._container.get("terminationMessagePolicy")
        if policy != "FallbackToLogsOnError" or ended.code == 0 or ended.message:
            return ended
        text = last_lines(order.log, lines=_MESSAGE_LINES, max_bytes=_MESSAGE_BYTES)
        return msgspec.structs.replace(ended, message=text)

    # While it runs

    async def _watch(self, process: ContainerProcess, order: Order) -> Exit:
        """Wait for the end of a running container while its probes look at it."""
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(self._probe(process, order))
            ended = await process.wait()
            probing.cancel()
        return ended

    async def _probe(self, process: ContainerProcess, order: Order) -> None:
        """Keep ``ready`` and ``started`` true to the probes; restart what a probe condemns."""

        async def look(probe: Probe) -> ProbeResult:
            return await check(probe, self._container, self._pod.record.pod_ip, order)

        condemned, passed_startup = asyncio.Event(), asyncio.Event()
        startup, readiness, liveness = (
            self._container.get(f"{kind}Probe") for kind in ("startup", "readiness", "liveness")
        )

        def hear_startup(passed: bool, message: str) -> None:
            if passed:
                passed_startup.set()
            else:
                hear_liveness(passed, message, "Startup")

        def hear_liveness(passed: bool, message: str, kind: str = "Liveness") -> None:
            if not passed:
                self._unhealthy(kind, message)
                condemned.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(self._end_when(condemned, process))
            if startup:
                first = group.create_task(run_probe(Probe.of(startup), look, hear_startup))
                await passed_startup.wait()
                first.cancel()
            self.record.started = True
            self.started.set()
            if readiness:
                group.create_task(run_probe(Probe.of(readiness), look, self._hear_readiness))
            else:
                self.record.ready = True
            self._pod.status.touch()
            if liveness:
                group.create_task(run_probe(Probe.of(liveness), look, hear_liveness))

    def _hear_readiness(self, passed: bool, message: str) -> None:
        if not passed:
            self._unhealthy("Readiness", message)
        if self.record.ready != passed:
            self.record.ready = passed
            self._pod.status.touch()

    def _unhealthy(self, kind: str, message: str) -> None:
        self._pod.event("Warning", "Unhealthy", f"{kind} probe failed: {message}")

    async def _end_when(self, condemned: asyncio.Event, process: ContainerProcess) -> None:
        await condemned.wait()
        name = self.record.name
        self._pod.event("Normal", "Killing", f"Container {name} failed a probe, will be restarted")
        process.terminate()
        await asyncio.sleep(self._pod.grace_seconds)
        process.kill()
