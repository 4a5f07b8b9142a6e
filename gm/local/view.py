"""Two ways to show a job as it runs: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.control import strip_control_codes
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from gm.local.snapshot import Snapshot, accuracies, tell

__all__ = ["LiveView", "PlainView", "View", "open_view"]

_BARS = "▁▂▃▄▅▆▇█"
_STYLES = {
    "Running": "green",
    "Succeeded": "bold green",
    "Ready": "green",
    "Pending": "yellow",
    "Failed": "bold red",
    "NotReady": "red",
}


class View(Protocol):
    """Shows snapshots and says lines."""

    def show(self, snapshot: Snapshot) -> None:
        """Show how things are now."""

    def say(self, line: str) -> None:
        """Tell one thing that no snapshot holds."""


class PlainView:
    """One line for each change, without control codes: for logs, pipes and CI."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, Snapshot()
        self._began = time.monotonic()

    def show(self, snapshot: Snapshot) -> None:
        """Print what changed since the last call."""
        for line in tell(self._last, snapshot):
            self.say(line)
        self._last = snapshot

    def say(self, line: str) -> None:
        """Print ``line`` after the seconds since the start."""
        seconds = time.monotonic() - self._began
        self._console.print(
            f"{seconds:6.1f} s  {line}", markup=False, highlight=False, soft_wrap=True
        )


class LiveView:
    """A picture that is drawn again and again; lines said stay above it."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console, self._live = console, live
        self._history: dict[int, float] = {}

    def show(self, snapshot: Snapshot) -> None:
        """Draw ``snapshot``."""
        if snapshot.job and snapshot.job.round and snapshot.accuracy is not None:
            self._history[snapshot.job.round] = snapshot.accuracy
        self._live.update(picture(snapshot, self._history), refresh=True)

    def say(self, line: str) -> None:
        """Print ``line`` above the picture."""
        # a segment is not wrapped (a path can be copied), and leaves the picture as it is, which
        # `soft_wrap` would not
        segments = Segments([Segment(strip_control_codes(line))], new_lines=True)
        self._console.print(segments, crop=False)


@contextmanager
def open_view(console: Console) -> Iterator[View]:
    """The view that suits ``console``: live on a terminal, else plain."""
    if not console.is_terminal:
        yield PlainView(console)
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield LiveView(console, live)


def picture(snapshot: Snapshot, history: dict[int, float]) -> RenderableType:
    """Nodes, pods, rounds and accuracy as one drawing."""
    parts: list[RenderableType] = [_nodes(snapshot), _workers(snapshot)]
    if snapshot.job is not None:
        parts += [_progress(snapshot), _accuracy(snapshot, history)]
        if snapshot.job.problem:
            parts.append(Text(f"waits: {snapshot.job.problem}", style="yellow"))
    return Group(*parts)


def _styled(word: str) -> Text:
    return Text(word, style=_STYLES.get(word, ""))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for column in columns:
        table.add_column(column)
    return table


def _nodes(snapshot: Snapshot) -> Table:
    samples = {d.node: d for d in snapshot.datasets}
    table = _table("NODE", "STATUS", "ADDRESS", "DATASET", "SAMPLES")
    for node in snapshot.nodes:
        dataset = samples.get(node.name)
        count = "" if dataset is None or dataset.samples is None else str(dataset.samples)
        table.add_row(
            node.name,
            _styled("Ready" if node.ready else "NotReady"),
            node.address,
            dataset.name if dataset else "",
            count,
        )
    return table


def _workers(snapshot: Snapshot) -> Table:
    table = _table("POD", "ROLE", "NODE", "PHASE", "RESTARTS", "REASON")
    for worker in snapshot.workers:
        table.add_row(
            worker.name,
            worker.role,
            worker.node,
            _styled(worker.phase),
            str(worker.restarts),
            worker.reason,
        )
    return table


def _progress(snapshot: Snapshot) -> Table:
    job = snapshot.job
    assert job is not None
    done = job.phase == "Succeeded"
    total = snapshot.rounds or max(job.round, 1)
    grid = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=total, completed=total if done else job.round, width=40)
    count = f"{job.round}/{snapshot.rounds}" if snapshot.rounds else str(job.round)
    grid.add_row(Text(job.name, style="bold"), _styled(job.phase), bar, Text(f"round {count}"))
    return grid


def _accuracy(snapshot: Snapshot, history: dict[int, float]) -> Text:
    line = Text("accuracy  ")
    if history:
        # From 0 to 1, so that the height of a bar is the accuracy itself.
        bars = "".join(_BARS[min(7, int(history[n] * 8))] for n in sorted(history))
        line.append(bars + "  ", style="cyan")
    for name, value in accuracies(snapshot):
        line.append(f"{name} ", style="dim")
        line.append(f"{value:.3f}   ", style="bold" if name == "federated" else "")
    return line
