"""One TCP connection: bytes in, bytes out, timers. What to say is the session's matter.

The library's parser and handshake (Sans-I/O) under a protocol class of our own: no task and no
queue per connection, so that ten thousand idle nodes cost little, and a single writer by
construction, since everything happens in callbacks of one loop.
"""

from __future__ import annotations

import asyncio
import enum
import http
import logging
import struct
from typing import Protocol, cast

from websockets.exceptions import InvalidMessage
from websockets.frames import Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State

from gm.config import WebsocketConfig
from gm.messagelayer.allowance import Allowance
from gm.messagelayer.auth import Authenticator, HandshakeRefused, node_name
from gm.messagelayer.handshake import BAD_REQUEST, WebsocketProtocol
from gm.messagelayer.hub import Hub
from gm.messagelayer.incoming import Incoming
from gm.messagelayer.liveness import Liveness, Verdict, unsent_bytes
from gm.messagelayer.message import MalformedFrame, UnknownType, server_frame
from gm.messagelayer.record import Claim
from gm.messagelayer.session import REVOKED, Action, Close, Commit, Ping, Send, Session, Timing

__all__ = ["Connection", "Host"]

logger = logging.getLogger(__name__)

_WRITE_HIGH_BYTES = 64 * 1024  # above it a session gets no room for more
_JOIN_BYTES = 32 * 1024  # frames up to this size go out in one write with their ping
_UNREAD_ANSWERS_BYTES = 64 * 1024  # pongs and acknowledgements behind what the peer does not read
_MALFORMED_PER_MINUTE = 100
_REFUSALS_PER_MINUTE = 100  # of all peers together: log lines, not refusals
_PORTION_BYTES = 16 * 1024
_PORTION = memoryview(bytearray(_PORTION_BYTES))  # one for all: it is never kept
_KEEPALIVE = server_frame(Opcode.PING, b"")
_PONG_NUMBER = struct.Struct(">I")
_PING_HEADER = bytes([0x80 | Opcode.PING, _PONG_NUMBER.size])


class Host(Protocol):
    """The server, as its connections see it."""

    hub: Hub
    settings: WebsocketConfig
    timing: Timing
    authenticator: Authenticator
    refusals: Allowance

    def joined(self, connection: Connection) -> None:
        """A TCP connection has been accepted."""

    def left(self, connection: Connection) -> None:
        """It is closed."""

    def make_session(self, node: str, subprotocol: str | None) -> Session:
        """A session for ``node``, attached to the hub."""

    def admit(self, connection: Connection, node: str) -> None:
        """Call ``connection.accept`` as soon as the limits allow, or raise HandshakeRefused."""


class _Phase(enum.Enum):
    HANDSHAKE = "handshake"
    OPEN = "open"
    CLOSING = "closing"
    LOST = "lost"


class Connection(asyncio.BufferedProtocol):
    """From accept to close; owns the session of its node as long as no newer one exists.

    What comes in is read in portions, one per turn of the loop, so that a node that floods delays
    others by what a portion costs. Without that uvloop reads megabytes at a time from one socket.
    """

    __slots__ = (
        "_claim",
        "_host",
        "_incoming",
        "_is_busy",
        "_is_deaf",
        "_is_full",
        "_is_newer",
        "_is_resting",
        "_is_writable",
        "_liveness",
        "_loop",
        "_malformed",
        "_opened_at",
        "_phase",
        "_phase_ends",
        "_proof",
        "_protocol",
        "_pump_handle",
        "_response",
        "_session",
        "_tail",
        "_timer",
        "_timer_at",
        "_transport",
        "_unread_answers",
        "_written",
        "node",
    )

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self.node = ""
        self._host, self._loop = host, loop
        self._protocol = WebsocketProtocol(max_size=host.settings.max_frame_bytes)
        self._phase = _Phase.HANDSHAKE
        self._phase_ends = loop.time() + host.timing.handshake_seconds
        self._response: Response | None = None
        self._proof, self._tail = "", b""
        self._session: Session | None = None
        self._claim: Claim | None = None
        self._liveness: Liveness | None = None
        self._incoming: Incoming | None = None  # from the end of the handshake
        self._is_busy = False
        # Nothing is read while there is no room for what it says, answers are not taken, or it is
        # the others' turn.
        self._is_full = self._is_deaf = self._is_resting = False
        self._unread_answers = 0  # bytes written while the peer did not read
        self._is_writable = True
        self._malformed: Allowance | None = None
        self._is_newer = False  # the peer has sent frames of a type that is unknown here
        self._opened_at = 0.0
        self._written = 0
        # uvloop makes a plain handle, which knows no time, of a deadline that has passed.
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._pump_handle: asyncio.Handle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.BufferedProtocol`."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._host.joined(self)
        self._arm()

    def get_buffer(self, sizehint: int) -> memoryview:
        """See :class:`asyncio.BufferedProtocol`; what is read is taken before the next read."""
        return _PORTION

    def buffer_updated(self, nbytes: int) -> None:
        """See :class:`asyncio.BufferedProtocol`."""
        if nbytes == _PORTION_BYTES and not self._is_resting:
            self._set_reading(is_resting=True)
            self._loop.call_soon(self._end_rest)
        self._receive(bytes(_PORTION[:nbytes]))

    def _end_rest(self) -> None:
        self._set_reading(is_resting=False)

    def _receive(self, data: bytes) -> None:
        self._is_busy = True  # one turn of the session at the end is enough
        try:
            incoming = self._incoming
            if incoming is None:
                self._receive_handshake(data)
                self._flush()
            else:
                if self._liveness is not None:
                    self._liveness.heard(self._loop.time())
                self._take(incoming.feed(data))
                if incoming.has_answers:
                    incoming.has_answers = False
                    self._flush()
        except Exception as exc:
            self._crash(exc)
        self._is_busy = False
        self._pump()

    def eof_received(self) -> None:
        """See :class:`asyncio.BufferedProtocol`; returning None closes the transport.

        It closes only when all is sent, which on a broken link is never: so the session ends now.
        """
        self._protocol.receive_eof()
        self._flush()
        self._end_within(self._host.timing.close_seconds)

    def pause_writing(self) -> None:
        """See :class:`asyncio.BufferedProtocol`."""
        self._is_writable = False

    def resume_writing(self) -> None:
        """See :class:`asyncio.BufferedProtocol`."""
        self._is_writable = True
        self._unread_answers = 0
        self._set_reading(is_deaf=False)
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.BufferedProtocol`."""
        self._leave()
        if self.node:
            closed = self._protocol.close_rcvd or self._protocol.close_sent
            logger.info(
                "node disconnected",
                extra={
                    "node": self.node,
                    "seconds": round(self._loop.time() - self._opened_at, 3),
                    "code": closed.code if closed else 1006,
                    "reason": (closed.reason if closed else "") or str(exc or ""),
                },
            )
        self._phase = _Phase.LOST
        self._host.left(self)
        for handle in (self._timer, self._pump_handle):
            if handle is not None:
                handle.cancel()

    # Handshake.

    def _receive_handshake(self, data: bytes) -> None:
        """Read the request; a client has to wait for the answer before it sends frames."""
        head, end, early = (self._tail + data).partition(b"\r\n\r\n")
        self._tail = head[-3:]
        if not early:
            self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._handshake(event)
        if (end and early) or isinstance(self._protocol.handshake_exc, InvalidMessage):
            self._answer_garbage()

    def _handshake(self, request: Request) -> None:
        try:
            response = self._protocol.accept(request)
            if response.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS:
                self._host.hub.counters[f"handshakes_refused_{response.status_code}"] += 1
                self._protocol.send_response(response)
                return
            node = node_name(request.headers)
            tls = self._transport.get_extra_info("ssl_object")
            self._proof = self._host.authenticator.check(node, request, tls)
            self._response, self.node = response, node
            self._set_reading(is_full=True)  # no frame may come before the answer is out
            self._host.admit(self, node)
        except HandshakeRefused as exc:
            self.refuse(exc)

    def accept(self) -> None:
        """Answer the handshake and begin the session."""
        if self._phase is not _Phase.HANDSHAKE or self._response is None:
            return
        try:
            self._protocol.send_response(self._response)
            self._response = None
            self._flush()
            self._open()
        except Exception as exc:
            self._crash(exc)
        self._pump()

    def refuse(self, refusal: HandshakeRefused) -> None:
        """Answer the handshake with an HTTP error and end the connection."""
        if self._phase is not _Phase.HANDSHAKE:
            return
        self._host.hub.counters[f"handshakes_refused_{refusal.status}"] += 1
        count = self._host.refusals.spend(self._loop.time())
        if count <= _REFUSALS_PER_MINUTE:
            logger.warning(
                "connection refused",
                extra={"status": refusal.status, "reason": str(refusal), "peer": self._peer()},
            )
        elif count == _REFUSALS_PER_MINUTE + 1:
            logger.warning("more connections are refused, and only counted for a minute")
        self.node = ""
        response = self._protocol.reject(refusal.status, f"{refusal}\n")
        if refusal.retry_after_seconds:
            response.headers["Retry-After"] = str(refusal.retry_after_seconds)
        self._protocol.send_response(response)
        self._flush()

    def _answer_garbage(self) -> None:
        """The library hangs up on what is not HTTP; a client with a bad header wants to know."""
        if self._phase is _Phase.HANDSHAKE and not self._written:
            self._host.hub.counters["handshakes_refused_400"] += 1
            self._write(BAD_REQUEST)
            self._transport.close()
            self._end_within(self._host.timing.close_seconds)

    def _open(self) -> None:
        now = self._loop.time()
        settings = self._host.settings
        self._phase, self._opened_at = _Phase.OPEN, now
        self._liveness = Liveness(
            now, interval=settings.ping_interval_seconds, timeout=settings.ping_timeout_seconds
        )
        self._incoming = Incoming(self._protocol, max_bytes=settings.max_frame_bytes)
        self._session = session = self._host.make_session(self.node, self._protocol.subprotocol)
        session.wake, session.resume_reading = self._wake, self._resume_reading
        session.silent_seconds = self._silent_seconds
        self._resume_reading()
        logger.info(
            "node connected",
            extra={"node": self.node, "protocol": session.protocol, "peer": self._peer()},
        )
        self._claim = session.claim(self._host.hub.record)

    def check_proof(self) -> None:
        """Close if what proved the node's identity has been revoked since."""
        is_open = self._phase is _Phase.OPEN
        if is_open and not self._host.authenticator.is_valid(self.node, self._proof):
            self.close(REVOKED, "the token of this node was revoked")

    # Messages.

    def _take(self, messages: list[tuple[Opcode, bytes]]) -> None:
        for opcode, payload in messages:
            if self._session is None:
                return
            if opcode is not Opcode.PONG:
                self._message(self._session, payload, is_text=opcode is Opcode.TEXT)
            elif len(payload) == _PONG_NUMBER.size:
                self._session.ponged(_PONG_NUMBER.unpack(payload)[0], self._loop.time())

    def _message(self, session: Session, payload: bytes, *, is_text: bool) -> None:
        hub = self._host.hub
        hub.counters["frames_in"] += 1
        try:
            report = session.receive(payload, is_text=is_text, now=self._loop.time())
        except UnknownType as exc:
            self._count_unknown(exc)
            return
        except MalformedFrame as exc:
            session.complain(exc)
            self._count_malformed(exc)
            return
        if report is not None and not hub.submit(report):
            self._set_reading(is_full=True)

    def _count_unknown(self, exc: UnknownType) -> None:
        """Ignore what a newer agent says; it is told of in the log once per session."""
        self._host.hub.counters["frames_unknown"] += 1
        if not self._is_newer:
            self._is_newer = True
            logger.debug("frame ignored", extra={"node": self.node, "reason": str(exc)})

    def _count_malformed(self, exc: MalformedFrame) -> None:
        """Ignore a malformed frame, with a log line each minute; too many end the session."""
        self._host.hub.counters[f"frames_malformed_{exc.reason}"] += 1
        self._malformed = self._malformed or Allowance(seconds=60)
        count = self._malformed.spend(self._loop.time())
        if count == 1:
            logger.warning("frame ignored", extra={"node": self.node, "reason": str(exc)})
        if count > _MALFORMED_PER_MINUTE:
            self.close(exc.close_code, "too many malformed frames")

    # The session's turn.

    def _wake(self) -> None:
        if self._pump_handle is None and not self._is_busy and self._phase is _Phase.OPEN:
            self._pump_handle = self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Let the session act."""
        if self._pump_handle is not None:
            self._pump_handle.cancel()
            self._pump_handle = None
        try:
            if self._session is not None and self._phase is _Phase.OPEN:
                actions = self._session.poll(self._loop.time(), room=self._is_writable)
                if actions:
                    self._perform(actions)
        except Exception as exc:
            self._crash(exc)
        self._arm()

    def _perform(self, actions: list[Action]) -> None:
        out: list[bytes] = []
        for action in actions:
            match action:
                case Send(frame=frame):
                    self._host.hub.counters["frames_out"] += 1
                    out.append(frame)
                case Ping(number=number):
                    out.append(_PING_HEADER + _PONG_NUMBER.pack(number))
                case Commit(changes=changes):
                    assert self._claim is not None
                    self._claim.commit(changes)
                case Close(code=code, reason=reason):
                    self._write_all(out)
                    self.close(code, reason)
                    return
        self._write_all(out)

    # Time.

    def _arm(self) -> None:
        """Wake up at the next deadline; a timer that fires too early is cheaper than a new one."""
        if self._phase is _Phase.LOST:
            return
        when = self._deadline()
        if self._timer is not None and not self._timer.cancelled():
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._on_timer)

    def _deadline(self) -> float:
        if self._phase is not _Phase.OPEN or self._liveness is None:
            return self._phase_ends
        when = self._liveness.deadline
        session = self._session.deadline if self._session is not None else None
        return when if session is None else min(when, session)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._phase is not _Phase.OPEN:
            if now >= self._phase_ends:
                self._transport.abort()
                return
        elif self._liveness is not None:
            self._check_liveness(self._liveness, now)
        self._pump()

    def _check_liveness(self, liveness: Liveness, now: float) -> None:
        if self._is_full:
            liveness.heard(now)  # we do not listen, so silence proves nothing
        match liveness.check(now, gone_out=self._written - unsent_bytes(self._transport)):
            case Verdict.PROBE:
                self._write(_KEEPALIVE)
            case Verdict.DEAD:
                self._host.hub.counters["sessions_dead"] += 1
                logger.warning("no progress on the link", extra={"node": self.node})
                self._protocol.fail(1011, "no progress on the link")
                self._transport.abort()

    def _silent_seconds(self) -> float:
        assert self._liveness is not None, "only an open connection has a session"
        return self._liveness.silent_seconds(self._loop.time())

    # The end.

    def close(self, code: int, reason: str) -> None:
        """Begin the closing handshake, or just hang up where there is no session yet."""
        if self._phase is _Phase.OPEN and self._protocol.state is State.OPEN:
            self._protocol.send_close(code, _shortened(reason))
            self._flush()
            self._end_within(self._host.timing.close_seconds)
        elif self._phase is _Phase.HANDSHAKE:
            self._transport.abort()

    def abort(self) -> None:
        """Hang up at once."""
        self._transport.abort()

    def _end_within(self, seconds: float) -> None:
        if self._phase in (_Phase.HANDSHAKE, _Phase.OPEN):
            self._phase = _Phase.CLOSING
            self._phase_ends = self._loop.time() + seconds
            self._leave()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._arm()

    def _leave(self) -> None:
        """Give up the session; from now on nothing of it is sent or taken."""
        session, self._session = self._session, None
        if session is not None:
            self._host.hub.detach(session)
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def _crash(self, exc: Exception) -> None:
        """Turn a bug into the end of this one connection, never into a silent half-life."""
        logger.error("connection failed", extra={"node": self.node}, exc_info=exc)
        self._protocol.fail(1011, "internal error")
        self._flush()
        self._transport.close()
        self._end_within(min(1.0, self._host.timing.close_seconds))

    # Bytes.

    def _flush(self) -> None:
        """Write what the library wants written; its end mark half-closes the connection."""
        for data in self._protocol.data_to_send():
            if data:
                if not self._is_writable:
                    self._count_answers(len(data))
                self._write(data)
                continue
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()
        if self._protocol.close_expected():
            self._end_within(self._host.timing.close_seconds)

    def _write_all(self, out: list[bytes]) -> None:
        if out and not self._is_writable:  # what went out without room can only be answers
            self._count_answers(sum(map(len, out)))
        if len(out) > 1 and sum(map(len, out)) <= _JOIN_BYTES:
            out = [b"".join(out)]
        for data in out:
            self._write(data)

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def _resume_reading(self) -> None:
        self._set_reading(is_full=False)

    def _set_reading(
        self,
        *,
        is_full: bool | None = None,
        is_deaf: bool | None = None,
        is_resting: bool | None = None,
    ) -> None:
        """Read only while none of these is so; None: as before."""
        was_reading = not (self._is_full or self._is_deaf or self._is_resting)
        if is_full is not None:
            self._is_full = is_full
        if is_deaf is not None:
            self._is_deaf = is_deaf
        if is_resting is not None:
            self._is_resting = is_resting
        reads = not (self._is_full or self._is_deaf or self._is_resting)
        if reads is was_reading or self._transport.is_closing():
            return
        if not reads:
            self._transport.pause_reading()
            return
        if self._liveness is not None:
            self._liveness.heard(self._loop.time())
        self._transport.resume_reading()

    def _count_answers(self, size: int) -> None:
        """Take no more of what has to be answered from a peer that does not read the answers."""
        self._unread_answers += size
        if self._unread_answers > _UNREAD_ANSWERS_BYTES:
            self._set_reading(is_deaf=True)

    def _peer(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if peer else "unknown"


def _shortened(reason: str) -> str:
    """A close frame has room for 123 bytes."""
    return reason.encode()[:123].decode(errors="ignore")
