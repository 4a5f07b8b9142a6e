"""A session with an agent that says what it holds and acknowledges what it takes (wire v2)."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection

from gm import __version__
from gm.messagelayer.message import Desired, MalformedFrame, Report, WireKey, check_json, check_key
from gm.messagelayer.session import Action, Close, Gate, NodeState, Ping, Send, Session, Timing
from gm.messagelayer.v2 import (
    Ack,
    Delete,
    Error,
    FromGm,
    Hello,
    Refused,
    ReportAck,
    ReportFrame,
    Synced,
    Welcome,
    decode_from_edge,
    frame_v2,
    put_frame_v2,
)

__all__ = ["REPORT_WINDOW", "V2Session"]

logger = logging.getLogger(__name__)

REPORT_WINDOW = 32
"""Reports that an agent may send before the first of them is acknowledged."""

_WINDOW_FRAMES = 32
_WINDOW_BYTES = 256 * 1024  # together with the connection's buffer: what a deaf node can cost
_MAX_REASON = 256

_SYNCED = frame_v2(Synced())


class V2Session(Session):
    """Sends the difference between desired state and the agent's inventory, and keeps it small.

    A bounded number of frames is unacknowledged at a time, one per key. An acknowledgement names
    the version that it is about, so a late one can not be mistaken for that of a newer version.
    """

    protocol = "v2"
    resends_reports = True

    def __init__(
        self, state: NodeState, gate: Gate, *, max_frame_bytes: int, timing: Timing | None = None
    ) -> None:
        super().__init__(state, gate, max_frame_bytes=max_frame_bytes)
        self._timing = timing or Timing()
        self._hello_by: float | None = None
        self._is_greeted = self._is_started = self._is_synced = False
        # What the node holds: the hub's own object where it is one of its versions.
        self._have: dict[WireKey, Desired | tuple[str, str]] = {}
        self._flight: dict[WireKey, Desired | str] = {}  # str: a delete of that uid
        self._flight_bytes = 0
        self._answers: list[bytes] = []  # small frames that need no room
        # While frames are unacknowledged: when to doubt the agent, and the ping that asks it.
        self._doubt_at: float | None = None
        self._asked = self._read = 0

    # What the hub and the connection say.

    @property
    def deadline(self) -> float | None:
        """See :class:`Session`."""
        return self._doubt_at if self._is_greeted else self._hello_by

    def lacking(self) -> Collection[WireKey]:
        """See :class:`Session`."""
        if not self._is_started:
            return self._state.desired.keys()
        return {*self._queue, *self._flight}

    def held(self) -> list[WireKey]:
        """See :class:`Session`."""
        return sorted(self._have)

    def opened(self) -> None:
        """See :class:`Session`."""
        if self._is_started:
            self._look_at_everything()
        self.wake()

    def changed(self, key: WireKey) -> None:
        """See :class:`Session`."""
        if self._is_started:  # before, there is no difference yet: the start looks at all keys
            super().changed(key)

    def acknowledge(self, ids: tuple[int, ...], error: str) -> None:
        """See :class:`Session`."""
        self._answers += [frame_v2(ReportAck(number, error[:_MAX_REASON])) for number in ids]
        self.wake()

    def postpone(self, ids: tuple[int, ...]) -> None:
        """See :class:`Session`."""
        self._answers += [frame_v2(ReportAck(number, later=True)) for number in ids]
        self.wake()

    def complain(self, problem: MalformedFrame) -> None:
        """See :class:`Session`."""
        self._answer(Error(str(problem)[:_MAX_REASON]))

    def receive(self, payload: bytes, *, is_text: bool, now: float) -> Report | None:
        """See :class:`Session`."""
        if is_text:
            raise MalformedFrame("v2 has no text frames", reason="text")
        message = decode_from_edge(payload)
        if isinstance(message, Hello) is self._is_greeted:
            what = "a second hello" if self._is_greeted else "a frame before the hello"
            raise MalformedFrame(what, reason="order")
        match message:
            case Hello():
                self._greet(message)
            case Ack():
                self._acknowledged(message)
            case Refused():
                self._refused(message)
            case ReportFrame():
                return self._report(message)
            case Error(message=text):
                self._log_complaint(text)
        return None

    def poll(self, now: float, *, room: bool) -> list[Action]:
        """See :class:`Session`."""
        if self._closing is not None:
            return [self._closing]
        actions: list[Action] = [Send(frame) for frame in self._answers]
        self._answers = []
        if not self._is_greeted:
            self._hello_by = self._hello_by or now + self._timing.hello_seconds
            return [Close(1002, "no hello")] if now >= self._hello_by else actions
        if not self._is_started and self._gate.is_open:
            self._is_started = True
            self._state.quarantined.clear()  # this agent may take what the last one did not
            self._look_at_everything()
        if self._is_started and room:
            actions += self._next_frames()
        doubt = self._doubt(now)
        return [*actions, doubt] if doubt is not None else actions

    def ponged(self, number: int, now: float) -> None:
        """See :class:`Session`."""
        if number == self._asked and self._doubt_at == math.inf:
            self._read, self._doubt_at = number, now + self._timing.ack_seconds

    # What the agent says.

    def _greet(self, hello: Hello) -> None:
        self._is_greeted = True
        desired = self._state.desired
        for holding in hello.inventory:
            key, version = holding.key, (holding.uid, holding.digest)
            want = desired.get(key)
            if want is not None and version == (want.uid, want.digest):
                self._have[want.key] = want
            elif want is not None or _is_sane(key):
                self._have[key] = version
            else:
                logger.warning("a line of an inventory names no object", extra={"node": self.node})
        self._answer(
            Welcome(
                max_frame_bytes=self._max_frame_bytes,
                report_window=REPORT_WINDOW,
                gm=__version__,
            )
        )

    def _acknowledged(self, ack: Ack) -> None:
        key = ack.key
        match self._flight.get(key):
            case Desired() as put if (ack.uid, ack.digest) == (put.uid, put.digest):
                self._have[put.key] = put
            case str() if not ack.digest:
                self._have.pop(key, None)
            case _:
                return  # of an earlier frame that does not count any more
        self._landed(key)

    def _refused(self, refused: Refused) -> None:
        put = self._flight.get(refused.key)
        if isinstance(put, Desired) and (refused.uid, refused.digest) == (put.uid, put.digest):
            if self._state.desired.get(put.key) is put:
                self._quarantine(put.key, f"refused by the node: {_plain(refused.reason)}")
            self._landed(put.key)

    def _landed(self, key: WireKey) -> None:
        """The frame about ``key`` is dealt with; look whether it still says what is desired."""
        flown = self._flight.pop(key)
        self._doubt_at = None
        if isinstance(flown, Desired):
            self._flight_bytes -= len(flown.content)
        want = self._state.desired.get(key)
        # A delete has landed: look, too, whether nothing is desired by now.
        if want is not flown and key not in self._state.quarantined:
            self._queue[key] = None

    def _report(self, frame: ReportFrame) -> Report:
        try:
            key = check_key(frame.kind, frame.namespace, frame.name)
            check_json(frame.content)
        except MalformedFrame as exc:
            # Refused for good: or the agent would keep it, and send it, for ever.
            self.acknowledge((frame.id,), str(exc))
            raise
        return Report(
            node=self.node,
            key=key,
            content=frame.content,
            uid=frame.uid,
            ids=(frame.id,),
        )

    # What to say.

    def _doubt(self, now: float) -> Action | None:
        """End a session whose agent has read what was sent, but acknowledges nothing.

        How long reading takes is the link's matter. So when no acknowledgement comes a ping is
        sent, and the time that the agent has for storing begins anew with its pong.
        """
        if not self._flight:
            self._doubt_at = None
        elif self._doubt_at is None:
            self._doubt_at, self._read = now + self._timing.ack_seconds, 0
        elif now >= self._doubt_at:
            if self._read:
                return Close(1011, "no acknowledgement of what was sent")
            self._asked += 1
            self._doubt_at = math.inf
            return Ping(self._asked)
        return None

    def _look_at_everything(self) -> None:
        self._queue.update(dict.fromkeys(self._state.desired))
        self._queue.update(dict.fromkeys(self._have))

    def _next_frames(self) -> list[Action]:
        actions: list[Action] = []
        while self._queue and self._has_room():
            key = next(iter(self._queue))
            del self._queue[key]
            frame = self._frame_of(key)
            if frame is not None:
                actions.append(Send(frame))
        if not self._queue and not self._is_synced:
            self._is_synced = True
            actions.append(Send(_SYNCED))
        return actions

    def _has_room(self) -> bool:
        return len(self._flight) < _WINDOW_FRAMES and self._flight_bytes < _WINDOW_BYTES

    def _frame_of(self, key: WireKey) -> bytes | None:
        """What brings ``key`` to its desired state, if it is not there or on its way."""
        if key in self._flight or not self._gate.may_send(key):
            return None  # looked at again when it has landed, or when the gate lets it pass
        want, have = self._state.desired.get(key), self._have.get(key)
        if want is None:
            return self._delete(key, have)
        if have is want or self._version(have) == (want.uid, want.digest):
            return None
        frame = put_frame_v2(want)
        if key in self._state.quarantined or not self._fits(key, frame):
            return None
        self._flight[key] = want
        self._flight_bytes += len(want.content)
        return frame

    def _delete(self, key: WireKey, have: Desired | tuple[str, str] | None) -> bytes | None:
        if have is None:
            return None
        uid, _ = self._version(have)
        self._flight[key] = uid
        return frame_v2(Delete(key.kind, key.namespace, key.name, uid))

    @staticmethod
    def _version(have: Desired | tuple[str, str] | None) -> tuple[str, str]:
        if have is None:
            return ("", "")
        return (have.uid, have.digest) if isinstance(have, Desired) else have

    def _answer(self, message: FromGm) -> None:
        self._answers.append(frame_v2(message))
        self.wake()

    def _log_complaint(self, text: str) -> None:
        self._log("the node did not understand a frame", _plain(text))


def _is_sane(key: WireKey) -> bool:
    """Whether there could be such an object; people are shown what nodes hold."""
    try:
        check_key(key.kind, key.namespace, key.name)
    except MalformedFrame:
        return False
    return True


def _plain(text: str) -> str:
    """Text of a peer, fit for logs and conditions."""
    return "".join(char if char.isprintable() else " " for char in text[:_MAX_REASON])
