"""Log lines for people and for programs."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Iterator

import msgspec
import pytest

from gm import logs
from gm.logs import log_fields

logger = logging.getLogger("gm.test")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """The root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    access = logging.getLogger("aiohttp.access").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("aiohttp.access").setLevel(access)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    """What was logged as JSON."""
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_json_lines_carry_message_level_time_and_fields() -> None:
    """One object a line; values that JSON lacks become text."""
    stream = io.StringIO()
    logs.configure(format="json", stream=stream)
    logger.info("reconcile finished", extra={"object": "a/b", "key": ValueError("x")})
    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", str(line.pop("time")))
    assert line == {
        "level": "info",
        "logger": "gm.test",
        "message": "reconcile finished",
        "object": "a/b",
        "key": "x",
    }


def test_human_lines_are_short_and_end_with_the_fields() -> None:
    """Time, level, message, fields."""
    stream = io.StringIO()
    logs.configure(format="human", stream=stream)
    logger.warning("node %s left", "edge1", extra={"node": "edge1"})
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning node edge1 left node=edge1\n", stream.getvalue())


@pytest.mark.parametrize(("stream", "human"), [(Terminal(), True), (io.StringIO(), False)])
def test_auto_writes_for_people_on_a_terminal_and_for_programs_elsewhere(
    stream: io.StringIO, human: bool
) -> None:
    """Nobody has to ask for it."""
    logs.configure(stream=stream)
    logger.info("started")
    assert stream.getvalue().startswith("{") is not human


@pytest.mark.parametrize("style", ["human", "json"])
def test_exceptions_are_logged_with_their_traceback(style: str) -> None:
    """In the log, where someone looks for them, and nowhere else."""
    stream = io.StringIO()
    logs.configure(format=style, stream=stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logger.exception("reconcile failed")
    assert "Traceback" in stream.getvalue()
    assert "RuntimeError: boom" in stream.getvalue()


def test_what_is_below_the_level_is_not_logged() -> None:
    """And requests to the embedded API server are never info."""
    stream = io.StringIO()
    logs.configure(format="json", level="info", stream=stream)
    logger.debug("event")
    logging.getLogger("aiohttp.access").info("GET /")
    assert stream.getvalue() == ""


def test_without_a_stream_standard_error_is_written_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Standard output belongs to what a command prints."""
    logs.configure(format="json")
    logger.info("started")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert '"message":"started"' in captured.err


async def test_fields_ride_along_into_the_tasks_started_below_them() -> None:
    """Nested fields add up, and end with their block."""
    stream = io.StringIO()
    logs.configure(format="json", stream=stream)

    async def work() -> None:
        logger.info("inside")

    with log_fields(controller="fl"):
        with log_fields(object="a/b"):
            async with asyncio.TaskGroup() as group:
                group.create_task(work())
        logger.info("between", extra={"controller": "other"})
    logger.info("outside")
    fields = [(line.get("controller"), line.get("object")) for line in lines(stream)]
    assert fields == [("fl", "a/b"), ("other", None), (None, None)]
