"""What changed between two snapshots is told in plain lines, once."""

from __future__ import annotations

from gm.local.snapshot import (
    DatasetLine,
    JobLine,
    NodeLine,
    Snapshot,
    WorkerLine,
    accuracies,
    tell,
)


def test_a_whole_run_is_told_in_order_and_nothing_twice() -> None:
    """Nodes, data, pods, rounds and the end each get one line when they change."""
    steps = [
        Snapshot(nodes=(NodeLine(name="edge1", ready=True),)),
        Snapshot(
            nodes=(NodeLine(name="edge1", ready=True),),
            datasets=(DatasetLine(name="digits-1", node="edge1", samples=500),),
            workers=(WorkerLine(name="j-train-0", role="train", node="edge1", phase="Pending"),),
            job=JobLine(name="j"),
            rounds=3,
        ),
        Snapshot(
            nodes=(NodeLine(name="edge1", ready=True),),
            datasets=(DatasetLine(name="digits-1", node="edge1", samples=500),),
            workers=(WorkerLine(name="j-train-0", role="train", node="edge1", phase="Running"),),
            job=JobLine(name="j", phase="Running", round=1),
            metrics={"accuracy": "0.875"},
            rounds=3,
        ),
        Snapshot(
            nodes=(NodeLine(name="edge1", ready=True),),
            workers=(
                WorkerLine(
                    name="j-train-0", role="train", node="edge1", phase="Running", restarts=1
                ),
            ),
            job=JobLine(name="j", phase="Succeeded", round=1),
            metrics={"accuracy": "0.875"},
            rounds=3,
        ),
    ]
    lines: list[str] = []
    last = Snapshot()
    for step in steps:
        lines += tell(last, step)
        assert tell(step, step) == []
        last = step
    assert lines == [
        "node edge1 is Ready",
        "dataset digits-1 has 500 samples on edge1",
        "pod j-train-0 is Pending on edge1",
        "job j submitted",
        "job j is Pending",
        "pod j-train-0 is Running on edge1",
        "round 1/3  federated accuracy 0.875",
        "job j is Running",
        "pod j-train-0 was restarted (1 time)",
        "job j is Succeeded",
    ]


def test_a_waiting_job_says_what_for() -> None:
    """The message of the condition is told once, with the reason of the pod."""
    waiting = Snapshot(
        workers=(WorkerLine(name="p", role="train", node="", phase="Pending", reason="ErrImage"),),
        job=JobLine(name="j", problem="model m is missing"),
    )
    assert "job j waits: model m is missing" in tell(Snapshot(), waiting)
    assert "pod p is Pending (ErrImage)" in tell(Snapshot(), waiting)


def test_accuracies_put_the_federated_model_first_and_skip_what_is_no_number() -> None:
    """Only numbers are shown; nodes are sorted by name."""
    snapshot = Snapshot(
        metrics={
            "accuracy_alone_edge2": "0.5",
            "accuracy_alone_edge1": "0.6",
            "accuracy": "0.95",
            "accuracy_alone_edge3": "?",
            "loss": "0.1",
        }
    )
    assert accuracies(snapshot) == [
        ("federated", 0.95),
        ("edge1 alone", 0.6),
        ("edge2 alone", 0.5),
    ]
    assert accuracies(Snapshot()) == []
