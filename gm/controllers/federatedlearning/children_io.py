"""Writing a job's children: create, adopt, repair and delete, and what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from gm.api.core import Pod, Service
from gm.api.meta import Json, ObjectKey, PartialObject, controller_of
from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS, SERVICES
from gm.api.sedna import FederatedLearningJob
from gm.controllers.base import patience
from gm.controllers.conditions import now, truncated
from gm.controllers.federatedlearning.children import service_repair
from gm.controllers.federatedlearning.memory import ChildCache
from gm.controllers.federatedlearning.plan import Child, Deletion, Patch, removal_problem
from gm.controllers.federatedlearning.status import Problem
from gm.controllers.stored import stored
from gm.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ServiceError,
)
from gm.kube.client import Client
from gm.kube.lister import Stored

__all__ = ["ChildWriter", "Outcome", "Warned", "warning_message"]

logger = logging.getLogger(__name__)

_SHORTEST_LOOK, _LONGEST_LOOK = timedelta(seconds=1), timedelta(seconds=300)
_MAX_WARNINGS = 5
_WARNING_BYTES = 800  # of all texts of one event, which holds 1024
_AT_ONCE = 32  # creates in flight, over all jobs: one with many trainers is no flood

_decode_partial = msgspec.json.Decoder(PartialObject).decode


class Warned(msgspec.Struct, frozen=True):
    """What was warned of when the API server got a worker's pod; ``is_made``: it took it."""

    worker: str
    pod: str
    texts: tuple[str, ...]
    is_made: bool


class Outcome(msgspec.Struct, kw_only=True):
    """What came of the writes of one pass.

    ``progress``: the caches show more than before, so planning again makes sense. ``retry``:
    something failed that may work later. ``look_again_at``: something is waited for. ``created``:
    kinds and names of what was created. ``warned``: what was said of templates.
    ``patience_seconds``: a retry should wait that long.
    """

    progress: bool = False
    retry: bool = False
    patience_seconds: float = 0.0
    problems: list[Problem] = []
    created: list[str] = []
    warned: list[Warned] = []
    look_again_at: datetime | None = None

    def wait(self, problem: Problem | None, until: datetime) -> None:
        """Something stands in the way; look again at ``until``."""
        if problem is not None:
            self.problems.append(problem)
        self.look_again_at = min(until, self.look_again_at or until)

    def fail(self, what: str, exc: ServiceError) -> None:
        """``what`` could not be made, but may be later."""
        self.retry = True
        self.patience_seconds = max(self.patience_seconds, patience(exc))
        self.problems.append(_failure(what, exc))


class _Blocked(msgspec.Struct):
    """Since when somebody else has had the names that the job with ``uid`` wants."""

    uid: str
    since: dict[tuple[str, str], datetime]


class ChildWriter:
    """Carries plans out; keeps the caches informed about what it did."""

    def __init__(
        self,
        client: Client,
        pods: ChildCache[Pod],
        services: ChildCache[Service],
        *,
        patience_seconds: float,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._client = client
        self._pods = pods
        self._services = services
        self._patience = timedelta(seconds=patience_seconds)
        self._clock = clock
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._blocked: dict[ObjectKey, _Blocked] = {}

    def forget(self, job: ObjectKey) -> None:
        """The job is gone."""
        self._blocked.pop(job, None)

    async def delete(
        self, deletions: Sequence[Deletion]
    ) -> tuple[list[Deletion], ServiceError | None]:
        """Delete exactly these incarnations; one that is gone already is fine.

        Returns: what was deleted, and the first failure; all are tried.
        """
        done: list[Deletion] = []
        failures: list[ServiceError] = []
        async with asyncio.TaskGroup() as group:
            for deletion in deletions:
                group.create_task(self._delete(deletion, done, failures))
        return done, next(iter(failures), None)

    async def patch(self, patches: Sequence[Patch]) -> None:
        """Apply ``patches``; an object that is gone is none of our business any more."""
        for patch in patches:
            try:
                raw = await self._client.patch(patch.resource, patch.key, patch.body)
            except NotFound:
                continue
            self._remember(patch.resource == PODS, raw)

    async def create(self, job: Stored[FederatedLearningJob], children: Sequence[Child]) -> Outcome:
        """Create ``children`` side by side; one that fails does not keep the others back."""
        outcome = Outcome(problems=[], created=[], warned=[])
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(self._create(job, child, outcome))
        return outcome

    async def _delete(
        self, deletion: Deletion, done: list[Deletion], failures: list[ServiceError]
    ) -> None:
        try:
            await self._client.delete(deletion.resource, deletion.key, uid=deletion.uid)
        except (NotFound, Conflict):  # it is gone, or its name belongs to another one now
            return
        except ServiceError as exc:
            failures.append(exc)
            return
        done.append(deletion)
        logger.info(
            "child deleted",
            extra={
                "kind": deletion.resource.kind,
                "child": deletion.key.name,
                "reason": deletion.reason,
            },
        )
        (self._pods if deletion.resource == PODS else self._services).deleted(deletion.uid)

    async def _create(
        self, job: Stored[FederatedLearningJob], child: Child, outcome: Outcome
    ) -> None:
        what = f"{child.resource.kind} {child.key.name}"
        texts = list(child.warnings)
        # nothing in a Service is a user's: what is said of it is for the log
        hear = texts.append if child.worker is not None else None
        try:
            async with self._turns:
                raw = await self._client.create(
                    child.resource, child.key.namespace, child.body, on_warning=hear
                )
        except AlreadyExists:
            await self._meet_holder(job, child, outcome)
        except BadRequest as exc:
            # the server refuses what the template says: only an edit of the job helps
            message = f"{what} is refused: {exc.message or exc.reason}"
            outcome.problems.append(_problem("InvalidSpec", "InvalidSpec", message))
        except ServiceError as exc:
            outcome.fail(what, exc)
        else:
            outcome.progress = True
            outcome.created.append(what)
            self._remember(child.resource == PODS, raw)
            self._free(job, child)
            logger.info(
                "child created", extra={"kind": child.resource.kind, "child": child.key.name}
            )
        if texts and child.worker is not None:
            is_made = what in outcome.created
            outcome.warned.append(Warned(child.worker, child.key.name, tuple(texts), is_made))

    async def _meet_holder(
        self, job: Stored[FederatedLearningJob], child: Child, outcome: Outcome
    ) -> None:
        """Somebody holds the name: ours is adopted, a predecessor waited for, others reported."""
        try:
            raw = await self._client.get(child.resource, child.key)
            meta = _decode_partial(raw).metadata
            owner = controller_of(meta)
            if owner is not None and owner.uid == job.uid and meta.deletion_timestamp is None:
                await self._adopt(child, raw)
                outcome.progress = True
                self._free(job, child)
                return
        except NotFound:  # it went in this moment
            outcome.progress = True
            return
        except ServiceError as exc:
            outcome.fail(f"{child.resource.kind} {child.key.name}", exc)
            return
        first_seen, moment = self._blocked_since(job, child), self._clock()
        # looks again after a time in proportion to how long it waits already: a back-off
        # that needs no counter
        soon = moment + min(max((moment - first_seen) / 2, _SHORTEST_LOOK), _LONGEST_LOOK)
        predecessor = (
            owner is not None
            and owner.kind == FEDERATED_LEARNING_JOBS.kind
            and owner.name == job.key.name
        )
        if meta.deletion_timestamp is None and not predecessor:
            outcome.wait(_conflict(child, owner.kind if owner else None, owner), soon)
            return
        since = meta.deletion_requested or first_seen
        problem = None
        if moment >= since + self._patience:
            node = msgspec.json.decode(raw, type=Pod).spec.node_name
            problem = removal_problem(child.resource.kind, child.key.name, node, since)
        outcome.wait(problem, soon)

    def _blocked_since(self, job: Stored[FederatedLearningJob], child: Child) -> datetime:
        known = self._blocked.get(job.key)
        if known is None or known.uid != job.uid:
            known = self._blocked[job.key] = _Blocked(job.uid, {})
        return known.since.setdefault((child.resource.kind, child.key.name), self._clock())

    def _free(self, job: Stored[FederatedLearningJob], child: Child) -> None:
        known = self._blocked.get(job.key)
        if known is not None:
            known.since.pop((child.resource.kind, child.key.name), None)

    async def _adopt(self, child: Child, raw: bytes) -> None:
        """Make a child of ours that no cache shows what it should be, labels above all."""
        if child.resource == SERVICES:
            patch = service_repair(msgspec.json.decode(raw, type=Service), child.body)
        else:
            patch = _missing_metadata(child, msgspec.json.decode(raw, type=Pod))
        if patch is not None:
            raw = await self._client.patch(child.resource, child.key, patch)
            logger.info(
                "child adopted", extra={"kind": child.resource.kind, "child": child.key.name}
            )
        self._remember(child.resource == PODS, raw)

    def _remember(self, is_pod: bool, raw: bytes) -> None:
        if is_pod:
            self._pods.made(stored(raw, Pod))
        else:
            self._services.made(stored(raw, Service))


def warning_message(warned: Warned) -> str:
    """What an event says of ``warned``: bounded, whatever an admission webhook writes."""
    shown, more = warned.texts[:_MAX_WARNINGS], len(warned.texts) - _MAX_WARNINGS
    most = _WARNING_BYTES // len(shown)
    texts = "; ".join(truncated(text, most=most) for text in shown)
    rest = f"; and {more} more" if more > 0 else ""
    return f"{warned.worker}: warning about its template (pod {warned.pod}): {texts}{rest}"


def _missing_metadata(child: Child, pod: Pod) -> Json | None:
    wanted = child.body["metadata"]
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    missing = {
        "labels": {k: v for k, v in wanted["labels"].items() if labels.get(k) != v},
        # an annotation that is there tells what the pod was made from: it stays
        "annotations": {k: v for k, v in wanted["annotations"].items() if k not in annotations},
    }
    patch = {field: values for field, values in missing.items() if values}
    return {"metadata": patch} if patch else None


def _problem(kind: str, reason: str, message: str) -> Problem:
    return Problem(kind=kind, reason=reason, message=message)


def _conflict(child: Child, owner_kind: str | None, owner: object) -> Problem:
    whose = "nobody's" if owner is None else f"of {owner_kind} {getattr(owner, 'name', '')}"
    return _problem(
        "NameConflict",
        "NameConflict",
        f"{child.resource.kind} {child.key.name} exists and is {whose}, not this job's; "
        "remove or rename it",
    )


def _failure(what: str, exc: ServiceError) -> Problem:
    if isinstance(exc, ApiError) and exc.code == 500 and "range is full" in exc.message:
        message = f"{what} could not be created: all node ports of the cluster are taken"
        return _problem("NoNodePort", "NoNodePort", message)
    reason = "Forbidden" if isinstance(exc, Forbidden) else "CreateFailed"
    return _problem("CreateFailed", reason, f"{what} could not be created: {exc}")
