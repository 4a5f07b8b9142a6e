"""Both views show the same job: one as a picture, one as plain lines."""

from __future__ import annotations

import io
import re

from rich.console import Console

from gm.local.snapshot import DatasetLine, JobLine, NodeLine, Snapshot, WorkerLine
from gm.local.view import LiveView, PlainView, open_view, picture

RUNNING = Snapshot(
    nodes=(NodeLine(name="edge1", ready=True, address="127.7.7.11"),),
    datasets=(DatasetLine(name="digits-edge1", node="edge1", samples=531),),
    workers=(
        WorkerLine(name="job-train-0", role="train", node="edge1", phase="Running", restarts=2),
    ),
    job=JobLine(name="job", phase="Running", round=4),
    metrics={"accuracy": "0.914", "accuracy_alone_edge1": "0.52"},
    rounds=8,
)


def test_without_a_terminal_there_are_lines_and_no_control_codes() -> None:
    """Every byte is printable text; each change is one line."""
    out = io.StringIO()
    with open_view(Console(file=out, force_terminal=False)) as view:
        assert isinstance(view, PlainView)
        view.show(RUNNING)
        view.show(RUNNING)
        view.say("[not markup]")
    text = out.getvalue()
    assert "\x1b" not in text
    assert "\r" not in text
    assert text.count("round 4/8  federated accuracy 0.914") == 1
    assert "[not markup]" in text


def test_on_a_terminal_there_is_a_live_picture() -> None:
    """Nodes, pods, the progress and the accuracy all appear."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, height=40)
    with open_view(console) as view:
        assert isinstance(view, LiveView)
        view.show(RUNNING)
        view.say("kubectl apply -f job.yaml")
    text = out.getvalue()
    assert "\x1b[" in text
    assert "kubectl apply -f job.yaml" in text


def test_a_long_path_stays_whole_on_a_narrow_terminal() -> None:
    """To be copied; the picture below it keeps to the width."""
    out = io.StringIO()
    path = "/home/somebody/projects/gm-demo/nodes/cloud/models/fl-digits/model.npz"
    with open_view(Console(file=out, force_terminal=True, width=40, height=20)) as view:
        view.show(RUNNING)
        view.say(f"the model: {path} [not markup]")
    assert f"the model: {path} [not markup]\n" in out.getvalue()
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue()).replace("\r", "\n").splitlines()
    assert all(len(line) <= 40 for line in lines if path not in line)


def test_the_picture_tells_nodes_pods_rounds_and_accuracy() -> None:
    """What a person needs is in the drawing."""
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(picture(RUNNING, {1: 0.3, 4: 0.914}))
    text = console.export_text()
    for word in ("edge1", "127.7.7.11", "531", "job-train-0", "round 4/8", "0.914", "edge1 alone"):
        assert word in text


def test_the_picture_says_what_a_pending_job_waits_for() -> None:
    """The problem is drawn below the progress."""
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(picture(Snapshot(job=JobLine(name="j", problem="model m is missing")), {}))
    assert "waits: model m is missing" in console.export_text()
