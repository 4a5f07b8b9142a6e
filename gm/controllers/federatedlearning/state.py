"""How each worker is doing: what its pods say, and what its job's status remembers."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from gm.api.core import ContainerStatus, Pod
from gm.api.sedna import WorkerStatus
from gm.controllers.federatedlearning.last_words import ended_with, last_words
from gm.controllers.federatedlearning.workers import HASH_ANNOTATION, Worker
from gm.kube.lister import Stored

__all__ = [
    "CREATING",
    "IMAGE_PROBLEMS",
    "RESTARTS_ANNOTATION",
    "Limits",
    "Phase",
    "WorkerState",
    "ended_on_its_own",
    "is_in_trouble",
    "state_of",
]

RESTARTS_ANNOTATION = "sedna.io/restarts"
"""On a pod: restarts of its worker before this pod, so that the count outlives pods and GM."""

# What takes pods down without fault of the worker: replaced, and not counted as a restart.
_DISRUPTIONS = frozenset(
    {"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "NodeLost", "Terminated"}
)
CREATING = frozenset({"ContainerCreating", "PodInitializing"})
"""What a container waits for before it is first started."""
IMAGE_PROBLEMS = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull"})
"""One trouble, whatever a kubelet calls it from attempt to attempt."""


class Phase(enum.StrEnum):
    """Phase of a worker, as ``status.workers[].phase`` has it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """One worker at one moment.

    ``pod`` is its living pod, ``leaving`` those that are being deleted. ``remake_at`` is set when
    ``pod`` has Failed and is to be made again. ``is_outdated``: the spec asks for another pod.
    """

    worker: Worker
    phase: Phase
    restarts: int = 0
    pod: Stored[Pod] | None = None
    leaving: tuple[Stored[Pod], ...] = ()
    node: str | None = None
    reason: str | None = None
    message: str | None = None
    remake_at: datetime | None = None
    is_outdated: bool = False

    @property
    def title(self) -> str:
        """What messages call it, with the node that it is on."""
        where = f" (node {self.node})" if self.node and not self.worker.node else ""
        return self.worker.title + where

    @property
    def is_active(self) -> bool:
        """It has a pod that is pending or running."""
        return self.pod is not None and _pod_phase(self.pod.view) in (Phase.PENDING, Phase.RUNNING)

    @property
    def has_ended(self) -> bool:
        """It needs no pod any more."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)

    @property
    def is_missing(self) -> bool:
        """It needs a pod, has none, and none stands in the way."""
        return self.pod is None and not self.leaving and not self.has_ended


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and how fast, a worker is made again."""

    backoff_limit: int = 6
    remake_first_seconds: float = 10.0
    remake_max_seconds: float = 360.0


def state_of(
    worker: Worker,
    pods: Sequence[Stored[Pod]],
    departed: Sequence[Stored[Pod]],
    memory: WorkerStatus | None,
    limits: Limits,
    endings: Mapping[str, bool],
) -> WorkerState:
    """What is known of ``worker``; ``memory`` is its entry in the job's status, if any.

    ``endings``: see :func:`ended_on_its_own`.
    """
    memory = _about(worker, memory)
    living = [p for p in pods if p.view.metadata.deletion_timestamp is None]
    leaving = tuple(p for p in pods if p.view.metadata.deletion_timestamp is not None)
    pod = min(living, key=_preference) if living else None
    known = (*([pod] if pod else ()), *leaving, *departed)
    counts = [restarts_with(p, endings) for p in known if not _is_outdated(p, worker)]
    restarts = max([memory.restarts or 0 if memory else 0, *counts])
    node = _node(worker, pod, leaving, departed, memory)
    state = WorkerState(
        worker=worker,
        phase=Phase.PENDING,
        restarts=restarts,
        pod=pod,
        leaving=leaving,
        node=node,
        is_outdated=pod is not None and _is_outdated(pod, worker),
    )
    if pod is None:
        return _without_pod(state, departed, memory, limits, endings)
    return _with_pod(state, pod.view, memory, limits)


def _about(worker: Worker, memory: WorkerStatus | None) -> WorkerStatus | None:
    """What ``memory`` says about ``worker`` as the spec wants it now.

    What a worker did, and how often it failed, at another task says nothing about this one. An
    aggregator that succeeded is the end of the job in any case.
    """
    if memory is None or memory.spec_hash in (None, worker.digest):
        return memory
    if worker.is_aggregator and memory.phase == Phase.SUCCEEDED:
        return memory
    return WorkerStatus(name=memory.name, role=memory.role, node=memory.node)


def ended_on_its_own(pod: Stored[Pod], endings: Mapping[str, bool]) -> bool:
    """Whether ``pod`` ended before anybody asked for its removal.

    A pod that is being deleted ends too: with success if it takes SIGTERM well. That says
    nothing about its work. ``endings`` tells, by uid, of pods whose end and removal were seen in
    their order.
    """
    view = pod.view
    if _pod_phase(view) not in (Phase.SUCCEEDED, Phase.FAILED):
        return False
    asked, finished = view.metadata.deletion_requested, _finished_at(view)
    if asked is None:
        return True
    if pod.uid in endings:
        return endings[pod.uid]
    # Nobody looked (GM was down, or a watch broke): times must tell, in whole seconds. What ended
    # in the second of the request, or at an unknown time, counts as removed: to run a worker again
    # costs time, a success that was none would cost the model, and nobody would notice.
    return finished is not None and finished < asked


def restarts_with(pod: Stored[Pod], endings: Mapping[str, bool]) -> int:
    """Restarts of the worker up to and including ``pod``."""
    view = pod.view
    before = (view.metadata.annotations or {}).get(RESTARTS_ANNOTATION, "0")
    total = int(before) if before.isdecimal() else 0
    total += sum(status.restart_count or 0 for status in _statuses(view))
    failed = _pod_phase(view) == Phase.FAILED and ended_on_its_own(pod, endings)
    return total + (failed and not _is_disruption(view))


def _without_pod(
    state: WorkerState,
    departed: Sequence[Stored[Pod]],
    memory: WorkerStatus | None,
    limits: Limits,
    endings: Mapping[str, bool],
) -> WorkerState:
    # a pod that was replaced because the spec changed may have succeeded, but at another task
    gone = [p for p in (*state.leaving, *departed) if not _is_outdated(p, state.worker)]
    done = [p for p in gone if _pod_phase(p.view) == Phase.SUCCEEDED]
    if any(ended_on_its_own(p, endings) for p in done):
        return msgspec.structs.replace(state, phase=Phase.SUCCEEDED)
    if memory is not None and memory.phase in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED):
        return msgspec.structs.replace(
            state, phase=Phase(memory.phase), reason=memory.reason, message=memory.message
        )
    if state.restarts > limits.backoff_limit:
        words = [w for p in reversed(gone) if (w := _last_words(p.view)) is not None]
        words += [memory.message] if memory and memory.message else []
        return msgspec.structs.replace(
            state,
            phase=Phase.FAILED,
            reason="BackoffLimitExceeded",
            message=next(iter(words), None),
        )
    if state.leaving:
        return msgspec.structs.replace(state, reason="WaitingForRemoval")
    return state


def _with_pod(
    state: WorkerState,
    pod: Pod,
    memory: WorkerStatus | None,
    limits: Limits,
) -> WorkerState:
    phase = _pod_phase(pod)
    reason, message = _trouble(pod)
    change = msgspec.structs.replace
    if state.is_outdated and not (phase == Phase.SUCCEEDED and state.worker.is_aggregator):
        return change(state, reason="SpecChanged")
    if phase == Phase.SUCCEEDED:
        return change(state, phase=phase)
    if memory is not None and memory.phase == Phase.STOPPED:
        return change(state, phase=Phase.STOPPED, reason=memory.reason)
    if state.restarts > limits.backoff_limit:
        # it may run again just now: what counts is how it ended before
        reason = reason or "BackoffLimitExceeded"
        message = message or _last_words(pod) or (memory.message if memory else None)
        return change(state, phase=Phase.FAILED, reason=reason, message=message)
    if phase == Phase.FAILED:
        at = _failed_at(pod)
        if not _is_disruption(pod):
            # the exponent is bounded: backoffLimit is not
            delay = limits.remake_first_seconds * 2.0 ** min(max(state.restarts - 1, 0), 32)
            at += timedelta(seconds=min(delay, limits.remake_max_seconds))
        return change(state, reason=reason or "PodFailed", message=message, remake_at=at)
    return change(state, phase=phase, reason=reason, message=message)


def _preference(pod: Stored[Pod]) -> tuple[int, datetime | None, str]:
    """Of several living pods of a worker: the one that got farthest, then the oldest."""
    rank = [Phase.SUCCEEDED, Phase.RUNNING, Phase.PENDING, Phase.FAILED]
    created = pod.view.metadata.creation_timestamp
    return rank.index(_pod_phase(pod.view)), created, pod.key.name


def _pod_phase(pod: Pod) -> Phase:
    match pod.status.phase:
        case "Running" | "Succeeded" | "Failed" as phase:
            return Phase(phase)
        case _:  # Pending; empty before a kubelet has seen it; Unknown on a lost node
            return Phase.PENDING


def _node(
    worker: Worker,
    pod: Stored[Pod] | None,
    leaving: Sequence[Stored[Pod]],
    departed: Sequence[Stored[Pod]],
    memory: WorkerStatus | None,
) -> str | None:
    bound = [p.view.spec.node_name for p in (*([pod] if pod else ()), *leaving, *departed)]
    remembered = memory.node if memory else None
    return next((node for node in bound if node), None) or remembered or worker.node


def _is_outdated(pod: Stored[Pod], worker: Worker) -> bool:
    # an adopted pod has no digest: it counts as equal and gets one
    digest = (pod.view.metadata.annotations or {}).get(HASH_ANNOTATION)
    return digest is not None and digest != worker.digest


def _statuses(pod: Pod) -> list[ContainerStatus]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def _is_disruption(pod: Pod) -> bool:
    disrupted = any(
        c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions or ()
    )
    return disrupted or pod.status.reason in _DISRUPTIONS


def _finished_at(pod: Pod) -> datetime | None:
    ends = [
        status.state.terminated.finished_at
        for status in _statuses(pod)
        if status.state and status.state.terminated and status.state.terminated.finished_at
    ]
    return max(ends, default=None)


def _failed_at(pod: Pod) -> datetime:
    known = _finished_at(pod) or pod.status.start_time or pod.metadata.creation_timestamp
    assert known is not None, "a pod from the API server has a creation timestamp"
    return known


def _trouble(pod: Pod) -> tuple[str | None, str | None]:
    """Why the pod is not simply running: a word, and a sentence if there is one."""
    for status in _statuses(pod):
        state = status.state
        if state and state.waiting and state.waiting.reason:
            reason, message = state.waiting.reason, state.waiting.message
            if reason not in CREATING:
                # what it said before it ended helps more than how long it is backed off
                ended = ended_with(status)
                return reason, last_words(ended) if ended is not None else message
        if state and state.terminated and state.terminated.exit_code:
            return state.terminated.reason or "Error", last_words(state.terminated)
    if pod.status.reason:
        return pod.status.reason, pod.status.message
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return _creating(pod)


def _creating(pod: Pod) -> tuple[str | None, str | None]:
    """What the pod's containers wait for before they are first started."""
    waiting = [s.state.waiting for s in _statuses(pod) if s.state and s.state.waiting]
    told = [wait for wait in waiting if wait.reason in CREATING]
    if not told:
        return None, None
    chosen = next((wait for wait in told if wait.message), told[0])
    return chosen.reason, chosen.message


def _last_words(pod: Pod) -> str | None:
    """How the pod's containers ended, of those that failed."""
    ends = [ended_with(status) for status in _statuses(pod)]
    failed = [last_words(ended) for ended in ends if ended is not None and ended.exit_code]
    return failed[0] if failed else None


def is_in_trouble(state: WorkerState) -> bool:
    """Whether people should be told about the worker: it crashes, or can not start."""
    if state.reason in IMAGE_PROBLEMS or state.remake_at is not None:
        return True
    return state.reason in ("CrashLoopBackOff", "Unschedulable", "NotForThisNode", "Error")
