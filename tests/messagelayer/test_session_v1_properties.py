"""Whatever happens in whatever order, a v1 node ends with exactly its desired state.

The Local Controller of this test is as weak as the Go one: it acknowledges nothing, persists what
it was told some seconds later, loses the rest when it dies, and an insert over another incarnation
of an object corrupts it. Its link may be half-open for a while: it has a new one then, to the same
GM or to another, and the session of the old one goes on without it.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gm.messagelayer import Hub
from gm.messagelayer.message import Desired, WireKey
from gm.messagelayer.record import Changes, Claim, Holder
from gm.messagelayer.session import (
    Close,
    Commit,
    Gate,
    NodeState,
    Ping,
    Send,
    Session,
    Timing,
)
from gm.messagelayer.session_v1 import V1Session
from tests.messagelayer.support import key, payload_of

NODE = "edge1"
NAMES = ("a", "b")
PERSIST_SECONDS = 10.0  # less than what the session waits before it trusts a delete
names = st.sampled_from(NAMES)


class DurableRecord:
    """A record that outlives GM; commits wait until the test lets them through.

    What it says to whom is what :class:`ShardedRecord` says, which several GMs may write.
    """

    def __init__(self) -> None:
        self.entry: dict[WireKey, int] = {}
        self.claims = 0
        self.rank = 0  # of the claim that wrote the entry
        self.waiting: list[tuple[RecordClaim, dict[WireKey, int]]] = []

    def claim(self, holder: Holder) -> Claim:
        self.waiting = [commit for commit in self.waiting if not commit[0].released]
        self.claims += 1
        claim = RecordClaim(self, holder, self.claims)
        holder.recorded(dict(claim.told))
        return claim

    async def run(self) -> None:
        raise AssertionError

    def let_through(self, *, unheard_by: Claim | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for claim, changes in waiting:
            if claim.released:
                continue
            if self.rank > claim.rank:
                if claim is not unheard_by:
                    claim.holder.superseded()
                continue
            found = dict(self.entry)
            for changed, identity in changes.items():
                if identity:
                    self.entry[changed] = identity
                else:
                    self.entry.pop(changed, None)
            self.rank = claim.rank if self.entry else 0
            if claim is unheard_by:
                continue
            if not claim.has_committed and found != claim.told:
                claim.holder.recorded(found)
            claim.has_committed = True
            claim.holder.committed()


class RecordClaim:
    def __init__(self, record: DurableRecord, holder: Holder, rank: int) -> None:
        self.record, self.holder, self.rank = record, holder, rank
        self.told = dict(record.entry)
        self.released = self.has_committed = False

    def commit(self, changes: Changes) -> None:
        self.record.waiting.append((self, dict(changes)))

    def release(self) -> None:
        self.released = True


class LocalController:
    """What the node holds: in memory, and on disk as of some seconds ago."""

    def __init__(self) -> None:
        self.disk: dict[str, Any] = {}
        self.unpersisted: list[tuple[float, str, Any]] = []

    @property
    def held(self) -> dict[str, Any]:
        held = dict(self.disk)
        for _, name, value in self.unpersisted:
            apply(held, name, value)
        return held

    def take(self, frame: bytes, now: float) -> None:
        message = json.loads(frame)
        name = message["header"]["resourceName"]
        value = None
        if message["header"]["operation"] == "insert":
            value = json.loads(base64.b64decode(message["content"]))
            before = self.held.get(name)
            assert before is None or (before["uid"], before["url"]) == (value["uid"], value["url"])
        self.unpersisted.append((now, name, value))

    def persist(self, before: float) -> None:
        while self.unpersisted and self.unpersisted[0][0] <= before:
            _, name, value = self.unpersisted.pop(0)
            apply(self.disk, name, value)

    def die(self, survivors: int) -> None:
        for _, name, value in self.unpersisted[:survivors]:
            apply(self.disk, name, value)
        self.unpersisted = []


def apply(held: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        held.pop(name, None)
    else:
        held[name] = value


class V1Machine(RuleBasedStateMachine):
    """GM, its record, a link and a node, in virtual time."""

    @initialize()
    def begin(self) -> None:
        self.now = 1000.0
        self.timing = Timing()
        self.record = DurableRecord()
        self.truth: dict[str, dict[str, Any]] = {}
        self.elsewhere: dict[str, dict[str, Any]] = {}
        self.serial = 0
        self.node = LocalController()
        self.wire: list[Send | Ping] = []
        self.pongs: list[int] = []
        self.session: V1Session | None = None
        self.claim: Claim | None = None
        # Sessions of links that are half-open: nobody is at the other end any more.
        self.ghosts: list[tuple[Hub, V1Session, Claim]] = []
        self.last_frame_of: dict[str, float] = {}
        self.new_hub(complete=True)

    # What people do.

    @rule(name=names)
    def edit(self, name: str) -> None:
        if name in self.truth:
            self.write(name, {**self.truth[name], "version": self.next_serial()})

    @rule(name=names)
    def create_or_recreate(self, name: str) -> None:
        if name in self.truth:
            self.delete(name)
        self.elsewhere.pop(name, None)
        uid = f"u{self.next_serial()}"
        self.write(name, {"uid": uid, "url": "/data", "version": self.next_serial()})

    @rule(name=names)
    def replace_within_one_event(self, name: str) -> None:
        """As when a relist finds another uid under the name: no delete is seen."""
        if name in self.truth:
            self.write(name, {**self.truth[name], "uid": f"u{self.next_serial()}"})

    @rule(name=names, url=st.sampled_from(["/data", "/other"]))
    def change_url(self, name: str, url: str) -> None:
        """And back again, perhaps."""
        if name in self.truth:
            self.write(name, {**self.truth[name], "url": url})

    @rule(name=names)
    def delete(self, name: str) -> None:
        if self.truth.pop(name, None):
            self.hub.remove(NODE, key(name))
            self.pump()

    @rule(name=names)
    def move_away(self, name: str) -> None:
        """To another node: it may come back as it was."""
        if name in self.truth:
            self.elsewhere[name] = self.truth[name]
            self.delete(name)

    @precondition(lambda self: self.elsewhere)
    @rule(name=names)
    def change_url_elsewhere(self, name: str) -> None:
        """Or back to what this node has had before."""
        if name in self.elsewhere:
            url = "/other" if self.elsewhere[name]["url"] == "/data" else "/data"
            self.elsewhere[name] = {**self.elsewhere[name], "url": url}

    @rule(name=names)
    def come_back(self, name: str) -> None:
        if name in self.elsewhere and name not in self.truth:
            self.write(name, self.elsewhere.pop(name))

    # What the world does.

    @rule(seconds=st.sampled_from([0.1, 0.4, 0.5, 3.0, 11.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.node.persist(self.now - PERSIST_SECONDS)
        self.pump()

    @precondition(lambda self: self.wire)
    @rule(count=st.integers(1, 4))
    def deliver(self, count: int) -> None:
        for item in self.wire[:count]:
            if isinstance(item, Send):
                self.node.take(payload_of(item.frame), self.now)
            else:
                self.pongs.append(item.number)
        del self.wire[:count]

    @precondition(lambda self: self.pongs)
    @rule()
    def pong_arrives(self) -> None:
        assert self.session is not None
        self.session.ponged(self.pongs.pop(0), self.now)
        self.pump()

    @rule()
    def commits_get_durable(self) -> None:
        self.record.let_through()
        self.pump()

    @rule(
        what=st.sampled_from(
            ["cut", "node", "killed", "restarted", "refused", "unnoticed", "elsewhere", "found"]
        ),
        is_kind=st.booleans(),
        survivors=st.integers(0, 5),
    )
    def trouble(self, what: str, is_kind: bool, survivors: int) -> None:
        """One rule for all of it, since in most steps there is none."""
        match what:
            case "cut":
                self.cut(is_kind)
            case "node":
                self.node_dies(survivors)
            case "killed" | "restarted":
                self.gm_is_killed(is_kind, complete=what == "restarted")
            case "refused":
                self.list_is_refused()
            case "found" if self.ghosts:
                self.half_open_link_is_found()
            case "unnoticed" | "elsewhere" if self.session is not None:
                self.reconnect_unnoticed(what == "elsewhere", is_kind)
        if is_kind and self.session is None:
            self.connect()

    @rule(rounds=st.integers(1, 6), seconds=st.sampled_from([0.0, 0.5]))
    def all_goes_well(self, rounds: int, seconds: float) -> None:
        """Most of the time it does, and only then interesting states are reached."""
        if self.session is None:
            self.connect()
        self.first_list_is_applied()
        for _ in range(rounds):
            self.commits_get_durable()
            self.deliver(len(self.wire))
            while self.pongs:
                self.pong_arrives()
            self.time_passes(seconds)

    def connect(self) -> None:
        def make(state: NodeState, gate: Gate) -> Session:
            return V1Session(state, gate, max_frame_bytes=100_000, timing=self.timing)

        session = self.hub.attach(NODE, make)
        assert isinstance(session, V1Session)
        self.session = session
        self.claim = session.claim(self.record)
        self.last_frame_of = {}
        self.pump()

    def reconnect_unnoticed(self, other_gm: bool, is_complete: bool) -> None:
        """The old link is half-open, and its session, perhaps in another GM, does not know."""
        if self.session is None:
            return
        assert self.claim is not None
        self.ghosts.append((self.hub, self.session, self.claim))
        self.session, self.wire, self.pongs = None, [], []
        if other_gm:
            self.new_hub(complete=is_complete)
        self.connect()

    def half_open_link_is_found(self) -> None:
        self.end_ghost(self.ghosts[0])

    def end_ghost(self, ghost: tuple[Hub, V1Session, Claim]) -> None:
        hub, session, claim = ghost
        self.ghosts.remove(ghost)
        claim.release()
        hub.detach(session)

    def cut(self, commits_survive: bool = False) -> None:
        if self.session is None:
            return
        assert self.claim is not None
        if commits_survive:
            self.record.let_through(unheard_by=self.claim)
        self.claim.release()
        self.hub.detach(self.session)
        self.session, self.wire, self.pongs = None, [], []

    def node_dies(self, survivors: int) -> None:
        self.cut()
        self.node.die(survivors)

    @rule(
        name=names,
        again=st.booleans(),
        back=st.booleans(),
        then=st.sampled_from(["", "cut", "node", "gm", "unnoticed", "unnoticed elsewhere"]),
    )
    def delete_synced(self, name: str, again: bool, back: bool, then: str) -> None:
        """A delete that reaches the node, perhaps followed by another incarnation."""
        self.all_goes_well(6, 0.5)
        self.move_away(name)
        self.all_goes_well(1, 0.5)
        if again:
            if back and name in self.elsewhere:
                self.change_url_elsewhere(name)
                self.come_back(name)
            else:
                self.create_or_recreate(name)
            self.all_goes_well(2, 0.5)
        match then:
            case "unnoticed" | "unnoticed elsewhere":
                self.reconnect_unnoticed(then != "unnoticed", True)
            case "cut":
                self.cut()
            case "node":
                self.node_dies(0)
            case "gm":
                self.gm_is_killed(True)

    def gm_is_killed(self, commits_survive: bool, *, complete: bool = False) -> None:
        self.cut(commits_survive)
        self.new_hub(complete=complete)

    def first_list_is_applied(self) -> None:
        if not self.hub.may_send(key("a")):  # once: it makes sessions look at everything again
            self.hub.complete("dataset")
            self.pump()

    def list_is_refused(self) -> None:
        """Others need not wait for it, but nothing is known of this kind."""
        self.hub.hold_back("dataset")
        self.pump()

    @invariant()
    def one_frame_in_flight(self) -> None:
        if hasattr(self, "wire"):
            assert sum(isinstance(item, Send) for item in self.wire) <= 1

    def teardown(self) -> None:
        """Nothing changes any more: the node must reach its desired state."""
        if not hasattr(self, "wire"):
            return
        self.first_list_is_applied()
        while self.ghosts:
            self.end_ghost(self.ghosts[0])
        if self.session is None:
            self.connect()
        self.settle()
        assert self.node.held == self.truth
        for name in self.truth:
            self.edit(name)
        self.settle()
        assert self.session is not None
        assert self.node.held == self.truth
        assert self.session.pending == 0
        # What a ghost has recorded last, and never sent, is learnt with the next connection.
        self.cut()
        self.connect()
        self.settle()
        assert self.node.held == self.truth
        assert self.session.pending == 0
        assert set(self.session.held()) == {key(name) for name in self.truth}
        assert set(self.record.entry) == {key(name) for name in self.truth}

    def settle(self) -> None:
        """40 s after the last frame also the deletes are confirmed."""
        idle = 0
        for _ in range(200):
            self.commits_get_durable()
            self.deliver(len(self.wire))
            while self.pongs:
                self.pong_arrives()
            idle = idle + 1 if not self.wire else 0
            self.time_passes(0.5)
            if idle > 80:
                break

    # Helpers.

    def new_hub(self, *, complete: bool) -> None:
        self.hub = Hub(record=self.record)
        self.hub.expect(["dataset"])
        for name, value in self.truth.items():
            self.hub.put(NODE, as_desired(name, value))
        if complete:
            self.hub.complete("dataset")

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def write(self, name: str, value: dict[str, Any]) -> None:
        self.truth[name] = value
        self.hub.put(NODE, as_desired(name, value))
        self.pump()

    def pump(self) -> None:
        for ghost in list(self.ghosts):
            self.haunt(ghost)
        if self.session is None:
            return
        while actions := self.session.poll(self.now, room=True):
            for action in actions:
                match action:
                    case Send(frame=frame):
                        assert self.hub.may_send(key("a")), "sent before the list is full"
                        self.check_distance(frame)
                        self.wire.append(action)
                    case Ping():
                        self.wire.append(action)
                    case Commit(changes=changes):
                        assert self.claim is not None
                        self.claim.commit(changes)
                    case Close():
                        raise AssertionError(action)

    def haunt(self, ghost: tuple[Hub, V1Session, Claim]) -> None:
        """What the session of a half-open link does: its frames arrive nowhere, its commits do."""
        _, session, claim = ghost
        while actions := session.poll(self.now, room=True):
            for action in actions:
                match action:
                    case Commit(changes=changes):
                        claim.commit(changes)
                    case Close():
                        self.end_ghost(ghost)
                        return

    def check_distance(self, frame: bytes) -> None:
        name = json.loads(payload_of(frame))["header"]["resourceName"]
        since = self.now - self.last_frame_of.get(name, 0.0)
        assert since >= self.timing.same_key_seconds - 1e-6
        self.last_frame_of[name] = self.now
        assert key(name) in self.record.entry, "a key is recorded before it is sent"


def as_desired(name: str, value: dict[str, Any]) -> Desired:
    content = json.dumps(value).encode()
    return Desired(
        key(name), value["uid"], str(value["version"]), content, spec_identity=value["url"]
    )


V1Machine.TestCase.settings = settings(
    max_examples=300, stateful_step_count=30, deadline=None, derandomize=True
)
TestV1Session = V1Machine.TestCase
