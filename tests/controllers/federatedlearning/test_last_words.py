"""Last words of containers."""

from __future__ import annotations

import msgspec
import pytest

from gm.api.core import ContainerStatus, Terminated
from gm.controllers.federatedlearning.last_words import ended_with, last_words


def words(message: str | None) -> str:
    """Last words of a container that ended with ``message``."""
    return last_words(Terminated(exit_code=2, message=message))


def test_the_last_line_is_told_with_the_exit_code() -> None:
    """What stands above it is in the log."""
    assert words("starting\nerror: dataset x is missing\n\n") == (
        "exit code 2: error: dataset x is missing"
    )
    assert words(None) == words(" \n") == "exit code 2"


def test_last_words_are_short_and_one_line() -> None:
    """A status must stay small."""
    assert len(words("x" * 5000)) < 500
    assert words("a\tb\x1b[0m") == "exit code 2: a b [0m"


@pytest.mark.parametrize(
    "line",
    [
        "SECRET_ACCESS_KEY=hunter2 is refused",
        "config {'secret_access_key': 'hunter2'}",
        'ACCESS_KEY_ID: "hunter2"',
        "can't reach http://user:hunter2@host/x",
        "GET /x?X-Amz-Signature=hunter2&a=1",
        "Authorization: Bearer hunter2hunter2",
        "password=hunter2",
    ],
)
def test_credentials_do_not_reach_a_status(line: str) -> None:
    """Whatever a program wrote when it failed."""
    assert "hunter2" not in words(line)
    assert "***" in words(line)


def test_the_newest_end_counts() -> None:
    """Its state before its last state; None where it never ended."""
    body = {
        "name": "w",
        "state": {"terminated": {"exitCode": 3}},
        "lastState": {"terminated": {"exitCode": 1}},
    }
    found = ended_with(msgspec.convert(body, ContainerStatus))
    assert found is not None
    assert found.exit_code == 3
    assert ended_with(ContainerStatus()) is None
