"""Whatever happens in whatever order, a v2 node ends with exactly its desired state.

The agent of this test persists before it acknowledges, refuses an object now and then, ignores a
delete of another uid, and can lose its whole store.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gm.messagelayer import Hub, v2
from gm.messagelayer.message import Desired
from gm.messagelayer.session import Close, Send
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
        self.now = 0.0
        self.synced_with: dict[str, tuple[str, str]] | None = None
        self.new_hub(complete=True)

    # What people do.

    @rule(name=names, same_uid=st.booleans())
    def write(self, name: str, same_uid: bool) -> None:
        """Create, edit, or (as after a relist) replace in one step."""
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
        assert self.session is not None
        for payload in self.up[:count]:
            self.session.receive(payload, is_text=False, now=self.now)
        del self.up[:count]
        self.pump()

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

    @precondition(lambda self: self.session is None)
    @rule(stale=st.none() | names)
    def connect(self, stale: str | None) -> None:
        """Maybe with something in the inventory that GM has never heard of."""
        if stale is not None:
            self.serial += 1
            self.store[stale] = (f"s{self.serial}", f"h{self.serial}")
        state = self.hub._state(NODE)
        self.session = V2Session(state, self.hub, max_frame_bytes=100_000)
        state.session = self.session
        inventory = tuple(
            v2.Holding("dataset", "default", name, uid, digest)
            for name, (uid, digest) in self.store.items()
        )
        self.up.append(v2.encode_v2(v2.Hello("test/1", inventory)))
        self.synced_with = None
        self.pump()

    @rule()
    def cut(self) -> None:
        if self.session is not None:
            self.hub.detach(self.session)
            self.session, self.up, self.down = None, [], []

    @rule()
    def agent_is_reinstalled(self) -> None:
        self.cut()
        self.store = {}

    @rule()
    def gm_is_killed(self) -> None:
        self.cut()
        self.new_hub(complete=False)

    @rule()
    def first_list_is_applied(self) -> None:
        self.hub.complete("dataset")
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
        self.all_goes_well()
        assert self.session is not None
        assert self.session.pending == 0
        bad = {name for name, (_, digest) in self.truth.items() if digest in self.refuses}
        got = {name: version for name, version in self.store.items() if name not in bad}
        assert got == {name: v for name, v in self.truth.items() if name not in bad}
        assert {key(name) for name in self.store} == set(self.session.held())
        assert set(self.hub._state(NODE).quarantined) == {key(name) for name in bad}
        assert self.synced_with is not None

    # Helpers.

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
        if self.session is None:
            return
        while actions := self.session.poll(self.now, room=True):
            for action in actions:
                assert not isinstance(action, Close)
                assert isinstance(action, Send)
                payload = payload_of(action.frame)
                if isinstance(v2.decode_from_gm(payload), v2.Put | v2.Delete):
                    assert self.hub.is_open, "nothing may be sent before the lists are full"
                self.down.append(payload)


def as_desired(name: str, version: tuple[str, str]) -> Desired:
    return Desired(key(name), *version, b"{}")


V2Machine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, derandomize=True
)
TestV2Session = V2Machine.TestCase
