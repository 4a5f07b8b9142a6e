"""Whatever happens in whatever order, a v2 node ends with exactly its desired state.

The agent of this test persists before it acknowledges, refuses an object now and then, ignores a
delete of another uid, can lose its whole store, and says things twice. Its link may be half-open
for a while: it has a new one then, and the session of the old one goes on without it.
"""

from __future__ import annotations

import contextlib

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gm.messagelayer import Hub, MalformedFrame, v2
from gm.messagelayer.message import Desired
from gm.messagelayer.session import Close, Gate, NodeState, Ping, Send, Session
from gm.messagelayer.session_v2 import V2Session
from tests.messagelayer.support import key, payload_of

NODE = "edge1"
names = st.sampled_from(["a", "b", "c"])


class V2Machine(RuleBasedStateMachine):
    """GM, a link and an agent; only the agent's store and the API server's truth are durable."""

    @initialize()
    def begin(self) -> None:
        self.truth: dict[str, tuple[str, str]] = {}
        self.store: dict[str, tuple[str, str]] = {}
        self.refuses: set[str] = set()  # digests
        self.serial = 0
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self.session: V2Session | None = None
        self.ghosts: list[tuple[Hub, V2Session]] = []
        self.now = 0.0
        self.heard: list[bytes] = []
        self.pings: list[int] = []
        self.synced_with: dict[str, tuple[str, str]] | None = None
        self.new_hub(complete=True)

    # What people do.

    @rule(edits=st.lists(st.tuples(names, st.booleans()), min_size=1, max_size=4))
    def write(self, edits: list[tuple[str, bool]]) -> None:
        """Create, edit, or (as after a relist) replace in one step."""
        for name, has_same_uid in edits:
            self.write_one(name, has_same_uid)

    def write_one(self, name: str, same_uid: bool) -> None:
        self.serial += 1
        uid = self.truth[name][0] if same_uid and name in self.truth else f"u{self.serial}"
        self.truth[name] = (uid, f"h{self.serial}")
        self.hub.put(NODE, as_desired(name, self.truth[name]))
        self.pump()

    @rule(name=names)
    def delete(self, name: str) -> None:
        if self.truth.pop(name, None):
            self.hub.remove(NODE, key(name))
            self.pump()

    # What the world does.

    @precondition(lambda self: self.down)
    @rule(count=st.integers(1, 5))
    def agent_reads(self, count: int) -> None:
        for payload in self.down[:count]:
            self.agent_takes(v2.decode_from_gm(payload))
        del self.down[:count]

    @precondition(lambda self: self.up)
    @rule(count=st.integers(1, 5))
    def gm_reads(self, count: int) -> None:
        for payload in self.up[:count]:
            self.gm_takes(payload)
        del self.up[:count]
        self.pump()

    @precondition(lambda self: self.heard and self.session is not None)
    @rule(data=st.data())
    def agent_repeats(self, data: st.DataObject) -> None:
        """Something that it has said in this session; for a second hello it is told off."""
        self.up.append(data.draw(st.sampled_from(self.heard)))

    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.pump()

    def pong_arrives(self) -> None:
        if self.pings and self.session is not None:
            self.session.ponged(self.pings.pop(0), self.now)
            self.pump()

    @rule(
        what=st.sampled_from(
            ["cut", "reinstalled", "killed", "restarted", "refused", "unnoticed", "elsewhere"]
        ),
        stale=st.none() | names,
        connects=st.booleans(),
    )
    def trouble(self, what: str, stale: str | None, connects: bool) -> None:
        """One rule for all of it, since in most steps there is none."""
        match what:
            case "cut":
                self.cut()
            case "reinstalled":
                self.cut()
                self.store = {}
            case "killed" | "restarted":
                self.cut()
                self.new_hub(complete=what == "restarted")
            case "refused":
                self.list_is_refused()
            case _ if self.session is not None:
                self.reconnect_unnoticed(stale, other_gm=what == "elsewhere")
        if connects and self.session is None:
            self.connect(stale)

    @rule(seconds=st.sampled_from([1.0, 59.0, 61.0]), is_read=st.booleans())
    def patience(self, seconds: float, is_read: bool) -> None:
        """Of an agent that acknowledges nothing GM has enough one day."""
        self.time_passes(seconds)
        if is_read:
            self.pong_arrives()
        elif self.ghosts:
            self.half_open_link_is_found()

    @rule()
    def all_goes_well(self) -> None:
        if self.session is None:
            self.connect(stale=None)
        self.first_list_is_applied()
        while self.up or self.down:
            if self.down:
                self.agent_reads(1)
            if self.up:
                self.gm_reads(1)

    def connect(self, stale: str | None) -> None:
        """Maybe with something in the inventory that GM has never heard of."""
        if stale is not None:
            self.serial += 1
            self.store[stale] = (f"s{self.serial}", f"h{self.serial}")

        def make(state: NodeState, gate: Gate) -> Session:
            return V2Session(state, gate, max_frame_bytes=100_000)

        session = self.hub.attach(NODE, make)
        assert isinstance(session, V2Session)
        self.session, self.heard, self.pings = session, [], []
        inventory = tuple(
            v2.Holding("dataset", "default", name, uid, digest)
            for name, (uid, digest) in self.store.items()
        )
        self.up.append(v2.encode_v2(v2.Hello("test/1", inventory)))
        self.synced_with = None
        self.pump()

    def reconnect_unnoticed(self, stale: str | None, other_gm: bool) -> None:
        """The old link is half-open, and its session, perhaps in another GM, does not know."""
        assert self.session is not None
        self.ghosts.append((self.hub, self.session))
        self.session, self.up, self.down, self.pings = None, [], [], []
        if other_gm:
            self.new_hub(complete=False)
        self.connect(stale)

    def half_open_link_is_found(self) -> None:
        hub, session = self.ghosts.pop(0)
        hub.detach(session)

    def cut(self) -> None:
        if self.session is not None:
            self.hub.detach(self.session)
            self.session, self.up, self.down, self.pings = None, [], [], []

    def first_list_is_applied(self) -> None:
        if not self.hub.may_send(key("a")):  # once: it makes sessions look at everything again
            self.hub.complete("dataset")
            self.pump()

    def list_is_refused(self) -> None:
        """Others need not wait for it, but nothing is known of this kind."""
        self.hub.hold_back("dataset")
        self.pump()

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def agent_can_not_take(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.truth)))
        if self.store.get(name) != self.truth[name]:
            self.refuses.add(self.truth[name][1])

    def teardown(self) -> None:
        """Nothing changes any more: the node must reach its desired state."""
        if not hasattr(self, "truth"):
            return
        while self.ghosts:
            self.half_open_link_is_found()
        self.all_goes_well()  # perhaps it is now that GM has had enough of the agent
        self.all_goes_well()
        self.check()
        for name in list(self.truth):
            self.write_one(name, same_uid=True)
        self.all_goes_well()
        self.check()

    def check(self) -> None:
        assert self.session is not None
        assert self.session.pending == 0
        bad = {name for name, (_, digest) in self.truth.items() if digest in self.refuses}
        got = {name: version for name, version in self.store.items() if name not in bad}
        assert got == {name: v for name, v in self.truth.items() if name not in bad}
        assert {key(name) for name in self.store} == set(self.session.held())
        assert set(self.hub._state(NODE).quarantined) == {key(name) for name in bad}
        assert self.synced_with is not None

    # Helpers.

    def gm_takes(self, payload: bytes) -> None:
        assert self.session is not None
        self.heard.append(payload)
        with contextlib.suppress(MalformedFrame):
            self.session.receive(payload, is_text=False, now=self.now)

    def agent_takes(self, message: v2.FromGm) -> None:
        match message:
            case v2.Put(name=name, uid=uid, digest=digest) if digest in self.refuses:
                refused = v2.Refused("dataset", "default", name, uid, digest, "no disk\n")
                self.up.append(v2.encode_v2(refused))
            case v2.Put(name=name, uid=uid, digest=digest):
                assert self.store.get(name) != (uid, digest), "sent although it is there"
                self.store[name] = (uid, digest)
                ack = v2.Ack("dataset", "default", name, uid, digest)
                self.up.append(v2.encode_v2(ack))
            case v2.Delete(name=name, uid=uid):
                if self.store.get(name, ("", ""))[0] == uid:
                    del self.store[name]
                self.up.append(v2.encode_v2(v2.Ack("dataset", "default", name, uid)))
            case v2.Synced():
                assert self.hub.is_open
                assert self.synced_with is None, "synced comes once"
                self.synced_with = dict(self.store)

    def new_hub(self, *, complete: bool) -> None:
        self.hub = Hub()
        self.hub.expect(["dataset"])
        for name, version in self.truth.items():
            self.hub.put(NODE, as_desired(name, version))
        if complete:
            self.hub.complete("dataset")

    def pump(self) -> None:
        for ghost in list(self.ghosts):
            self.haunt(*ghost)
        while self.session is not None and (actions := self.session.poll(self.now, room=True)):
            for action in actions:
                match action:
                    case Send(frame=frame):
                        self.send(payload_of(frame))
                    case Ping(number=number):
                        self.pings.append(number)
                    case Close(code=code):
                        assert code in (1002, 1011), "no hello, or no acknowledgement"
                        self.cut()
                        break

    def send(self, payload: bytes) -> None:
        if isinstance(v2.decode_from_gm(payload), v2.Put | v2.Delete):
            assert self.hub.may_send(key("a")), "sent before the list is full"
        self.down.append(payload)

    def haunt(self, hub: Hub, session: V2Session) -> None:
        """What the session of a half-open link says arrives nowhere."""
        while actions := session.poll(self.now, room=True):
            if isinstance(actions[-1], Close):
                self.ghosts.remove((hub, session))
                hub.detach(session)
                return


def as_desired(name: str, version: tuple[str, str]) -> Desired:
    return Desired(key(name), *version, b"{}")


V2Machine.TestCase.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, derandomize=True
)
TestV2Session = V2Machine.TestCase
