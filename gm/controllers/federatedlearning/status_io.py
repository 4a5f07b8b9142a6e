"""Writing a job's status: with optimistic concurrency, small enough, and told in Events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gm.api.meta import Json, ObjectKey
from gm.api.resources import FEDERATED_LEARNING_JOBS
from gm.api.sedna import FederatedLearningJob
from gm.controllers.bounded import shrink
from gm.controllers.conditions import conflict_pause, status_of, status_patch
from gm.controllers.federatedlearning.status import notices
from gm.controllers.federatedlearning.verdict import is_finished
from gm.controllers.stored import OwnWrites, stored
from gm.errors import Conflict, NotFound, TooLarge
from gm.kube.client import Client
from gm.kube.lister import Lister, Stored
from gm.kube.recorder import EventRecorder, ObjectRef

__all__ = ["StatusWriter", "reference_to"]

logger = logging.getLogger(__name__)

_MAX_CONFLICTS = 8

Job = Stored[FederatedLearningJob]


class StatusWriter:
    """Writes statuses of jobs, and knows what ``lister`` does not show of that yet."""

    def __init__(
        self, client: Client, recorder: EventRecorder, lister: Lister[FederatedLearningJob]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._lister = lister
        self._written: OwnWrites[FederatedLearningJob] = OwnWrites()
        self._own: dict[ObjectKey, str] = {}
        self.newest = self._written.newest

    def is_own(self, job: Job) -> bool:
        """Whether ``job`` is the state that our own last write left behind."""
        return self._own.get(job.key) == job.resource_version

    def forget(self, key: ObjectKey) -> None:
        """There is no job ``key``."""
        self._written.forget(key)
        self._own.pop(key, None)

    async def live(self, job: Job) -> Job | None:
        """The job as the API server has it; None if it is gone, going, or another one."""
        try:
            raw = await self._client.get(FEDERATED_LEARNING_JOBS, job.key)
        except NotFound:
            return None
        live = stored(raw, FederatedLearningJob)
        if live.uid != job.uid or live.view.metadata.deletion_timestamp is not None:
            return None
        return live

    async def write(
        self, job: Job, status: Json | None, recompute: Callable[[Job], Json | None]
    ) -> Job | None:
        """Write ``status``, computed from ``job``; on a conflict read again and compute again.

        One that is refused as too large is written once more without metrics and long words.
        Returns: the job as it is then, None if it is gone.

        Raises: ServiceError; TooLarge when even that does not fit.
        """
        is_too_large = False
        for attempt in range(_MAX_CONFLICTS):
            if status is None:
                return job
            if is_too_large:
                shrink(status, most=0)
            old = status_of(job.raw)
            patch = status_patch(old, status, resource_version=job.resource_version)
            if patch is None:
                return job
            try:
                return await self._patch(job, old, patch)
            except NotFound:
                return None
            except TooLarge:
                if is_too_large:
                    self._tell_too_large(job)
                    raise
                is_too_large = True
                continue
            except Conflict:
                await asyncio.sleep(conflict_pause(attempt))
            live = await self.live(job)
            if live is None:
                return None
            job, status = live, recompute(live)
        raise Conflict(
            f"patch {FEDERATED_LEARNING_JOBS.qualified} {job.key} status",
            code=409,
            reason="Conflict",
            message=f"{_MAX_CONFLICTS} times in a row",
        )

    async def _patch(self, job: Job, old: Json, patch: Json) -> Job:
        raw = await self._client.patch(
            FEDERATED_LEARNING_JOBS, job.key, patch, subresource="status"
        )
        newer = stored(raw, FederatedLearningJob)
        self._written.note(newer, self._lister.get(job.key))
        self._own[job.key] = newer.resource_version
        new = status_of(raw)
        if is_finished(new) and not is_finished(old):
            logger.info("job finished", extra={"phase": new.get("phase")})
        for notice in notices(old, new):
            self._recorder.event(
                reference_to(newer),
                type=notice.type,
                reason=notice.reason,
                message=notice.message,
            )
        return newer

    def _tell_too_large(self, job: Job) -> None:
        self._recorder.event(
            reference_to(job),
            type="Warning",
            reason="StatusTooLarge",
            message="the job leaves no room for its status, which therefore stands still: "
            "shorten its templates or annotations",
        )


def reference_to(job: Job) -> ObjectRef:
    """The job, as Events name it."""
    return ObjectRef(
        api_version=FEDERATED_LEARNING_JOBS.api_version,
        kind=FEDERATED_LEARNING_JOBS.kind,
        namespace=job.key.namespace,
        name=job.key.name,
        uid=job.uid,
        resource_version=job.resource_version,
    )
