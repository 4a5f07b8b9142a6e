"""Single steps of a v2 session; whole runs are in test_session_v2_properties."""

from __future__ import annotations

import pytest

from gm.messagelayer import Hub, MalformedFrame, Timing, v2
from gm.messagelayer.session import Action, Close, NodeState, Ping, Send
from gm.messagelayer.session_v2 import REPORT_WINDOW, V2Session
from tests.messagelayer.support import desired, key, open_hub, payload_of


class Driver:
    """A session and what it said."""

    def __init__(self, hub: Hub | None = None, *holdings: v2.Holding, hello: bool = True) -> None:
        self.state = NodeState("edge1")
        self.session = V2Session(
            self.state, hub or open_hub(), max_frame_bytes=100_000, timing=Timing(hello_seconds=10)
        )
        if hello:
            self.hear(v2.Hello("test/1", holdings))

    def put(self, name: str, version: int = 1, uid: str = "u1", padding: int = 0) -> None:
        """As the hub does."""
        self.state.desired[key(name)] = desired(name, version, uid, padding=padding)
        self.state.quarantined.pop(key(name), None)
        self.session.changed(key(name))

    def remove(self, name: str) -> None:
        """As the hub does."""
        del self.state.desired[key(name)]
        self.session.changed(key(name))

    def hear(self, message: v2.FromEdge) -> object:
        """A frame from the agent."""
        return self.session.receive(v2.encode_v2(message), is_text=False, now=0)

    def ack(self, name: str, version: int = 1, uid: str = "u1") -> None:
        """An acknowledgement of a put."""
        self.hear(v2.Ack("dataset", "default", name, uid, f"{version}-"))

    def poll(self, *, room: bool = True) -> list[Action]:
        """Actions."""
        return self.session.poll(0, room=room)

    def says(self, *, room: bool = True) -> list[v2.FromGm]:
        """Frames that come out until it is quiet."""
        out = []
        while actions := self.poll(room=room):
            for action in actions:
                assert isinstance(action, Send)
                out.append(v2.decode_from_gm(payload_of(action.frame)))
        return out


def holding(name: str, version: int = 1, uid: str = "u1") -> v2.Holding:
    """A line of an inventory."""
    return v2.Holding("dataset", "default", name, uid, f"{version}-")


def test_session_waits_for_the_hello_and_not_for_ever() -> None:
    """Nothing else may come first."""
    driver = Driver(hello=False)
    driver.put("d")
    assert driver.session.poll(100, room=True) == []
    assert driver.session.deadline == 110
    with pytest.raises(MalformedFrame, match="before the hello"):
        driver.ack("d")
    (close,) = driver.session.poll(110, room=True)
    assert close == Close(1002, "no hello")


def test_empty_difference_is_synced_at_once() -> None:
    """Welcome first; a second hello is a mistake."""
    driver = Driver(None, holding("d"))
    driver.state.desired[key("d")] = desired("d")
    assert [type(frame) for frame in driver.says()] == [v2.Welcome, v2.Synced]
    assert driver.session.pending == 0
    assert driver.session.deadline is None
    with pytest.raises(MalformedFrame, match="second hello"):
        driver.hear(v2.Hello())


def test_only_small_frames_go_out_without_room() -> None:
    """Acknowledgements of reports among them."""
    driver = Driver()
    driver.put("d")
    driver.session.acknowledge((4, 5), "no")
    assert [type(frame) for frame in driver.says(room=False)] == [
        v2.Welcome,
        v2.ReportAck,
        v2.ReportAck,
    ]
    assert [type(frame) for frame in driver.says()] == [v2.Put, v2.Synced]


def test_newer_version_waits_for_the_acknowledgement_of_the_older() -> None:
    """One frame per object is under way; only the newest follows."""
    driver = Driver()
    driver.put("d", 1)
    driver.says()
    driver.put("d", 2)
    driver.put("d", 3)
    assert driver.says() == []
    driver.ack("d", 2)  # of a version that was never sent
    assert driver.says() == []
    driver.ack("d", 1)
    (put,) = driver.says()
    assert isinstance(put, v2.Put)
    assert put.digest == "3-"


def test_delete_names_the_uid_that_the_node_holds() -> None:
    """Also when another incarnation is wanted by then."""
    driver = Driver(None, holding("d", uid="old"))
    _, delete, _ = driver.says()
    assert delete == v2.Delete("dataset", "default", "d", "old")
    driver.put("d", uid="new")
    assert driver.says() == []
    driver.hear(v2.Ack("dataset", "default", "d", "old", "1-"))  # of a put, which this is not
    assert driver.says() == []
    driver.hear(v2.Ack("dataset", "default", "d", "old"))
    (put,) = driver.says()
    assert isinstance(put, v2.Put)
    assert put.uid == "new"


def test_synced_comes_behind_the_last_of_a_long_difference() -> None:
    """Although only a window of it is under way at a time."""
    driver = Driver()
    for number in range(80):
        driver.put(f"d{number}")
    said = driver.says()
    assert [type(frame) for frame in said] == [v2.Welcome] + [v2.Put] * 32
    for number in range(32):
        driver.ack(f"d{number}")
    assert [type(frame) for frame in driver.says()] == [v2.Put] * 32
    for number in range(32, 48):
        driver.ack(f"d{number}")
    assert [type(frame) for frame in driver.says()] == [v2.Put] * 16 + [v2.Synced]


def test_bytes_under_way_are_bounded() -> None:
    """But one object always may go, however large."""
    driver = Driver()
    for number in range(10):
        driver.put(f"d{number}", padding=60_000)
    _, *puts = driver.says()
    assert len(puts) == 5
    driver.ack("d0")
    assert len(driver.says()) == 1


def test_refusal_of_an_older_version_does_not_quarantine_the_newer() -> None:
    """The newer one is tried."""
    driver = Driver()
    driver.put("d", 1)
    driver.says()
    driver.put("d", 2)
    driver.hear(v2.Refused("dataset", "default", "d", "u1", "7-", "what?"))
    assert driver.says() == []
    driver.hear(v2.Refused("dataset", "default", "d", "u1", "1-", "full\x07"))
    assert driver.state.quarantined == {}
    assert len(driver.says()) == 1
    driver.hear(v2.Refused("dataset", "default", "d", "u1", "2-", "full\x07"))
    assert driver.state.quarantined == {key("d"): "refused by the node: full "}
    driver.session.opened()
    assert driver.says() == []


def test_held_back_kind_is_not_touched() -> None:
    """Neither deleted from the inventory nor sent."""
    hub = Hub()
    hub.expect(["model"])
    hub.complete("model")
    driver = Driver(hub, holding("d"))
    driver.put("e")
    assert [type(frame) for frame in driver.says()] == [v2.Welcome, v2.Synced]
    hub.complete("dataset")
    driver.session.opened()
    assert {type(frame) for frame in driver.says()} == {v2.Put, v2.Delete}


def test_session_before_the_gate_opens_says_welcome_only() -> None:
    """And counts all that is desired as pending."""
    hub = Hub()
    hub.expect(["dataset"])
    driver = Driver(hub, holding("d"))
    driver.put("e")
    driver.session.opened()
    assert [type(frame) for frame in driver.says()] == [v2.Welcome]
    assert driver.session.pending == 1
    assert driver.session.held() == [key("d")]


def test_report_carries_number_and_uid() -> None:
    """For the acknowledgement and the check."""
    driver = Driver()
    report = driver.hear(v2.ReportFrame("Dataset", "default", "d", 9, b"{}", "u1"))
    assert report is not None
    assert (report.ids, report.uid, report.key) == ((9,), "u1", key("d"))  # type: ignore[attr-defined]
    assert REPORT_WINDOW >= 1


@pytest.mark.parametrize(
    ("kind", "content", "why"),
    [("gadget", b"{}", "kind 'gadget' is unknown"), ("dataset", b"{", "content is not JSON")],
)
def test_report_that_makes_no_sense_is_refused_for_good(
    kind: str, content: bytes, why: str
) -> None:
    """Left unanswered it would take a place in the agent's window for ever."""
    driver = Driver()
    driver.says()
    with pytest.raises(MalformedFrame):
        driver.hear(v2.ReportFrame(kind, "default", "d", 9, content))
    assert driver.says() == [v2.ReportAck(9, why)]


def test_report_that_has_to_wait_leaves_the_window() -> None:
    """The agent keeps it, and goes on with others."""
    driver = Driver()
    driver.says()
    driver.session.postpone((4, 5))
    assert driver.says() == [v2.ReportAck(4, later=True), v2.ReportAck(5, later=True)]


def test_nonsense_in_an_inventory_is_shown_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """No such object can exist, so there is nothing to delete."""
    lines = [
        v2.Holding("dataset", "default", "x" * 10_000, "u", "h"),
        v2.Holding("gadget", "default", "d", "u", "h"),
        v2.Holding("dataset", "de\nfault", "d", "u", "h"),
    ]
    driver = Driver(None, *lines, holding("real"))
    assert [type(frame) for frame in driver.says()] == [v2.Welcome, v2.Delete, v2.Synced]
    assert driver.session.held() == [key("real")]
    assert "names no object" in caplog.text


def test_closing_comes_before_everything() -> None:
    """Nothing follows it."""
    driver = Driver()
    driver.session.close(4001, "replaced")
    driver.session.close(4002, "later")
    assert driver.poll() == [Close(4001, "replaced")]


def test_agent_that_reads_and_never_acknowledges_is_given_up_P0_030() -> None:
    """Only after it has read what was sent, however long that takes."""
    driver = Driver()
    driver.put("d")
    assert [type(frame) for frame in driver.says()] == [v2.Welcome, v2.Put, v2.Synced]
    assert driver.session.deadline == 60
    assert driver.session.poll(60, room=True) == [Ping(1)]
    assert driver.session.poll(10_000, room=True) == []  # a slow link: it has not read it yet
    driver.session.ponged(1, 10_000)
    assert driver.session.poll(10_059, room=True) == []
    assert driver.session.poll(10_060, room=True) == [
        Close(1011, "no acknowledgement of what was sent")
    ]


def test_each_acknowledgement_gives_the_agent_new_time() -> None:
    """A slow disk is no reason to hang up, and neither is an idle link."""
    driver = Driver()
    driver.put("a")
    driver.put("b")
    driver.says()
    assert driver.session.poll(60, room=True) == [Ping(1)]
    driver.session.ponged(1, 60)
    driver.ack("a")
    assert driver.session.poll(120, room=True) == []
    assert driver.session.poll(180, room=True) == [Ping(2)]
    driver.session.ponged(2, 181)
    driver.ack("b")
    assert driver.session.poll(1000, room=True) == []
    assert driver.session.deadline is None
