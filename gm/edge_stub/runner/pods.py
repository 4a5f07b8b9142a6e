"""The life of one pod: from the moment it is bound to this node until its object is gone."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from gm.api.meta import Json, ObjectKey, PartialObject
from gm.api.resources import PODS
from gm.edge_stub.runner import files
from gm.edge_stub.runner.addresses import NoFreeAddress
from gm.edge_stub.runner.admission import refusal
from gm.edge_stub.runner.container import should_restart
from gm.edge_stub.runner.container_runner import ContainerRunner
from gm.edge_stub.runner.context import Node, PodContext
from gm.edge_stub.runner.files import (
    MountProblem,
    is_refreshed,
    make_volumes,
    mounted_volumes,
    volume_sources,
)
from gm.edge_stub.runner.retry import Pause
from gm.edge_stub.runner.sources import read_sources
from gm.edge_stub.runner.status import NOT_FOR_THIS_NODE, ContainerRecord, PodRecord
from gm.errors import Conflict, NotFound, ServiceError

__all__ = ["PodWorker"]

logger = logging.getLogger(__name__)

_DEADLINE_EXCEEDED = "Pod was active on the node longer than the specified deadline"


class _Ending(enum.Enum):
    """Why a pod's processes must end."""

    DELETED = "DELETED"
    GONE = "GONE"
    DEADLINE = "DEADLINE"
    STOPPING = "STOPPING"


class PodWorker:
    """Runs one pod. `update`, `gone` and `stop` tell it what happens; `run` does the work."""

    def __init__(self, node: Node, pod: Json) -> None:
        self.record = PodRecord.restore(pod, host_ip=node.settings.address, now=datetime.now(UTC))
        self._pod = PodContext(node, pod, self.record)
        self._node = node
        spec = self._pod.spec
        self._init = self._runners(spec.get("initContainers") or (), self.record.init)
        self._main = self._runners(spec.get("containers") or (), self.record.containers)
        self._changed, self._own_change = asyncio.Event(), asyncio.Event()
        self._is_gone = self._is_stopping = False
        self._is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    def _runners(
        self, containers: Sequence[Json], records: Sequence[ContainerRecord]
    ) -> list[ContainerRunner]:
        return [
            ContainerRunner(self._pod, container, record)
            for container, record in zip(containers, records, strict=True)
        ]

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self._pod.key

    def update(self, pod: Json) -> None:
        """The pod's object changed."""
        if _own(pod) != _own(self._pod.pod):
            self._own_change.set()
        self._pod.status.observe(pod)
        self._changed.set()

    def gone(self) -> None:
        """The pod's object does not exist any more."""
        self._is_gone = True
        self._changed.set()

    def stop(self) -> None:
        """The runner stops: end the processes, leave the object as it is."""
        self._is_stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Live until the object is gone or the runner stops; then no process is left."""
        try:
            await self._run()
        finally:  # only a crash or a cancellation finds any
            for runner in (*self._init, *self._main):
                if runner.process is not None:
                    await runner.process.kill_and_wait()
        self._node.addresses.release(self.record.pod_ip)
        if not self._is_stopping:
            await asyncio.to_thread(files.remove, self._pod.directory)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._pod.status.run(), name=f"status-{self.key}")
            life = group.create_task(self._live_safely(), name=f"pod-{self.key}")
            life.add_done_callback(lambda _: self._changed.set())
            ending = await self._wait_ending(life)
            if ending is _Ending.DEADLINE:
                self._fail("Normal", "DeadlineExceeded", _DEADLINE_EXCEEDED)
                await self._end(life)
                self.record.end_waiting()
                self._pod.status.touch()
                ending = await self._wait_ending(life)
            # Now an end by SIGTERM is the pod's end, not a reason to start the container again.
            self.record.is_ending = ending is _Ending.DELETED
            await self._end(life)
            if ending is _Ending.DELETED:
                if not self._is_over and not self.record.refusal:
                    self.record.end_waiting()
                await self._confirm_deletion()
            writer.cancel()

    def log(self, container: str) -> tuple[ContainerRecord, Path] | None:
        """The record of ``container`` and the pod's directory, where its logs lie."""
        for record in (*self.record.init, *self.record.containers):
            if record.name == container:
                return record, self._pod.directory
        return None

    # Why and how it ends

    async def _wait_ending(self, life: asyncio.Task[None]) -> _Ending:
        while True:
            self._changed.clear()
            if self._is_gone:
                return _Ending.GONE
            if self._is_stopping:
                return _Ending.STOPPING
            if self._pod.pod["metadata"].get("deletionTimestamp"):
                return _Ending.DELETED
            try:
                async with asyncio.timeout(None if life.done() else self._deadline_left()):
                    await self._changed.wait()
            except TimeoutError:
                return _Ending.DEADLINE

    def _deadline_left(self) -> float | None:
        seconds = self._pod.spec.get("activeDeadlineSeconds")
        if seconds is None or self.record.refusal:
            return None
        return float(seconds - (datetime.now(UTC) - self.record.start_time).total_seconds())

    async def _end(self, life: asyncio.Task[None]) -> None:
        life.cancel()
        await asyncio.wait([life])
        await self._stop_containers()

    async def _stop_containers(self) -> None:
        """SIGTERM, and SIGKILL when the grace period, which may be shortened meanwhile, is over."""
        runners = [runner for runner in (*self._init, *self._main) if runner.process is not None]
        if not runners:
            return
        for runner in runners:
            if runner.process is not None:
                runner.process.terminate()
            if not self._is_stopping:
                name = runner.record.name
                self._pod.event("Normal", "Killing", f"Stopping container {name}")
        async with asyncio.TaskGroup() as group:
            killing = group.create_task(self._kill_in_time(runners))
            for runner in runners:
                await self._collect(runner)
            killing.cancel()

    async def _collect(self, runner: ContainerRunner) -> None:
        if runner.process is not None:
            ended = await runner.process.wait()
            # A stopping runner is a reboot to its pods: they did not end, they were lost.
            if self._is_stopping:
                runner.process = None
            else:
                runner.end(ended)

    async def _kill_in_time(self, runners: Sequence[ContainerRunner]) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while (left := begin + self._grace_seconds - loop.time()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        for runner in runners:
            if runner.process is not None:
                runner.process.kill()

    @property
    def _grace_seconds(self) -> float:
        if self._is_gone:
            return 0.0
        if self._is_stopping:
            return min(self._pod.grace_seconds, self._node.tuning.stop_grace_seconds)
        return self._pod.grace_seconds

    async def _confirm_deletion(self) -> None:
        """Tell the API server that nothing runs any more; only then does the object go."""
        pause = Pause(self._node.tuning)
        while not (self._is_gone or self._is_stopping):
            self._changed.clear()
            try:
                await self._pod.status.write()  # how it ended is the last that others see of it
                await self._node.client.delete(
                    PODS, self.key, uid=self._pod.uid, grace_period_seconds=0
                )
                return
            except (NotFound, Conflict):
                return  # gone, or another pod has the name now
            except ServiceError as exc:
                logger.warning(
                    "pod deletion not confirmed yet",
                    extra={"object": str(self.key), "why": str(exc)},
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause.next()):
                    await self._changed.wait()

    # What it does while it lives

    async def _live_safely(self) -> None:
        """Live; a pod that we fail at must not take the other pods with it."""
        try:
            if not self._is_over:
                await self._live()
        except Exception as exc:
            logger.exception("pod failed in the runner", extra={"object": str(self.key)})
            # Only its kind: what it says may hold what the pod may read, such as Secrets.
            what = type(exc).__name__
            why = f"the gm runner failed at this pod ({what}), see its log"
            self._fail("Warning", "RunnerError", why)
            await self._stop_containers()

    async def _live(self) -> None:
        self._pod.status.touch()
        if not await self._is_admitted():
            return
        await self._get_volumes()
        await self._get_address()
        self._warn_of_what_is_not_run()
        wanted = [runner for runner in self._main if self._wants_run(runner.record)]
        if wanted:
            async with asyncio.TaskGroup() as group:
                refreshing = group.create_task(self._refresh_volumes())
                sidecars = await self._initialize(group)
                if self.record.is_initialized:
                    policy = self.record.policy
                    tasks = [group.create_task(runner.keep_running(policy)) for runner in wanted]
                    await asyncio.wait(tasks)
                for task in (refreshing, *sidecars):
                    task.cancel()
            await self._stop_containers()  # the sidecars
        self._is_over = True
        self._node.addresses.release(self.record.pod_ip)
        self._pod.status.touch()
        await asyncio.to_thread(files.remove, self._pod.directory / "volumes")

    async def _initialize(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run the init containers in order until one fails for good; returns the sidecars."""
        policy = "Never" if self.record.policy == "Never" else "OnFailure"
        sidecars = []
        for runner in self._init:
            if runner.record.is_sidecar:
                sidecars.append(group.create_task(runner.keep_running("Always")))
                await runner.started.wait()
                continue
            await runner.keep_running(policy)
            if not runner.record.is_initialized:
                break
        return sidecars

    def _wants_run(self, record: ContainerRecord) -> bool:
        """Whether a container is to be started: for the first time, or after a reboot."""
        ended = record.ended
        return ended is None or should_restart(self.record.policy, ended.code)

    async def _is_admitted(self) -> bool:
        pause = Pause(self._node.tuning)
        while True:
            try:
                pod = msgspec.convert(self._pod.pod, PartialObject)
                why = await refusal(self._node.client, self._node.settings, pod)
                break
            except ServiceError as exc:
                logger.warning(
                    "pod's controller not read yet",
                    extra={"object": str(self.key), "why": str(exc)},
                )
            await pause.sleep()
        if why:
            self.record.refuse(why)
            self._pod.event("Warning", NOT_FOR_THIS_NODE, why)
            self._pod.status.touch()
        return not why

    async def _get_address(self) -> None:
        if self._pod.spec.get("hostNetwork"):
            self.record.pod_ip = self._node.settings.address
            return
        pause = Pause(self._node.tuning)
        while True:
            try:
                self.record.pod_ip = self._node.addresses.allocate()
                return
            except NoFreeAddress as exc:
                self._pod.event("Warning", "FailedCreatePodSandBox", str(exc))
            await pause.sleep()

    async def _get_volumes(self) -> None:
        """Make the volumes; what is missing may come yet, so this waits for it."""
        pause = Pause(self._node.tuning)
        while True:
            why = await self._make_volumes()
            self._tell_wait(why)
            if not why:
                return
            await pause.sleep()

    async def _make_volumes(self) -> str:
        """Bring the volumes in line with what they are made from; gives why that can not be."""
        root, own = self._node.settings.root, self._pod.directory / "volumes"
        try:
            sources = await read_sources(
                self._node.client, self.key.namespace, volume_sources(self._pod.spec)
            )
            self._pod.volumes = make_volumes(self._pod.facts, root, own, sources)
        except (MountProblem, ServiceError) as exc:
            self._pod.event("Warning", "FailedMount", str(exc))
            return str(exc)
        return ""

    async def _refresh_volumes(self) -> None:
        """Let mounted Secrets and the like follow their objects, until cancelled.

        As a kubelet does: now and then, and when the pod itself changes.
        """
        if not any(is_refreshed(volume) for volume in mounted_volumes(self._pod.spec)):
            return
        while True:
            self._own_change.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._node.tuning.refresh_seconds):
                    await self._own_change.wait()
            await self._make_volumes()

    def _tell_wait(self, why: str) -> None:
        """Say in the pod's status too what it waits for: an Event lives for an hour only."""
        for record in (*self.record.init, *self.record.containers):
            if record.waiting is not None and record.waiting[1] != why:
                record.wait(record.waiting[0], why)
                self._pod.status.touch()

    def _warn_of_what_is_not_run(self) -> None:
        for container in self._pod.spec["containers"]:
            if container.get("lifecycle"):
                self._pod.event(
                    "Warning",
                    "Unsupported",
                    f"the gm runner does not run lifecycle hooks (container {container['name']})",
                )

    def _fail(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._is_over = True
        self.record.failure = (reason, message)
        self._pod.event(kind, reason, message)
        self._pod.status.touch()


def _own(pod: Json) -> tuple[Json | None, Json | None, Json]:
    """What of ``pod`` may change what its volumes hold: not its status."""
    meta = pod["metadata"]
    return meta.get("labels"), meta.get("annotations"), pod["spec"]
