"""Runs one container of a pod, again and again as its restart policy wants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
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

_MESSAGE_BYTES = 4096  # of the file for the termination message, as a kubelet takes them
_POD_MESSAGES_BYTES = 12 * 1024  # shared equally by the containers of a pod
_CONTAINERS = ("containers", "initContainers")
_LOG_LINES, _LOG_BYTES = 80, 2048  # and of the log


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
        self._restarts = True

    async def keep_running(self, policy: str) -> None:
        """Run the container until ``policy`` wants it no more."""
        record, tuning = self.record, self._pod.node.tuning
        self._restarts = policy != "Never"
        backoff = Backoff(
            first_seconds=tuning.backoff_first_seconds, max_seconds=tuning.backoff_max_seconds
        )
        # It may have run before the node was restarted.
        attempt = record.restarts + (record.ended is not None)
        while True:
            ended = await self._run_once(attempt)
            if not should_restart(policy, ended.code):
                return
            wait = backoff.next(ended.ran_seconds)
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
        self._pod.event("Normal", "Created", f"Created container: {self.record.name}")
        self.process = process = await ContainerProcess.start(order)
        self.record.restarts = attempt
        identity = f"gm-runner://{order.marker}"
        if process.is_running:
            self.record.run(process.started_at, identity)
            self._pod.status.touch()
            self._pod.event("Normal", "Started", f"Started container {self.record.name}")
            ended = await self._watch(process, order)
        else:
            ended = await process.wait()
            self.record.identity = identity
            self._pod.event("Warning", "Failed", f"Error: {ended.message}")
        return self.end(ended)

    def end(self, ended: Exit) -> Exit:
        """Take note of how ``process`` ended; gives that with the container's message.

        In one go: who cancels this runner finds it with a process or with an end.
        """
        self.process = None
        self.started.clear()
        self._remove_log(self.record.restarts - 1)  # of those that have ended the newest is kept
        ended = self._explained(ended)
        self.record.end(ended)
        self._pod.status.touch()
        return ended

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
            if reason == "ErrImageNeverPull":
                self._pod.event("Warning", reason, message)
            told = reason if reason == "ErrImageNeverPull" else message
            self._pod.event("Warning", "Failed", f"Error: {told}")
            self._pod.status.touch()
            await pause.sleep()

    async def _make_order(self, attempt: int) -> Order:
        pod, name = self._pod, self.record.name
        await asyncio.to_thread(pod.places.clear, name)
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

    def _explained(self, ended: Exit) -> Exit:
        """``ended`` with what the container left as its message, or else the end of its log."""
        if ended.message:
            return ended
        text = _end_of(self._pod.places.termination_message(self.record.name))
        policy = self._container.get("terminationMessagePolicy")
        if not text and policy == "FallbackToLogsOnError" and ended.code != 0:
            log = self._pod.places.log(self.record.name, self.record.restarts)
            text = last_lines(log, lines=_LOG_LINES, max_bytes=_LOG_BYTES)
        limit = _POD_MESSAGES_BYTES // sum(len(self._pod.spec.get(k) or ()) for k in _CONTAINERS)
        text = text.encode()[:limit].decode(errors="ignore")
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

        condemned: asyncio.Queue[str] = asyncio.Queue()  # by a probe of this kind
        passed_startup = asyncio.Event()

        def hear_startup(passed: bool) -> None:
            if passed:
                passed_startup.set()
            else:
                condemned.put_nowait("startup")

        def hear_liveness(passed: bool) -> None:
            if not passed:
                condemned.put_nowait("liveness")

        async def keep_probing(kind: str, hear: Callable[[bool], None]) -> None:
            probe = Probe.of(self._container[f"{kind}Probe"])

            async def look_and_tell() -> bool:
                result = await look(probe)
                self._tell(kind.capitalize(), result)
                return result.passed

            await run_probe(probe, look_and_tell, hear)

        async with asyncio.TaskGroup() as group:
            group.create_task(self._end_when(condemned, process))
            if self._container.get("startupProbe"):
                first = group.create_task(keep_probing("startup", hear_startup))
                await passed_startup.wait()
                first.cancel()
            self.record.started = True
            self.started.set()
            if self._container.get("readinessProbe"):
                group.create_task(keep_probing("readiness", self._hear_readiness))
            else:
                self.record.ready = True
            self._pod.status.touch()
            if self._container.get("livenessProbe"):
                group.create_task(keep_probing("liveness", hear_liveness))

    def _hear_readiness(self, passed: bool) -> None:
        if self.record.ready != passed:
            self.record.ready = passed
            self._pod.status.touch()

    def _tell(self, kind: str, result: ProbeResult) -> None:
        """Events about one look, also where it makes no verdict yet."""
        if not result.passed:
            self._pod.event("Warning", "Unhealthy", f"{kind} probe failed: {result.message}")
        elif result.message:
            self._pod.event("Warning", "ProbeWarning", f"{kind} probe warning: {result.message}")

    async def _end_when(self, condemned: asyncio.Queue[str], process: ContainerProcess) -> None:
        name, kind = self.record.name, await condemned.get()
        if self._restarts:
            message = f"Container {name} failed {kind} probe, will be restarted"
        elif len(self._pod.spec["containers"]) == 1:
            message = f"Stopping container {name}"  # and with it the pod
        else:
            message = f"Container {name} failed {kind} probe"
        self._pod.event("Normal", "Killing", message)
        process.terminate()
        await asyncio.sleep(self._pod.grace_seconds)
        process.kill()


def _end_of(path: Path) -> str:
    """The end of a termination message; empty where there is none."""
    if not path.is_file():  # a pipe would be waited for
        return ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MESSAGE_BYTES))
        return file.read(_MESSAGE_BYTES).decode(errors="replace")
