"""Reports that wait for the upstream controller: fair over nodes, in order per node, bounded."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from gm.messagelayer.message import Report, WireKey

__all__ = ["ReportLimits", "ReportQueue"]

# Only the latest status of these says anything. Reports on the other kinds are steps of a history,
# or carry metrics that a later report does not repeat, so each of them counts.
_LATEST_ONLY = frozenset({"dataset", "jointinferenceservice"})


class ReportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """From where on a node, or all of them together, must wait before sending more."""

    per_node: int = 256
    per_node_bytes: int = 1024 * 1024
    total_bytes: int = 64 * 1024 * 1024


class _Waiting:
    """Reports of one node, oldest first; keyed so that a later one can replace an earlier one."""

    __slots__ = ("bytes", "ids", "paused", "reports", "serial")

    def __init__(self) -> None:
        self.reports: OrderedDict[tuple[WireKey, str] | int, Report] = OrderedDict()
        self.bytes = 0
        self.ids = 0  # to be acknowledged; a report that replaces others has theirs, too
        self.serial = 0
        self.paused = False


class ReportQueue:
    """Round-robin over nodes, so that one node's flood delays another's report by one turn.

    ``put`` never refuses, it tells: when it returns False the caller stops reading from that node
    until ``on_room`` is called with its name.
    """

    def __init__(
        self, *, limits: ReportLimits | None = None, on_room: Callable[[str], None] | None = None
    ) -> None:
        self._limits = limits or ReportLimits()
        self._on_room = on_room or (lambda _: None)
        self._nodes: OrderedDict[str, _Waiting] = OrderedDict()  # in order of their next turn
        self._bytes = 0
        self._count = 0
        self._paused = 0
        self._was_over = False  # the total limit was hit, and not only a node's
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """Content that waits, over all nodes."""
        return self._bytes

    def put(self, report: Report) -> bool:
        """Add ``report``; False if its node has to wait before it may send another one."""
        waiting = self._nodes.get(report.node)
        if waiting is None:
            waiting = self._nodes[report.node] = _Waiting()
        slot: tuple[WireKey, str] | int = (report.key, report.uid)
        if report.key.kind not in _LATEST_ONLY:
            waiting.serial += 1
            slot = waiting.serial
        older = waiting.reports.get(slot)
        waiting.ids += len(report.ids)
        if older is not None:
            waiting.ids -= len(report.ids) + len(older.ids)
            report = msgspec.structs.replace(report, ids=tuple({*older.ids, *report.ids}))
            waiting.ids += len(report.ids)
        self._count += older is None
        self._account(waiting, len(report.content) - (len(older.content) if older else 0))
        waiting.reports[slot] = report  # a replaced report keeps its place in the line
        self._filled.set()
        if self._is_full(waiting) and not waiting.paused:
            waiting.paused = True
            self._paused += 1
        return not waiting.paused

    def pop(self) -> Report | None:
        """The oldest report of the node whose turn it is, if any waits."""
        if not self._nodes:
            self._filled.clear()
            return None
        node, waiting = next(iter(self._nodes.items()))
        _, report = waiting.reports.popitem(last=False)
        waiting.ids -= len(report.ids)
        self._count -= 1
        self._account(waiting, -len(report.content))
        if waiting.reports:
            self._nodes.move_to_end(node)
        else:
            del self._nodes[node]
        self._resume(node, waiting)
        return report

    async def get(self) -> Report:
        """As :meth:`pop`, waiting for one. Safe to cancel: nothing is lost."""
        while (report := self.pop()) is None:
            await self._filled.wait()
        return report

    def drain(self) -> list[Report]:
        """All that waits, in the order of its turns."""
        taken = []
        while (report := self.pop()) is not None:
            taken.append(report)
        return taken

    def drop(self, node: str) -> None:
        """Forget what ``node`` has reported and nobody has taken yet."""
        waiting = self._nodes.pop(node, None)
        if waiting is not None:
            self._count -= len(waiting.reports)
            self._account(waiting, -waiting.bytes)
            waiting.reports.clear()
            self._resume(node, waiting)

    def is_paused(self, node: str) -> bool:
        """Whether ``node`` must not send more for now."""
        waiting = self._nodes.get(node)
        return waiting is not None and waiting.paused

    def _account(self, waiting: _Waiting, size: int) -> None:
        waiting.bytes += size
        self._bytes += size
        self._was_over = self._was_over or self._bytes >= self._limits.total_bytes

    def _is_full(self, waiting: _Waiting) -> bool:
        limits = self._limits
        return (
            max(len(waiting.reports), waiting.ids) >= limits.per_node
            or waiting.bytes >= limits.per_node_bytes
            or self._bytes >= limits.total_bytes
        )

    def _resume(self, node: str, waiting: _Waiting) -> None:
        """Let ``node`` send again at half its limit, and everybody when the total allows it."""
        if not self._paused:
            return
        if waiting.paused and (not waiting.reports or self._may_resume(waiting)):
            self._unpause(node, waiting)
        if self._was_over and self._bytes < self._limits.total_bytes:
            self._was_over = False
            for name, other in list(self._nodes.items()):
                if other.paused and self._may_resume(other):
                    self._unpause(name, other)

    def _may_resume(self, waiting: _Waiting) -> bool:
        limits = self._limits
        return (
            max(len(waiting.reports), waiting.ids) <= limits.per_node // 2
            and waiting.bytes <= limits.per_node_bytes // 2
            and self._bytes < limits.total_bytes
        )

    def _unpause(self, node: str, waiting: _Waiting) -> None:
        waiting.paused = False
        self._paused -= 1
        self._on_room(node)
