"""What to say to one node and when: state machines without I/O, fed with times and events.

A session compares the node's desired state, which the hub owns and changes under it, with what
it knows the node to hold, and yields the next step. It never waits: whoever owns the socket calls
:meth:`Session.poll` when ``wake`` was called, something arrived, or ``deadline`` has come.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from gm.messagelayer.allowance import Allowance
from gm.messagelayer.message import Desired, MalformedFrame, Report, WireKey
from gm.messagelayer.record import Claim, Record

__all__ = [
    "NODE_GONE",
    "REPLACED",
    "REVOKED",
    "SUPERSEDED",
    "Action",
    "Close",
    "Commit",
    "Gate",
    "NodeState",
    "Ping",
    "Send",
    "Session",
    "Timing",
]

logger = logging.getLogger(__name__)

REPLACED = 4001
"""Close code: a newer connection of this node exists."""
NODE_GONE = 4002
"""Close code: the Node object was deleted."""
SUPERSEDED = 4003
"""Close code: another GM serves this node now."""
REVOKED = 4004
"""Close code: the token with which the node proved its identity is no longer valid."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a session in seconds, those that are no settings; tests make them small."""

    same_key_seconds: float = 0.5  # the Go LC handles frames concurrently: keep one key's apart
    delete_confirm_seconds: float = 30.0  # long enough for the LC to have persisted it
    hello_seconds: float = 10.0
    ack_seconds: float = 60.0  # what a v2 agent may take to store what it has read
    handshake_seconds: float = 10.0
    close_seconds: float = 5.0
    reload_seconds: float = 5.0  # how often certificates and tokens are looked at


class Send(msgspec.Struct, frozen=True, gc=False):
    """Write this websocket frame."""

    frame: bytes


class Ping(msgspec.Struct, frozen=True, gc=False):
    """Write a ping that carries ``number``; :meth:`Session.ponged` wants to know of its pong."""

    number: int


class Commit(msgspec.Struct, frozen=True):
    """Make these changes of the record durable (:class:`gm.messagelayer.record.Claim`)."""

    changes: dict[WireKey, int]


class Close(msgspec.Struct, frozen=True, gc=False):
    """Close the connection; nothing follows."""

    code: int
    reason: str


Action = Send | Ping | Commit | Close


class Gate(Protocol):
    """What may be sent at all, which is the same for all nodes."""

    @property
    def is_open(self) -> bool:
        """Whether desired state is full, so that absence means "shall not hold"."""

    def may_send(self, key: WireKey) -> bool:
        """Whether ``key``'s kind is listed completely and its namespace is watched."""


class NodeState:
    """What the hub knows of one node; its session reads it and notes what it quarantines."""

    __slots__ = ("desired", "lacking", "name", "quarantined", "refusals", "session")

    def __init__(self, name: str) -> None:
        self.name = name
        self.desired: dict[WireKey, Desired] = {}
        self.session: Session | None = None
        self.lacking: frozenset[WireKey] | None = None
        """What the node lacks while it has no session; None: it had none since GM started."""
        self.quarantined: dict[WireKey, str] = {}
        self.refusals = Allowance(seconds=60)  # of reports: one line a minute is enough


class Session(abc.ABC):
    """What both wires share."""

    protocol: str
    resends_reports = False
    """Whether the node sends reports again that were not acknowledged when a session ended."""

    def __init__(self, state: NodeState, gate: Gate, *, max_frame_bytes: int) -> None:
        self.node = state.name
        self.wake: Callable[[], None] = _nobody
        self.resume_reading: Callable[[], None] = _nobody
        self.silent_seconds: Callable[[], float] = _just_now
        self._state, self._gate = state, gate
        self._max_frame_bytes = max_frame_bytes
        self._queue: dict[WireKey, None] = {}  # keys to look at, in order, each once
        self._closing: Close | None = None

    def changed(self, key: WireKey) -> None:
        """Desired state of ``key`` is another one now."""
        self._queue[key] = None
        self.wake()

    def close(self, code: int, reason: str) -> None:
        """End the session, for a reason that is told to the peer and the log."""
        self._closing = self._closing or Close(code, reason)
        self.wake()

    @property
    @abc.abstractmethod
    def deadline(self) -> float | None:
        """When to poll again although nothing happens."""

    @property
    def pending(self) -> int:
        """How much the node lacks."""
        return len(self.lacking())

    @abc.abstractmethod
    def lacking(self) -> Collection[WireKey]:
        """Objects of which the node does not have, as far as known, the desired version."""

    @abc.abstractmethod
    def held(self) -> list[WireKey]:
        """What the node holds as far as known."""

    @abc.abstractmethod
    def poll(self, now: float, *, room: bool) -> list[Action]:
        """What to do next; without ``room`` nothing that is large. Empty: nothing for now."""

    @abc.abstractmethod
    def receive(self, payload: bytes, *, is_text: bool, now: float) -> Report | None:
        """Take a message from the node; a report is for the hub.

        Raises: MalformedFrame or UnknownType, which cost nothing but this message.
        """

    @abc.abstractmethod
    def opened(self) -> None:
        """The gate lets more pass than before."""

    @abc.abstractmethod
    def acknowledge(self, ids: tuple[int, ...], error: str) -> None:
        """The reports with these numbers are taken, or refused because of ``error``."""

    def postpone(self, ids: tuple[int, ...]) -> None:  # noqa: B027 # v1 has no word for it
        """The reports with these numbers can be neither taken nor refused for now."""

    def complain(self, problem: MalformedFrame) -> None:  # noqa: B027 # v1 has no word for it
        """Tell the node that a frame of it was not understood."""

    def claim(self, record: Record) -> Claim | None:
        """The right to write the node's entry of ``record``, where the session needs one."""
        return None

    def ponged(self, number: int, now: float) -> None:  # noqa: B027 # of no use to some
        """The pong to ping ``number`` has come."""

    def _fits(self, key: WireKey, frame: bytes) -> bool:
        """Whether ``frame`` may be sent; if not, its object is quarantined."""
        if len(frame) <= self._max_frame_bytes:
            return True
        if key not in self._state.quarantined:
            self._quarantine(key, f"frame of {len(frame)} bytes: {self._max_frame_bytes} allowed")
        return False

    def _quarantine(self, key: WireKey, why: str) -> None:
        """Send this version no more; a newer one is tried again."""
        self._state.quarantined[key] = why
        logger.warning(
            "object quarantined", extra={"node": self.node, "object": str(key), "reason": why}
        )

    def _log(self, message: str, reason: str) -> None:
        logger.warning(message, extra={"node": self.node, "reason": reason})


def _just_now() -> float:
    """Nobody measures silence."""
    return 0.0


def _nobody() -> None:
    """Nobody listens yet, or any more."""
