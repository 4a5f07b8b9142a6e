"""The whole decision about one job, as a pure function: what to make, what to remove, what to say.

:func:`plan` is called again after each round of writes, with what they brought: it converges.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from gm.api.core import Pod, Service
from gm.api.meta import Json, ObjectKey, ResourceType
from gm.api.resources import PODS, SERVICES
from gm.api.validation import validate_job
from gm.controllers.conditions import find_condition, parse_time, status_of, timestamp
from gm.controllers.federatedlearning.children import (
    Address,
    NotYet,
    aggregator_address,
    desired_pod,
    desired_service,
    given_address,
    leads_to_aggregator,
    participants_told,
    service_repair,
    uses_node_port,
)
from gm.controllers.federatedlearning.obstacles import (
    HostPorts,
    Obstacle,
    slow_starts,
    unreachable_nodes,
    without_endpoint,
)
from gm.controllers.federatedlearning.references import (
    changed_references,
    missing_references,
    wanted_secrets,
)
from gm.controllers.federatedlearning.state import (
    Limits,
    Phase,
    WorkerState,
    state_of,
)
from gm.controllers.federatedlearning.status import Problem, build_status
from gm.controllers.federatedlearning.verdict import (
    Verdict,
    backoff_limit,
    finished_at,
    is_finished,
    judge,
    policy_of,
)
from gm.controllers.federatedlearning.workers import (
    HASH_ANNOTATION,
    WORKER_ANNOTATION,
    Worker,
    match,
    workers_of,
)
from gm.controllers.federatedlearning.world import World
from gm.errors import InvalidSpec
from gm.kube.lister import Stored
from gm.words import counted, listed

__all__ = ["Child", "Deletion", "Patch", "Plan", "plan", "status_with"]

_SECRET_POLL_SECONDS = 1.0
_SECRET_SLOW_POLL_SECONDS = 30.0
_SECRET_PATIENCE_SECONDS = 60.0
_MAX_CHANGES = 5


class Child(msgspec.Struct, frozen=True):
    """An object to create. Of a pod: ``worker`` in the words of messages, and what to warn of."""

    resource: ResourceType
    body: Json
    worker: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """Where it will be."""
        return ObjectKey(self.body["metadata"]["namespace"], self.body["metadata"]["name"])


class Deletion(msgspec.Struct, frozen=True):
    """An object to delete: this incarnation only. ``is_news``: no condition tells why."""

    resource: ResourceType
    key: ObjectKey
    uid: str
    reason: str
    is_news: bool = False


class Patch(msgspec.Struct, frozen=True):
    """An object to change by merge patch."""

    resource: ResourceType
    key: ObjectKey
    body: Json


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about a job now.

    ``secrets`` must be read before anything can be said: read them and plan again. ``status`` is
    None where the status is to be left alone; else it is to be written before ``delete``, so
    that what the deleted pods told is not forgotten. ``crowded`` are nodes where another pod has
    to go before one of this job can come.
    """

    create: tuple[Child, ...] = ()
    delete: tuple[Deletion, ...] = ()
    patch: tuple[Patch, ...] = ()
    secrets: frozenset[str] = frozenset()
    status: Json | None = None
    problems: tuple[Problem, ...] = ()
    requeue_at: datetime | None = None
    states: tuple[WorkerState, ...] = ()
    verdict: Verdict | None = None
    delete_job: bool = False
    crowded: frozenset[str] = frozenset()


def plan(world: World) -> Plan:
    """What is to be done about ``world.job``."""
    job = world.job.view
    if job.metadata.deletion_timestamp is not None:
        return Plan()  # owner references let the garbage collector remove the children
    status = status_of(world.job.raw)
    if is_finished(status):
        return _clean_up(world, status)
    invalid = validate_job(job)
    if invalid:
        return _invalid(world, "; ".join(map(str, invalid)))
    workers = workers_of(world.job)
    playing, surplus = match(workers, world.pods)
    departed, _ = match(workers, world.departed)
    memory = {entry.name: entry for entry in job.status.workers or ()}
    limits = Limits(
        backoff_limit=backoff_limit(world),
        remake_first_seconds=world.settings.remake_first_seconds,
        remake_max_seconds=world.settings.remake_max_seconds,
    )
    states = tuple(
        state_of(w, playing[w.id], departed[w.id], memory.get(w.name), limits, world.endings)
        for w in workers
    )
    verdict = judge(world, states, status)
    try:
        children = _children(world, states, verdict, status)
    except InvalidSpec as exc:
        return _invalid(world, exc.message, states=states, verdict=verdict)
    removals = [
        _removal(pod, "it plays no worker of the job", is_news=True)
        for pod in surplus
        if _lives(pod)
    ]
    removals += _twins(states, playing)
    obstacles = _obstacles(world, states, verdict)
    decided = Plan(
        create=tuple(children.create),
        delete=(*removals, *children.delete),
        patch=tuple(children.patch),
        secrets=frozenset(children.secrets),
        problems=(
            *children.problems,
            *_removal_problems(world, states),
            *_shared_model(world, verdict),
            *_changed_references(world, states, verdict),
            *(o.problem for o in obstacles if world.now >= o.begins),
        ),
        states=states,
        verdict=verdict,
        requeue_at=_earliest(
            verdict.wake_at,
            children.wake_at,
            _patience_ends(world, states),
            *(o.begins for o in obstacles if world.now < o.begins),
        ),
        crowded=frozenset(children.crowded),
    )
    return status_with(world, decided)


def status_with(world: World, decided: Plan, problems: Sequence[Problem] = ()) -> Plan:
    """``decided`` with its status, which also tells the ``problems`` of carrying it out."""
    verdict = decided.verdict
    assert verdict is not None, "only a plan with a verdict has a status"
    everything = (*decided.problems, *problems)
    status = build_status(
        world, decided.states, verdict, everything, is_started=bool(decided.create)
    )
    return msgspec.structs.replace(decided, status=status, problems=everything)


class _Children:
    """What is to be done about the children; filled step by step."""

    def __init__(self) -> None:
        self.create: list[Child] = []
        self.delete: list[Deletion] = []
        self.patch: list[Patch] = []
        self.secrets: set[str] = set()
        self.problems: list[Problem] = []
        self.crowded: set[str] = set()
        self.wake_at: datetime | None = None


def _children(
    world: World, states: Sequence[WorkerState], verdict: Verdict, status: Json
) -> _Children:
    todo = _Children()
    if verdict.is_final:
        return todo  # cleaned up when the status says that it is over
    if verdict.is_suspended:
        todo.delete += [
            _removal(s.pod, "the job is suspended") for s in states if s.pod and s.is_active
        ]
        return todo
    todo.patch += [p for state in states if (p := _adoption(state)) is not None]
    for state in states:
        if state.pod is None:
            continue
        if state.reason == "SpecChanged":
            todo.delete.append(_removal(state.pod, _edit(world, state.pod), is_news=True))
        elif state.phase == Phase.FAILED and state.is_active:
            todo.delete.append(_removal(state.pod, "the worker counts as failed"))
        elif verdict.may_create and state.remake_at and world.now >= state.remake_at:
            todo.delete.append(_removal(state.pod, "the pod failed and is made again"))
    if not verdict.may_create:
        return todo
    _make(world, states, status, todo)
    return todo


def _make(world: World, states: Sequence[WorkerState], status: Json, todo: _Children) -> None:
    """Service, aggregator, and trainers as soon as they can be told the aggregator's address."""
    aggregator, trainers = states[0], states[1:]
    service = _service(world)
    given = [a for s in trainers if s.pod and (a := given_address(s.pod.view)) is not None]
    node_port = uses_node_port(world, service, given[0] if given else None)
    desired = desired_service(world, node_port=node_port, node=aggregator.node)
    missing = [state.worker for state in states if state.is_missing]
    if missing and not _has_references(world, missing, status, todo):
        return
    if service is None:
        if not _is_leaving(world):
            todo.create.append(Child(SERVICES, desired))
    elif (repair := service_repair(service.view, desired)) is not None:
        todo.patch.append(Patch(SERVICES, service.key, repair))
    ports = HostPorts(world)
    if aggregator.is_missing:
        _make_pod(aggregator, desired_pod(world, aggregator, None), ports, todo)
    if service is None:
        # built in vain, so that a template that can not become a pod is told before all others run
        for state in trainers:
            if state.is_missing:
                desired_pod(world, state, Address("unknown", 1))
        return
    address = aggregator_address(world, service, aggregator, node_port=node_port)
    if isinstance(address, NotYet):
        if any(state.is_missing for state in trainers):
            todo.problems.append(_waiting(address.reason, address.message))
        return
    for state in trainers:
        if state.is_missing:
            _make_pod(state, desired_pod(world, state, address), ports, todo)
        elif state.pod and _is_misled(world, state, address, aggregator.node):
            reason = "the aggregator has another address now"
            todo.delete.append(_removal(state.pod, reason, is_news=True))


def _make_pod(state: WorkerState, body: Json, ports: HostPorts, todo: _Children) -> None:
    """Make a worker's pod, unless its node has no room for it yet: a kubelet would reject it."""
    node = body["spec"].get("nodeName")
    problem = ports.take(node, body)
    if problem is None:
        # in the words of the API server, which does not see these fields
        warnings = tuple(f'unknown field "{field}"' for field in state.worker.ignored)
        todo.create.append(Child(PODS, body, state.worker.title, warnings))
    else:
        todo.problems.append(problem)
        todo.crowded.add(node)


def _edit(world: World, pod: Stored[Pod]) -> str:
    """Why an edit of the job concerns ``pod``."""
    told, count = participants_told(pod.view), len(world.job.view.spec.training_workers)
    if told is None or told == count:
        return "the job's spec changed"
    return f"the job has {counted(count, 'trainer')} now, not {told}, and every worker is told so"


def _obstacles(world: World, states: Sequence[WorkerState], verdict: Verdict) -> list[Obstacle]:
    if verdict.is_final or verdict.is_suspended:
        return []
    return [
        *unreachable_nodes(world, states),
        *slow_starts(world, states),
        *without_endpoint(world, _service(world), states),
    ]


def _has_references(world: World, workers: Sequence[Worker], status: Json, todo: _Children) -> bool:
    """Whether all that pods of ``workers`` are made from is known; else ``todo`` says what is not.

    What only others need does not keep a worker from being made again.
    """
    todo.secrets |= wanted_secrets(world, workers).keys() - world.secrets.keys()
    missing = missing_references(world, workers)
    if missing is None:
        return not todo.secrets
    todo.problems.append(_waiting(missing.reason, missing.message))
    if missing.reason in ("SecretNotFound", "CredentialInvalid") or any(
        secret is None for secret in world.secrets.values()
    ):
        # Secrets are not watched: look again each second, after a minute less often
        condition = find_condition(status, "Waiting")
        since = parse_time(condition.get("lastTransitionTime")) if condition else None
        waited = (world.now - (since or world.now)).total_seconds()
        is_slow = waited > _SECRET_PATIENCE_SECONDS
        seconds = _SECRET_SLOW_POLL_SECONDS if is_slow else _SECRET_POLL_SECONDS
        todo.wake_at = world.now + timedelta(seconds=seconds)
    return False


def _waiting(reason: str, message: str) -> Problem:
    return Problem(kind="Waiting", reason=reason, message=message)


def _service(world: World) -> Stored[Service] | None:
    living = [s for s in world.services if s.view.metadata.deletion_timestamp is None]
    return min(living, key=lambda service: service.key, default=None)


def _is_leaving(world: World) -> bool:
    return bool(world.services)


def _is_misled(
    world: World, state: WorkerState, address: Address, aggregator_node: str | None
) -> bool:
    """Whether a trainer was given an address that does not lead to the aggregator any more."""
    if state.pod is None or state.has_ended or state.reason == "SpecChanged":
        return False
    given = given_address(state.pod.view)
    return given is not None and not leads_to_aggregator(world, given, address, aggregator_node)


def _adoption(state: WorkerState) -> Patch | None:
    """The annotations that a pod which a Sedna GM left gets, so that later edits are noticed."""
    if state.pod is None:
        return None
    annotations = state.pod.view.metadata.annotations or {}
    wanted = {WORKER_ANNOTATION: state.worker.id, HASH_ANNOTATION: state.worker.digest}
    missing = {key: value for key, value in wanted.items() if key not in annotations}
    if not missing:
        return None
    return Patch(PODS, state.pod.key, {"metadata": {"annotations": missing}})


def _twins(states: Sequence[WorkerState], playing: dict[str, list[Stored[Pod]]]) -> list[Deletion]:
    """Living pods beside the one that plays the worker."""
    return [
        _removal(pod, "another pod plays this worker", is_news=True)
        for state in states
        for pod in playing[state.worker.id]
        if _lives(pod) and state.pod is not None and pod.uid != state.pod.uid
    ]


def _removal_problems(world: World, states: Sequence[WorkerState]) -> list[Problem]:
    """Pods that take long to go, while their worker waits for a new one."""
    problems = []
    patience = timedelta(seconds=world.settings.removal_patience_seconds)
    for state in states:
        for pod in state.leaving if state.pod is None and not state.has_ended else ():
            since = pod.view.metadata.deletion_requested
            if since is not None and world.now >= since + patience:
                problems.append(removal_problem("Pod", pod.key.name, state.node, since))
    return problems


def _shared_model(world: World, verdict: Verdict) -> list[Problem]:
    """Two jobs that train one model: the last that writes it wins, and their metrics mix."""
    if world.rival is None or verdict.is_final:
        return []
    model = world.job.view.spec.aggregation_worker.model.name
    message = (
        f"job {world.rival.name} trains Model {model} too and has not finished: the job that ends "
        "last overwrites the model, and the model's metrics mix; give each job a Model of its own"
    )
    return [Problem(kind="ModelShared", reason="ModelShared", message=message)]


def _changed_references(
    world: World, states: Sequence[WorkerState], verdict: Verdict
) -> list[Problem]:
    """Models, datasets and nodes that are not any more what running workers were made with."""
    if verdict.is_final or verdict.is_suspended:
        return []
    changes = changed_references(world, states)
    if not changes:
        return []
    message = (
        f"{listed(changes, most=_MAX_CHANGES)}; workers that run keep what they were started with, "
        "one that is made again gets what is there then"
    )
    return [Problem(kind="ReferenceChanged", reason="ReferenceChanged", message=message)]


def removal_problem(kind: str, name: str, node: str | None, since: datetime) -> Problem:
    """Condition WaitingForRemoval about one object."""
    where = f" on node {node}" if node else ""
    return Problem(
        kind="WaitingForRemoval",
        reason="WaitingForRemoval",
        message=f"{kind} {name}{where} is being removed since {timestamp(since)}; "
        "its successor is made when it is gone",
    )


def _patience_ends(world: World, states: Sequence[WorkerState]) -> datetime | None:
    patience = timedelta(seconds=world.settings.removal_patience_seconds)
    ends = [
        pod.view.metadata.deletion_requested + patience
        for state in states
        for pod in state.leaving
        if pod.view.metadata.deletion_requested is not None
    ]
    return min((end for end in ends if end > world.now), default=None)


def _invalid(
    world: World,
    message: str,
    *,
    states: tuple[WorkerState, ...] = (),
    verdict: Verdict | None = None,
) -> Plan:
    """Nothing is made or removed until the object changes; what runs goes on."""
    problem = Problem(kind="InvalidSpec", reason="InvalidSpec", message=message)
    old = status_of(world.job.raw).get("phase") or Phase.PENDING
    decided = Plan(states=states, verdict=verdict or Verdict(phase=old, may_create=False))
    return status_with(world, decided, [problem])


def _clean_up(world: World, status: Json) -> Plan:
    """A finished job is never touched again, but its leftovers go, and in the end itself."""
    policy = policy_of(world)
    removals = [
        Deletion(SERVICES, service.key, service.uid, "the job is finished")
        for service in world.services
        if service.view.metadata.deletion_timestamp is None
    ]
    clean = policy.clean_pod_policy or "Running"
    for pod in world.pods:
        is_over = pod.view.status.phase in (Phase.SUCCEEDED, Phase.FAILED)
        if _lives(pod) and (clean == "All" or (clean == "Running" and not is_over)):
            removals.append(_removal(pod, "the job is finished"))
    ttl, ended = policy.ttl_seconds_after_finished, finished_at(status)
    if ttl is None or ended is None:
        return Plan(delete=tuple(removals))
    end = ended + timedelta(seconds=ttl)
    if world.now >= end:
        return Plan(delete=tuple(removals), delete_job=True)
    return Plan(delete=tuple(removals), requeue_at=end)


def _removal(pod: Stored[Pod], reason: str, *, is_news: bool = False) -> Deletion:
    return Deletion(PODS, pod.key, pod.uid, reason, is_news)


def _lives(pod: Stored[Pod]) -> bool:
    return pod.view.metadata.deletion_timestamp is None


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
