"""Whatever happens in whatever order, reports get through: none lost, in order, to the end.

Agents as docs/protocol.md wants them: each keeps its reports until they are acknowledged, has no
more of them in its window than it may, and sends again in the next session what was not.
"""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from gm.messagelayer import Hub, Report, WireKey, v2
from gm.messagelayer.reports import ReportLimits
from gm.messagelayer.session import Close, Gate, NodeState, Send, Session
from gm.messagelayer.session_v2 import V2Session
from tests.messagelayer.support import desired, key, payload_of

NODES = ("edge1", "edge2")
JOB, DATASET, HELD_BACK = (
    key("fl", "federatedlearningjob"),
    key("d"),
    key("il", "incrementallearningjob"),
)
FOREIGN = key("foreign")
WINDOW = 4  # less than GM allows, so that it is full now and then
LIMITS = ReportLimits(per_node=3, total_bytes=100)

nodes = st.sampled_from(NODES)
about = st.sampled_from([JOB, DATASET, HELD_BACK, FOREIGN])
steps = st.one_of(
    st.tuples(st.just("report"), nodes, about, st.integers(1, 12)),
    st.tuples(st.just("link"), nodes),
    st.tuples(st.just("cut"), nodes),
    st.tuples(st.just("half-open"), nodes),
    st.tuples(st.just("take"), st.integers(1, 6)),
    st.tuples(st.just("written"), st.integers(1, 6)),
    st.tuples(st.just("killed")),
    st.tuples(st.just("opened")),
    st.tuples(st.just("listed")),
)


class Agent:
    """One node: its outbox is on disk, its session comes and goes."""

    def __init__(self, world: World, node: str) -> None:
        self.world, self.node = world, node
        self.outbox: dict[int, tuple[WireKey, bytes]] = {}
        self.serial = 0
        self.answered: dict[int, str] = {}
        self.session: V2Session | None = None
        self.is_read = True
        self.window: set[int] = set()
        self.sent: set[int] = set()  # in this session

    def report(self, about: WireKey) -> None:
        self.serial += 1
        self.outbox[self.serial] = (about, b'{"n":%d}' % self.serial)
        self.send()

    def link(self) -> None:
        def make(state: NodeState, gate: Gate) -> Session:
            return V2Session(state, gate, max_frame_bytes=10_000)

        session = self.world.hub.attach(self.node, make)
        assert isinstance(session, V2Session)
        self.session, self.is_read = session, True
        self.window, self.sent = set(), set()
        session.resume_reading = self.resume
        session.receive(v2.encode_v2(v2.Hello("test/1", ())), is_text=False, now=0)
        self.send()

    def cut(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.resume_reading = lambda: None
            self.world.hub.detach(session)

    def resume(self) -> None:
        self.is_read = True
        self.world.resumed.append(self)  # what arrives then is not taken within this call

    def send(self) -> None:
        """As much as window and GM take."""
        for number, (about, content) in self.outbox.items():
            if self.session is None or not self.is_read or len(self.window) >= WINDOW:
                return
            if number in self.sent:
                continue
            self.sent.add(number)
            self.window.add(number)
            frame = v2.ReportFrame(
                about.kind, about.namespace, about.name, number, content, uid="u1"
            )
            report = self.session.receive(v2.encode_v2(frame), is_text=False, now=0)
            assert report is not None
            self.is_read = self.world.hub.submit(report)

    def hear(self) -> None:
        """Take acknowledgements, and go on."""
        while self.session is not None and (actions := self.session.poll(0, room=True)):
            for action in actions:
                if isinstance(action, Close):  # there was more than GM could keep
                    self.cut()
                    self.link()
                    return
                assert isinstance(action, Send)
                message = v2.decode_from_gm(payload_of(action.frame))
                if isinstance(message, v2.ReportAck):
                    self.window.discard(message.id)
                    if not message.later and self.outbox.pop(message.id, None):
                        self.answered[message.id] = message.error
        self.send()


class World:
    """Agents, GM, and an API server whose contents outlive GM."""

    def __init__(self) -> None:
        self.written: dict[tuple[str, WireKey], list[bytes]] = {}
        self.pending: list[Report] = []
        self.resumed: list[Agent] = []
        self.is_listed = False
        self.agents = {node: Agent(self, node) for node in NODES}
        self.start()

    def start(self) -> None:
        self.hub = Hub(report_limits=LIMITS)
        self.hub.expect([JOB.kind, DATASET.kind, HELD_BACK.kind])
        self.is_listed = False

    def open(self) -> None:
        for node in NODES:
            self.hub.put(node, desired("fl", kind=JOB.kind))
            self.hub.put(node, desired("d"))
        self.hub.complete(JOB.kind)
        self.hub.complete(DATASET.kind)
        if not self.is_listed:
            self.hub.hold_back(HELD_BACK.kind)

    def list_rest(self) -> None:
        self.is_listed = True
        for node in NODES:
            self.hub.put(node, desired("il", kind=HELD_BACK.kind))
        self.hub.complete(HELD_BACK.kind)

    async def take(self, count: int) -> None:
        """Upstream takes reports off the hub."""
        for _ in range(count):
            if not (self.hub.is_open and self.hub.waiting_reports):
                return
            taking = asyncio.ensure_future(self.hub.next_report())
            await asyncio.sleep(0)
            if not taking.done():  # all that waited were refused or postponed
                taking.cancel()
                return
            self.pending.append(taking.result())

    def write(self, count: int) -> None:
        """The API server takes them."""
        for report in self.pending[:count]:
            self.written.setdefault((report.node, report.key), []).append(report.content)
            self.hub.acknowledge(report)
        del self.pending[:count]

    def kill(self) -> None:
        for agent in self.agents.values():
            agent.cut()
        self.pending = []
        self.start()

    async def do(self, step: Any) -> None:
        match step:
            case "report", node, about, count:
                for _ in range(count):
                    self.agents[node].report(about)
            case "link", node:
                if self.agents[node].session is None:
                    self.agents[node].link()
            case "cut", node:
                self.agents[node].cut()
            case "half-open", node:  # the older session is replaced by a newer connection
                self.agents[node].link()
            case "take", count:
                await self.take(count)
            case "written", count:
                self.write(count)
            case ("killed",):
                self.kill()
            case ("opened",):
                self.open()
            case ("listed",):
                self.list_rest()
        self.settle()

    def settle(self) -> None:
        while self.resumed:
            self.resumed.pop().send()
        for agent in self.agents.values():
            agent.hear()

    async def finish(self) -> None:
        """Nothing goes wrong any more, and nobody reconnects who is connected."""
        self.open()
        for agent in self.agents.values():
            if agent.session is None:
                agent.link()
        await self.work()
        for agent in self.agents.values():
            left = {about for about, _ in agent.outbox.values()}
            assert left <= {HELD_BACK}, "a kind that can't be listed holds up itself only"
        self.list_rest()
        await self.work()

    async def work(self) -> None:
        """As long as there is something to do."""
        idle = 0
        while idle < 3:
            before = sum(len(agent.outbox) for agent in self.agents.values())
            await self.take(5)
            self.write(5)
            self.settle()
            after = sum(len(agent.outbox) for agent in self.agents.values())
            idle = 0 if after < before or self.hub.waiting_reports or self.pending else idle + 1


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.booleans(), st.lists(steps, max_size=30))
def test_reports_are_neither_lost_nor_stuck_nor_out_of_order(
    is_usual: bool, story: list[Any]
) -> None:
    """Over cuts, kills of GM, floods, and a kind that can be listed only later."""

    async def tell() -> World:
        world = World()
        if is_usual:  # else hardly a story gets to the interesting parts
            for step in (("opened",), *(("link", node) for node in NODES)):
                await world.do(step)
        for step in story:
            await world.do(step)
        await world.finish()
        return world

    world = asyncio.run(tell())
    for node, agent in world.agents.items():
        assert not agent.outbox, "each was answered"
        assert not agent.window
        refused = {number for number, error in agent.answered.items() if error}
        for about in (JOB, HELD_BACK, DATASET):
            said = [c for n, (a, c) in world_reports(story, node).items() if a == about]
            came = world.written.get((node, about), [])
            first = list(dict.fromkeys(came))
            if about is DATASET:  # only the newest counts
                assert came[-1:] == said[-1:]
            else:
                assert first == said, "at least once, and for the first time in order"
        foreign = {n for n, (a, _) in world_reports(story, node).items() if a == FOREIGN}
        assert refused == foreign
        assert (node, FOREIGN) not in world.written


def world_reports(story: list[Any], node: str) -> dict[int, tuple[WireKey, bytes]]:
    """What a node has reported in all, by number."""
    reported: dict[int, tuple[WireKey, bytes]] = {}
    for step in story:
        if step[0] == "report" and step[1] == node:
            for _ in range(step[3]):
                number = len(reported) + 1
                reported[number] = (step[2], b'{"n":%d}' % number)
    return reported
