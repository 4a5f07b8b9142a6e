"""The columns of pods, whose STATUS cell is the most telling one of all."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster.cells import (
    NONE,
    age_column,
    conditions_of,
    human_duration,
    meta_of,
    name_column,
    seconds_of,
    spec_of,
    status_of,
)
from gm.devcluster.info import Column

__all__ = ["PODS", "pod_status"]


def _sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _state(status: Json, which: str, state: str = "state") -> Json | None:
    found: Json | None = (status.get(state) or {}).get(which)
    return found


def _ended(terminated: Json) -> str:
    """Why a container ended, in one word."""
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(obj: Json) -> str:
    """Which init container the pod waits for; empty when none."""
    declared = spec_of(obj).get("initContainers") or []
    by_name = {c.get("name"): c for c in declared}
    for index, status in enumerate(status_of(obj).get("initContainerStatuses") or []):
        terminated, waiting = _state(status, "terminated"), _state(status, "waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if _sidecar(by_name.get(status.get("name"), {})) and status.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        reason = (waiting or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(declared)}"
    return ""


def pod_status(obj: Json) -> str:
    """The STATUS cell of a pod: its phase, or what a container says that is more telling."""
    status = status_of(obj)
    reason = str(status.get("reason") or status.get("phase") or "")
    phase = status.get("phase", "")
    conditions = conditions_of(obj)
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initializing = _init_reason(obj)
    if initializing:
        reason = initializing
    if not initializing or conditions.get("Initialized") == "True":
        reason = _container_reason(obj, reason, is_ready=conditions.get("Ready") == "True")
    if meta_of(obj).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _container_reason(obj: Json, reason: str, *, is_ready: bool) -> str:
    has_running = False
    for container in reversed(status_of(obj).get("containerStatuses") or []):
        waiting, terminated = _state(container, "waiting"), _state(container, "terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
        elif container.get("ready") and _state(container, "running") is not None:
            has_running = True
    if reason == "Completed" and has_running:
        return "Running" if is_ready else "NotReady"
    return reason


def _pod_ready(obj: Json, _now: float) -> str:
    total = len(spec_of(obj).get("containers") or [])
    statuses = [*(status_of(obj).get("containerStatuses") or [])]
    ready = sum(1 for s in statuses if s.get("ready") and _state(s, "running") is not None)
    sidecars = {c.get("name") for c in spec_of(obj).get("initContainers") or [] if _sidecar(c)}
    for status in status_of(obj).get("initContainerStatuses") or []:
        ready += status.get("name") in sidecars and bool(status.get("ready"))
    return f"{ready}/{total + len(sidecars)}"


def _pod_restarts(obj: Json, now: float) -> str:
    which = "containerStatuses"
    if _init_reason(obj) and conditions_of(obj).get("Initialized") != "True":
        which = "initContainerStatuses"
    statuses = status_of(obj).get(which) or []
    restarts = sum(s.get("restartCount", 0) for s in statuses)
    ends = [
        at
        for status in statuses
        if (last := _state(status, "terminated", "lastState")) is not None
        and (at := seconds_of(last.get("finishedAt", ""))) is not None
    ]
    if restarts and ends:
        return f"{restarts} ({human_duration(now - max(ends))} ago)"
    return str(restarts)


def _pod_ip(obj: Json, _now: float) -> str:
    ips = status_of(obj).get("podIPs") or []
    return str((ips[0].get("ip") if ips else status_of(obj).get("podIP")) or NONE)


def _readiness_gates(obj: Json, _now: float) -> str:
    gates = spec_of(obj).get("readinessGates") or []
    if not gates:
        return NONE
    conditions = conditions_of(obj)
    met = sum(1 for gate in gates if conditions.get(gate.get("conditionType", "")) == "True")
    return f"{met}/{len(gates)}"


PODS = (
    name_column(),
    Column(name="Ready", cell=_pod_ready),
    Column(name="Status", cell=lambda obj, _: pod_status(obj)),
    Column(name="Restarts", cell=_pod_restarts),
    age_column(),
    Column(name="IP", priority=1, cell=_pod_ip),
    Column(name="Node", priority=1, cell=lambda obj, _: spec_of(obj).get("nodeName") or NONE),
    Column(
        name="Nominated Node",
        priority=1,
        cell=lambda obj, _: status_of(obj).get("nominatedNodeName") or NONE,
    ),
    Column(name="Readiness Gates", priority=1, cell=_readiness_gates),
)
"""The columns of a pod, as kube-apiserver renders them."""
