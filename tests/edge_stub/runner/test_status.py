"""A pod's status as a kubelet would compute it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gm.edge_stub.runner.container import Exit
from gm.edge_stub.runner.status import (
    ContainerRecord,
    PodRecord,
    pod_status,
    stamp,
    status_patch,
)
from tests.edge_stub.runner.support import pod

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
NOW_TEXT = "2026-01-02T03:04:05Z"


def exit_of(code: int) -> Exit:
    """An end with ``code``."""
    reason = "Completed" if code == 0 else "Error"
    return Exit(code=code, reason=reason, started_at=NOW, finished_at=NOW + timedelta(seconds=1))


def record_of(
    *states: str | int, policy: str = "Always", init: tuple[str | int, ...] = ()
) -> PodRecord:
    """A pod whose containers are in ``states``: waiting, running, backoff, or an exit code."""

    def container(index: int, state: str | int, prefix: str) -> ContainerRecord:
        record = ContainerRecord(name=f"{prefix}{index}", image="i")
        if state == "running":
            record.run(NOW, "id")
            record.ready = record.started = True
        elif state == "backoff":
            record.end(exit_of(1))
            record.wait("CrashLoopBackOff", "back-off")
        elif isinstance(state, int):
            record.end(exit_of(state))
        return record

    return PodRecord(
        policy=policy,
        host_ip="127.1.1.11",
        pod_ip="127.1.1.64",
        init=[container(i, state, "i") for i, state in enumerate(init)],
        containers=[container(i, state, "c") for i, state in enumerate(states)],
        start_time=NOW,
    )


@pytest.mark.parametrize(
    ("states", "policy", "phase"),
    [
        (("waiting",), "Always", "Pending"),
        (("running", "waiting"), "Always", "Pending"),
        (("running",), "Always", "Running"),
        (("running", "backoff"), "Always", "Running"),
        (("backoff",), "Always", "Running"),
        ((0,), "Always", "Running"),
        ((0,), "OnFailure", "Succeeded"),
        ((0, "running"), "OnFailure", "Running"),
        ((1,), "OnFailure", "Running"),
        (("backoff",), "OnFailure", "Running"),
        ((0, 0), "Never", "Succeeded"),
        ((0, 1), "Never", "Failed"),
        ((1, "running"), "Never", "Running"),
    ],
)
def test_phases(states: tuple[str | int, ...], policy: str, phase: str) -> None:
    """What people and controllers look at first."""
    assert record_of(*states, policy=policy).phase == phase


@pytest.mark.parametrize(
    ("init", "main", "policy", "phase"),
    [
        (("running",), "waiting", "Never", "Pending"),
        (("backoff",), "waiting", "OnFailure", "Pending"),
        ((1,), "waiting", "Never", "Failed"),
        ((1,), "waiting", "OnFailure", "Pending"),
        ((0, "waiting"), "waiting", "Always", "Pending"),
        ((0,), "running", "Always", "Running"),
        (("running",), 1, "OnFailure", "Running"),
    ],
)
def test_phases_with_init_containers(
    init: tuple[str | int, ...], main: str | int, policy: str, phase: str
) -> None:
    """Pending until they are through; a reboot does not bring a pod back to Pending."""
    assert record_of(main, policy=policy, init=init).phase == phase


def status_of(record: PodRecord, current: dict[str, Any] | None = None) -> dict[str, Any]:
    """The status at NOW."""
    return pod_status(record, current or {}, NOW, generation=4)


def conditions_of(record: PodRecord) -> dict[str, tuple[str, str | None]]:
    """Type to status and reason."""
    return {c["type"]: (c["status"], c.get("reason")) for c in status_of(record)["conditions"]}


def test_conditions_of_a_running_pod() -> None:
    """Everything is true."""
    assert conditions_of(record_of("running")) == {
        "ContainersReady": ("True", None),
        "Initialized": ("True", None),
        "PodReadyToStartContainers": ("True", None),
        "PodScheduled": ("True", None),
        "Ready": ("True", None),
    }


def test_conditions_say_which_container_is_not_ready() -> None:
    """By name."""
    record = record_of("running", "backoff", init=(1,))
    record.pod_ip = ""
    by_type = {c["type"]: c for c in status_of(record)["conditions"]}
    assert by_type["Ready"]["reason"] == "ContainersNotReady"
    assert by_type["Ready"]["message"] == "containers with unready status: [c1]"
    assert by_type["Initialized"]["status"] == "True", "it was, or the others would not run"
    waits = {c["type"]: c for c in status_of(record_of("waiting", init=(1,)))["conditions"]}
    assert waits["Initialized"]["message"] == "containers with incomplete status: [i0]"
    assert by_type["PodReadyToStartContainers"]["status"] == "False"


def test_conditions_of_pods_that_have_ended() -> None:
    """Not ready, and why."""
    assert conditions_of(record_of(0, policy="Never"))["Ready"] == ("False", "PodCompleted")
    assert conditions_of(record_of(0, policy="Never"))["Initialized"] == ("True", "PodCompleted")
    assert conditions_of(record_of(1, policy="Never"))["Ready"] == ("False", "PodFailed")


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (143, "Failed")])
def test_a_pod_that_is_being_deleted_ends_whatever_its_restart_policy(
    code: int, phase: str
) -> None:
    """No container of it will be started again."""
    record = record_of(code, policy="Always")
    assert record.phase == "Running"
    record.is_ending = True
    assert record.phase == phase
    assert conditions_of(record)["PodReadyToStartContainers"] == ("False", None)


def test_conditions_of_others_are_kept_and_transitions_keep_their_time() -> None:
    """The scheduler's and a user's; only what changes gets a new time."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "T0", "x": 1}
    gate = {"type": "example.com/gate", "status": "False"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "T1"}
    initialized = {"type": "Initialized", "status": "False", "lastTransitionTime": "T2"}
    current = {"conditions": [scheduled, gate, ready, initialized]}
    conditions = status_of(record_of("running"), current)["conditions"]
    assert gate == conditions[-1]
    times = {c["type"]: c.get("lastTransitionTime") for c in conditions}
    assert (times["PodScheduled"], times["Ready"]) == ("T0", "T1")
    assert times["Initialized"] == NOW_TEXT
    assert [c["type"] for c in conditions] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "example.com/gate",
    ]


def test_the_generation_that_was_seen_is_told_until_the_end() -> None:
    """In the status and in each of our conditions; an API server may keep none."""
    status = status_of(record_of("running"))
    assert status["observedGeneration"] == 4
    assert {c["observedGeneration"] for c in status["conditions"]} == {4}
    old = pod_status(record_of("running"), {}, NOW, generation=None)
    assert old["observedGeneration"] is None
    assert not any("observedGeneration" in c for c in old["conditions"])
    ended = status_of(record_of(0, policy="Never"), {"phase": "Succeeded", "observedGeneration": 3})
    assert ended["observedGeneration"] == 3
    assert {c["observedGeneration"] for c in ended["conditions"]} == {3}


def test_mounts_and_resources_of_a_container_are_told() -> None:
    """Resources once there is a container."""
    record = record_of("waiting")
    record.containers[0].spec = {
        "volumeMounts": [
            {"name": "a", "mountPath": "/a", "subPath": "x"},
            {"name": "b", "mountPath": "/b", "readOnly": True},
        ],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
    }
    (status,) = status_of(record)["containerStatuses"]
    assert status["volumeMounts"] == [
        {"name": "a", "mountPath": "/a"},
        {"name": "b", "mountPath": "/b", "readOnly": True, "recursiveReadOnly": "Disabled"},
    ]
    assert not {"resources", "allocatedResources", "containerID"} & set(status)
    record.containers[0].run(NOW, "id")
    (status,) = status_of(record)["containerStatuses"]
    assert status["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert status["allocatedResources"] == {"cpu": "1"}


def test_container_states() -> None:
    """Waiting, running, terminated, and what it was before."""
    record = record_of("running", "backoff", 3, init=(0,))
    status = status_of(record)
    running, backing_off, ended = status["containerStatuses"]
    assert running["state"] == {"running": {"startedAt": NOW_TEXT}}
    assert (running["ready"], running["started"], running["containerID"]) == (True, True, "id")
    assert backing_off["state"] == {
        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}
    }
    assert backing_off["lastState"]["terminated"]["exitCode"] == 1
    assert ended["state"]["terminated"] == {
        "exitCode": 3,
        "reason": "Error",
        "startedAt": NOW_TEXT,
        "finishedAt": "2026-01-02T03:04:06Z",
    }
    assert status["initContainerStatuses"][0]["ready"] is True
    assert (status["podIP"], status["hostIP"]) == ("127.1.1.64", "127.1.1.11")
    assert status["podIPs"] == [{"ip": "127.1.1.64"}]
    assert status["startTime"] == NOW_TEXT


def test_message_and_container_of_an_end_are_told() -> None:
    """Where there are any; the container's as long as the end is remembered."""
    record = record_of("running")
    record.containers[0].end(
        Exit(code=137, reason="Error", message="why", started_at=NOW, finished_at=NOW)
    )
    ended = status_of(record)["containerStatuses"][0]["state"]["terminated"]
    assert (ended["message"], ended["containerID"]) == ("why", "id")
    record.containers[0].run(NOW, "id2")
    status = status_of(record)["containerStatuses"][0]
    assert status["lastState"]["terminated"] == ended
    assert status["containerID"] == "id2"


def test_only_the_newest_end_is_remembered() -> None:
    """A container that ended again has no last state, as a kubelet keeps one that has ended."""
    record = record_of(1).containers[0]
    record.run(NOW, "id2")
    record.end(exit_of(2))
    assert record.last is None
    record.wait("CrashLoopBackOff")
    assert record.last is not None
    assert record.last.code == 2


def test_what_waits_ends_with_its_pod() -> None:
    """As it ended last, or as one that nobody has seen."""
    record = record_of("waiting", "backoff", "running", 0, init=(0,))
    record.end_waiting()
    lost, ended, running, through = record.containers
    assert lost.terminated is not None
    assert (lost.terminated.code, lost.terminated.reason) == (137, "ContainerStatusUnknown")
    assert ended.terminated is not None
    assert (ended.terminated.code, ended.last) == (1, None)
    assert running.running == NOW
    assert through.terminated is not None
    shown = status_of(record)["containerStatuses"][0]["state"]["terminated"]
    assert (shown["startedAt"], shown["finishedAt"]) == (None, None)


def test_what_waits_for_an_init_container_that_never_succeeds_just_stays() -> None:
    """The init container itself ends as it ended last."""
    record = record_of("waiting", init=("backoff", "waiting"))
    record.end_waiting()
    assert record.containers[0].waiting is not None
    assert record.init[0].terminated is not None
    assert record.init[1].waiting is not None


def test_a_pod_with_a_sidecar_stays_initialized_to_the_end() -> None:
    """Though the sidecar has ended then, too."""
    record = record_of(0, policy="Never", init=(0,))
    record.init[0].is_sidecar = True
    assert not record.is_initialized
    assert conditions_of(record)["Initialized"] == ("True", "PodCompleted")


def test_a_restart_moves_the_end_to_the_last_state() -> None:
    """Directly from terminated to running, as the first restart does."""
    record = record_of(1).containers[0]
    record.run(NOW, "id2")
    assert record.last == exit_of(1)
    assert record.ended is None
    record.end(exit_of(2))
    assert record.ended is not None
    assert record.ended.code == 2


def test_a_failure_of_the_pod_itself() -> None:
    """Reason and message are those of the pod."""
    record = record_of("running")
    record.failure = ("DeadlineExceeded", "too long")
    status = status_of(record)
    assert (status["phase"], status["reason"]) == ("Running", None), "not before all have ended"
    record.containers[0].end(exit_of(0))
    status = status_of(record)
    assert (status["phase"], status["reason"], status["message"]) == (
        "Failed",
        "DeadlineExceeded",
        "too long",
    )


def test_a_refused_pod_stays_pending_and_says_why() -> None:
    """In status, conditions and the state of its containers."""
    record = record_of("waiting", init=("waiting",))
    record.refuse("not mine")
    status = status_of(record)
    assert (status["phase"], status["reason"], status["message"]) == (
        "Pending",
        "NotForThisNode",
        "not mine",
    )
    assert conditions_of(record)["Ready"] == ("False", "NotForThisNode")
    assert conditions_of(record)["Initialized"] == ("False", "NotForThisNode")
    for field in ("containerStatuses", "initContainerStatuses"):
        assert status[field][0]["state"] == {"waiting": {"reason": "NotForThisNode"}}


def test_a_new_pod_waits() -> None:
    """For its init containers, if it has any."""
    plain = PodRecord.restore(pod(), host_ip="h", now=NOW)
    assert plain.containers[0].waiting == ("ContainerCreating", "")
    assert plain.start_time == NOW
    with_init = PodRecord.restore(
        pod(initContainers=[{"name": "i", "restartPolicy": "Always"}]), host_ip="h", now=NOW
    )
    assert with_init.containers[0].waiting == ("PodInitializing", "")
    assert with_init.init[0].waiting == ("PodInitializing", "")
    assert with_init.init[0].is_sidecar


def test_what_a_run_before_wrote_is_taken_up_and_what_ran_was_lost() -> None:
    """To pods, a restart of the node is a reboot."""
    before = record_of("running", "backoff", 0, policy="OnFailure")
    before.containers[0].restarts = 2
    written = pod(
        containers=[{"name": f"c{i}", "image": "i"} for i in range(3)], restartPolicy="OnFailure"
    )
    written["status"] = status_of(before)
    restored = PodRecord.restore(written, host_ip="127.1.1.11", now=datetime.now(UTC))
    running, backing_off, ended = restored.containers
    assert running.terminated is not None
    assert (running.terminated.code, running.terminated.reason) == (137, "Unknown")
    assert "reboot" in running.terminated.message
    assert running.restarts == 2
    assert backing_off.ended == Exit(
        code=1,
        reason="Error",
        started_at=NOW.replace(microsecond=0),
        finished_at=NOW.replace(microsecond=0) + timedelta(seconds=1),
    )
    assert ended.terminated is not None
    assert ended.terminated.code == 0
    assert restored.start_time == NOW.replace(microsecond=0)


def test_sidecars_let_the_next_start_once_they_have_started() -> None:
    """They do not end before."""
    sidecar = ContainerRecord(name="s", image="i", is_sidecar=True)
    assert not sidecar.is_initialized
    sidecar.run(NOW, "id")
    sidecar.started = True
    assert sidecar.is_initialized


def test_a_patch_has_only_what_differs() -> None:
    """An API server drops empty fields; that is no difference."""
    record = record_of("running")
    desired = status_of(record)
    assert set(status_patch(desired, {})) == {
        "observedGeneration",
        "phase",
        "hostIP",
        "hostIPs",
        "podIP",
        "podIPs",
        "startTime",
        "conditions",
        "containerStatuses",
    }
    stored = {key: value for key, value in desired.items() if value is not None}
    del stored["containerStatuses"][0]["imageID"]
    stored["qosClass"] = "BestEffort"
    assert status_patch(desired, stored) == {}
    stored["reason"] = "old"
    assert status_patch(desired, stored) == {"reason": None}


def test_moments_are_utc_and_whole_seconds() -> None:
    """As metav1.Time."""
    assert stamp(NOW) == NOW_TEXT
