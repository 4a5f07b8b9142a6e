"""The cells of pods, for every state that a person may want to tell from another."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.podcolumns import PODS

NOW = 1_704_067_260.0


def pod(*statuses: Json, init: list[Json] | None = None, **fields: Any) -> Json:
    """A pod with a container for each status, and init containers likewise."""
    obj: Json = {
        "metadata": {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": s.get("name", "c")} for s in statuses] or [{"name": "c"}]},
        "status": {"phase": "Pending"},
    }
    if statuses:
        obj["status"]["containerStatuses"] = [*statuses]
    if init is not None:
        obj["spec"]["initContainers"] = [
            {"name": s["name"], **({"restartPolicy": "Always"} if s.pop("sidecar", 0) else {})}
            for s in init
        ]
        obj["status"]["initContainerStatuses"] = init
    for part, more in fields.items():
        obj[part] = {**obj[part], **more}
    return obj


def waiting(reason: str = "", **more: Any) -> Json:
    """A container that waits."""
    return {"name": "c", "state": {"waiting": {"reason": reason} if reason else {}}, **more}


def running(name: str = "c", *, ready: bool = True, **more: Any) -> Json:
    """A container that runs."""
    return {"name": name, "ready": ready, "state": {"running": {"startedAt": "x"}}, **more}


def ended(code: int = 0, name: str = "c", **more: Any) -> Json:
    """A container that has ended."""
    return {"name": name, "state": {"terminated": {"exitCode": code, **more}}}


def conditions(*types: str) -> Json:
    """Conditions that are true."""
    return {"conditions": [{"type": t, "status": "True"} for t in types]}


GONE = {"deletionTimestamp": "2024-01-01T00:00:00Z"}
LAST = {"lastState": {"terminated": {"finishedAt": "2024-01-01T00:00:30Z"}}}
STATES: dict[str, tuple[Json, str, str, str]] = {
    "new": (pod(), "0/1", "Pending", "0"),
    "reason of the pod": (
        pod(status={"phase": "Failed", "reason": "Evicted"}),
        "0/1",
        "Evicted",
        "0",
    ),
    "image": (pod(waiting("ErrImageNeverPull")), "0/1", "ErrImageNeverPull", "0"),
    "waiting, no reason": (pod(waiting()), "0/1", "Pending", "0"),
    "running": (pod(running(), status={"phase": "Running"}), "1/1", "Running", "0"),
    "not ready": (pod(running(ready=False), status={"phase": "Running"}), "0/1", "Running", "0"),
    "crashing": (
        pod(waiting("CrashLoopBackOff", restartCount=3, **LAST), status={"phase": "Running"}),
        "0/1",
        "CrashLoopBackOff",
        "3 (30s ago)",
    ),
    "restarted": (pod(running(restartCount=2), status={"phase": "Running"}), "1/1", "Running", "2"),
    "completed": (
        pod(ended(reason="Completed"), status={"phase": "Succeeded"}),
        "0/1",
        "Completed",
        "0",
    ),
    "exit code": (pod(ended(3), status={"phase": "Failed"}), "0/1", "ExitCode:3", "0"),
    "signal": (pod(ended(137, signal=9), status={"phase": "Failed"}), "0/1", "Signal:9", "0"),
    "one completed, one runs": (
        pod(
            ended(reason="Completed", name="a"),
            running("b"),
            status={"phase": "Running", **conditions("Ready")},
        ),
        "1/2",
        "Running",
        "0",
    ),
    "one completed, one not ready": (
        pod(ended(reason="Completed", name="a"), running("b"), status={"phase": "Running"}),
        "1/2",
        "NotReady",
        "0",
    ),
    "terminating": (
        pod(running(), metadata=GONE, status={"phase": "Running"}),
        "1/1",
        "Terminating",
        "0",
    ),
    "gone and done": (
        pod(ended(reason="Completed"), metadata=GONE, status={"phase": "Succeeded"}),
        "0/1",
        "Completed",
        "0",
    ),
    "lost node": (
        pod(metadata=GONE, status={"phase": "Running", "reason": "NodeLost"}),
        "0/1",
        "Unknown",
        "0",
    ),
    "gated": (
        pod(
            status={
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                ]
            }
        ),
        "0/1",
        "SchedulingGated",
        "0",
    ),
    "first init": (
        pod(
            init=[
                {
                    "name": "i",
                    "restartCount": 1,
                    "state": {"waiting": {"reason": "PodInitializing"}},
                },
                {"name": "j"},
            ]
        ),
        "0/1",
        "Init:0/2",
        "1",
    ),
    "second init": (pod(init=[ended(0, "i"), {"name": "j"}]), "0/1", "Init:1/2", "0"),
    "init fails": (pod(init=[ended(2, "i", reason="Error")]), "0/1", "Init:Error", "0"),
    "init exits": (pod(init=[ended(2, "i")]), "0/1", "Init:ExitCode:2", "0"),
    "init killed": (pod(init=[ended(2, "i", signal=9)]), "0/1", "Init:Signal:9", "0"),
    "init waits": (
        pod(init=[{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]),
        "0/1",
        "Init:ErrImagePull",
        "0",
    ),
    "init done": (
        pod(running(), init=[ended(0, "i")], status={"phase": "Running"}),
        "1/1",
        "Running",
        "0",
    ),
    "sidecar": (
        pod(
            running(),
            init=[{"name": "s", "sidecar": 1, "started": True, "ready": True}],
            status={"phase": "Running"},
        ),
        "2/2",
        "Running",
        "0",
    ),
    "initialised once": (
        pod(
            running(restartCount=4),
            init=[{"name": "i", "state": {"running": {}}}],
            status={"phase": "Running", **conditions("Initialized")},
        ),
        "1/1",
        "Init:0/1",
        "4",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_its_cells(state: str) -> None:
    """READY, STATUS, RESTARTS."""
    obj, ready, status, restarts = STATES[state]
    cells = {column.name: column.cell(obj, NOW) for column in PODS}
    assert (cells["Ready"], cells["Status"], cells["Restarts"]) == (ready, status, restarts)
    assert (cells["Name"], cells["Age"]) == ("p", "60s")


def test_the_wide_columns_tell_where_a_pod_is() -> None:
    """Address, node, readiness gates."""
    empty = [column.cell(pod(), NOW) for column in PODS if column.priority]
    assert empty == ["<none>"] * 4
    gates = [{"conditionType": "a"}, {"conditionType": "b"}]
    obj = pod(
        spec={"nodeName": "n", "readinessGates": gates},
        status={"podIP": "10.0.0.1", "nominatedNodeName": "m", **conditions("a")},
    )
    assert [column.cell(obj, NOW) for column in PODS if column.priority] == [
        "10.0.0.1",
        "n",
        "m",
        "1/2",
    ]
    obj["status"]["podIPs"] = [{"ip": "10.0.0.2"}]
    assert PODS[5].cell(obj, NOW) == "10.0.0.2"
