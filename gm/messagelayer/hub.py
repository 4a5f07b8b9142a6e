"""The hub: desired state per node, live sessions, and the reports that come back. No I/O.

What is to be sent is never queued: it is the difference between what a node shall hold and what
its session knows it to hold, so coalescing, re-sending after a cut and syncing a new node are one
thing, and a node's memory is bounded by its desired state, not by its lag.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from gm.messagelayer.message import Desired, Report, WireKey
from gm.messagelayer.record import MemoryRecord, Record
from gm.messagelayer.reports import ReportLimits, ReportQueue
from gm.messagelayer.session import NODE_GONE, REPLACED, Gate, NodeState, Session

__all__ = ["Hub", "NodeStatus", "Onlooker"]

logger = logging.getLogger(__name__)


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it is now, for people, metrics and tests.

    ``lacking`` is what the node lacks, or has a version of that it shall not hold, as far as
    known; ``pending`` counts it. ``silent_seconds`` is how long ago the last byte came from it.
    """

    name: str
    connected: bool
    protocol: str = ""
    desired: int
    pending: int
    lacking: tuple[WireKey, ...] = ()
    held: tuple[WireKey, ...]
    quarantined: dict[WireKey, str]
    silent_seconds: float | None = None


class Onlooker(Protocol):
    """Told, synchronously, of whatever makes a node look different; it only takes a note."""

    def joined(self, node: str) -> None:
        """``node`` has a session, a new one."""

    def left(self, node: str, *, silent_seconds: float) -> None:
        """``node`` has no session any more, and has said nothing for so long before."""

    def changed(self, node: str) -> None:
        """Desired state of ``node`` is another one."""


class Hub:
    """Desired state in, sessions served, reports out. Everything runs in one event loop."""

    def __init__(
        self,
        *,
        namespace: str = "",
        record: Record | None = None,
        report_limits: ReportLimits | None = None,
    ) -> None:
        self.record: Record = record or MemoryRecord()
        self.counters: Counter[str] = Counter()
        self.onlooker: Onlooker | None = None
        self._namespace = namespace
        self._nodes: dict[str, NodeState] = {}
        self._expected: set[str] = set()
        self._complete: set[str] = set()
        self._held_back: set[str] = set()
        self._opened = asyncio.Event()
        self._sessions = 0
        self._reports = ReportQueue(limits=report_limits, on_room=self._resume_reading)
        # On kinds that are held back: they must not hold up the reports on others.
        self._postponed = ReportQueue(limits=report_limits)
        self._overflown: set[str] = set()  # nodes that had more of them than fit

    # What downstream says.

    def put(self, node: str, desired: Desired) -> None:
        """``node`` shall hold ``desired``, in place of any other version of it."""
        state = self._state(node)
        current = state.desired.get(desired.key)
        if current is None or not current.same_version(desired):
            state.desired[desired.key] = desired
            self._changed(state, desired.key)

    def remove(self, node: str, key: WireKey) -> None:
        """``node`` shall not hold ``key`` any more."""
        state = self._nodes.get(node)
        if state is not None and state.desired.pop(key, None) is not None:
            self._changed(state, key)
            self._forget_if_idle(state)

    def expect(self, kinds: Iterable[str]) -> None:
        """Send nothing before each of ``kinds`` was said to be complete or held back."""
        self._expected.update(kinds)
        self._settle()

    def complete(self, kind: str) -> None:
        """All objects of ``kind`` that exist have been put."""
        self._complete.add(kind)
        self._held_back.discard(kind)
        self._settle()
        self._take_up_postponed()

    def hold_back(self, kind: str) -> None:
        """``kind`` can not be listed for now: nothing of it is sent, and nothing waits for it."""
        self._held_back.add(kind)
        self._complete.discard(kind)
        self._settle()

    def disconnect(self, node: str, *, code: int = NODE_GONE, reason: str) -> None:
        """Close the session of ``node``, if it has one, and forget its untaken reports."""
        self._forget_reports(node)
        state = self._nodes.get(node)
        if state is not None and state.session is not None:
            state.session.close(code, reason)

    # What upstream asks.

    def holds(self, node: str, key: WireKey) -> bool:
        """Whether ``node`` shall hold ``key``, which lets it report on it."""
        state = self._nodes.get(node)
        return state is not None and key in state.desired

    async def next_report(self) -> Report:
        """The next report, fair over nodes and in order per node; safe to cancel.

        Only reports on what their node shall hold come out, and none before desired state is
        full. Call :meth:`acknowledge` when a report is dealt with.
        """
        await self._opened.wait()
        while True:
            report = await self._reports.get()
            if self._is_allowed(report):
                return report

    def acknowledge(self, report: Report, *, refused: str = "") -> None:
        """The API server took ``report``, or it is refused for good: the node may forget it."""
        state = self._nodes.get(report.node)
        if report.ids and state is not None and state.session is not None:
            state.session.acknowledge(report.ids, refused)

    @property
    def waiting_reports(self) -> int:
        """Reports that nobody has taken yet."""
        return len(self._reports)

    # What people and tests ask.

    def nodes(self) -> list[str]:
        """Names of the nodes that are connected."""
        return [name for name, state in self._nodes.items() if state.session is not None]

    @property
    def session_count(self) -> int:
        """How many nodes are connected."""
        return self._sessions

    def is_connected(self, node: str) -> bool:
        """Whether ``node`` has a session."""
        state = self._nodes.get(node)
        return state is not None and state.session is not None

    def status(self, node: str) -> NodeStatus | None:
        """``node`` as it is now; None if it is neither connected nor shall hold anything."""
        state = self._nodes.get(node)
        if state is None:
            return None
        session = state.session
        if session is not None:
            lacking = session.lacking()
        else:
            lacking = state.desired if state.lacking is None else state.lacking
        return NodeStatus(
            name=node,
            connected=session is not None,
            protocol=session.protocol if session else "",
            desired=len(state.desired),
            pending=len(lacking),
            lacking=tuple(sorted(lacking)),
            held=tuple(session.held()) if session else (),
            quarantined=dict(state.quarantined),
            silent_seconds=session.silent_seconds() if session else None,
        )

    def known_nodes(self) -> list[str]:
        """Names of the nodes that are connected or shall hold something."""
        return list(self._nodes)

    async def wait_open(self) -> None:
        """Return once desired state is full."""
        await self._opened.wait()

    # What the server does.

    @property
    def is_open(self) -> bool:
        """Whether desired state is full: all expected kinds are complete or held back."""
        return self._opened.is_set()

    def may_send(self, key: WireKey) -> bool:
        """Whether ``key``'s kind is listed completely and its namespace is watched."""
        return key.kind in self._complete and self._namespace in ("", key.namespace)

    def attach(self, node: str, make: Callable[[NodeState, Gate], Session]) -> Session:
        """Give ``node`` the session that ``make`` returns; an older one is closed."""
        state = self._state(node)
        older = state.session
        if older is not None and older.resends_reports:
            self._forget_reports(node)
        state.session = session = make(state, self)
        if older is None:
            self._sessions += 1
        else:
            self.counters["sessions_replaced"] += 1
            logger.warning("session replaced by a newer connection", extra={"node": node})
            older.close(REPLACED, "replaced by a newer connection of this node")
        if self.onlooker is not None:
            self.onlooker.joined(node)
        return session

    def detach(self, session: Session) -> None:
        """The connection of ``session`` is gone; a newer session of the node stays."""
        state = self._nodes.get(session.node)
        if state is not None and state.session is session:
            state.session = None
            state.lacking = frozenset(session.lacking())
            if session.resends_reports:  # those that nobody has taken would come twice
                self._forget_reports(state.name)
            self._sessions -= 1
            self._forget_if_idle(state)
            if self.onlooker is not None:
                self.onlooker.left(state.name, silent_seconds=session.silent_seconds())

    def submit(self, report: Report) -> bool:
        """Take a report in; False: read no more from this node until ``resume_reading``."""
        self.counters["reports"] += 1
        return self._reports.put(report)

    # Within.

    def _state(self, node: str) -> NodeState:
        state = self._nodes.get(node)
        if state is None:
            state = self._nodes[node] = NodeState(node)
        return state

    def _forget_if_idle(self, state: NodeState) -> None:
        if state.session is None and not state.desired:
            self._nodes.pop(state.name, None)

    def _changed(self, state: NodeState, key: WireKey) -> None:
        state.quarantined.pop(key, None)
        if state.session is not None:
            state.session.changed(key)
        elif state.lacking is not None:
            state.lacking |= {key}
        if self.onlooker is not None:
            self.onlooker.changed(state.name)

    def _settle(self) -> None:
        """Open the gate when nothing is missing any more, and tell the sessions."""
        if not self._expected <= self._complete | self._held_back:
            return
        self._opened.set()
        for state in self._nodes.values():
            if state.session is not None:
                state.session.opened()

    def _is_allowed(self, report: Report) -> bool:
        state = self._nodes.get(report.node)
        desired = state.desired.get(report.key) if state is not None else None
        if desired is not None and report.uid in ("", desired.uid):
            return True
        if report.key.kind in self._held_back:
            self._postpone(report)
            return False
        self.counters["reports_refused"] += 1
        if state is not None and state.refusals.spend(time.monotonic()) == 1:
            logger.warning(
                "report refused: the node does not hold this object",
                extra={"node": report.node, "object": str(report.key)},
            )
        self.acknowledge(report, refused="this node does not hold this object")
        return False

    def _postpone(self, report: Report) -> None:
        """Keep ``report`` until its kind is complete: what the node holds is not known before.

        Beyond the limit of a node it is dropped; a v2 agent is made to send it again then.
        """
        self.counters["reports_deferred"] += 1
        if self._postponed.is_paused(report.node):
            self._overflown.add(report.node)
        else:
            self._postponed.put(report)
        state = self._nodes.get(report.node)
        if report.ids and state is not None and state.session is not None:
            state.session.postpone(report.ids)

    def _take_up_postponed(self) -> None:
        """Before what came later, as the reports on one object keep their order."""
        if not len(self._postponed):
            return
        for node in tuple(self._overflown):
            state = self._nodes.get(node)
            if state is not None and state.session is not None and state.session.resends_reports:
                self._forget_reports(node)
                state.session.close(1011, "reports have to be sent again")
        self._overflown.clear()
        postponed, later = self._postponed.drain(), self._reports.drain()
        for report in postponed:
            is_held_back = report.key.kind in self._held_back
            (self._postponed if is_held_back else self._reports).put(report)
        for report in later:
            self._reports.put(report)

    def _forget_reports(self, node: str) -> None:
        """Forget what ``node`` has reported and nobody has taken yet."""
        self._reports.drop(node)
        self._postponed.drop(node)
        self._overflown.discard(node)

    def _resume_reading(self, node: str) -> None:
        state = self._nodes.get(node)
        if state is not None and state.session is not None:
            state.session.resume_reading()
