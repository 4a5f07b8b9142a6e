"""Single steps of a v1 session; whole runs are in test_session_v1_properties."""

from __future__ import annotations

import json

import pytest

from gm.messagelayer import MalformedFrame
from gm.messagelayer.hub import Hub
from gm.messagelayer.message import WireKey
from gm.messagelayer.session import SUPERSEDED, Action, Close, Commit, NodeState, Ping, Send
from gm.messagelayer.session_v1 import V1Session
from tests.messagelayer.support import desired, key, open_hub, payload_of


class Driver:
    """A session and what it said, in virtual time."""

    def __init__(self, hub: Hub | None = None, noted: dict[WireKey, int] | None = None) -> None:
        self.state = NodeState("edge1")
        self.session = V1Session(self.state, hub or open_hub(), max_frame_bytes=100_000)
        self.now = 100.0
        self.session.recorded(noted or {})

    def put(self, name: str, version: int = 1, uid: str = "u1", padding: int = 0) -> None:
        """As the hub does."""
        self.state.desired[key(name)] = desired(name, version, uid, padding=padding)
        self.session.changed(key(name))

    def remove(self, name: str) -> None:
        """As the hub does."""
        del self.state.desired[key(name)]
        self.session.changed(key(name))

    def poll(self, *, room: bool = True) -> list[Action]:
        """Actions at the current time."""
        return self.session.poll(self.now, room=room)

    def says(self) -> list[str]:
        """What comes out until it is quiet, commits and pongs being immediate."""
        out = []
        while actions := self.poll():
            for action in actions:
                match action:
                    case Send(frame=frame):
                        header = json.loads(payload_of(frame))["header"]
                        out.append(f"{header['operation']} {header['resourceName']}")
                    case Ping(number=number):
                        self.session.ponged(number, self.now)
                    case Commit():
                        self.session.committed()
                    case Close():
                        out.append("close")
                        return out
        return out


def test_nothing_is_said_before_the_record_is_read() -> None:
    """What the node may hold decides what comes first."""
    state = NodeState("edge1")
    state.desired[key("d")] = desired("d")
    session = V1Session(state, open_hub(), max_frame_bytes=1000)
    session.changed(key("d"))
    assert session.poll(0, room=True) == []
    assert session.pending == 1
    session.recorded({})
    assert session.poll(0, room=True) == [Commit({key("d"): desired("d").identity})]


def test_first_commit_comes_before_the_first_frame_even_without_new_keys() -> None:
    """It tells an older session elsewhere to keep its hands off the record."""
    driver = Driver(noted={key("d"): desired("d").identity})
    driver.state.desired[key("d")] = desired("d")
    assert driver.poll() == [Commit({})]
    assert driver.poll() == []
    driver.session.committed()
    assert isinstance(driver.poll()[0], Send)


def test_nothing_to_say_claims_nothing() -> None:
    """An idle node costs no write."""
    assert Driver().poll() == []


def test_one_frame_is_in_flight_until_its_pong() -> None:
    """An older or foreign pong is not the one."""
    driver = Driver()
    driver.put("a")
    driver.put("b")
    driver.poll()
    driver.session.committed()
    _, ping = driver.poll()
    assert ping == Ping(1)
    assert driver.poll() == []
    driver.session.ponged(0, driver.now)
    assert driver.poll() == []
    driver.session.ponged(1, driver.now)
    assert driver.poll()[1] == Ping(2)


def test_without_room_nothing_large_goes_out() -> None:
    """Commits do."""
    driver = Driver()
    driver.put("a")
    assert isinstance(driver.poll(room=False)[0], Commit)
    driver.session.committed()
    assert driver.poll(room=False) == []
    assert driver.says() == ["insert a"]


def test_frames_of_one_key_keep_their_distance_with_the_newest_version_only() -> None:
    """Other keys need not wait meanwhile."""
    driver = Driver()
    driver.put("a")
    assert driver.says() == ["insert a"]
    for version in range(2, 10):
        driver.put("a", version)
        assert driver.says() == []
    driver.put("b")
    assert driver.says() == ["insert b"]
    assert driver.session.deadline == driver.now + 0.5
    driver.now += 0.5
    assert driver.says() == ["insert a"]
    assert driver.session.pending == 0
    assert driver.session.deadline is None


def test_unknown_incarnation_is_deleted_first() -> None:
    """Here the record says that the node may hold another one."""
    driver = Driver(noted={key("d"): 7})
    driver.put("d")
    assert driver.says() == ["delete d"]
    driver.now += 0.5
    assert driver.says() == ["insert d"]


def test_delete_leaves_the_record_after_thirty_seconds() -> None:
    """Not before: the LC may have read it and died."""
    driver = Driver()
    driver.put("d")
    assert driver.says() == ["insert d"]
    driver.now += 1
    driver.remove("d")
    assert driver.says() == ["delete d"]
    driver.now += 29.9
    assert driver.says() == []
    assert driver.session.held() == [key("d")]
    assert driver.session.deadline == pytest.approx(driver.now + 0.1)
    driver.now += 0.1
    assert driver.poll() == [Commit({key("d"): 0})]
    assert driver.session.held() == []


def test_key_struck_while_its_identity_is_being_committed_stays_struck() -> None:
    """What a commit says when it comes back may be older than what is decided."""
    driver = Driver()
    driver.put("d", uid="u1")
    driver.says()
    driver.now += 1
    driver.put("d", uid="u2")
    assert driver.says() == ["delete d"]
    driver.now += 1
    assert driver.says() == ["insert d"]
    driver.now += 30
    update = driver.poll()
    assert update == [Commit({key("d"): desired("d", uid="u2").identity})]
    driver.remove("d")
    frame, ping = driver.poll()
    assert isinstance(frame, Send)
    assert isinstance(ping, Ping)
    driver.session.ponged(ping.number, driver.now)
    driver.now += 31
    assert driver.poll() == []  # struck, but the earlier commit is still on its way
    driver.session.committed()
    assert driver.session.held() == []
    assert driver.poll() == [Commit({key("d"): 0})]


def test_key_wanted_again_while_it_is_being_struck_is_recorded_again() -> None:
    """Its strike on the way is no record."""
    driver = Driver()
    driver.put("d")
    driver.says()
    driver.now += 1
    driver.remove("d")
    assert driver.says() == ["delete d"]
    driver.now += 30
    assert driver.poll() == [Commit({key("d"): 0})]
    driver.put("d", uid="u2")
    assert driver.poll() == []
    driver.session.committed()
    assert driver.poll() == [Commit({key("d"): desired("d", uid="u2").identity})]
    driver.session.committed()
    assert driver.says() == ["insert d"]


def test_record_is_unsure_while_the_node_may_hold_either_incarnation() -> None:
    """If GM dies now and the first one is wanted again, the second is deleted before it."""
    driver = Driver()
    driver.put("d", uid="u1")
    assert driver.says() == ["insert d"]
    driver.now += 1
    driver.put("d", uid="u2")
    assert [type(action) for action in driver.poll()] == [Send, Ping, Commit]
    driver.session.ponged(2, driver.now)
    driver.now += 1
    assert driver.poll() == [], "not before the record is durable"
    driver.session.committed()
    assert driver.says() == ["insert d"]
    unsure = driver.session._noted
    assert unsure is not None
    for uid in ("u1", "u2"):
        later = Driver(noted=unsure)
        later.put("d", uid=uid)
        assert later.says() == ["delete d"]
        later.now += 1
        assert later.says() == ["insert d"]
    driver.now += 30
    assert driver.poll() == [Commit({key("d"): desired("d", uid="u2").identity})]


def test_key_wanted_again_while_an_older_commit_and_its_strike_are_on_their_way() -> None:
    """The API server is away for half a minute; nothing may be forgotten over that."""
    driver = Driver()
    driver.put("d", uid="u1")
    assert driver.says() == ["insert d"]
    driver.now += 1
    driver.put("d", uid="u2")
    assert [type(action) for action in driver.poll()] == [Send, Ping, Commit]
    driver.session.ponged(2, driver.now)
    driver.now += 31  # the delete is confirmed, its commit is not durable yet
    assert driver.poll() == []
    assert driver.session.pending == 1
    driver.session.committed()
    assert driver.poll() == [Commit({key("d"): desired("d", uid="u2").identity})]
    driver.session.committed()
    assert driver.says() == ["insert d"]
    assert driver.session.pending == 0


def test_superseded_session_closes() -> None:
    """It says so once, and nothing else."""
    driver = Driver()
    driver.put("d")
    driver.session.superseded()
    (close,) = driver.poll()
    assert isinstance(close, Close)
    assert close.code == SUPERSEDED


def test_version_that_does_not_fit_is_quarantined_but_its_delete_goes() -> None:
    """Otherwise the node would hold the older version for ever."""
    driver = Driver()
    driver.put("d")
    assert driver.says() == ["insert d"]
    driver.now += 1
    driver.put("d", 2, padding=200_000)
    assert driver.says() == []
    assert list(driver.state.quarantined) == [key("d")]
    driver.session.changed(key("d"))
    assert driver.says() == []
    driver.remove("d")
    assert driver.says() == ["delete d"]


def test_binary_frames_and_acknowledgements_mean_nothing() -> None:
    """v1 has neither."""
    driver = Driver()
    with pytest.raises(MalformedFrame, match="binary"):
        driver.session.receive(b"\x80", is_text=False, now=0)
    driver.session.acknowledge((1,), "")
    assert driver.poll() == []
