"""A session with Sedna's Local Controller: one frame at a time, delivery told by pongs.

The Go LC acknowledges nothing, says nothing of what it holds, and handles every frame in a
goroutine of its own over unlocked maps. So one frame is in flight until the pong to a ping sent
after it has come, frames of one key keep a distance, and what the node may hold is recorded before
it is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gm.messagelayer.message import (
    UP,
    Desired,
    MalformedFrame,
    Report,
    WireKey,
    decode_v1,
    delete_frame_v1,
    insert_frame_v1,
)
from gm.messagelayer.record import Claim, Record
from gm.messagelayer.session import (
    SUPERSEDED,
    Action,
    Commit,
    Gate,
    NodeState,
    Ping,
    Send,
    Session,
    Timing,
)

__all__ = ["V1Session"]

_STRUCK = 0
"""In changes of the record: the key goes. No incarnation has this identity."""
_UNSURE = 1 << 32
"""Of a key in the record: the node may hold one of several incarnations. None has this identity."""


class V1Session(Session):
    """Brings a v1 node to its desired state; see the module.

    What the node may hold of a key is an *identity*: an incarnation of the object that an insert
    updates in place. One that it can not update is deleted first.
    """

    protocol = "v1"

    def __init__(
        self, state: NodeState, gate: Gate, *, max_frame_bytes: int, timing: Timing | None = None
    ) -> None:
        super().__init__(state, gate, max_frame_bytes=max_frame_bytes)
        self._timing = timing or Timing()
        self._noted: dict[WireKey, int] | None = None  # the record's entry; None: not read yet
        self._is_started = False
        self._has_claimed = False  # the first commit has superseded older sessions elsewhere
        self._sent: dict[WireKey, Desired | None] = {}  # last frame of this session; None: delete
        self._flight: tuple[WireKey, Desired | None, int] | None = None
        self._pings = 0
        self._paced: dict[WireKey, float] = {}  # keys that had a frame just now: until when
        self._again: set[WireKey] = set()  # those of them to look at again then
        # Deletes that were read, but may not be persisted yet: until when the session must last.
        self._unconfirmed: dict[WireKey, float] = {}
        self._changes: dict[WireKey, int] = {}
        self._committing: dict[WireKey, int] | None = None

    # What the record says (record.Holder).

    def claim(self, record: Record) -> Claim:
        """See :class:`Session`."""
        return record.claim(self)

    def recorded(self, keys: Mapping[WireKey, int]) -> None:
        """The node may hold ``keys``, of these identities; nothing has been sent yet."""
        self._noted = dict(keys)
        self._queue.update(dict.fromkeys(keys) if self._is_started else ())
        self.wake()

    def committed(self) -> None:
        """The changes of the last :class:`Commit` are durable."""
        self._has_claimed = True
        done, self._committing = self._committing or {}, None
        assert self._noted is not None
        for key, identity in done.items():
            if identity != _STRUCK and key not in self._changes:
                self._noted[key] = identity
                self._queue[key] = None
        self.wake()

    def superseded(self) -> None:
        """Another GM, or a newer session, serves the node now."""
        self.close(SUPERSEDED, "this node has a newer session elsewhere")

    # What the hub and the connection say.

    @property
    def deadline(self) -> float | None:
        """See :class:`Session`."""
        times = [next(iter(self._paced.values()))] if self._again else []
        times += [next(iter(self._unconfirmed.values()))] if self._unconfirmed else []
        return min(times, default=None)

    def lacking(self) -> Collection[WireKey]:
        """See :class:`Session`."""
        if not self._is_started:
            return self._state.desired.keys()
        keys = {*self._queue, *self._again, *self._changes, *(self._committing or ())}
        if self._flight is not None:
            keys.add(self._flight[0])
        return keys

    def held(self) -> list[WireKey]:
        """See :class:`Session`: what the record has, which the node may hold."""
        return sorted(self._noted or ())

    def opened(self) -> None:
        """See :class:`Session`."""
        if self._is_started:
            self._queue.update(dict.fromkeys(self._state.desired))
            self._queue.update(dict.fromkeys(self._noted or ()))
        self.wake()

    def changed(self, key: WireKey) -> None:
        """See :class:`Session`."""
        if self._is_started:  # before, there is no difference yet: the start looks at all keys
            super().changed(key)

    def acknowledge(self, ids: tuple[int, ...], error: str) -> None:
        """Nothing: v1 has no acknowledgement of reports."""

    def receive(self, payload: bytes, *, is_text: bool, now: float) -> Report | None:
        """See :class:`Session`."""
        if not is_text:
            raise MalformedFrame("v1 has no binary frames", reason="binary")
        message = decode_v1(payload, operations=UP)
        if message is None:
            return None
        return Report(
            node=self.node,
            key=message.key,
            operation=message.operation,
            content=message.content,
        )

    def ponged(self, number: int, now: float) -> None:
        """See :class:`Session`."""
        if self._flight is None or number < self._flight[2]:
            return
        key, version, _ = self._flight
        self._flight = None
        self._paced.pop(key, None)  # both dicts stay in order of their times
        self._paced[key] = now + self._timing.same_key_seconds
        if version is None:
            self._unconfirmed.pop(key, None)
            self._unconfirmed[key] = now + self._timing.delete_confirm_seconds
        if self._state.desired.get(key) is not version:
            self._queue[key] = None

    def poll(self, now: float, *, room: bool) -> list[Action]:
        """See :class:`Session`."""
        if self._closing is not None:
            return [self._closing]
        if not self._is_started:
            self._start()
        if not self._is_started:
            return []
        if not self._has_claimed:
            return self._claim()
        self._confirm_deletes(now)
        self._release_paced(now)
        actions: list[Action] = []
        if room and self._flight is None:
            actions += self._next_frame()
        if self._changes and self._committing is None:
            self._committing, self._changes = self._changes, {}
            actions.append(Commit(self._committing))
        return actions

    # Within.

    def _start(self) -> None:
        """Take the whole desired state and all that the node may hold for a difference."""
        if self._noted is None or not self._gate.is_open:
            return
        self._is_started = True
        self.opened()

    def _claim(self) -> list[Action]:
        """Commit all new keys at once, before the first frame.

        Also without new keys: an older session elsewhere must no longer strike what this one is
        about to send.
        """
        keys = [key for key in self._queue if self._gate.may_send(key)]
        if not keys or self._committing is not None:
            return []
        assert self._noted is not None
        desired = self._state.desired
        self._committing = {
            key: desired[key].identity for key in keys if key in desired and key not in self._noted
        }
        return [Commit(self._committing)]

    def _confirm_deletes(self, now: float) -> None:
        """Correct the record where a delete was read so long ago that it is surely persisted."""
        while self._unconfirmed:
            key, since = next(iter(self._unconfirmed.items()))
            if since > now:
                return
            del self._unconfirmed[key]
            if self._flight is not None and self._flight[0] == key and self._flight[1] is None:
                continue  # the next delete of this key is under way; its own pong counts
            self._note(key, self._sent.get(key))

    def _note(self, key: WireKey, sent: Desired | None) -> None:
        assert self._noted is not None
        if sent is None:
            self._sent.pop(key, None)
            self._noted.pop(key, None)
            self._changes[key] = _STRUCK
        elif self._noted.get(key) != sent.identity:
            self._noted[key] = self._changes[key] = sent.identity

    def _release_paced(self, now: float) -> None:
        while self._paced:
            key, until = next(iter(self._paced.items()))
            if until > now:
                return
            del self._paced[key]
            if key in self._again:
                self._again.remove(key)
                self._queue[key] = None

    def _next_frame(self) -> list[Action]:
        """The next frame and its ping, skipping keys of which there is nothing to send."""
        while self._queue:
            key = next(iter(self._queue))
            del self._queue[key]
            if key in self._paced:
                self._again.add(key)
                continue
            frame = self._frame_of(key)
            if frame is not None:
                self._pings += 1
                self._flight = (key, self._sent[key], self._pings)
                return [Send(frame), Ping(self._pings)]
        return []

    def _frame_of(self, key: WireKey) -> bytes | None:
        """What brings ``key`` a step nearer to its desired state; notes it as sent."""
        if not self._gate.may_send(key):
            return None  # looked at again when the gate lets it pass
        want, there = self._state.desired.get(key), self._identity_there(key)
        if there and (want is None or there != want.identity):
            self._sent[key] = None
            if want is not None:
                self._may_insert(key, want)  # so that the record is ready when its turn comes
            return delete_frame_v1(key)
        if want is None or self._has(key, want):
            return None
        frame = insert_frame_v1(want)
        if not self._fits(key, frame):
            return None
        if not self._may_insert(key, want):
            return None  # looked at again when the record has it
        self._sent[key] = want
        return frame

    def _identity_there(self, key: WireKey) -> int:
        """Which incarnation of ``key`` the node may hold; 0: none."""
        assert self._noted is not None
        if key not in self._sent:
            return self._noted.get(key, 0)
        sent = self._sent[key]
        return sent.identity if sent is not None else 0

    def _has(self, key: WireKey, want: Desired) -> bool:
        sent = self._sent.get(key)
        return sent is not None and sent.same_version(want)

    def _may_insert(self, key: WireKey, want: Desired) -> bool:
        """Whether the record says that the node may hold this incarnation; if not, have it noted.

        While the delete of another one may be lost with the node's memory, it may be either.
        """
        assert self._noted is not None
        noted = self._noted.get(key)
        if noted in (want.identity, _UNSURE):
            return True
        # What is asked for already; the latest counts, a strike that follows it does not help.
        asked = self._changes.get(key, (self._committing or {}).get(key))
        if asked not in (want.identity, _UNSURE):
            self._changes[key] = want.identity if noted is None else _UNSURE
        return False
