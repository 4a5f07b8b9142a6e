"""Whether a link makes progress: finds half-open ones without giving up slow ones."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import fcntl
import struct
import termios

__all__ = ["MIN_PROGRESS_BYTES", "Liveness", "Verdict", "unsent_bytes"]

MIN_PROGRESS_BYTES = 16 * 1024
"""What must leave per timeout for a link on which nothing comes in to count as alive."""


class Verdict(enum.Enum):
    """What to do about a link."""

    ALIVE = "alive"
    PROBE = "probe"  # send a ping
    DEAD = "dead"


class Liveness:
    """Deadlines of one link; times in seconds of any one clock.

    After ``interval`` seconds without a byte from the peer a ping is due; from then on, each
    ``timeout`` seconds, something must have come in or 16 KiB gone out.
    """

    __slots__ = ("_due", "_gone_out", "_heard", "_interval", "_is_probing", "_timeout")

    def __init__(self, now: float, *, interval: float, timeout: float) -> None:
        self._interval, self._timeout = interval, timeout
        self._heard = now
        self._is_probing = False
        self._due = now + interval
        self._gone_out = 0

    def heard(self, now: float) -> None:
        """Something came in."""
        self._heard = now
        self._is_probing = False

    def silent_seconds(self, now: float) -> float:
        """How long ago something came in."""
        return now - self._heard

    @property
    def deadline(self) -> float:
        """When to :meth:`check` next."""
        return self._due if self._is_probing else self._heard + self._interval

    def check(self, now: float, *, gone_out: int) -> Verdict:
        """The verdict at ``now``; ``gone_out`` counts all bytes that the peer has taken so far."""
        if now < self.deadline:
            return Verdict.ALIVE
        if not self._is_probing:
            self._is_probing = True
            self._restart(now, gone_out)
            return Verdict.PROBE
        if gone_out - self._gone_out < MIN_PROGRESS_BYTES:
            return Verdict.DEAD
        self._restart(now, gone_out)
        return Verdict.ALIVE

    def _restart(self, now: float, gone_out: int) -> None:
        self._due = now + self._timeout
        self._gone_out = gone_out


def unsent_bytes(transport: asyncio.Transport) -> int:
    """What has been written, but not yet acknowledged by the peer's kernel."""
    unsent = transport.get_write_buffer_size()
    sock = transport.get_extra_info("socket")
    if sock is None:  # uvloop: closed before anybody asked for it
        return unsent
    with contextlib.suppress(OSError, ValueError):  # closed meanwhile
        unsent += struct.unpack("=i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    return unsent
