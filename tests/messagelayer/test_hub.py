"""Desired state per node, the gate before it is full, and reports."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gm.messagelayer import Hub, NodeStatus, Report
from gm.messagelayer.reports import ReportLimits
from gm.messagelayer.session import NODE_GONE, Close, Gate, NodeState, Send, Session
from gm.messagelayer.session_v1 import V1Session
from gm.messagelayer.session_v2 import V2Session
from tests.messagelayer.support import desired, key, open_hub

NODE = "edge1"


def attached(hub: Hub, node: str = NODE) -> V1Session:
    """A v1 session, its record read."""

    def make(state: NodeState, gate: Gate) -> Session:
        return V1Session(state, gate, max_frame_bytes=100_000)

    session = hub.attach(node, make)
    assert isinstance(session, V1Session)
    return session


def connected(hub: Hub, node: str = NODE) -> V1Session:
    """A session that has committed its first keys."""
    session = attached(hub, node)
    claim = session.claim(hub.record)
    for action in session.poll(0, room=True):
        claim.commit(action.changes)  # type: ignore[union-attr]
    return session


def status(hub: Hub, node: str = NODE) -> NodeStatus:
    """A status that must exist."""
    found = hub.status(node)
    assert found is not None
    return found


def report(node: str = NODE, name: str = "d", uid: str = "", ids: tuple[int, ...] = ()) -> Report:
    """A report on a dataset."""
    return Report(node=node, key=key(name), content=b"{}", uid=uid, ids=ids)


def test_node_holds_what_was_put_until_it_is_removed() -> None:
    """Each node for itself; removing twice is nothing."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    assert hub.holds(NODE, key("d"))
    assert not hub.holds("other", key("d"))
    hub.remove("other", key("d"))
    hub.remove(NODE, key("d"))
    hub.remove(NODE, key("d"))
    assert not hub.holds(NODE, key("d"))


def test_same_version_put_again_is_no_change_P1_087() -> None:
    """A resync sends nothing."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    session = connected(hub)
    assert [type(a).__name__ for a in session.poll(1, room=True)] == ["Send", "Ping"]
    session.ponged(1, 1)
    for now in range(2, 10):
        hub.put(NODE, desired("d"))
        assert session.poll(now, room=True) == []


def test_nodes_without_session_and_desired_state_are_forgotten() -> None:
    """Names that somebody made up leave nothing behind."""
    hub = open_hub()
    session = attached(hub, "made-up")
    assert hub.nodes() == ["made-up"]
    assert hub.session_count == 1
    hub.detach(session)
    assert hub.status("made-up") is None
    hub.put(NODE, desired("d"))
    hub.detach(attached(hub))
    assert status(hub).connected is False
    hub.remove(NODE, key("d"))
    assert hub.status(NODE) is None


def test_status_tells_what_a_node_holds_and_lacks() -> None:
    """From desired state alone while it is away."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    assert (status(hub).pending, status(hub).held) == (1, ())
    session = connected(hub)
    assert (status(hub).protocol, status(hub).pending) == ("v1", 1)
    assert any(isinstance(action, Send) for action in session.poll(1, room=True))
    assert status(hub).pending == 1
    session.ponged(1, 1)
    assert (status(hub).pending, status(hub).held) == (0, (key("d"),))


def test_status_of_a_node_that_left_tells_what_it_lacked_and_what_changed_since() -> None:
    """Not its whole desired state, which it may well hold."""
    hub = open_hub()
    hub.put(NODE, desired("d"))
    hub.put(NODE, desired("e"))
    session = connected(hub)
    for number in (1, 2):
        assert len(session.poll(number, room=True)) == 2
        session.ponged(number, number)
    hub.detach(session)
    assert (status(hub).pending, status(hub).lacking) == (0, ())
    hub.put(NODE, desired("e", version=2))
    hub.remove(NODE, key("d"))
    assert status(hub).lacking == (key("d"), key("e"))
    assert status(hub).silent_seconds is None


class Notes:
    """An onlooker that writes down."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, float]] = []

    def joined(self, node: str) -> None:
        self.taken.append(("joined", node, 0))

    def left(self, node: str, *, silent_seconds: float) -> None:
        self.taken.append(("left", node, silent_seconds))

    def changed(self, node: str) -> None:
        self.taken.append(("changed", node, 0))


def test_onlooker_is_told_of_links_and_of_changes_only() -> None:
    """Once for each; the end of a session that was replaced is none of the node."""
    hub = open_hub()
    hub.onlooker = notes = Notes()
    hub.put(NODE, desired("d"))
    hub.put(NODE, desired("d"))
    older, newer = attached(hub), attached(hub)
    newer.silent_seconds = lambda: 12.5
    assert status(hub).silent_seconds == 12.5
    hub.detach(older)
    hub.remove(NODE, key("d"))
    hub.remove(NODE, key("d"))
    assert hub.known_nodes() == [NODE]
    hub.detach(newer)
    assert hub.known_nodes() == []
    assert notes.taken == [
        ("changed", NODE, 0),
        ("joined", NODE, 0),
        ("joined", NODE, 0),
        ("changed", NODE, 0),
        ("left", NODE, 12.5),
    ]


def test_replaced_session_can_not_detach_the_newer_one() -> None:
    """Compare and remove."""
    hub = open_hub()
    older = attached(hub)
    newer = attached(hub)
    hub.detach(older)
    assert hub.is_connected(NODE)
    assert hub.session_count == 1
    assert isinstance(older.poll(0, room=True)[0], Close)
    assert newer.poll(0, room=True) == []


def test_gate_opens_when_every_expected_kind_is_complete_or_held_back() -> None:
    """A kind that is held back passes later, when it is complete after all."""
    hub = Hub()
    assert not hub.is_open
    hub.expect(["dataset", "model"])
    hub.complete("dataset")
    assert not hub.is_open
    hub.hold_back("model")
    assert hub.is_open
    assert hub.may_send(key("d"))
    assert not hub.may_send(key("m", "model"))
    hub.complete("model")
    assert hub.may_send(key("m", "model"))
    hub.hold_back("model")
    assert not hub.may_send(key("m", "model"))
    assert hub.is_open


def test_expecting_nothing_opens_the_gate() -> None:
    """Although nothing passes it."""
    hub = Hub()
    hub.expect([])
    assert hub.is_open
    assert not hub.may_send(key("d"))


def test_foreign_namespace_is_never_touched() -> None:
    """What this GM does not watch it can not judge."""
    hub = open_hub(namespace="ours")
    assert not hub.may_send(key("d"))
    assert hub.may_send(key("d", namespace="ours"))


def test_held_back_kind_is_neither_inserted_nor_deleted_and_comes_later() -> None:
    """Only that kind."""
    hub = Hub()
    hub.expect(["dataset", "model"])
    hub.hold_back("model")
    hub.complete("dataset")
    hub.put(NODE, desired("m", kind="model"))
    session = attached(hub)
    claim = session.claim(hub.record)
    session.recorded({key("old", "model"): 7})
    assert session.poll(1, room=True) == []
    hub.complete("model")
    for action in session.poll(1, room=True):
        claim.commit(action.changes)  # type: ignore[union-attr]
    sent: list[bytes] = []
    for now in range(2, 6):
        actions = session.poll(now, room=True)
        sent += [action.frame for action in actions if isinstance(action, Send)]
        session.ponged(now - 1, now)
    assert [b'"insert"' in frame for frame in sent] == [True, False]
    assert b'"old"' in sent[1]


async def test_reports_wait_for_the_gate_P0_033() -> None:
    """Before desired state is full nobody can say what a node holds."""
    hub = Hub()
    hub.expect(["dataset"])
    hub.submit(report())
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(hub.next_report())
        await asyncio.sleep(0)
        assert not waiting.done()
        hub.put(NODE, desired("d"))
        hub.complete("dataset")
        assert (await waiting).key == key("d")


async def test_report_on_another_incarnation_is_refused_P0_033(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where the wire tells the uid."""
    hub = open_hub()
    hub.put(NODE, desired("d", uid="new"))
    hub.submit(report(uid="old"))
    hub.submit(report("other", uid="new"))
    hub.submit(report(name="e"))
    hub.submit(report(uid="new"))
    assert (await hub.next_report()).uid == "new"
    assert hub.counters["reports_refused"] == 3
    told = [r for r in caplog.records if r.getMessage().startswith("report refused")]
    assert len(told) == 1, "a node that keeps on gets a line a minute"


def holding_back(**options: object) -> Hub:
    """A hub that can not list datasets and jobs; models it knows."""
    hub = Hub(**options)  # type: ignore[arg-type]
    hub.expect(["dataset", "federatedlearningjob", "model"])
    hub.hold_back("dataset")
    hub.hold_back("federatedlearningjob")
    hub.complete("model")
    hub.put(NODE, desired("m", kind="model"))
    return hub


ABOUT_MODEL = Report(node=NODE, key=key("m", "model"), content=b"{}")


async def test_report_on_a_held_back_kind_waits_for_it_and_holds_up_no_other() -> None:
    """Neither taken nor refused: what the node holds of that kind is not known."""
    hub = holding_back()
    hub.submit(report())
    hub.submit(ABOUT_MODEL)
    assert await hub.next_report() == ABOUT_MODEL
    assert hub.counters["reports_deferred"] == 1
    assert hub.counters["reports_refused"] == 0
    hub.put(NODE, desired("d"))
    hub.complete("federatedlearningjob")
    assert hub.waiting_reports == 0
    hub.complete("dataset")
    assert (await hub.next_report()).key == key("d")


async def test_reports_on_a_held_back_kind_are_bounded() -> None:
    """Per node, as all others; what comes beyond is left to the agent."""
    hub = holding_back(report_limits=ReportLimits(per_node=10))
    kind = "federatedlearningjob"
    for number in range(100):
        content = str(number).encode()
        hub.submit(Report(node=NODE, key=key("fl", kind), content=content))
    hub.submit(ABOUT_MODEL)
    assert await hub.next_report() == ABOUT_MODEL
    assert hub.counters["reports_deferred"] == 100
    hub.put(NODE, desired("fl", kind=kind))
    hub.complete(kind)
    assert hub.waiting_reports == 10
    assert [(await hub.next_report()).content for _ in range(10)] == [b"%d" % n for n in range(10)]


async def test_agent_sends_again_what_was_too_much_to_postpone() -> None:
    """All of it, so that the order stays."""
    hub = holding_back(report_limits=ReportLimits(per_node=2))
    session = speaks_v2(hub)
    kind = "federatedlearningjob"
    for number in range(3):
        hub.submit(Report(node=NODE, key=key("fl", kind), content=b"{}", ids=(number,)))
    hub.submit(ABOUT_MODEL)
    assert await hub.next_report() == ABOUT_MODEL
    hub.put(NODE, desired("fl", kind=kind))
    hub.complete(kind)
    assert hub.waiting_reports == 0
    assert session.poll(0, room=True) == [Close(1011, "reports have to be sent again")]


def speaks_v2(hub: Hub) -> V2Session:
    """A v2 session."""
    session = hub.attach(NODE, lambda state, gate: V2Session(state, gate, max_frame_bytes=10_000))
    assert isinstance(session, V2Session)
    return session


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_reports_that_an_agent_sends_again_do_not_come_twice(is_replaced: bool) -> None:
    """Those of a v2 session that nobody has taken end with it; those of a v1 session do not."""
    hub = holding_back()
    older = speaks_v2(hub)
    kind = "federatedlearningjob"
    on_job = Report(node=NODE, key=key("fl", kind), content=b"{}", ids=(1,))
    hub.submit(on_job)
    hub.submit(ABOUT_MODEL)
    assert await hub.next_report() == ABOUT_MODEL
    assert not hub.waiting_reports
    hub.submit(msgspec.structs.replace(ABOUT_MODEL, ids=(2,)))
    if is_replaced:
        attached(hub)
    else:
        hub.detach(older)
    hub.put(NODE, desired("fl", kind=kind))
    hub.complete(kind)
    assert hub.waiting_reports == 0

    lasting = attached(hub)
    hub.submit(ABOUT_MODEL)
    hub.detach(lasting)
    assert hub.waiting_reports == 1


def test_acknowledging_reaches_the_live_session_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, or without numbers, there is nobody to tell."""
    hub = open_hub()
    told: list[tuple[tuple[int, ...], str]] = []
    monkeypatch.setattr(V1Session, "acknowledge", lambda _, ids, error: told.append((ids, error)))
    hub.acknowledge(report(ids=(1,)))
    attached(hub)
    hub.acknowledge(report())
    hub.acknowledge(report(ids=(1, 2)), refused="gone")
    assert told == [((1, 2), "gone")]


def test_disconnect_closes_the_session_and_forgets_its_reports_P1_040() -> None:
    """The Node object is gone; the name may come again."""
    hub = open_hub()
    hub.disconnect(NODE, reason="nobody there")
    session = attached(hub)
    hub.submit(report())
    hub.disconnect(NODE, reason="node edge1 was deleted")
    assert hub.waiting_reports == 0
    assert session.poll(0, room=True) == [Close(NODE_GONE, "node edge1 was deleted")]
