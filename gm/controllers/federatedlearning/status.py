"""The status of a job, computed whole from its workers' states; a pure function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from gm.api.meta import Json
from gm.api.worker_names import TRAIN
from gm.controllers.bounded import shrink
from gm.controllers.conditions import (
    find_condition,
    remove_conditions,
    set_condition,
    timestamp,
    truncated,
)
from gm.controllers.conditions import status_of as read_status
from gm.controllers.federatedlearning.state import (
    CREATING,
    IMAGE_PROBLEMS,
    Phase,
    WorkerState,
)
from gm.controllers.federatedlearning.verdict import Verdict, policy_of
from gm.controllers.federatedlearning.world import World
from gm.words import counted, listed

__all__ = ["PROBLEM_KINDS", "Notice", "Problem", "build_status", "is_minor", "notices"]

PROBLEM_KINDS = (
    "InvalidSpec",
    "Waiting",
    "NameConflict",
    "WaitingForRemoval",
    "NoNodePort",
    "CreateFailed",
    "PortConflict",
    "NodeUnreachable",
    "WorkerUnreachable",
    "ModelShared",
    "ReferenceChanged",
)
"""Conditions that are there as long as the problem is."""
_TROUBLES = frozenset({"Failed", "AggregatorIdle", "Degraded", *PROBLEM_KINDS})
_MAX_TITLES = 5
_GOING_ON = frozenset({Phase.PENDING, Phase.RUNNING})
_HARMLESS = CREATING | {"SpecChanged", "WaitingForRemoval"}  # told otherwise, or soon over
_CRASHES = frozenset({"Error", "CrashLoopBackOff"})
_ROUTINE = frozenset({"AggregatorNotBound", "NodePortPending"})  # passes within seconds


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that keeps the job from going on, as a condition of type ``kind``."""

    kind: str
    reason: str
    message: str


class Notice(msgspec.Struct, frozen=True):
    """An Event to send about the job."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def build_status(
    world: World,
    states: Sequence[WorkerState],
    verdict: Verdict,
    problems: Sequence[Problem],
    *,
    is_started: bool,
) -> Json:
    """The job's status now. What others report (rounds, metrics, Training) is kept as it is.

    Metrics and words of workers give way where there would be too much of them.
    """
    status = read_status(world.job.raw)
    status["phase"] = str(verdict.phase)
    status["observedGeneration"] = world.job.view.metadata.generation
    if verdict.is_suspended:
        status.pop("startTime", None)  # the clock of activeDeadlineSeconds stands still
    elif "startTime" not in status and (is_started or any(s.pod for s in states)):
        status["startTime"] = timestamp(world.now)
    if states:
        _count(world, status, states, verdict)
        _list_workers(status, states, verdict)
    else:
        for field in ("active", "succeeded", "failed"):
            status.setdefault(field, 0)
    for change in verdict.conditions:
        if change.is_true is None:
            remove_conditions(status, [change.kind])
        else:
            set_condition(
                status,
                change.kind,
                at=world.now,
                is_true=change.is_true,
                reason=change.reason,
                message=change.message,
            )
    _tell_problems(world, status, problems)
    _tell_newest(status)
    if verdict.phase == Phase.SUCCEEDED and "completionTime" not in status:
        status["completionTime"] = timestamp(world.now)
    shrink(status)
    return status


def notices(old: Json, new: Json) -> list[Notice]:
    """What is worth an Event in the step from status ``old`` to ``new``."""
    found = []
    for condition in new.get("conditions") or []:
        kind, message = condition.get("type", ""), condition.get("message") or ""
        before = find_condition(old, kind)
        said = ("status", "reason", "message")
        if before is not None and all(before.get(k) == condition.get(k) for k in said):
            continue
        if condition.get("status") != "True" or condition.get("reason") in _ROUTINE:
            continue
        reason = condition.get("reason") or kind
        if kind == "Complete":
            found.append(Notice("Normal", "Completed", message or _ending(new)))
        elif kind == "Suspended":
            found.append(Notice("Normal", reason, "the job's workers are stopped"))
        elif kind == "Degraded":
            found += _new_troubles(old if _holds(before) else {}, new, condition)
        elif kind in _TROUBLES:
            found.append(Notice("Warning", reason, message))
    return found


def _holds(condition: Json | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def _ending(status: Json) -> str:
    """What a job that succeeded has behind it."""
    rounds = status.get("round")
    after = f" after {counted(rounds, 'round')}" if rounds else ""
    phases = [w.get("phase") for w in status.get("workers") or [] if w.get("role") == TRAIN]
    parts = [f"the aggregator succeeded{after}", counted(len(phases), "trainer")]
    parts += [
        f"{phases.count(phase)} {phase.lower()}"
        for phase in (Phase.FAILED, Phase.STOPPED)
        if phase in phases
    ]
    return f"{parts[0]}; {', '.join(parts[1:])}"


def _new_troubles(old: Json, new: Json, condition: Json) -> list[Notice]:
    """One notice for each cause that no worker had before, with all workers that have it now."""
    before = {_cause(entry) for entry in old.get("workers") or []}
    causes: dict[str, list[Json]] = {}
    for entry in new.get("workers") or []:
        cause = _cause(entry)
        if cause is not None and cause not in before:
            causes.setdefault(cause, []).append(entry)
    found = []
    for entries in causes.values():
        who = listed([_title(entry) for entry in entries], most=_MAX_TITLES)
        reason, why = entries[0]["reason"], entries[0].get("message")
        # between two crashes it runs, so the same crash is told again: as the same Event
        named = "WorkerCrashed" if reason in _CRASHES else reason
        found.append(Notice("Warning", named, f"{who}: {why or reason}"))
    if not found and not old:
        return [
            Notice("Warning", condition.get("reason") or "Degraded", condition.get("message") or "")
        ]
    return found


def _cause(entry: Json) -> str | None:
    """What troubles a worker; the same while it goes from crash to back-off and again."""
    reason = entry.get("reason")
    if not reason or reason in _HARMLESS or entry.get("phase") not in _GOING_ON:
        return None
    return "image" if reason in IMAGE_PROBLEMS else str(entry.get("message") or reason)


def _title(entry: Json) -> str:
    where = f" on {entry['node']}" if entry.get("node") else ""
    return (
        f"trainer {entry.get('index')}{where}"
        if entry.get("role") == TRAIN
        else (f"aggregator{where}")
    )


def _count(world: World, status: Json, states: Sequence[WorkerState], verdict: Verdict) -> None:
    stops = verdict.is_final and policy_of(world).clean_pod_policy != "None"
    status["active"] = 0 if stops else sum(state.is_active for state in states)
    status["succeeded"] = sum(state.phase == Phase.SUCCEEDED for state in states)
    status["failed"] = sum(state.phase == Phase.FAILED for state in states)


def _list_workers(status: Json, states: Sequence[WorkerState], verdict: Verdict) -> None:
    known = {entry.get("name"): entry for entry in status.get("workers") or []}
    status["workers"] = [
        _entry(known.get(state.worker.name) or {}, state, verdict) for state in states
    ]


def _entry(known: Json, state: WorkerState, verdict: Verdict) -> Json:
    worker = state.worker
    is_stopped = worker.id in verdict.stopped
    entry: Json = {
        **known,
        "name": worker.name,
        "role": worker.role,
        "node": state.node,
        "podName": state.pod.key.name if state.pod else known.get("podName"),
        "phase": str(Phase.STOPPED if is_stopped else state.phase),
        "restarts": state.restarts,
        "specHash": worker.digest,
        "reason": "JobFinished" if is_stopped else state.reason,
        "message": truncated(state.message) if state.message and not is_stopped else None,
    }
    if not worker.is_aggregator:
        entry["index"] = worker.index
    return {key: value for key, value in entry.items() if value is not None}


def _tell_problems(world: World, status: Json, problems: Sequence[Problem]) -> None:
    told: dict[str, list[Problem]] = {}
    for problem in problems:
        told.setdefault(problem.kind, []).append(problem)
    remove_conditions(status, [kind for kind in PROBLEM_KINDS if kind not in told])
    for kind, same in told.items():
        message = "; ".join(dict.fromkeys(problem.message for problem in same))
        set_condition(status, kind, at=world.now, reason=same[0].reason, message=message)


def _tell_newest(status: Json) -> None:
    """The newest problem in ``reason`` and ``message``, which ``kubectl get -o wide`` shows."""
    told = [
        condition
        for condition in status.get("conditions") or []
        if condition.get("type") in _TROUBLES and condition.get("status") == "True"
    ]
    if status["phase"] == Phase.FAILED:
        told = [condition for condition in told if condition.get("type") == "Failed"]
    newest: Json = max(told, key=lambda c: str(c.get("lastTransitionTime") or ""), default={})
    for field in ("reason", "message"):
        status.pop(field, None)
        if newest.get(field):
            status[field] = newest[field]


def is_minor(old: Json, new: Json) -> bool:
    """Whether the step may wait a moment: nothing ended, nothing moved, no condition changed."""
    if _without_details(old) != _without_details(new):
        return False
    olds = {entry.get("name"): entry for entry in old.get("workers") or []}
    for entry in new.get("workers") or []:
        before = olds.get(entry.get("name"))
        if before is None or any(
            before.get(field) != entry.get(field) for field in ("node", "podName", "role", "index")
        ):
            return False
        has_ended = entry.get("phase") not in (Phase.PENDING, Phase.RUNNING)
        if before.get("phase") != entry.get("phase") and has_ended:
            return False
    return len(olds) == len(new.get("workers") or [])


def _without_details(status: Json) -> Json:
    return {key: value for key, value in status.items() if key not in ("workers", "active")}
