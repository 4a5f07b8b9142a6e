"""What the workers' states mean for the job: pending, running, how it ends, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from gm.api.meta import Json
from gm.api.sedna import RunPolicy
from gm.controllers.conditions import find_condition, parse_time
from gm.controllers.federatedlearning.state import Phase, WorkerState, is_in_trouble
from gm.controllers.federatedlearning.world import World
from gm.words import counted, listed

__all__ = ["ConditionChange", "Verdict", "finished_at", "is_finished", "judge", "policy_of"]

_MAX_TITLES = 5
IDLE_LIMIT = 10
"""An idle aggregator is stopped after this many grace periods."""


class ConditionChange(msgspec.Struct, frozen=True, kw_only=True):
    """A condition as it shall be; ``is_true`` None takes it away."""

    kind: str
    is_true: bool | None = True
    reason: str | None = None
    message: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The job's phase, and what follows from it.

    ``stopped`` are ids of workers that are over without having ended; ``wake_at`` is when the
    verdict may change without an event.
    """

    phase: str
    conditions: tuple[ConditionChange, ...] = ()
    may_create: bool = True
    is_suspended: bool = False
    stopped: frozenset[str] = frozenset()
    wake_at: datetime | None = None

    @property
    def is_final(self) -> bool:
        """The job is over for good."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)


def policy_of(world: World) -> RunPolicy:
    """The job's run policy; without one, the defaults."""
    return world.job.view.spec.run_policy or RunPolicy()


def is_finished(status: Json) -> bool:
    """Whether the job was over when ``status`` was written."""
    ends = [find_condition(status, kind) for kind in ("Complete", "Failed")]
    return any(c is not None and c.get("status") == "True" for c in ends)


def finished_at(status: Json) -> datetime | None:
    """When the job was over."""
    for kind in ("Complete", "Failed"):
        condition = find_condition(status, kind)
        if condition is not None and condition.get("status") == "True":
            times = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime")
            return next((t for name in times if (t := parse_time(condition.get(name)))), None)
    return None


def judge(world: World, states: Sequence[WorkerState], status: Json) -> Verdict:
    """What ``states``, aggregator first, mean for a job that has not finished."""
    aggregator, trainers = states[0], states[1:]
    if aggregator.phase == Phase.SUCCEEDED:
        return _completing(world, trainers, status)
    failed = _failure(world, aggregator, trainers)
    if failed is not None:
        return _failed("workerFailed", failed, _stopped(world, states))
    deadline = _deadline(world, status)
    if deadline is not None and world.now >= deadline:
        limit = policy_of(world).active_deadline_seconds
        message = f"the job was active for {limit} s"
        return _failed("DeadlineExceeded", message, _stopped(world, states))
    if policy_of(world).suspend:
        change = ConditionChange(kind="Suspended", reason="JobSuspended")
        return Verdict(phase="Suspended", conditions=(change,), may_create=False, is_suspended=True)
    verdict = _idle(world, states, status) or Verdict(phase=_phase(states, status))
    resumed = _resumed(status)
    ends = deadline or _deadline_from(world, world.now)  # the clock starts with this very pass
    wakes = [at for at in (verdict.wake_at, ends, *(s.remake_at for s in states)) if at]
    return msgspec.structs.replace(
        verdict,
        conditions=(*verdict.conditions, *resumed, _degraded(world, states)),
        wake_at=min(wakes, default=None),
    )


def _phase(states: Sequence[WorkerState], status: Json) -> str:
    """Pending until every worker has run; a worker that is replaced later does not change it."""
    if all(state.phase in (Phase.RUNNING, Phase.SUCCEEDED) for state in states):
        return Phase.RUNNING
    ran = status.get("phase") == Phase.RUNNING and bool(status.get("workers"))
    runs = any(state.phase == Phase.RUNNING for state in states)
    return Phase.RUNNING if ran and runs else Phase.PENDING


def _completing(world: World, trainers: Sequence[WorkerState], status: Json) -> Verdict:
    """The aggregator succeeded, so the job did; trainers get a grace period to end too.

    A trainer that is restarted now would try for ever to reach an aggregator that has left.
    """
    grace = timedelta(seconds=world.settings.completion_grace_seconds)
    since = _since(status, "Completing", True) or world.now
    active = [state for state in trainers if state.is_active and not state.has_ended]
    if active and world.now < since + grace:
        change = ConditionChange(
            kind="Completing",
            reason="AggregatorSucceeded",
            message=f"trainers get {grace.total_seconds():g} s to end",
        )
        return Verdict(
            phase=status.get("phase") or Phase.RUNNING,
            conditions=(change,),
            may_create=False,
            wake_at=since + grace,
        )
    return _complete(_stopped(world, trainers))


def _complete(stopped: frozenset[str], message: str | None = None) -> Verdict:
    changes = (
        ConditionChange(kind="Complete", message=message),
        ConditionChange(kind="Completing", is_true=None),
        ConditionChange(kind="Suspended", is_true=None),
        ConditionChange(kind="AggregatorIdle", is_true=None),
        ConditionChange(kind="Degraded", is_true=None),
    )
    return Verdict(
        phase=Phase.SUCCEEDED,
        conditions=changes,
        may_create=False,
        stopped=stopped,
    )


def _stopped(world: World, states: Sequence[WorkerState]) -> frozenset[str]:
    """Workers that the job's end stops; cleanPodPolicy None lets pods go on."""
    keep = policy_of(world).clean_pod_policy == "None"
    return frozenset(s.worker.id for s in states if not s.has_ended and not (keep and s.is_active))


def _failure(world: World, aggregator: WorkerState, trainers: Sequence[WorkerState]) -> str | None:
    limit = backoff_limit(world)
    if aggregator.phase == Phase.FAILED:
        return _obituary(aggregator, limit)
    lost = [state for state in trainers if state.phase == Phase.FAILED]
    needed = min(world.job.view.spec.min_participants or len(trainers), len(trainers))
    if len(trainers) - len(lost) >= needed:
        return None
    told = "; ".join(_obituary(state, limit) for state in lost)
    left = len(trainers) - len(lost)
    return told if needed == len(trainers) else f"{left} of {needed} trainers left: {told}"


def backoff_limit(world: World) -> int:
    """Restarts that a worker may need."""
    limit = policy_of(world).backoff_limit
    return 6 if limit is None else limit


def _obituary(state: WorkerState, limit: int) -> str:
    words = ": ".join(filter(None, (state.reason, state.message)))
    return (
        f"{state.title} failed after {counted(state.restarts, 'restart')}, "
        f"{limit or 'none'} {'is' if limit <= 1 else 'are'} allowed: {words or 'unknown reason'}"
    )


def _failed(reason: str, message: str, stopped: frozenset[str]) -> Verdict:
    changes = (
        ConditionChange(kind="Failed", reason=reason, message=message),
        ConditionChange(kind="Suspended", is_true=None),
        ConditionChange(kind="AggregatorIdle", is_true=None),
        ConditionChange(kind="Degraded", is_true=None),
    )
    return Verdict(
        phase=Phase.FAILED,
        conditions=changes,
        may_create=False,
        stopped=stopped,
    )


def _idle(world: World, states: Sequence[WorkerState], status: Json) -> Verdict | None:
    """All trainers are done, and the aggregator goes on: say so, and end it in the end."""
    aggregator, trainers = states[0], states[1:]
    done = all(state.has_ended for state in trainers) and any(
        state.phase == Phase.SUCCEEDED for state in trainers
    )
    if not done:
        if find_condition(status, "AggregatorIdle") is None:
            return None
        gone = ConditionChange(kind="AggregatorIdle", is_true=None)
        return Verdict(phase=_phase(states, status), conditions=(gone,))
    grace = timedelta(seconds=world.settings.completion_grace_seconds)
    warned = _since(status, "AggregatorIdle", True)
    noticed = _since(status, "AggregatorIdle", False) or world.now
    if warned is None and world.now < noticed + grace:
        change = ConditionChange(
            kind="AggregatorIdle",
            is_true=False,
            reason="TrainersSucceeded",
            message="all trainers have ended; the aggregator is expected to end too",
        )
        return _still_running(status, change, noticed + grace)
    end = (warned or world.now) + (IDLE_LIMIT - 1) * grace
    keep = policy_of(world).clean_pod_policy == "None"
    if world.now >= end and warned is not None and not keep:
        seconds = IDLE_LIMIT * grace.total_seconds()
        return _complete(
            frozenset({aggregator.worker.id}),
            f"all trainers had ended, and the aggregator was stopped {seconds:g} s later",
        )
    then = "it is kept (cleanPodPolicy None)" if keep else "it will be stopped"
    change = ConditionChange(
        kind="AggregatorIdle",
        reason="AggregatorIdle",
        message=f"all trainers have ended and the aggregator goes on; {then}",
    )
    return _still_running(status, change, None if keep else end)


def _still_running(status: Json, change: ConditionChange, wake_at: datetime | None) -> Verdict:
    phase = status.get("phase") or Phase.RUNNING
    return Verdict(phase=phase, conditions=(change,), wake_at=wake_at)


def _degraded(world: World, states: Sequence[WorkerState]) -> ConditionChange:
    troubled = [state for state in states if is_in_trouble(state)]
    if not troubled:
        return ConditionChange(kind="Degraded", is_true=None)
    alike: dict[tuple[str | None, str | None], list[WorkerState]] = {}
    for state in troubled:
        alike.setdefault((state.reason, state.message), []).append(state)
    limit = backoff_limit(world)
    words = "; ".join(_cause(reason, why, same, limit) for (reason, why), same in alike.items())
    return ConditionChange(kind="Degraded", reason=troubled[0].reason, message=words)


def _cause(
    reason: str | None, message: str | None, states: Sequence[WorkerState], limit: int
) -> str:
    """One trouble, and all workers that have it."""
    who = listed([state.title for state in states], most=_MAX_TITLES)
    why = f" ({message})" if message else ""
    restarts = max(state.restarts for state in states)
    most = "up to " if len(states) > 1 else ""
    spent = f", {most}{restarts} of {counted(limit, 'restart')}" if restarts else ""
    return f"{who}: {reason}{why}{spent}"


def _resumed(status: Json) -> tuple[ConditionChange, ...]:
    if find_condition(status, "Suspended") is None:
        return ()
    return (ConditionChange(kind="Suspended", is_true=False, reason="JobResumed"),)


def _deadline(world: World, status: Json) -> datetime | None:
    return _deadline_from(world, parse_time(status.get("startTime")))


def _deadline_from(world: World, started: datetime | None) -> datetime | None:
    seconds = policy_of(world).active_deadline_seconds
    if seconds is None or started is None:
        return None
    return started + timedelta(seconds=seconds)


def _since(status: Json, kind: str, is_true: bool) -> datetime | None:
    condition = find_condition(status, kind)
    if condition is None or condition.get("status") != ("True" if is_true else "False"):
        return None
    return parse_time(condition.get("lastTransitionTime"))
