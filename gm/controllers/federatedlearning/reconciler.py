"""The federated-learning controller: reads caches, plans, writes what differs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from gm.api.core import Node, Pod, Secret, Service
from gm.api.meta import Json, ObjectKey, controller_of
from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS, SECRETS
from gm.api.sedna import Dataset, FederatedLearningJob, Model
from gm.controllers.base import Result
from gm.controllers.conditions import status_of
from gm.controllers.federatedlearning.children_io import (
    ChildWriter,
    Outcome,
    Warned,
    warning_message,
)
from gm.controllers.federatedlearning.memory import ChildCache, Departed, Endings, HostPortUsers
from gm.controllers.federatedlearning.plan import Deletion, Plan, plan, status_with
from gm.controllers.federatedlearning.references import names_of
from gm.controllers.federatedlearning.status import is_minor
from gm.controllers.federatedlearning.status_io import StatusWriter, reference_to
from gm.controllers.federatedlearning.unreadable import tell_unreadable
from gm.controllers.federatedlearning.users import Rivals, Users
from gm.controllers.federatedlearning.wakes import (
    node_changed,
    only_status_changed,
    spec_changed,
)
from gm.controllers.federatedlearning.world import JobSettings, World
from gm.errors import Conflict, NotFound
from gm.kube.client import Client
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType, Lister, Stored
from gm.kube.recorder import EventRecorder
from gm.kube.workqueue import Workqueue
from gm.words import listed

__all__ = ["Caches", "JobReconciler"]

logger = logging.getLogger(__name__)

_MAX_ROUNDS = 6  # Secrets, the owner, Service and aggregator, trainers: each round is one of these
_MAX_CONFLICTS = 8
_MAX_NAMES = 12
_MINOR_SECONDS = 1.0
_COALESCE_SECONDS = 0.02  # children of one job change at about the same time
_UNFINISHED_SECONDS = 1.0


class Caches(msgspec.Struct, frozen=True, kw_only=True):
    """The informers that the controller reads."""

    jobs: Informer[FederatedLearningJob]
    pods: Informer[Pod]
    services: Informer[Service]
    models: Informer[Model]
    datasets: Informer[Dataset]
    nodes: Informer[Node]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class _Known:
    """What is remembered of the job with ``uid`` from reconcile to reconcile."""

    __slots__ = ("edit_told", "is_started", "last_write", "uid", "warned")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.last_write = 0.0
        self.is_started = False
        self.edit_told: int | None = None
        self.warned: dict[str, tuple[str, ...]] = {}  # by pod


class JobReconciler:
    """Makes the cluster match one FederatedLearningJob at a time.

    ``queue`` gets the keys of jobs that something happened to.
    """

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        caches: Caches,
        queue: Workqueue[ObjectKey],
        settings: JobSettings,
        *,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._caches = caches
        self._queue = queue
        self._settings = settings
        self._clock = clock
        self._pods: ChildCache[Pod] = ChildCache(caches.pods.lister)
        self._services: ChildCache[Service] = ChildCache(caches.services.lister)
        self._departed = Departed()
        self._endings = Endings()
        self._children = ChildWriter(
            client,
            self._pods,
            self._services,
            patience_seconds=settings.removal_patience_seconds,
            clock=self._now,
        )
        self._users = Users()
        self._rivals = Rivals()
        self._host_ports = HostPortUsers()
        self._statuses = StatusWriter(client, recorder, caches.jobs.lister)
        self._known: dict[ObjectKey, _Known] = {}
        caches.jobs.add_handler(self._on_job)
        caches.jobs.add_undecodable_handler(queue.add)
        caches.pods.add_handler(self._on_pod)
        caches.services.add_handler(self._on_service)
        caches.models.add_handler(self._on_model)
        caches.datasets.add_handler(self._on_dataset)
        caches.nodes.add_handler(self._on_node)

    # What wakes a job.

    async def _on_job(self, event: Event[FederatedLearningJob]) -> None:
        job = event.new or event.old
        if job is None:
            return
        if event.type is EventType.DELETED:
            self._forget(job)
        else:
            self._users.set(job)
            for key in self._rivals.set(job):
                self._queue.add(key)
        if event.new is not None and self._is_in_back_off(event.new):
            return  # what it wrote itself is no reason to try again before the time
        if only_status_changed(event):
            self._queue.add_after(job.key, _COALESCE_SECONDS)
        else:
            self._queue.add(job.key)

    def _is_in_back_off(self, job: Stored[FederatedLearningJob]) -> bool:
        """Whether ``job`` is what we wrote ourselves, and waits for another try."""
        return self._queue.failures(job.key) > 0 and self._statuses.is_own(job)

    async def _on_pod(self, event: Event[Pod]) -> None:
        is_news = self._pods.seen(event)
        ended_alone = self._endings.note(event)
        if event.type is EventType.DELETED and event.old is not None:
            self._departed.add(event.old, ended_alone)
        for key in self._host_ports.note(event):
            self._queue.add(key)
        if is_news:
            self._wake_owner(event)

    async def _on_service(self, event: Event[Service]) -> None:
        if self._services.seen(event):
            self._wake_owner(event)

    def _wake_owner(self, event: Event[Pod] | Event[Service]) -> None:
        child = event.new or event.old
        owner = controller_of(child.view.metadata) if child is not None else None
        if child is None or owner is None or owner.kind != FEDERATED_LEARNING_JOBS.kind:
            return
        # by name, not uid: a successor of the owner may wait for this child to go
        key = ObjectKey(child.key.namespace, owner.name)
        self._queue.add_after(key, _COALESCE_SECONDS)

    async def _on_model(self, event: Event[Model]) -> None:
        self._wake_users("model", event, spec_changed(event))

    async def _on_dataset(self, event: Event[Dataset]) -> None:
        self._wake_users("dataset", event, spec_changed(event))

    async def _on_node(self, event: Event[Node]) -> None:
        self._wake_users("node", event, node_changed(event))

    def _wake_users(
        self, kind: str, event: Event[Model] | Event[Dataset] | Event[Node], matters: bool
    ) -> None:
        thing = event.new or event.old
        if thing is not None and matters:
            for key in self._users.of(kind, thing.key):
                self._queue.add(key)

    def _forget(self, job: Stored[FederatedLearningJob]) -> None:
        self._users.forget(job.key)
        for key in self._rivals.forget(job.key):
            self._queue.add(key)
        self._departed.forget(job.uid)

    def _forget_past(self, key: ObjectKey) -> None:
        """There is no job ``key``; nobody works at it any more, so nothing is remembered again."""
        self._known.pop(key, None)
        self._statuses.forget(key)
        self._children.forget(key)
        self._host_ports.wait(key, frozenset())

    # What is done about it.

    async def reconcile(self, key: ObjectKey) -> Result:
        """Make the cluster match job ``key``; safe at any time and any number of times."""
        if (why := self._caches.jobs.undecodable.get(key)) is not None:
            await tell_unreadable(self._client, self._recorder, key, why)
            return Result()
        job = self._statuses.newest(self._caches.jobs.lister.get(key))
        self._departed.keep_only(key, job.uid if job is not None else None)
        if job is None:
            self._forget_past(key)
            return Result()
        if job.view.metadata.deletion_timestamp is not None:
            return Result()  # owner references let the garbage collector remove the children
        secrets: dict[str, Secret | None] = {}
        # children that this very pass makes first can not be gone with their owner
        must_read_owner = self._was_started(job)
        outcome = Outcome(problems=[])
        created: list[str] = []
        planned: tuple[World, Plan] | None = None
        for _ in range(_MAX_ROUNDS):
            world = self._world(job, secrets)
            decided = plan(world)
            if decided.status is None:
                return await self._finish(job, decided)
            if decided.secrets:
                secrets |= await self._read_secrets(key.namespace, decided.secrets)
                continue
            if decided.create and must_read_owner:
                live = await self._statuses.live(job)
                if live is None:
                    return Result()
                must_read_owner = False
                if live.resource_version != job.resource_version:
                    job = live
                    continue
            if decided.delete:
                # what these pods told must not be forgotten with them
                job = await self._write_status(job, decided.status, secrets) or job
                await self._delete(job, decided.delete)
            await self._children.patch(decided.patch)
            if not decided.create:
                if not (decided.delete or decided.patch):
                    planned = world, decided
                break
            self._known_of(job).is_started = True
            outcome = await self._children.create(job, decided.create)
            created += outcome.created
            self._tell_warned(job, outcome.warned)
            if outcome.problems or outcome.retry or not outcome.progress:
                break
        self._tell_created(job, created)
        return await self._conclude(job, secrets, outcome, planned)

    async def _conclude(
        self,
        job: Stored[FederatedLearningJob],
        secrets: dict[str, Secret | None],
        outcome: Outcome,
        planned: tuple[World, Plan] | None,
    ) -> Result:
        """Tell in the status what came of it, and say when to look again.

        ``planned`` is the last plan, if nothing has been written since.
        """
        if planned is None:
            world = self._world(job, secrets)
            planned = world, plan(world)
        world, decided = planned
        if decided.status is None:
            return Result()
        if outcome.problems:
            decided = status_with(world, decided, outcome.problems)
        self._host_ports.wait(job.key, decided.crowded)
        wait = self._may_wait(job, decided)
        if wait is None:
            await self._write_status(job, decided.status, secrets, outcome)
            self._departed.forget(job.uid, world.departed)
        # more to make, and nothing said why it was not made: the rounds did not suffice
        unfinished = bool(decided.create) and not outcome.problems and not outcome.look_again_at
        moments = [m for m in (decided.requeue_at, outcome.look_again_at) if m is not None]
        seconds = [self._seconds_until(moment) for moment in moments]
        if wait is not None:
            seconds.append(wait)
        if unfinished:
            seconds.append(_UNFINISHED_SECONDS)
        return Result(
            retry=outcome.retry,
            patience_seconds=outcome.patience_seconds,
            requeue_after_seconds=min(seconds, default=None),
        )

    async def _finish(self, job: Stored[FederatedLearningJob], decided: Plan) -> Result:
        """The job is over: remove what is left, touch nothing else."""
        await self._delete(job, decided.delete)
        if decided.delete_job:
            logger.info("job deleted", extra={"reason": "ttlSecondsAfterFinished"})
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(
                    FEDERATED_LEARNING_JOBS,
                    job.key,
                    uid=job.uid,
                    propagation_policy="Background",
                )
            return Result()
        self._departed.forget(job.uid)
        self._tell_late_edit(job)
        if decided.requeue_at is None:
            return Result()
        return Result(requeue_after_seconds=self._seconds_until(decided.requeue_at))

    async def _delete(
        self, job: Stored[FederatedLearningJob], deletions: Sequence[Deletion]
    ) -> None:
        pods = self._caches.pods.lister
        for deletion in deletions:
            known = pods.get(deletion.key) if deletion.resource == PODS else None
            # one that no cache shows would be remembered for ever
            if known is not None and known.uid == deletion.uid:
                self._endings.removing(deletion.uid)
        done, failure = await self._children.delete(deletions)
        self._tell_removed(job, [d for d in done if d.is_news])
        if failure is not None:
            raise failure

    def _tell_removed(self, job: Stored[FederatedLearningJob], done: list[Deletion]) -> None:
        """One event for each reason to remove pods that users can not know from a condition."""
        for reason in dict.fromkeys(deletion.reason for deletion in done):
            names = [f"{d.resource.kind} {d.key.name}" for d in done if d.reason == reason]
            self._tell(job, "Removed", f"removed {listed(names, most=_MAX_NAMES)}: {reason}")

    def _tell(self, job: Stored[FederatedLearningJob], reason: str, message: str) -> None:
        self._recorder.event(reference_to(job), type="Normal", reason=reason, message=message)

    def _tell_created(self, job: Stored[FederatedLearningJob], created: list[str]) -> None:
        """One event for all that one pass created."""
        if created:
            self._tell(job, "Created", f"created {listed(created, most=_MAX_NAMES)}")

    def _tell_warned(self, job: Stored[FederatedLearningJob], warned: Sequence[Warned]) -> None:
        """One event for each pod that is made and of which the API server warns.

        Of one that is refused again and again it is told once. No condition tells it: a status
        says what can be seen at any time, and this is said only in the answer to a create.
        """
        told = self._known_of(job).warned
        for each in warned:
            if each.is_made or told.get(each.pod) != each.texts:
                told[each.pod] = each.texts
                self._recorder.event(
                    reference_to(job),
                    type="Warning",
                    reason="TemplateWarning",
                    message=warning_message(each),
                )

    def _tell_late_edit(self, job: Stored[FederatedLearningJob]) -> None:
        generation = job.view.metadata.generation
        observed = job.view.status.observed_generation
        if observed is None or observed == generation:
            return
        known = self._known_of(job)
        if known.edit_told != generation:
            known.edit_told = generation
            self._recorder.event(
                reference_to(job),
                type="Warning",
                reason="EditIgnored",
                message="the job has finished: edits of its spec change nothing",
            )

    def _world(self, job: Stored[FederatedLearningJob], secrets: dict[str, Secret | None]) -> World:
        caches, namespace = self._caches, job.key.namespace
        pods = self._pods.owned_by(job.uid)
        names = names_of(job.view)
        models = {n: caches.models.lister.get(ObjectKey(namespace, n)) for n in names.models}
        datasets = {n: caches.datasets.lister.get(ObjectKey(namespace, n)) for n in names.datasets}
        return World(
            now=self._now(),
            job=job,
            settings=self._settings,
            pods=pods,
            departed=self._departed.of(job.uid),
            endings=self._endings.of(pods) | self._departed.endings(job.uid),
            services=self._services.owned_by(job.uid),
            models={n: model.view for n, model in models.items() if model is not None},
            datasets={n: dataset.view for n, dataset in datasets.items() if dataset is not None},
            secrets=secrets,
            nodes=_Nodes(caches.nodes.lister) if caches.nodes.is_synced else None,
            neighbours=self._host_ports.pods,
            rival=self._rivals.before(job.key),
        )

    async def _read_secrets(
        self, namespace: str, names: frozenset[str]
    ) -> dict[str, Secret | None]:
        found: dict[str, Secret | None] = {}
        for name in sorted(names):
            try:
                raw = await self._client.get(SECRETS, ObjectKey(namespace, name))
            except NotFound:
                found[name] = None
            else:
                found[name] = msgspec.json.decode(raw, type=Secret)
        return found

    def _was_started(self, job: Stored[FederatedLearningJob]) -> bool:
        """Whether children may have been made before: then they may be gone with their owner."""
        return self._known_of(job).is_started or bool(status_of(job.raw))

    def _now(self) -> datetime:
        """The time, to the second: what Kubernetes stores of it."""
        return self._clock().replace(microsecond=0)

    def _seconds_until(self, moment: datetime) -> float:
        """Never 0: planning works in whole seconds, so look just after the full second."""
        return max((moment - self._clock()).total_seconds(), 0.0) + 0.02

    def _known_of(self, job: Stored[FederatedLearningJob]) -> _Known:
        known = self._known.get(job.key)
        if known is None or known.uid != job.uid:
            known = self._known[job.key] = _Known(job.uid)
        return known

    # Status.

    def _may_wait(self, job: Stored[FederatedLearningJob], decided: Plan) -> float | None:
        """Seconds that a small change of status may wait for others to come with it."""
        assert decided.status is not None, "only unfinished jobs get here"
        old = status_of(job.raw)
        if old == decided.status or not is_minor(old, decided.status):
            return None
        left = self._known_of(job).last_write + _MINOR_SECONDS - _loop_time()
        return left if left > 0 else None

    async def _write_status(
        self,
        job: Stored[FederatedLearningJob],
        status: Json | None,
        secrets: dict[str, Secret | None],
        outcome: Outcome | None = None,
    ) -> Stored[FederatedLearningJob] | None:
        """Write ``status``, or what it is by then. Returns: the job as it is then; None: gone."""

        def recompute(live: Stored[FederatedLearningJob]) -> Json | None:
            world = self._world(live, secrets)
            decided = plan(world)
            if decided.status is not None and outcome is not None:
                decided = status_with(world, decided, outcome.problems)
            return decided.status

        written = await self._statuses.write(job, status, recompute)
        if written is not None and written.resource_version != job.resource_version:
            self._known_of(job).last_write = _loop_time()
        return written


class _Nodes(Mapping[str, Node]):
    """Nodes by name, without a copy of thousands of them for each plan."""

    def __init__(self, lister: Lister[Node]) -> None:
        self._lister: Lister[Node] = lister

    def __getitem__(self, name: str) -> Node:
        found = self._lister.get(ObjectKey("", name))
        if found is None:
            raise KeyError(name)
        return found.view

    def __iter__(self) -> Iterator[str]:
        return (key.name for key in self._lister)

    def __len__(self) -> int:
        return len(self._lister)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
