"""Reports to the LC: retried, in order, bounded, never in the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gm.examples.federated.environment import TrainerSettings, UserError
from gm.examples.federated.report import MAX_WAITING, Reporter
from tests.fakes.lc import FakeLC

SETTINGS = TrainerSettings(
    namespace="ns",
    job_name="fl",
    worker="trainworker-abcde",
    dataset_name="d",
    node="edge1",
    aggregator_host="127.0.0.1",
    aggregator_port=1,
    dataset=Path("/d.npz"),
    heldout=Path("/h.npz"),
    model_url="/models/m.npz",
    lc_server="",
    connect_seconds=1,
)


@contextlib.asynccontextmanager
async def reporting(lc_server: str) -> AsyncIterator[Reporter]:
    """A reporter at work."""
    reporter = Reporter(replace(SETTINGS, lc_server=lc_server), samples=42)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reporter.run())
        try:
            yield reporter
        finally:
            task.cancel()


async def test_report_has_the_contracts_form() -> None:
    """Field by field."""
    async with FakeLC() as lc, reporting(lc.url + "/") as reporter:
        reporter.report(3, "running", {"accuracy": 0.123456})
        await reporter.wait_idle(timeout_seconds=20)
        (post,) = lc.posts
        assert lc.paths == ["/sedna/workers/trainworker-abcde/info"]
    assert post.pop("ownerInfo").keys() == {"currentRound", "sampleCount", "updateTime"}
    assert post == {
        "name": "trainworker-abcde",
        "namespace": "ns",
        "ownerName": "fl",
        "ownerKind": "federatedlearningjob",
        "kind": "train",
        "status": "running",
        "results": [{"format": "npz", "url": "/models/m.npz", "metrics": {"accuracy": 0.1235}}],
    }


async def test_report_is_repeated_until_the_lc_takes_it() -> None:
    """What follows waits for it; a metric that is reported once is in the one that got through."""
    async with FakeLC() as lc, reporting(lc.url) as reporter:
        lc.refusals = 1
        reporter.once({"accuracy_alone_edge1": 0.7})
        reporter.report(1, "running", {"accuracy": 0.5})
        reporter.report(2, "running", {"accuracy": 0.6})
        await reporter.wait_idle(timeout_seconds=20)
        metrics = [post["results"][0]["metrics"] for post in lc.posts]
    assert metrics == [{"accuracy": 0.5, "accuracy_alone_edge1": 0.7}, {"accuracy": 0.6}]


async def test_refused_for_good_is_dropped_and_its_extra_metric_comes_with_the_next() -> None:
    """Three attempts each."""
    async with FakeLC() as lc, reporting(lc.url) as reporter:
        lc.refusals = 3
        reporter.once({"accuracy_alone_edge1": 0.7})
        reporter.report(1, "running", {"accuracy": 0.5})
        reporter.report(2, "completed", {"accuracy": 0.6})
        await reporter.wait_idle(timeout_seconds=20)
        (post,) = lc.posts
    assert post["results"][0]["metrics"] == {"accuracy": 0.6, "accuracy_alone_edge1": 0.7}


async def test_slow_lc_does_not_hold_up_the_caller_and_the_queue_is_bounded() -> None:
    """The oldest reports give way."""
    async with FakeLC() as lc, reporting(lc.url) as reporter:
        lc.hold("running")
        reporter.report(0, "running", {})
        await lc.wait_for(1)
        for number in range(1, MAX_WAITING + 10):
            reporter.report(number, "running", {})
        await reporter.wait_idle(timeout_seconds=0.01)
        assert len(lc.posts) == 1
        lc.release()
        await reporter.wait_idle(timeout_seconds=20)
        rounds = [post["ownerInfo"]["currentRound"] for post in lc.posts]
    assert rounds == [0, *range(10, MAX_WAITING + 10)]


async def test_without_lc_nothing_is_reported() -> None:
    """LC_SERVER is not set when a worker is run by hand."""
    async with reporting("") as reporter:
        reporter.report(1, "running", {})
        await reporter.wait_idle(timeout_seconds=0)


@pytest.mark.parametrize("url", ["localhost:9100", "ftp://lc", "http://"])
def test_lc_server_that_is_no_url_is_refused(url: str) -> None:
    """With what is wanted."""
    with pytest.raises(UserError, match="want http://HOST:PORT"):
        Reporter(replace(SETTINGS, lc_server=url), samples=1)
