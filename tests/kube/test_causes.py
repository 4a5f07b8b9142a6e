"""One line for each cause of failures, not one for each who meets it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from gm.api.meta import PartialObject, ResourceType
from gm.api.resources import DATASETS, MODELS, PODS, SERVICES
from gm.kube import Client, Informer
from gm.kube.causes import Causes
from tests.fakes.kube_api import FakeKubeApi, status
from tests.kube.following import FAST, eventually
from tests.kube.virtual_time import virtual_time

DOWN = "no answer from http://api: refused"


@virtual_time
async def test_a_cause_is_news_once_within_ten_seconds() -> None:
    """Whoever asked for whatever; those who meet it later are told of anew."""
    causes = Causes()
    assert causes.is_news(f"list pods failed: {DOWN}")
    assert not causes.is_news(f"list pods failed: {DOWN}")
    await asyncio.sleep(9)
    assert not causes.is_news(f"watch models.sedna.io failed: {DOWN}")
    await asyncio.sleep(2)  # eleven seconds after it was told, however often it came since
    assert causes.is_news(f"list nodes failed: {DOWN}")


@virtual_time
async def test_other_causes_and_texts_without_one_are_news() -> None:
    """So that nothing hides behind another thing."""
    causes = Causes()
    for problem in (
        f"list pods failed: {DOWN}",
        "list pods failed: 401 Unauthorized",
        "forbidden: list pods",
        "forbidden: list nodes",
        "datasets.sedna.io: the CRD is not installed",
        "models.sedna.io: the CRD is not installed",
    ):
        assert causes.is_news(problem)
        assert not causes.is_news(problem)


async def levels(
    api: FakeKubeApi,
    caplog: pytest.LogCaptureFixture,
    seen_by: Callable[[Informer[Any]], Any],
    *resources: ResourceType,
) -> list[tuple[str, str]]:
    """Level and kind of what informers that share their causes log until all have ``seen_by``."""
    caplog.set_level(logging.DEBUG, "gm.kube.informer")
    causes = Causes()
    async with await Client.connect(master=api.url) as client, asyncio.TaskGroup() as group:
        informers = [
            Informer(client, resource, PartialObject, settings=FAST, causes=causes)
            for resource in resources
        ]
        tasks = [group.create_task(informer.run()) for informer in informers]
        await eventually(lambda: all(map(seen_by, informers)))
        for task in tasks:
            task.cancel()
    told = [r for r in caplog.records if r.message == "list or watch fails, trying on"]
    assert len(told) == len({record.__dict__["kind"] for record in told})
    return [(record.levelname, record.__dict__["kind"]) for record in told]


async def test_of_what_stops_all_informers_one_warns_P1_080(
    api: FakeKubeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """An expired token; each knows its problem, for the probe."""
    api.handler = lambda request: (401, status(401, "Unauthorized", "Unauthorized"))
    problems: list[str] = []

    def has_problem(informer: Informer[Any]) -> bool:
        problems.append(informer.problem or "")
        return "401 Unauthorized" in (informer.problem or "")

    told = await levels(api, caplog, has_problem, PODS, SERVICES, DATASETS)
    assert [level for level, _ in told] == ["WARNING", "DEBUG", "DEBUG"]
    assert {problem.partition(" failed")[0] for problem in problems[-3:]} == {
        "list pods",
        "list services",
        "list datasets.sedna.io",
    }


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (403, "Forbidden")])
async def test_each_informer_warns_of_what_stops_only_its_kind_P1_080(
    api: FakeKubeApi, caplog: pytest.LogCaptureFixture, code: int, reason: str
) -> None:
    """One may mend each of them by itself."""
    api.handler = lambda request: (code, status(code, reason, "no"))
    told = await levels(api, caplog, lambda informer: informer.problem, PODS, DATASETS, MODELS)
    assert [level for level, _ in told] == ["WARNING"] * 3
