"""Reading logs: tail, since, limits, rotation, following."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gm.edge_stub.runner.log_file import LogOptions, last_lines, log_stream
from gm.edge_stub.runner.shim import Log

LINES = [f"2026-01-02T03:04:0{second}.000000000Z stdout F line {second}\n" for second in range(6)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of six lines."""
    file = tmp_path / "0.log"
    file.write_text("".join(LINES))
    return file


async def read(path: Path, *, is_over: Callable[[], bool] = lambda: True, **options: Any) -> str:
    """The whole stream as text."""
    stream = log_stream(path, LogOptions(**options), is_over=is_over, poll_seconds=0.005)
    return b"".join([piece async for piece in stream]).decode()


async def test_all_lines_without_their_stamps(path: Path) -> None:
    """As they were printed."""
    assert await read(path) == "".join(f"line {n}\n" for n in range(6))


async def test_timestamps(path: Path) -> None:
    """In front of each line."""
    assert (await read(path, timestamps=True)).splitlines()[0] == (
        "2026-01-02T03:04:00.000000000Z line 0"
    )


@pytest.mark.parametrize(("count", "first"), [(2, 4), (100, 0)])
async def test_tail(path: Path, count: int, first: int) -> None:
    """The last lines, or all there are."""
    assert await read(path, tail_lines=count) == "".join(f"line {n}\n" for n in range(first, 6))


async def test_a_tail_of_nothing(path: Path) -> None:
    """Zero lines, for following only."""
    assert await read(path, tail_lines=0) == ""


async def test_since(path: Path) -> None:
    """From a moment on, together with a tail."""
    since = datetime(2026, 1, 2, 3, 4, 3, tzinfo=UTC)
    assert await read(path, since=since) == "line 3\nline 4\nline 5\n"
    assert await read(path, since=since, tail_lines=1) == "line 5\n"


async def test_a_limit_of_bytes_cuts_within_a_line(path: Path) -> None:
    """And ends a follower, too."""
    assert await read(path, limit_bytes=10) == "line 0\nlin"
    assert await read(path, limit_bytes=10, follow=True, is_over=lambda: False) == "line 0\nlin"


async def test_parts_of_a_line_are_joined_and_count_once(path: Path) -> None:
    """The shim splits long lines."""
    path.write_text(
        "T1 stdout F a\nT2 stdout P b1\nT3 stdout P b2\nT4 stdout F b3\nT5 stdout P c1\n"
    )
    assert await read(path) == "a\nb1b2b3\nc1"
    assert await read(path, tail_lines=2, timestamps=True) == "T2 b1b2b3\nT5 c1"


async def test_what_is_no_entry_is_left_out(path: Path) -> None:
    """A crash in a write must not break the reader."""
    path.write_text("torn\nT1 stdout F a\nT2 std")
    assert await read(path) == "a\n"


async def test_the_rotated_file_comes_first(path: Path) -> None:
    """The log is both."""
    path.with_name("0.log.1").write_text("T0 stdout F older\n")
    assert (await read(path)).startswith("older\nline 0\n")


async def test_no_log_is_an_empty_log(tmp_path: Path) -> None:
    """A container that never ran."""
    assert await read(tmp_path / "none") == ""
    assert await read(tmp_path / "none", follow=True) == ""
    assert last_lines(tmp_path / "none", lines=1, max_bytes=10) == ""


async def test_many_lines_come_in_pieces_and_others_run_in_between(path: Path) -> None:
    """A large log must not hold up the node."""
    path.write_text("".join(f"T stdout F {n:0100}\n" for n in range(5000)))
    pieces = [
        piece
        async for piece in log_stream(path, LogOptions(), is_over=lambda: True, poll_seconds=0.005)
    ]
    assert len(pieces) > 5
    assert len(b"".join(pieces).splitlines()) == 5000


async def test_following_goes_on_across_rotation_until_the_end(tmp_path: Path) -> None:
    """Nothing is lost and nothing comes twice."""
    path, over = tmp_path / "0.log", False
    log = Log(str(path), 4000)
    log.write("stdout", b"first\n")
    seen: list[str] = []

    async def follow() -> None:
        stream = log_stream(path, LogOptions(follow=True), is_over=lambda: over, poll_seconds=0.001)
        async for piece in stream:
            seen.extend(piece.decode().splitlines())

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(follow())
        for n in range(300):
            log.write("stdout", f"line {n}\n".encode())
            while seen[-1:] != [f"line {n}"]:
                await asyncio.sleep(0.001)
        log.write("stderr", b"without end")
        log.close()
        over = True
    assert path.with_name("0.log.1").exists(), "it was rotated"
    assert seen == ["first", *(f"line {n}" for n in range(300)), "without end"]


async def test_a_follower_waits_for_a_log_that_does_not_exist_yet(tmp_path: Path) -> None:
    """The container starts in a moment."""
    path, over = tmp_path / "0.log", False
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        reading = group.create_task(read(path, follow=True, is_over=lambda: over))
        await asyncio.sleep(0.02)
        path.write_text("T stdout F late\n")
        over = True
    assert reading.result() == "late\n"


def test_last_lines(path: Path) -> None:
    """For the termination message."""
    assert last_lines(path, lines=2, max_bytes=100) == "line 4\nline 5\n"
    assert last_lines(path, lines=2, max_bytes=5) == "ne 5\n"
