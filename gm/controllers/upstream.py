"""Reports of edge nodes into the status of what they speak of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import timedelta
from typing import Any

import msgspec

from gm.api.core import Pod
from gm.api.meta import ObjectKey, PartialObject, ResourceType
from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    INCREMENTAL_LEARNING_JOBS,
    JOINT_INFERENCE_SERVICES,
    MODELS,
)
from gm.api.sedna import FederatedLearningJob
from gm.controllers.base import Controller, Result
from gm.controllers.bounded import shrink
from gm.controllers.conditions import conflict_pause, now, status_of, status_patch
from gm.controllers.reporters import why_refused
from gm.controllers.reports import (
    InferenceUpdate,
    ModelUpdate,
    StageUpdate,
    TrainingUpdate,
    Update,
    metric_values,
    parse_dataset,
    parse_job,
)
from gm.controllers.stored import OwnWrites, stored
from gm.errors import BadRequest, Conflict, NotFound, TooLarge
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType, Stored
from gm.kube.workqueue import Workqueue
from gm.messagelayer import Hub, Report

__all__ = ["Target", "Upstream"]

logger = logging.getLogger(__name__)

_MAX_CONFLICTS = 10
_MAX_OBJECTS = 10_000
_COALESCE_SECONDS = 0.05  # trainers report a round at about the same time


class Target(msgspec.Struct, frozen=True):
    """An object whose status is to be written."""

    resource: ResourceType
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.resource.qualified} {self.key}"


class _Untimely(Exception):
    """A report can be read, but its job does not take it."""


class _Receipt:
    """Acknowledges a report when everything it changes is written."""

    def __init__(self, hub: Hub, report: Report, parts: int) -> None:
        self._hub, self._report, self._left = hub, report, parts

    def part_done(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._hub.acknowledge(self._report)


class _Pending:
    """What waits to be written to one object, oldest first."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Update]] = []
        self.receipts: list[_Receipt] = []

    def add(self, slot: str, update: Update, receipt: _Receipt) -> None:
        self.receipts.append(receipt)
        same = [known for known_slot, known in self.updates if known_slot == slot]
        if not (same and same[-1].absorb(update)):
            self.updates.append((slot, update))

    def precede(self, later: _Pending) -> None:
        """Take in what came while this was being written, in vain."""
        for slot, update in later.updates:
            same = [known for known_slot, known in self.updates if known_slot == slot]
            if not (same and same[-1].absorb(update)):
                self.updates.append((slot, update))
        self.receipts += later.receipts


class Upstream:
    """Takes reports off the hub and writes status, with optimistic concurrency.

    ``informers`` by kind, lower case, as on the wire; ``pods`` are those of federated jobs. The
    hub has checked that the node that reports holds the object.
    """

    name = "upstream"

    def __init__(
        self,
        hub: Hub,
        client: Client,
        informers: dict[str, Informer[Any]],
        *,
        pods: Informer[Pod] | None = None,
        completion_grace_seconds: float = 30.0,
        workers: int = 4,
        grace_seconds: float = 5.0,
    ) -> None:
        self._hub = hub
        self._client = client
        self._listers = {kind: informer.lister for kind, informer in informers.items()}
        self._queue: Workqueue[Target] = Workqueue(base_seconds=0.1, max_seconds=60.0)
        self._controller = Controller(
            self.name, self, self._queue, workers=workers, grace_seconds=grace_seconds
        )
        self._pods = pods
        self._completion_grace = timedelta(seconds=completion_grace_seconds)
        self._grace_seconds = grace_seconds
        self._pending: dict[Target, _Pending] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._written: dict[str, OwnWrites[PartialObject]] = {}
        self._last_refusal: dict[str, float] = {}
        for informer in informers.values():
            informer.add_handler(self._on_event)

    async def _on_event(self, event: Event[Any]) -> None:
        if event.type is EventType.DELETED and event.old is not None:
            self._own_writes(event.resource).forget(event.old.key)

    async def run(self, stopping: asyncio.Event) -> None:
        """Write reports until ``stopping`` is set, then those that have come, within the grace."""
        async with asyncio.TaskGroup() as group:
            intake = group.create_task(self._take_reports(), name="upstream-intake")
            drained = asyncio.Event()
            group.create_task(self._controller.run(drained), name="upstream-writers")
            await stopping.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace_seconds):
                    # the hub's queue and ours: no single event tells when both are empty
                    while self._hub.waiting_reports or self._pending:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
            intake.cancel()
            drained.set()

    async def _take_reports(self) -> None:
        while True:
            await self._room.wait()
            self.take(await self._hub.next_report())

    def take(self, report: Report) -> None:
        """Note what ``report`` changes; one that says nothing readable is refused."""
        try:
            changes = self._changes(report)
        except (msgspec.MsgspecError, RecursionError) as exc:
            self._refuse(report, f"it can not be read: {exc}")
            return
        except _Untimely as exc:
            self._refuse(report, str(exc))
            return
        if not changes:
            self._hub.acknowledge(report)
            return
        receipt = _Receipt(self._hub, report, len(changes))
        for target, update in changes:
            pending = self._pending.get(target)
            if pending is None:
                pending = self._pending[target] = _Pending()
            pending.add(report.node, update, receipt)
            self._queue.add_after(target, _COALESCE_SECONDS)
        if len(self._pending) >= _MAX_OBJECTS:
            self._room.clear()

    def _changes(self, report: Report) -> list[tuple[Target, Update]]:
        key = ObjectKey(report.key.namespace, report.key.name)
        match report.key.kind:
            case "dataset":
                return [(Target(DATASETS, key), parse_dataset(report.content))]
            case "federatedlearningjob":
                return self._training_changes(report, key)
            case "jointinferenceservice":
                info = parse_job(report.content).decoded_output().owner_info or {}
                times = ("startTime", "updateTime")
                values = metric_values({k: v for k, v in info.items() if k not in times})
                return [(Target(JOINT_INFERENCE_SERVICES, key), InferenceUpdate(values))]
            case "incrementallearningjob":
                step = StageUpdate.of(parse_job(report.content))
                return [(Target(INCREMENTAL_LEARNING_JOBS, key), step)]
            case _:
                raise msgspec.ValidationError("nothing is known about reports of this kind")

    def _training_changes(self, report: Report, key: ObjectKey) -> list[tuple[Target, Update]]:
        output = parse_job(report.content).decoded_output()
        job: Stored[FederatedLearningJob] | None = self._listers["federatedlearningjob"].get(key)
        refusal = why_refused(report, job, self._pods, now=now(), grace=self._completion_grace)
        if refusal is not None:
            raise _Untimely(refusal)
        info = output.owner_info or {}
        number = info.get("currentRound")
        is_round = isinstance(number, int) and not isinstance(number, bool) and number > 0
        first = next(iter(output.models or []), None)
        metrics = metric_values(first.metrics if first else None)
        reached = info.get("updateTime")
        changes: list[tuple[Target, Update]] = []
        update = TrainingUpdate(
            node=report.node,
            round=number if is_round else None,
            reached_at=reached[:64] if isinstance(reached, str) else "",
            metrics=dict(metrics),
        )
        changes.append((Target(FEDERATED_LEARNING_JOBS, key), update))
        model = job.view.spec.aggregation_worker.model.name if job is not None else ""
        if metrics and model:
            target = Target(MODELS, ObjectKey(key.namespace, model))
            changes.append((target, ModelUpdate(metrics)))
        return changes

    def _refuse(self, report: Report, reason: str) -> None:
        self._hub.counters["reports_refused"] += 1
        loop_time = asyncio.get_running_loop().time()
        # a node that keeps on sending such reports gets a line a minute
        if loop_time - self._last_refusal.get(report.node, -60.0) >= 60.0:
            self._last_refusal[report.node] = loop_time
            logger.warning(
                "report ignored",
                extra={"node": report.node, "object": str(report.key), "reason": reason},
            )
        self._hub.acknowledge(report, refused=reason)

    async def reconcile(self, key: Target) -> Result:
        """Write what waits for object ``key``; what could not be written waits on."""
        pending = self._pending.pop(key, None)
        if pending is None:
            return Result()
        if len(self._pending) < _MAX_OBJECTS:
            self._room.set()
        try:
            await self._write(key, pending)
        except NotFound:  # nobody is left to be told
            self._own_writes(key.resource).forget(key.key)
        except BadRequest as exc:
            # the server refuses the content: the same again can only be refused again
            logger.warning("status refused", extra={"reason": str(exc)})
        except BaseException:
            later = self._pending.get(key)
            if later is not None:
                pending.precede(later)
            self._pending[key] = pending
            raise
        for receipt in pending.receipts:
            receipt.part_done()
        return Result()

    async def _write(self, target: Target, pending: _Pending) -> None:
        lister = self._listers[target.resource.kind.lower()]
        writes = self._own_writes(target.resource)
        current: Stored[Any] | None = writes.newest(lister.get(target.key))
        is_too_large = False
        for attempt in range(_MAX_CONFLICTS):
            if current is None:
                raw = await self._client.get(target.resource, target.key)
                current = stored(raw, PartialObject)
            old = status_of(current.raw)
            new = status_of(current.raw)
            moment = now()
            for _, update in pending.updates:
                update.apply(new, moment)
            if is_too_large:
                shrink(new, most=0)
            patch = status_patch(old, new, resource_version=current.resource_version)
            if patch is None:
                return
            try:
                raw = await self._client.patch(
                    target.resource, target.key, patch, subresource="status"
                )
            except Conflict:
                current = None  # somebody else wrote: read again, compute again
                await asyncio.sleep(conflict_pause(attempt))
                continue
            except TooLarge:  # the spec leaves less room than usual
                if is_too_large:
                    raise
                is_too_large = True
                continue
            writes.note(stored(raw, PartialObject), lister.get(target.key))
            return
        raise Conflict(
            f"patch {target} status",
            code=409,
            reason="Conflict",
            message=f"{_MAX_CONFLICTS} times in a row",
        )

    def _own_writes(self, resource: ResourceType) -> OwnWrites[PartialObject]:
        return self._written.setdefault(resource.kind, OwnWrites())
