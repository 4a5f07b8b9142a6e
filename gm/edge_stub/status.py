"""What ``gm edge status`` tells: the link, the objects held, the reports that wait.

A Local Controller that runs answers on a socket in its state directory, which only its user may
open; otherwise what lies on its disk is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from gm.edge_stub.store import StoreBusy, StoreError, peek

__all__ = [
    "EdgeStatus",
    "LinkStatus",
    "ObjectStatus",
    "ReportStatus",
    "as_json",
    "read_status",
    "render",
    "serving_status",
    "status_of_disk",
]

logger = logging.getLogger(__name__)

SOCKET_NAME = "lc.sock"
_PROC_DESCRIPTORS = Path("/proc/self/fd")
_SEND_SECONDS = 2.0
_ANSWER_SECONDS = 5.0


class LinkStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The connection to GM: since when it is as it is, and what ended the last one.

    ``in_step`` is set once the node has got all that it lacked when it connected; v1 can not tell.
    """

    gm: str
    connected: bool
    protocol: str = ""
    in_step: bool | None = None
    since: datetime | None = None
    cause: str = ""
    retry_at: datetime | None = None


class ObjectStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An object that the node holds."""

    kind: str
    namespace: str
    name: str
    uid: str


class ReportStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A report that GM has not taken yet; kind ``default`` until it is known whose it is."""

    kind: str
    namespace: str
    name: str
    worker: str
    bytes: int


class EdgeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Local Controller as it is now; ``node`` and what follows is known only while it runs."""

    running: bool
    objects: tuple[ObjectStatus, ...]
    outbox: tuple[ReportStatus, ...]
    node: str | None = None
    pid: int | None = None
    worker_api: str | None = None
    link: LinkStatus | None = None


_decode = msgspec.json.Decoder(EdgeStatus).decode


# The Local Controller's side.


def status_of_disk(
    database: sqlite3.Connection,
) -> tuple[tuple[ObjectStatus, ...], tuple[ReportStatus, ...]]:
    """Objects and reports in a Local Controller's database."""
    objects = database.execute(
        "select kind, namespace, name, uid from objects order by kind, namespace, name"
    )
    reports = database.execute(
        "select kind, namespace, name, worker, length(content) from outbox order by id"
    )
    return (
        tuple(ObjectStatus(kind=r[0], namespace=r[1], name=r[2], uid=r[3]) for r in objects),
        tuple(
            ReportStatus(kind=r[0], namespace=r[1], name=r[2], worker=r[3], bytes=r[4])
            for r in reports
        ),
    )


@contextlib.asynccontextmanager
async def serving_status(
    directory: Path, make: Callable[[], Awaitable[EdgeStatus]]
) -> AsyncIterator[None]:
    """Tell whoever connects to the socket in ``directory`` the status, as long as the body runs.

    Where there can be no socket the Local Controller does without: nothing depends on it.
    """
    path = directory / SOCKET_NAME
    try:
        listener = _listen(path)
    except OSError as exc:
        logger.warning(
            "gm edge status will not get an answer",
            extra={"file": str(path), "cause": exc.strerror or str(exc)},
        )
        yield
        return
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_answer(listener, make), name="status")
            yield
            task.cancel()
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # of a process that was killed: the database's lock is ours
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.setblocking(False)
        with _address(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


async def _answer(listener: socket.socket, make: Callable[[], Awaitable[EdgeStatus]]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        connection, _ = await loop.sock_accept(listener)
        with connection:
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await loop.sock_sendall(connection, msgspec.json.encode(await make()))
            except (OSError, TimeoutError, StoreError) as exc:
                logger.warning("status can not be told", extra={"cause": str(exc)})


# The other side.


def read_status(directory: Path) -> EdgeStatus:
    """The status of the Local Controller whose state directory this is.

    Raises: StoreError when it runs and does not answer, or when there is nothing to read.
    """
    running = _ask(directory)
    if running is not None:
        return running
    try:
        objects, reports = peek(directory, status_of_disk)
    except StoreBusy:
        raise StoreError(
            f"--state {directory}: the local controller runs, but it does not answer; "
            "look at its log"
        ) from None
    return EdgeStatus(running=False, objects=objects, outbox=reports)


def _ask(directory: Path) -> EdgeStatus | None:
    """What a Local Controller that runs says; None if none does."""
    try:
        with (
            socket.socket(socket.AF_UNIX) as connection,
            _address(directory / SOCKET_NAME) as address,
        ):
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(address)
            with connection.makefile("rb") as answer:
                return _decode(answer.read())
    except PermissionError:
        raise StoreError(
            f"--state {directory}: not readable; run this as the local controller's user"
        ) from None
    except (OSError, msgspec.MsgspecError):
        return None


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """A name of ``path`` that is short enough for a socket, however deep its directory lies."""
    if not _PROC_DESCRIPTORS.is_dir():
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"{_PROC_DESCRIPTORS}/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


# For programs and people.


def as_json(status: EdgeStatus) -> str:
    """``status`` as JSON."""
    return msgspec.json.format(msgspec.json.encode(status), indent=2).decode() + "\n"


def render(status: EdgeStatus, now: datetime) -> str:
    """``status`` as lines of text."""
    lines = [f"node:              {status.node}"] if status.node else []
    if status.running:
        lines.append(f"local controller:  running (pid {status.pid})")
        lines.append(f"worker API:        {status.worker_api}")
    else:
        lines.append("local controller:  not running; what follows is what lies on its disk")
    if status.link is not None:
        lines.append(f"link:              {_link(status.link, now)}")
    lines.append(f"objects:           {len(status.objects) or 'none'}")
    lines += _columns([(o.kind, f"{o.namespace}/{o.name}") for o in status.objects])
    lines.append(f"outbox:            {_waiting(len(status.outbox))}")
    lines += _columns(
        [
            (r.kind, f"{r.namespace}/{r.name}", r.worker or "-", f"{r.bytes} bytes")
            for r in status.outbox
        ]
    )
    return "\n".join(lines) + "\n"


def _waiting(count: int) -> str:
    return "1 report waits for GM" if count == 1 else f"{count or 'no'} reports wait for GM"


def _link(link: LinkStatus, now: datetime) -> str:
    if link.connected:
        step = {True: ", in step", False: ", catching up", None: ""}[link.in_step]
        return f"connected to {link.gm} for {_age(link.since, now)}, {link.protocol}{step}"
    text = f"not connected to {link.gm}"
    if link.since is not None:
        text += f" for {_age(link.since, now)}"
    if link.cause:
        text += f": {link.cause}"
    if link.retry_at is not None:
        text += f"; next attempt in {max(0, round((link.retry_at - now).total_seconds()))}s"
    return text


def _age(since: datetime | None, now: datetime) -> str:
    """As kubectl writes it, in its shortest form."""
    seconds = max(0, int((now - since).total_seconds())) if since is not None else 0
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
