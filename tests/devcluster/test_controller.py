"""The loop of the server's own controllers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable

import pytest

from gm.devcluster.controller import Controller
from gm.devcluster.status import bad_request
from gm.devcluster.store import Change
from tests.devcluster.core import Plain, plain, widget

WIDGETS = "widgets.example.com"


class _Noting(Controller[str]):
    """Notes what it is asked; fails or comes back as told."""

    kinds = (WIDGETS,)

    def __init__(self, api: Plain) -> None:
        super().__init__(api.api)
        self.seen: list[str] = []
        self.failures: dict[str, Exception] = {}
        self.again: dict[str, float] = {}

    def observe(self, change: Change) -> Iterable[str]:
        """The name."""
        return [change.record.key.name]

    def reconcile(self, key: str) -> float | None:
        """Note it."""
        self.seen.append(key)
        if key in self.failures:
            raise self.failures.pop(key)
        return self.again.pop(key, None)

    async def wait(self, *expected: str) -> None:
        """Until exactly these keys were reconciled."""
        async with asyncio.timeout(20):
            while len(self.seen) < len(expected):
                await asyncio.sleep(0.001)
        assert self.seen == list(expected)


@contextlib.asynccontextmanager
async def _running(controller: _Noting) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield
        task.cancel()


async def test_what_exists_and_what_comes_is_reconciled() -> None:
    """Several changes of one object before its turn are one."""
    api = plain()
    api.create(WIDGETS, widget("a"))
    controller = _Noting(api)
    async with _running(controller):
        await controller.wait("a")
        api.create(WIDGETS, widget("b"))
        api.patch(WIDGETS, "b", lambda w: {**w, "spec": {"size": 5}})
        await controller.wait("a", "b")


async def test_a_key_comes_back_when_it_asks_for_it() -> None:
    """Without any change."""
    api = plain()
    controller = _Noting(api)
    controller.again["a"] = 0.001
    async with _running(controller):
        api.create(WIDGETS, widget("a"))
        await controller.wait("a", "a")


async def test_one_object_that_fails_does_not_stop_the_rest(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again later; a refusal is no error, a bug is logged."""
    monkeypatch.setattr("gm.devcluster.controller._RETRY_SECONDS", 0.001)
    caplog.set_level(logging.DEBUG, logger="gm.devcluster.controller")
    api = plain()
    controller = _Noting(api)
    controller.failures = {"a": bad_request("held back"), "b": ValueError("bug")}
    async with _running(controller):
        for name in "abc":
            api.create(WIDGETS, widget(name))
        await controller.wait("a", "b", "c", "a", "b")
    levels = {r.getMessage(): r.levelname for r in caplog.records}
    assert levels == {"reconcile was refused": "DEBUG", "reconcile failed": "ERROR"}
    assert controller.name == "_Noting"
