"""Reads a container's log as the shim wrote it: last lines, since a moment, and following."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

__all__ = ["LogOptions", "last_lines", "log_stream"]

_CHUNK_BYTES = 65536


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines, and how: the options of ``kubectl logs``."""

    follow: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


class _Line(msgspec.Struct, frozen=True):
    """One line, or a part of one if ``is_partial``."""

    stamp: bytes
    text: bytes
    is_partial: bool


def _parse(raw: bytes) -> _Line | None:
    """``TIME STREAM F|P TEXT``; None for what is no entry, such as after a crash in a write."""
    parts = raw.removesuffix(b"\n").split(b" ", 3)
    if len(parts) != 4:
        return None
    return _Line(parts[0], parts[3], parts[2] == b"P")


class _File:
    """An open log file; `lines` gives complete lines only, what is new with each call."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._rest = file, b""
        self.inode = os.fstat(file.fileno()).st_ino

    @classmethod
    def open(cls, path: Path) -> _File | None:
        """None if there is no such file."""
        try:
            return cls(path.open("rb"))
        except FileNotFoundError:
            return None

    def lines(self) -> Iterator[_Line]:
        """The lines since the last call."""
        while data := self._file.read(_CHUNK_BYTES):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for raw in lines:
                line = _parse(raw)
                if line is not None:
                    yield line

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _older(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _open_both(path: Path) -> list[_File]:
    """The rotated file, if any, and the current one; a file is not opened under both names."""
    current, older = _File.open(path), _File.open(_older(path))
    if current is not None and older is not None and older.inode == current.inode:
        older.close()  # rotated between the two calls
        older = None
    return [file for file in (older, current) if file is not None]


def _selected(lines: Iterable[_Line], options: LogOptions) -> Iterable[_Line]:
    if options.since is not None:
        since = options.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode()
        lines = (line for line in lines if line.stamp >= since)  # same form: sorts as text
    if options.tail_lines is None:
        return lines
    kept: collections.deque[list[_Line]] = collections.deque(maxlen=options.tail_lines)
    begun: list[_Line] = []
    for line in lines:
        begun.append(line)
        if not line.is_partial:
            kept.append(begun)
            begun = []
    if begun:
        kept.append(begun)
    return [line for group in kept for line in group]


class _Output:
    """Formats lines, and counts bytes where there is a limit."""

    def __init__(self, options: LogOptions) -> None:
        self._timestamps, self._left = options.timestamps, options.limit_bytes
        self._at_line_start = True

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._left is not None and self._left <= 0

    def format(self, line: _Line) -> bytes:
        """What a reader sees of ``line``."""
        stamp = line.stamp + b" " if self._timestamps and self._at_line_start else b""
        self._at_line_start = not line.is_partial
        data = stamp + line.text + (b"" if line.is_partial else b"\n")
        if self._left is not None:
            data = data[: max(0, self._left)]
            self._left -= len(data)
        return data


async def log_stream(
    path: Path, options: LogOptions, *, is_over: Callable[[], bool], poll_seconds: float
) -> AsyncIterator[bytes]:
    """The log at ``path`` in pieces; with ``follow`` until ``is_over`` and all is read.

    Rotation is followed; of a log that is rotated twice between two looks, a part is lost.
    """
    with contextlib.ExitStack() as stack:
        files = _open_both(path)
        for file in files:
            stack.callback(file.close)
        output = _Output(options)
        stored = _selected((line for file in files for line in file.lines()), options)
        async for piece in _pieces(stored, output):
            yield piece
        current = files[-1] if files else None
        while options.follow and not output.is_full:
            over = is_over()  # asked before reading: then nothing can come after the last read
            newer = _newer(path, current)
            if current is not None:
                async for piece in _pieces(current.lines(), output):
                    yield piece
            if newer is not None:
                stack.callback(newer.close)
                current = newer
            elif over:
                return
            else:
                await asyncio.sleep(poll_seconds)


def _newer(path: Path, current: _File | None) -> _File | None:
    """The file that has taken the place of ``current``, if one has."""
    file = _File.open(path)
    if file is not None and current is not None and file.inode == current.inode:
        file.close()
        return None
    return file


async def _pieces(lines: Iterable[_Line], output: _Output) -> AsyncIterator[bytes]:
    """``lines`` formatted, many in one piece, letting others run in between."""
    buffer = bytearray()
    for line in lines:
        buffer += output.format(line)
        if output.is_full:
            break
        if len(buffer) >= _CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
            await asyncio.sleep(0)
    if buffer:
        yield bytes(buffer)


def last_lines(path: Path, *, lines: int, max_bytes: int) -> str:
    """The end of the current log file as text, at most so many lines and bytes."""
    file = _File.open(path)
    if file is None:
        return ""
    try:
        chosen = _selected(file.lines(), LogOptions(tail_lines=lines))
        output = _Output(LogOptions())
        text = b"".join(output.format(line) for line in chosen)
    finally:
        file.close()
    return text[-max_bytes:].decode(errors="replace")
