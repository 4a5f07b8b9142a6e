"""Tokens that grow old, and tokens that are refused."""

from __future__ import annotations

import asyncio

import pytest

from gm.errors import ConfigError
from gm.kube.credentials import Credentials, Token


class Source:
    """Gives a new token each time, or fails."""

    def __init__(self, *, lifetime_seconds: float | None = None) -> None:
        self.reads = 0
        self.fails = False
        self.lifetime_seconds = lifetime_seconds

    async def __call__(self) -> Token:
        """Read it."""
        await asyncio.sleep(0)
        self.reads += 1
        if self.fails:
            raise ConfigError("gone")
        return Token(f"token {self.reads}", self.lifetime_seconds)


class Clock:
    """Time that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The time."""
        return self.now


async def test_a_token_is_read_again_when_its_time_is_over() -> None:
    """Once, by one of the requests; the others need not wait for it."""
    source, clock = Source(lifetime_seconds=60), Clock()
    credentials = Credentials(Token("first", 60), source, clock=clock)
    clock.now += 59
    assert await credentials.header() == "first"
    clock.now += 1
    headers = await asyncio.gather(*[credentials.header() for _ in range(5)])
    assert headers == ["token 1", "first", "first", "first", "first"]
    assert await credentials.header() == "token 1"
    assert source.reads == 1


async def test_a_token_without_a_lifetime_is_never_read_again() -> None:
    """Unless it is refused."""
    source, clock = Source(), Clock()
    credentials = Credentials(Token("first"), source, clock=clock)
    clock.now += 1e9
    assert await credentials.header() == "first"
    assert source.reads == 0


async def test_a_refused_token_is_renewed_once_for_all_who_had_it() -> None:
    """They all may try again with the new one."""
    source, clock = Source(), Clock()
    credentials = Credentials(Token("first"), source, clock=clock)
    clock.now += 11
    answers = await asyncio.gather(*[credentials.renew(rejected="first") for _ in range(5)])
    assert answers == [True] * 5
    assert source.reads == 1


async def test_refusals_in_a_row_do_not_run_the_source_each_time() -> None:
    """An exec plugin may open a browser."""
    source, clock = Source(), Clock()
    credentials = Credentials(Token("first"), source, clock=clock)
    assert not await credentials.renew(rejected="first"), "read a moment ago"
    clock.now += 10
    assert await credentials.renew(rejected="first")
    assert not await credentials.renew(rejected="token 1")
    assert source.reads == 1


async def test_a_source_that_fails_keeps_the_old_token(caplog: pytest.LogCaptureFixture) -> None:
    """The server says if it is not good any more."""
    source, clock = Source(), Clock()
    source.fails = True
    credentials = Credentials(Token("first", 60), source, clock=clock)
    clock.now += 60
    assert await credentials.header() == "first"
    assert "credentials could not be renewed" in caplog.text


async def test_credentials_without_a_source_stay_as_they_are() -> None:
    """Nothing to renew."""
    clock = Clock()
    credentials = Credentials(Token(None), clock=clock)
    clock.now += 60
    assert not await credentials.renew(rejected=None)
    assert await credentials.header() is None
