"""A pod's status, computed from what its containers do; no I/O.

Source of the rules: a kubelet's pod phase, conditions and container states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gm.api.meta import Json
from gm.edge_stub.runner.container import Exit

__all__ = ["ContainerRecord", "PodRecord", "pod_status", "stamp", "status_patch"]

_SCHEDULED = "PodScheduled"
NOT_FOR_THIS_NODE = "NotForThisNode"
_LOST = "the node stopped while the container ran; to pods that is a reboot"
_ENDED = ("Succeeded", "Failed")
_UNKNOWN = Exit(
    code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
    started_at=None,
    finished_at=None,
)


def stamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ContainerRecord(msgspec.Struct, kw_only=True):
    """What is known of one container: one of ``waiting``, ``running``, ``terminated`` is set."""

    name: str
    image: str
    waiting: tuple[str, str] | None = ("ContainerCreating", "")
    running: datetime | None = None
    terminated: Exit | None = None
    last: Exit | None = None
    restarts: int = 0
    ready: bool = False
    started: bool = False
    identity: str = ""
    is_sidecar: bool = False
    spec: Mapping[str, Any] = {}
    """The container as the pod has it."""

    def wait(self, reason: str, message: str = "") -> None:
        """Not running, for ``reason``; how it ended before becomes its last state."""
        if self.terminated is not None:
            self.last, self.terminated = self.terminated, None
        self.waiting, self.running = (reason, message), None
        self.ready = self.started = False

    def run(self, started_at: datetime, identity: str) -> None:
        """Running since ``started_at``."""
        if self.terminated is not None:
            self.last, self.terminated = self.terminated, None
        self.waiting, self.running, self.identity = None, started_at, identity

    def end(self, exit_: Exit) -> None:
        """Ended, for good or until it is started again; of older runs nothing is kept."""
        exit_ = msgspec.structs.replace(exit_, identity=exit_.identity or self.identity)
        self.waiting, self.running, self.terminated, self.last = None, None, exit_, None
        self.ready = self.started = False

    def end_waiting(self) -> None:
        """What waits will not be started any more, as its pod ends."""
        if self.waiting is not None:
            self.end(self.last or _UNKNOWN)

    @property
    def ended(self) -> Exit | None:
        """How it ended, unless it runs again or never ran."""
        if self.terminated is not None:
            return self.terminated
        return self.last if self.running is None else None

    @property
    def is_initialized(self) -> bool:
        """Whether, as an init container, it lets the next one start."""
        if self.is_sidecar:
            return self.started
        return self.terminated is not None and self.terminated.code == 0

    @classmethod
    def restore(cls, container: Mapping[str, Any], status: Mapping[str, Any]) -> ContainerRecord:
        """From the status that an earlier run of the node wrote; what ran then was lost."""
        record = cls(
            name=container["name"],
            image=container.get("image") or "",
            is_sidecar=container.get("restartPolicy") == "Always",
            spec=container,
        )
        record.restarts = status.get("restartCount") or 0
        record.identity = status.get("containerID") or ""
        state, last = status.get("state") or {}, status.get("lastState") or {}
        if last.get("terminated"):
            record.last = _exit_of(last["terminated"])
        if state.get("terminated"):
            record.end(_exit_of(state["terminated"]))
        elif state.get("running"):
            record.end(_lost(_moment(state["running"].get("startedAt"))))
        return record


class PodRecord(msgspec.Struct, kw_only=True):
    """What is known of a pod. ``failure`` (reason, message) makes it Failed whatever runs.

    ``refusal`` says why this node does not run it: it stays Pending. ``is_ending`` means that no
    container of it will be started again, whatever the restart policy says.
    """

    policy: str
    host_ip: str
    init: list[ContainerRecord]
    containers: list[ContainerRecord]
    pod_ip: str = ""
    start_time: datetime
    failure: tuple[str, str] | None = None
    refusal: str = ""
    is_ending: bool = False

    @classmethod
    def restore(cls, pod: Json, *, host_ip: str, now: datetime) -> PodRecord:
        """A record of ``pod`` as it stands in the API: new, or left by a run before this one."""
        spec, status = pod["spec"], pod.get("status") or {}
        known = {
            entry["name"]: entry
            for field in ("containerStatuses", "initContainerStatuses")
            for entry in status.get(field) or ()
        }

        def records(field: str) -> list[ContainerRecord]:
            return [
                ContainerRecord.restore(container, known.get(container["name"], {}))
                for container in spec.get(field) or ()
            ]

        init, containers = records("initContainers"), records("containers")
        for record in (*init, *containers) if init else ():
            if record.waiting is not None:
                record.wait("PodInitializing")
        return cls(
            policy=spec.get("restartPolicy") or "Always",
            host_ip=host_ip,
            init=init,
            containers=containers,
            start_time=_moment(status.get("startTime")) or now,
        )

    def refuse(self, why: str) -> None:
        """This node does not run the pod: it stays Pending, and says so wherever people look."""
        self.refusal = why
        for record in (*self.init, *self.containers):
            if record.waiting is not None:
                record.wait(NOT_FOR_THIS_NODE)

    def end_waiting(self) -> None:
        """No container is started any more; those that wait for init containers just stay."""
        for record in self.init:
            if record.last is not None:
                record.end_waiting()
        for record in self.containers if self.is_initialized else ():
            record.end_waiting()

    @property
    def is_initialized(self) -> bool:
        """Whether all init containers have done their part."""
        return all(record.is_initialized for record in self.init)

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded or Failed."""
        if self.refusal:
            return "Pending"
        waiting = sum(r.waiting is not None and r.last is None for r in self.containers)
        running = sum(r.running is not None for r in self.containers)
        if self.failure is not None:  # not before everything has ended
            return "Running" if running else "Failed"
        stopped = [r.ended for r in self.containers if r.ended is not None]
        if not self.is_initialized and not (running or stopped):
            return "Failed" if self.policy == "Never" and self._init_failed else "Pending"
        if waiting:
            return "Pending"
        if running or (self.policy == "Always" and not self.is_ending):
            return "Running"
        if all(ended.code == 0 for ended in stopped):
            return "Succeeded"
        return "Failed" if self.policy == "Never" or self.is_ending else "Running"

    @property
    def has_ended(self) -> bool:
        """Whether the pod is through, for good or ill."""
        return self.phase in _ENDED

    @property
    def _init_failed(self) -> bool:
        return any(r.terminated is not None and r.terminated.code != 0 for r in self.init)


def pod_status(
    record: PodRecord, current: Mapping[str, Any], now: datetime, *, generation: int | None
) -> Json:
    """The fields of ``status`` that a node writes; None stands for a field that must go.

    Conditions of others in ``current`` are kept, as are transition times of what did not change.
    ``generation`` is that of the pod, None where the API server keeps none.
    """
    if current.get("phase") in _ENDED:
        generation = current.get("observedGeneration")  # nothing more is done about it
    status: Json = {
        "observedGeneration": generation,
        "phase": record.phase,
        "reason": None,
        "message": None,
        "hostIP": record.host_ip,
        "hostIPs": [{"ip": record.host_ip}],
        "podIP": record.pod_ip or None,
        "podIPs": [{"ip": record.pod_ip}] if record.pod_ip else None,
        "startTime": stamp(record.start_time),
        "conditions": _conditions(record, current.get("conditions") or (), now, generation),
        "containerStatuses": [_container_status(r, r.ready) for r in record.containers],
        "initContainerStatuses": [
            _container_status(r, r.ready if r.is_sidecar else r.is_initialized) for r in record.init
        ]
        or None,
    }
    if record.failure is not None and record.has_ended:
        status["reason"], status["message"] = record.failure
    elif record.refusal:
        status["reason"], status["message"] = NOT_FOR_THIS_NODE, record.refusal
    return status


def status_patch(desired: Json, current: Mapping[str, Any]) -> Json:
    """A merge patch of ``status`` from ``current`` to ``desired``; empty if nothing differs."""
    return {
        field: value
        for field, value in desired.items()
        if _without_empty(value) != _without_empty(current.get(field))
    }


def _without_empty(value: Any) -> Any:
    """``value`` as an API server stores it that drops empty fields."""
    if isinstance(value, Mapping):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [], "")}
    if isinstance(value, list | tuple):
        return [_without_empty(item) for item in value]
    return value


def _conditions(
    record: PodRecord, current: Sequence[Json], now: datetime, generation: int | None
) -> list[Json]:
    """Ours in a kubelet's order, then those of others."""
    before = {condition["type"]: condition for condition in current}
    wanted = [
        ("PodReadyToStartContainers", bool(record.pod_ip) and not record.has_ended, "", ""),
        ("Initialized", *_initialized(record)),
        ("Ready", *_ready(record)),
        ("ContainersReady", *_ready(record)),
        (_SCHEDULED, True, "", ""),  # also one that was bound by hand
    ]
    own = {kind for kind, *_ in wanted}
    conditions = []
    for kind, holds, reason, message in wanted:
        state = "True" if holds else "False"
        old = before.get(kind, {})
        condition: Json = {
            "type": kind,
            "status": state,
            "lastProbeTime": None,
            "lastTransitionTime": old["lastTransitionTime"]
            if old.get("status") == state and old.get("lastTransitionTime")
            else stamp(now),
        }
        if generation is not None:
            condition["observedGeneration"] = generation
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        conditions.append(condition)
    return conditions + [condition for condition in current if condition["type"] not in own]


def _initialized(record: PodRecord) -> tuple[bool, str, str]:
    if record.refusal:
        return False, NOT_FOR_THIS_NODE, record.refusal
    if record.is_initialized or any(r.running or r.ended for r in record.containers):
        return True, "PodCompleted" if record.phase == "Succeeded" else "", ""
    missing = " ".join(r.name for r in record.init if not r.is_initialized)
    return False, "ContainersNotInitialized", f"containers with incomplete status: [{missing}]"


def _ready(record: PodRecord) -> tuple[bool, str, str]:
    if record.refusal:
        return False, NOT_FOR_THIS_NODE, record.refusal
    if record.phase == "Succeeded":
        return False, "PodCompleted", ""
    if record.phase == "Failed":
        return False, "PodFailed", ""
    missing = " ".join(r.name for r in record.containers if not r.ready)
    if missing:
        return False, "ContainersNotReady", f"containers with unready status: [{missing}]"
    return True, "", ""


def _container_status(record: ContainerRecord, ready: bool) -> Json:
    status: Json = {
        "name": record.name,
        "image": record.image,
        "imageID": "",
        "restartCount": record.restarts,
        "ready": ready,
        "started": record.started,
        "state": _state(record),
        "lastState": {},
        "volumeMounts": [_mount(mount) for mount in record.spec.get("volumeMounts") or ()],
    }
    if record.last is not None:
        status["lastState"] = {"terminated": _terminated(record.last)}
    if record.identity:  # a container was made
        status["containerID"] = record.identity
        resources = record.spec.get("resources") or {}
        status["resources"] = resources
        status["allocatedResources"] = resources.get("requests") or {}
    return status


def _mount(mount: Mapping[str, Any]) -> Json:
    shown: Json = {"name": mount["name"], "mountPath": mount["mountPath"]}
    return shown | (
        {"readOnly": True, "recursiveReadOnly": "Disabled"} if mount.get("readOnly") else {}
    )


def _state(record: ContainerRecord) -> Json:
    if record.running is not None:
        return {"running": {"startedAt": stamp(record.running)}}
    if record.terminated is not None:
        return {"terminated": _terminated(record.terminated)}
    reason, message = record.waiting or ("ContainerCreating", "")
    return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}


def _terminated(ended: Exit) -> Json:
    terminated: Json = {
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": stamp(ended.started_at) if ended.started_at else None,
        "finishedAt": stamp(ended.finished_at) if ended.finished_at else None,
    }
    if ended.message:
        terminated["message"] = ended.message
    if ended.identity:
        terminated["containerID"] = ended.identity
    return terminated


def _exit_of(terminated: Mapping[str, Any]) -> Exit:
    return Exit(
        code=terminated.get("exitCode") or 0,
        reason=terminated.get("reason") or "",
        message=terminated.get("message") or "",
        started_at=_moment(terminated.get("startedAt")),
        finished_at=_moment(terminated.get("finishedAt")),
        identity=terminated.get("containerID") or "",
    )


def _lost(started_at: datetime | None) -> Exit:
    return Exit(
        code=137,
        reason="Unknown",
        message=_LOST,
        started_at=started_at,
        finished_at=datetime.now(UTC),
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
