"""One connection to GM: what comes down is stored in order, reports go up until they are taken."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from gm import __version__
from gm.edge_stub.keepalive import WatchedConnection
from gm.edge_stub.objects import Held, NotAnObject, identify
from gm.edge_stub.outbox import Outbox, Waiting
from gm.edge_stub.store import Put, Remove, Store, StoreError
from gm.messagelayer import v2
from gm.messagelayer.message import (
    DOWN,
    HELLO_V1,
    INSERT,
    STATUS,
    MalformedFrame,
    UnknownType,
    decode_v1,
    encode_v1,
)

__all__ = ["Applied", "Link", "LinkV1", "LinkV2"]

logger = logging.getLogger(__name__)

Applied = Callable[[Sequence[Put | Remove]], Awaitable[None]]
"""Told of changes that are durable, in order."""

_BATCH = 64
"""Frames that are written to disk in one transaction, if that many have come."""
_REPORTS = 32
"""Reports in flight over v1; over v2 GM says how many it wants."""


class Link(abc.ABC):
    """A live connection; ``is_in_step`` tells whether all has come that was lacking at first."""

    protocol: str
    is_in_step: bool | None = None

    def __init__(
        self, connection: WatchedConnection, *, store: Store, outbox: Outbox, applied: Applied
    ) -> None:
        self._connection, self._store, self._outbox = connection, store, outbox
        self._applied = applied
        self._failure: ConnectionClosed | StoreError | None = None
        # Bounded: a GM that is faster than the disk has to wait. None: nothing more will come.
        self._frames: asyncio.Queue[str | bytes | None] = asyncio.Queue(_BATCH)

    async def run(self) -> ConnectionClosed | StoreError | None:
        """Work until the connection ends or the disk refuses; gives what ended it."""
        try:
            await self._greet()
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read(), name="read")
                sender = group.create_task(self._send(), name="reports")
                await self._apply()
                reader.cancel()
                sender.cancel()
            await self._clean_up(self._failure)
        except (ConnectionClosed, StoreError) as exc:
            self._failure = exc
        finally:
            self._outbox.put_back()
        return self._failure

    async def _read(self) -> None:
        try:
            while True:
                await self._frames.put(await self._connection.recv())
        except ConnectionClosed as exc:
            self._failure = self._failure or exc
            await self._frames.put(None)

    async def _send(self) -> None:
        try:
            await self._send_reports()
        except ConnectionClosed:
            logger.debug("the connection ended while reports were sent")
        except StoreError as exc:
            self._failure = exc
            await self._connection.close(1011)

    async def _apply(self) -> None:
        """Store what came, strictly in the order it came: one key's frames never overtake.

        Also what came before the connection ended: over v1 GM takes it as read.
        """
        while True:
            frames = [await self._frames.get()]
            while not self._frames.empty() and len(frames) < _BATCH:
                frames.append(self._frames.get_nowait())
            try:
                await self._handle([frame for frame in frames if frame is not None])
            except StoreError as exc:
                self._failure = exc
                return
            if None in frames:
                return

    async def _clean_up(self, failure: ConnectionClosed | StoreError | None) -> None:
        """Draw conclusions from the end of the connection."""
        logger.debug("the connection has ended", extra={"cause": str(failure)})

    async def _store_changes(self, changes: Sequence[Put | Remove]) -> None:
        if changes:
            effective = await self._store.apply(changes)
            if effective:
                await self._applied(effective)

    @abc.abstractmethod
    async def _greet(self) -> None:
        """Say hello."""

    @abc.abstractmethod
    async def _handle(self, frames: Sequence[str | bytes]) -> None:
        """Do what ``frames`` say."""

    @abc.abstractmethod
    async def _send_reports(self) -> None:
        """Send reports as they come, for ever."""


def _ignored(exc: Exception) -> None:
    logger.warning("a frame from gm is ignored", extra={"cause": str(exc)})


class LinkV1(Link):
    """Wire v1, Sedna's: no acknowledgements but the pong to a ping that follows."""

    protocol = "v1"

    def __init__(
        self, connection: WatchedConnection, *, store: Store, outbox: Outbox, applied: Applied
    ) -> None:
        super().__init__(connection, store=store, outbox=outbox, applied=applied)
        self._sent: list[Waiting] = []

    async def _greet(self) -> None:
        await self._connection.write(HELLO_V1.decode())

    async def _handle(self, frames: Sequence[str | bytes]) -> None:
        changes: list[Put | Remove] = []
        for frame in frames:
            try:
                change = self._change(frame)
            except (MalformedFrame, NotAnObject) as exc:
                _ignored(exc)
                continue
            if change is not None:
                changes.append(change)
        await self._store_changes(changes)

    @staticmethod
    def _change(frame: str | bytes) -> Put | Remove | None:
        message = decode_v1(frame, operations=DOWN)
        if message is None:
            return None
        if message.operation == INSERT:
            uid = identify(message.key, message.content)
            # Not GM's digest, so it says nothing in a later v2 session; it spares the flash.
            digest = "v1:" + hashlib.sha256(message.content).hexdigest()[:32]
            return Put(Held(message.key, uid, digest), message.content)
        uid = identify(message.key, message.content) if message.content else ""
        return Remove(message.key, uid)

    async def _send_reports(self) -> None:
        while True:
            self._sent = reports = await self._outbox.take(_REPORTS)
            if not reports:
                await self._outbox.wait_news()
                continue
            for report in reports:
                frame = encode_v1(report.key, STATUS, report.content)
                await self._connection.write(frame.decode())
            # The pong says that GM has read everything before the ping.
            await (await self._connection.ping())
            await self._outbox.done([report.id for report in reports])

    async def _clean_up(self, failure: ConnectionClosed | StoreError | None) -> None:
        """Drop the report that GM found too big, or every connection would end with it."""
        received = failure.rcvd if isinstance(failure, ConnectionClosed) else None
        if received is not None and received.code == CloseCode.MESSAGE_TOO_BIG and self._sent:
            largest = max(self._sent, key=lambda report: len(report.content))
            logger.error(
                "a report is too large for gm and is dropped",
                extra={"object": str(largest.key), "bytes": len(largest.content)},
            )
            await self._outbox.done([largest.id])


class LinkV2(Link):
    """Wire v2: GM sends the difference to our inventory, and each side acknowledges."""

    protocol = "v2"
    is_in_step = False

    def __init__(
        self, connection: WatchedConnection, *, store: Store, outbox: Outbox, applied: Applied
    ) -> None:
        super().__init__(connection, store=store, outbox=outbox, applied=applied)
        self._welcome: asyncio.Future[v2.Welcome] = asyncio.get_running_loop().create_future()
        self._is_synced = False
        self._unacknowledged: set[int] = set()
        self._postponed: set[int] = set()  # GM has them, but can do nothing about them yet
        self._acknowledged = asyncio.Event()
        self._is_gm_newer = False  # it has sent frames of a type that is unknown here

    async def _greet(self) -> None:
        inventory = tuple(
            v2.Holding(h.key.kind, h.key.namespace, h.key.name, h.uid, h.digest)
            for h in self._store.held.values()
        )
        hello = v2.Hello(agent=f"gm/{__version__}", inventory=inventory)
        await self._connection.write(v2.encode_v2(hello))

    async def _handle(self, frames: Sequence[str | bytes]) -> None:
        changes: list[Put | Remove] = []
        answers: list[v2.FromEdge] = []
        for frame in frames:
            try:
                if isinstance(frame, str):
                    raise MalformedFrame("a text frame in a gm.v2 session", reason="text")
                message = v2.decode_from_gm(frame)
            except UnknownType as exc:
                self._note_unknown(exc)
                continue
            except MalformedFrame as exc:
                _ignored(exc)
                answers.append(v2.Error(str(exc)))
                continue
            change = self._understand(message, answers)
            if change is not None:
                changes.append(change)
            elif isinstance(message, v2.ReportAck):
                await self._take_acknowledgement(message)
        await self._store_changes(changes)
        if self._is_synced and not self.is_in_step:
            self.is_in_step = True
            logger.info("in step with gm", extra={"objects": len(self._store.held)})
        with contextlib.suppress(ConnectionClosed):  # GM hears of it in the next hello
            for answer in answers:
                await self._connection.write(v2.encode_v2(answer))

    def _note_unknown(self, exc: UnknownType) -> None:
        """Ignore what a newer GM says; it is told of in the log once per connection."""
        if not self._is_gm_newer:
            self._is_gm_newer = True
            logger.debug("a frame from gm is ignored", extra={"cause": str(exc)})

    def _understand(self, message: v2.FromGm, answers: list[v2.FromEdge]) -> Put | Remove | None:
        """The change that ``message`` asks for; its answer, for when that is durable."""
        match message:
            case v2.Put(kind=kind, namespace=namespace, name=name, uid=uid, digest=digest):
                try:
                    identify(message.key, message.content)
                except NotAnObject as exc:
                    _ignored(exc)
                    answers.append(v2.Refused(kind, namespace, name, uid, digest, str(exc)))
                    return None
                answers.append(v2.Ack(kind, namespace, name, uid, digest))
                return Put(Held(message.key, uid, digest), message.content)
            case v2.Delete(kind=kind, namespace=namespace, name=name, uid=uid):
                answers.append(v2.Ack(kind, namespace, name, uid))
                return Remove(message.key, uid)
            case v2.Welcome():
                if not self._welcome.done():
                    self._welcome.set_result(message)
            case v2.Synced():
                self._is_synced = True
            case v2.Error(message=text):
                logger.warning("gm did not understand a frame", extra={"cause": text})
            case _:
                pass
        return None

    async def _take_acknowledgement(self, message: v2.ReportAck) -> None:
        if message.error:
            logger.warning("gm refused a report", extra={"cause": message.error})
        if message.id not in self._unacknowledged | self._postponed:
            return
        self._unacknowledged.discard(message.id)
        if message.later:
            self._postponed.add(message.id)
        else:
            self._postponed.discard(message.id)
            await self._outbox.done([message.id])
        self._acknowledged.set()

    async def _send_reports(self) -> None:
        welcome = await self._welcome
        window = max(1, welcome.report_window)
        while True:
            self._acknowledged.clear()
            room = window - len(self._unacknowledged)
            reports = await self._outbox.take(room) if room > 0 else []
            for report in reports:
                await self._send_report(report, welcome)
            if room <= 0:
                await self._acknowledged.wait()
            elif not reports:
                await self._outbox.wait_news()

    async def _send_report(self, report: Waiting, welcome: v2.Welcome) -> None:
        key = report.key
        held = self._store.held.get(key)
        frame = v2.encode_v2(
            v2.ReportFrame(
                key.kind,
                key.namespace,
                key.name,
                id=report.id,
                content=report.content,
                uid=held.uid if held is not None else "",
            )
        )
        if len(frame) > welcome.max_frame_bytes:
            logger.error(
                "a report is too large for gm and is dropped",
                extra={"object": str(key), "bytes": len(frame), "limit": welcome.max_frame_bytes},
            )
            await self._outbox.done([report.id])
            return
        self._unacknowledged.add(report.id)
        await self._connection.write(frame)
