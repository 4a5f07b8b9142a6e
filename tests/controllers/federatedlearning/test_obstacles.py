"""What keeps workers from their work: nodes that are away, no endpoint, ports that are taken."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gm.api.core import Pod, PodSpec
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.obstacles import HostPort, HostPorts, host_ports
from gm.controllers.federatedlearning.plan import plan
from gm.controllers.federatedlearning.status import notices
from gm.controllers.federatedlearning.world import JobSettings, World
from gm.controllers.stored import stored
from tests.controllers.support import (
    NOW,
    by_name,
    changed,
    conditions,
    job_json,
    later,
    node,
    running,
    set_pods,
    settle,
    template,
    with_status,
    world,
)

AWAY = {"type": "Ready", "status": "Unknown", "message": "kubelet stopped posting status"}


def losing(seen: World, name: str, **condition: Any) -> World:
    """``seen`` once node ``name`` is not Ready."""
    known = seen.nodes or {}
    away = {**AWAY, "lastTransitionTime": timestamp(seen.now), **condition}
    lost = node(name, known[name].address("InternalIP") or "", conditions=[away])
    return msgspec.structs.replace(seen, nodes={**known, name: lost})


def finding(seen: World, name: str) -> World:
    """``seen`` once node ``name`` is back."""
    known = seen.nodes or {}
    back = node(name, known[name].address("InternalIP") or "")
    return msgspec.structs.replace(seen, nodes={**known, name: back})


# --- nodes ---


def test_a_node_that_is_away_for_long_is_told_and_nothing_is_stopped_P1_060() -> None:
    """Within the grace period nothing changes; after it a condition, and the pod stays."""
    seen = running()
    calm = plan(seen).status
    gone = losing(seen, "edge1")
    decided = plan(later(gone, 29))
    assert decided.status == calm
    assert decided.requeue_at == NOW + timedelta(seconds=30)
    decided = plan(later(gone, 30))
    told = conditions(decided)["NodeUnreachable"]
    assert told["reason"] == "NodeNotReady"
    assert "trainer 1 on edge1: the node is not Ready since" in told["message"]
    assert "kubelet stopped posting status" in told["message"]
    assert not decided.delete
    assert not decided.create
    assert decided.status is not None
    assert calm is not None
    assert [n.reason for n in notices(calm, decided.status)] == ["NodeNotReady"]
    back = with_status(finding(later(gone, 60), "edge1"), decided.status)
    assert plan(back).status == {**calm, "conditions": []}


def test_a_report_shows_that_a_node_is_reached_P1_060() -> None:
    """The grace period counts from the worker's last report, if that is younger."""
    seen = running()
    status = msgspec.json.decode(seen.job.raw)["status"]
    status["workers"][2]["lastReportTime"] = timestamp(NOW + timedelta(seconds=50))
    gone = with_status(losing(seen, "edge1"), status)
    decided = plan(later(gone, 60))
    assert "NodeUnreachable" not in conditions(decided)
    assert decided.requeue_at == NOW + timedelta(seconds=80)
    assert "NodeUnreachable" in conditions(plan(later(gone, 80)))


def test_a_node_without_times_or_without_a_word_about_itself_P1_060() -> None:
    """Not Ready since nobody knows when: told at once. No Ready condition says nothing."""
    seen = running()
    assert "NodeUnreachable" in conditions(plan(losing(seen, "cloud", lastTransitionTime=None)))
    nodes = {**(seen.nodes or {}), "cloud": node("cloud", "10.0.0.1", conditions=[])}
    mute = msgspec.structs.replace(seen, nodes=nodes)
    assert "NodeUnreachable" not in conditions(plan(later(mute, 1000)))


def test_a_lost_pod_gets_no_twin_and_a_kept_one_stays_P1_061() -> None:
    """Not before the old object is gone, though the node's controller has given it up."""
    seen = later(losing(running(), "edge1"), 300)
    unknown = set_pods(seen, "Unknown", "job-train-1")
    assert not plan(unknown).create
    asked = {
        "deletionTimestamp": timestamp(seen.now + timedelta(seconds=30)),
        "deletionGracePeriodSeconds": 30,
    }
    leaving = msgspec.structs.replace(
        unknown,
        pods=tuple(
            changed(p, metadata=asked) if p.key.name == "job-train-1" else p for p in unknown.pods
        ),
    )
    decided = plan(later(leaving, 3600))
    assert not decided.create
    told = conditions(decided)
    assert "Pod job-train-1 on node edge1 is being removed" in told["WaitingForRemoval"]["message"]
    assert "trainer 1 on edge1: the node" in told["NodeUnreachable"]["message"]
    kept = finding(set_pods(unknown, "Running"), "edge1")
    assert not plan(kept).create
    assert not plan(kept).delete
    gone = [p for p in leaving.pods if p.key.name != "job-train-1"]
    seen, _ = settle(msgspec.structs.replace(finding(leaving, "edge1"), pods=tuple(gone)))
    assert len(seen.pods) == 3


def test_a_finished_or_suspended_job_says_nothing_of_its_nodes() -> None:
    """Nobody works there any more."""
    seen = losing(running(), "edge1")
    seen, decided = settle(later(set_pods(seen, "Succeeded"), 100))
    assert "NodeUnreachable" not in conditions(decided)
    seen = running(job_json(runPolicy={"suspend": True}))
    assert "NodeUnreachable" not in conditions(plan(later(losing(seen, "edge1"), 100)))


# --- endpoints ---


def ready(is_ready: bool, since: float = 0) -> dict[str, Any]:
    """Status of a running pod that is ready, or not."""
    condition = {
        "type": "Ready",
        "status": "True" if is_ready else "False",
        "lastTransitionTime": timestamp(NOW + timedelta(seconds=since)),
    }
    return {"phase": "Running", "conditions": [condition]}


def test_a_service_without_endpoint_is_told_after_a_minute_P1_067() -> None:
    """Trainers run, and the aggregator is not ready: they call in vain."""
    seen = set_pods(running(), ready(False), "job-aggregation")
    decided = plan(later(seen, 59))
    assert "WorkerUnreachable" not in conditions(decided)
    assert decided.requeue_at == NOW + timedelta(seconds=60)
    decided = plan(later(seen, 60))
    told = conditions(decided)["WorkerUnreachable"]
    assert told["reason"] == "NoEndpoints"
    assert "Service job-aggregation has no ready endpoint since" in told["message"]
    assert "the aggregator on cloud" in told["message"]
    assert not decided.delete
    better = set_pods(seen, ready(True, 70), "job-aggregation")
    assert "WorkerUnreachable" not in conditions(plan(later(better, 70)))


@pytest.mark.parametrize("phase", ["Pending", "Unknown"])
def test_an_aggregator_that_does_not_start_is_no_endpoint_P1_067(phase: str) -> None:
    """From its creation on."""
    seen = set_pods(running(), {"phase": phase, "conditions": []}, "job-aggregation")
    told = conditions(plan(later(seen, 60)))["WorkerUnreachable"]
    assert f"its pod is {phase}, but not ready" in told["message"]


def test_an_aggregator_that_is_being_removed_is_no_endpoint_P1_067() -> None:
    """From the request on."""
    asked = {"deletionTimestamp": timestamp(NOW), "deletionGracePeriodSeconds": 0}
    seen = running()
    pods = tuple(
        changed(p, metadata=asked) if p.key.name == "job-aggregation" else p for p in seen.pods
    )
    decided = plan(later(msgspec.structs.replace(seen, pods=pods), 60))
    assert conditions(decided)["WorkerUnreachable"]["message"].endswith("WaitingForRemoval")


def test_nobody_calls_a_service_that_no_trainer_knows_P1_067() -> None:
    """An aggregator that waits for its trainers, or has done its work, is left in peace."""
    seen, _ = settle(world())
    alone = msgspec.structs.replace(seen, pods=(by_name(seen)["job-aggregation"],))
    assert "WorkerUnreachable" not in conditions(plan(later(alone, 600)))
    done = set_pods(running(), "Succeeded", "job-aggregation")
    assert "WorkerUnreachable" not in conditions(plan(later(done, 0)))


# --- host ports ---


def ported(*ports: dict[str, Any], name: str = "job", **fields: Any) -> dict[str, Any]:
    """A job with one trainer that declares ``ports``."""
    job = job_json(name, trainers=1)
    wanted = template(nodeName="edge0", **fields)
    wanted["spec"]["containers"][0]["ports"] = list(ports)
    job["spec"]["trainingWorkers"][0]["template"] = wanted
    return job


def neighbour(*ports: dict[str, Any], phase: str = "Running", **spec: Any) -> dict[str, Any]:
    """The fields of a world in which another job's pod on edge0 has ``ports``."""
    body = {
        "metadata": {
            "name": "other-train-0",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "1",
        },
        "spec": {
            "nodeName": "edge0",
            "hostNetwork": True,
            "containers": [{"name": "c", "ports": list(ports)}],
            **spec,
        },
        "status": {"phase": phase},
    }
    pod = stored(msgspec.json.encode(body), Pod)
    return {"neighbours": {"edge0": (pod,)}}


def test_a_port_of_the_node_that_another_job_has_is_waited_for_P1_068() -> None:
    """A kubelet would reject the pod; the condition names pod, port and node."""
    taken = neighbour({"containerPort": 8000, "hostPort": 8000})
    seen, decided = settle(world(ported({"containerPort": 8000}), **taken))
    assert sorted(by_name(seen)) == ["job-aggregation"]
    told = conditions(decided)["PortConflict"]
    assert (
        "Pod job-train-0 needs port 8000/TCP of node edge0, which pod ns/other-train-0 has"
        in (told["message"])
    )
    assert decided.crowded == {"edge0"}
    seen, decided = settle(msgspec.structs.replace(seen, neighbours={}))
    assert sorted(by_name(seen)) == ["job-aggregation", "job-train-0"]
    assert "PortConflict" not in conditions(decided)
    assert not decided.crowded


@pytest.mark.parametrize(
    "other",
    [
        neighbour({"containerPort": 8001}),
        neighbour({"containerPort": 8000, "protocol": "UDP"}),
        neighbour({"containerPort": 8000}, phase="Succeeded"),
        neighbour({"containerPort": 8000}, hostNetwork=False),
        neighbour({"containerPort": 8000, "hostPort": 8000, "hostIP": "10.0.0.9"}),
        neighbour(),
    ],
)
def test_ports_that_do_not_meet_are_no_conflict_P1_068(other: dict[str, Any]) -> None:
    """Another number, protocol or address; a pod that has ended, or has a network of its own."""
    port = {"containerPort": 8000, "hostPort": 8000, "hostIP": "10.0.0.1"}
    seen, _ = settle(world(ported(port), **other))
    assert len(seen.pods) == 2


def test_two_trainers_of_one_job_on_one_node_P1_068() -> None:
    """The second waits for the first."""
    job = job_json(trainers=2)
    for trainer in job["spec"]["trainingWorkers"]:
        trainer["template"] = ported({"containerPort": 8000})["spec"]["trainingWorkers"][0][
            "template"
        ]
    seen, decided = settle(world(job))
    assert sorted(by_name(seen)) == ["job-aggregation", "job-train-0"]
    assert "which pod ns/job-train-0 has" in conditions(decided)["PortConflict"]["message"]


def test_a_replacement_waits_for_the_old_pod_P1_068() -> None:
    """Not for its port only: for the whole pod; and it is no conflict with itself."""
    seen, _ = settle(world(ported({"containerPort": 8000})))
    seen, _ = settle(set_pods(seen, "Running"))
    asked = {"deletionTimestamp": timestamp(NOW), "deletionGracePeriodSeconds": 0}
    pods = tuple(
        changed(p, metadata=asked) if p.key.name == "job-train-0" else p for p in seen.pods
    )
    decided = plan(msgspec.structs.replace(seen, pods=pods))
    assert not decided.create
    assert "PortConflict" not in conditions(decided)


def test_without_a_node_the_scheduler_looks_for_free_ports_P1_068() -> None:
    """And says itself what stands in the way."""
    taken = neighbour({"containerPort": 8000})
    job = ported({"containerPort": 8000})
    del job["spec"]["trainingWorkers"][0]["template"]["spec"]["nodeName"]
    assert len(settle(world(job, **taken))[0].pods) == 2


def test_odd_ports_are_for_the_api_server_to_refuse_P1_068() -> None:
    """No conflict with anything."""
    odd = {
        "metadata": {"name": "p"},
        "spec": {"hostNetwork": True, "containers": [{"ports": [{"containerPort": "x"}]}]},
    }
    ports = HostPorts(world(**neighbour({"containerPort": 8000})))
    assert ports.take("edge0", odd) is None


def test_ports_of_a_pod() -> None:
    """In the node's network each declared port is one of the node."""
    text = {"containers": [{"ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 3}]}]}
    assert host_ports(msgspec.convert(text, PodSpec)) == [HostPort(3)]
    host = msgspec.convert({**text, "hostNetwork": True}, PodSpec)
    assert host_ports(host) == [HostPort(1), HostPort(3)]
    assert JobSettings().endpoint_grace_seconds == 60
