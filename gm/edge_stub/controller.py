"""The Local Controller stand-in: composes agent, store, worker API and dataset counting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence

from gm.edge_stub.agent import Agent
from gm.edge_stub.datasets import DatasetCounter
from gm.edge_stub.objects import DATASET, JobIndex, JobWorkers, dataset_spec
from gm.edge_stub.outbox import UNRESOLVED, Outbox
from gm.edge_stub.settings import EdgeSettings
from gm.edge_stub.status import EdgeStatus, serving_status, status_of_disk
from gm.edge_stub.store import Put, Remove, Store, StoreError
from gm.edge_stub.worker_api import WorkerInfo, serving_workers
from gm.messagelayer.message import KINDS, MalformedFrame, WireKey, check_key

__all__ = ["LocalController"]

logger = logging.getLogger(__name__)


class LocalController:
    """Keeps what GM sends, answers the node's workers, and reports back; survives GM's absence."""

    def __init__(self, settings: EdgeSettings) -> None:
        self.settings = settings
        self.port = settings.listen_port
        """Port of the worker API, known once it listens."""
        self.store = Store(settings.state)
        self.outbox = Outbox(self.store)
        self.agent = Agent(
            settings, store=self.store, outbox=self.outbox, applied=self._take_changes
        )
        self._jobs = JobIndex()
        self._datasets = DatasetCounter(
            settings.root, self.outbox.add, interval_seconds=settings.count_interval_seconds
        )
        self._ready = asyncio.Event()

    async def wait_ready(self) -> None:
        """Return once the worker API listens."""
        await self._ready.wait()

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until ``stopping`` is set; then reports are given a moment to reach GM.

        Raises: ConfigError when the worker API's port or the state directory can not be used.
        """
        await self.store.open()
        try:
            await self._recall()
            async with asyncio.TaskGroup() as group:
                host, port = self.settings.listen_host, self.settings.listen_port
                async with (
                    serving_workers(host, port, self._take_report) as self.port,
                    serving_status(self.settings.state, self._status),
                ):
                    tasks = [
                        group.create_task(self._datasets.run(), name="datasets"),
                        group.create_task(self.agent.run(), name="agent"),
                    ]
                    self._ready.set()
                    await stopping.wait()
                await self._drain()
                for task in tasks:
                    task.cancel()
        finally:
            await self.store.close()

    async def _status(self) -> EdgeStatus:
        """What `gm edge status` tells. Raises: StoreError."""
        objects, reports = await self.store.run(status_of_disk)
        return EdgeStatus(
            running=True,
            objects=objects,
            outbox=reports,
            node=self.settings.node,
            pid=os.getpid(),
            worker_api=f"{self.settings.listen_host}:{self.port}",
            link=self.agent.status(),
        )

    async def _recall(self) -> None:
        """Go on with what the database holds: the node may start while GM is away."""
        for held in list(self.store.held.values()):
            content = await self.store.content(held.key)
            self._learn(Put(held, content or b""))
        logger.info(
            "local controller starts",
            extra={"node": self.settings.node, "objects": len(self.store.held)},
        )

    async def _drain(self) -> None:
        """Let reports go up while GM takes them; the others wait on disk for the next start."""
        with contextlib.suppress(TimeoutError, StoreError):
            async with asyncio.timeout(self.settings.shutdown_seconds):
                await self.outbox.drain(going_on=lambda: self.agent.is_connected)

    async def _take_changes(self, changes: Sequence[Put | Remove]) -> None:
        gone = [self._learn(change) for change in changes]
        # Without waiting before: what workers report from now on comes to the disk after it.
        if jobs := [job for job in gone if job is not None and job.uid and job.names]:
            await self.outbox.remember(jobs)
        await self.outbox.resolve(self._jobs)

    def _learn(self, change: Put | Remove) -> JobWorkers | None:
        """Take note of a change; gives the job that is gone by it."""
        if isinstance(change, Remove):
            self._datasets.remove(change.key)
            return self._jobs.remove(change.key)
        if change.held.key.kind == DATASET:
            self._datasets.put(change.held, dataset_spec(change.content))
        return self._jobs.put(change.held, change.content)

    async def _take_report(self, info: WorkerInfo) -> None:
        """Keep a worker's report for GM. Raises: StoreError, ValueError when it names nobody.

        One that belongs to an earlier job is dropped without a word to the worker, which would
        send it again and again, and do nothing else.
        """
        owner = self._owner(info)
        named_by = self._jobs.named_by(owner, info.worker)
        await self.outbox.add(owner, info.content, worker=info.worker, named_by=named_by)

    def _owner(self, info: WorkerInfo) -> WireKey:
        if info.owner_kind not in KINDS:
            owner = self._jobs.owner(
                namespace=info.namespace, worker=info.worker, owner=info.owner_name
            )
            if owner is not None:
                return owner
            # The job may still be on its way down.
            return WireKey(UNRESOLVED, info.namespace, info.owner_name)
        try:
            return check_key(info.owner_kind, info.namespace, info.owner_name)
        except MalformedFrame:
            raise ValueError(
                f"namespace {info.namespace!r} and ownerName {info.owner_name!r} name no object"
            ) from None
