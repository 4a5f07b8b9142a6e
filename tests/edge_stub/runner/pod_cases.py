"""What a pod of the table (``pod_table.py``) is, and the steps that it is led through.

Texts may hold ``<host>`` (the pod's own directory of the node), ``<node>``, ``<server>`` and
``<port>`` (an HTTP server of the test, which answers what the steps say).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gm.api.meta import Json, ResourceType

__all__ = [
    "GATE",
    "IMAGE",
    "Answer",
    "Case",
    "Change",
    "Create",
    "Delete",
    "HasEvent",
    "HasFile",
    "HasLog",
    "Holds",
    "Log",
    "Make",
    "Remove",
    "Step",
    "Until",
    "all_of",
    "condition",
    "container",
    "ended",
    "filled",
    "phase",
    "restarted",
    "running",
    "script",
    "wait_for",
    "waiting",
]

IMAGE = "localhost/busybox:1"
"""The one image of the table; in the runner, whatever ``sh`` this machine has."""

GATE = {"name": "gate", "mountPath": "/gate"}
"""Where a container meets the test: files made here let it go on, files left here are seen."""

Holds = Callable[[Json], bool]


@dataclass(frozen=True)
class Until:
    """Wait until ``holds`` is true of the pod; its status then is looked at under ``name``."""

    name: str
    holds: Holds


@dataclass(frozen=True)
class Make:
    """Make a file of the pod's directory on the node."""

    path: str
    text: str = ""


@dataclass(frozen=True)
class Remove:
    """Remove one."""

    path: str


@dataclass(frozen=True)
class HasFile:
    """Wait until there is such a file in the pod's directory."""

    path: str


@dataclass(frozen=True)
class HasLog:
    """Wait until ``text`` is in the log of a container."""

    text: str
    container: str = "main"


@dataclass(frozen=True)
class HasEvent:
    """Wait for an Event about the pod."""

    reason: str


@dataclass(frozen=True)
class Create:
    """Create an object beside the pod."""

    resource: ResourceType
    body: Json


@dataclass(frozen=True)
class Change:
    """Merge ``patch`` into an object, the pod if ``name`` is not given."""

    resource: ResourceType
    patch: Json
    name: str = ""


@dataclass(frozen=True)
class Answer:
    """What the HTTP server answers from now on."""

    status: int


@dataclass(frozen=True)
class Delete:
    """Delete the pod and wait until it is gone; what its last status was is looked at."""

    grace_seconds: int | None = None


Step = Until | Make | Remove | HasFile | HasLog | HasEvent | Create | Change | Answer | Delete


@dataclass(frozen=True)
class Log:
    """A log to be read at the end, as the API server gives it for ``query``."""

    container: str = "main"
    query: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Container and query as one text."""
        return " ".join([self.container, *(f"{key}={value}" for key, value in self.query)])


@dataclass(frozen=True)
class Case:
    """A pod, what it shows, and the steps."""

    name: str
    shows: str
    spec: Json
    steps: tuple[Step, ...]
    metadata: Json = field(default_factory=dict)
    logs: tuple[Log, ...] = (Log(),)
    objects: tuple[tuple[ResourceType, Json], ...] = ()
    """What is there before the pod."""
    files: tuple[Make, ...] = ()
    """What is in its directory on the node."""

    def pod(self, known: dict[str, str]) -> Json:
        """The pod to create; ``known`` has the texts for the marks."""
        spec: Json = {
            "nodeName": "<node>",
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 30,
            **self.spec,
        }
        gate = {
            "name": "gate",
            "hostPath": {"path": "<host>", "type": "DirectoryOrCreate"},
        }
        spec["volumes"] = [gate, *spec.get("volumes", ())]
        body = {"metadata": {"name": self.name, **self.metadata}, "spec": spec}
        return filled(body, known)


def filled(body: Json, known: dict[str, str]) -> Json:
    """``body`` with the marks replaced."""
    text = json.dumps(body).replace('"<port>"', known["port"])  # a number
    for mark, value in known.items():
        text = text.replace(f"<{mark}>", value)
    made: Json = json.loads(text)
    return made


def script(text: str) -> list[str]:
    """A command that runs ``text`` in a shell."""
    return ["sh", "-c", textwrap.dedent(text).strip()]


def wait_for(path: str) -> str:
    """Shell code that waits for a file."""
    return f"until [ -e {path} ]; do sleep 0.1; done"


def container(text: str = "", name: str = "main", **more: Any) -> Json:
    """A container that runs a shell script, with the gate mounted."""
    mounts = [GATE, *more.pop("volumeMounts", ())]
    made: Json = {"name": name, "image": IMAGE, "volumeMounts": mounts}
    if text:
        made["command"] = script(text)
    return made | more


# What to wait for


def _status(pod: Json, name: str) -> Json:
    status = pod.get("status") or {}
    for key in ("containerStatuses", "initContainerStatuses"):
        for entry in status.get(key) or ():
            if entry["name"] == name:
                found: Json = entry
                return found
    return {}


def phase(wanted: str) -> Holds:
    """The pod is in a phase."""
    return lambda pod: (pod.get("status") or {}).get("phase") == wanted


def running(name: str = "main") -> Holds:
    """A container runs."""
    return lambda pod: "running" in _status(pod, name).get("state", {})


def ended(name: str = "main") -> Holds:
    """A container has ended."""
    return lambda pod: "terminated" in _status(pod, name).get("state", {})


def waiting(reason: str, name: str = "main", message: str = "") -> Holds:
    """A container waits for ``reason``."""

    def holds(pod: Json) -> bool:
        state = _status(pod, name).get("state", {}).get("waiting") or {}
        return state.get("reason") == reason and message in state.get("message", "")

    return holds


def restarted(times: int, name: str = "main") -> Holds:
    """A container was started so many times more."""
    return lambda pod: _status(pod, name).get("restartCount", 0) >= times


def condition(kind: str, status: str) -> Holds:
    """The pod has a condition."""

    def holds(pod: Json) -> bool:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        return any(c["type"] == kind and c["status"] == status for c in conditions)

    return holds


def all_of(*holds: Holds) -> Holds:
    """All of them hold."""
    return lambda pod: all(one(pod) for one in holds)
