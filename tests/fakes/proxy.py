"""A TCP proxy that can go bad: swallow everything, be slow, or cut all connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

_CHUNK = 16 * 1024


class Proxy:
    """Relays ``127.0.0.1:port`` to ``host:target``; set its fields at any time."""

    def __init__(self, target: int) -> None:
        self.host = "127.0.0.1"
        self.target = target
        self.port = 0
        self.is_black_hole = False  # nothing passes, and nobody is told
        self.holds_uploads = False  # the same, but what goes to the client passes
        self.bytes_per_second: float | None = None  # towards the client
        self.upload_bytes_per_second: float | None = None  # towards the target
        self.most_bytes: int | None = None  # towards the client, over all; then all is cut
        self._writers: set[asyncio.StreamWriter] = set()
        self._group: asyncio.TaskGroup | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Relay as long as the body runs."""
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            async with asyncio.TaskGroup() as self._group:
                try:
                    yield self
                finally:
                    listener.close()
                    self.cut()
        finally:
            self._group = None

    def cut(self) -> None:
        """Break all connections that exist."""
        for writer in list(self._writers):
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._group is not None
        self._group.create_task(self._relay(reader, writer))

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.target)
        except OSError:
            writer.transport.abort()
            return
        # Small buffers, so that a slow way is felt by the sender soon.
        for each in (writer, far_writer):
            each.transport.set_write_buffer_limits(high=_CHUNK)
        self._writers |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer, is_down=False))
                group.create_task(self._pump(far_reader, writer, is_down=True))
        finally:
            self._writers -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_down: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                while self.is_black_hole or (self.holds_uploads and not is_down):
                    if writer.transport.is_closing():
                        return
                    await asyncio.sleep(0.01)
                rate = self.bytes_per_second if is_down else self.upload_bytes_per_second
                if rate:
                    await asyncio.sleep(len(data) / rate)
                if is_down and self.most_bytes is not None:
                    data, self.most_bytes = data[: self.most_bytes], self.most_bytes - len(data)
                writer.write(data)
                await writer.drain()
                if self.most_bytes is not None and self.most_bytes <= 0:
                    self.most_bytes = None
                    writer.close()  # what is written still arrives
                    await writer.wait_closed()
                    self.cut()
                    return
            if writer.can_write_eof() and not writer.transport.is_closing():
                writer.write_eof()
