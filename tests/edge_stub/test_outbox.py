"""Reports that wait: which ones, in what order, and for how long."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gm.edge_stub.objects import Held, JobIndex
from gm.edge_stub.outbox import Outbox, merge_metrics
from gm.edge_stub.store import Put, Remove, Store
from gm.messagelayer.message import WireKey

JOB = WireKey("federatedlearningjob", "default", "fl")
DATASET = WireKey("dataset", "default", "d")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An open store."""
    opened = Store(tmp_path)
    await opened.open()
    yield opened
    await opened.close()


def content(number: int, **metrics: float) -> bytes:
    """A report of a round."""
    return json.dumps(
        {
            "phase": "train",
            "status": "running",
            "output": {"models": [{"metrics": metrics}], "ownerInfo": {"currentRound": number}},
        }
    ).encode()


async def waiting(outbox: Outbox) -> list[tuple[str, Any]]:
    """Name and content of all that can be taken; they are put back."""
    taken = await outbox.take(1000)
    outbox.put_back()
    return [(item.key.name, json.loads(item.content)) for item in taken]


async def test_newest_count_of_a_dataset_replaces_older_ones(store: Store) -> None:
    """How things were is nobody's concern."""
    outbox = Outbox(store)
    for number in range(5):
        await outbox.add(DATASET, json.dumps({"numberOfSamples": number}).encode())
    assert await waiting(outbox) == [("d", {"numberOfSamples": 4})]


async def test_newest_report_of_each_worker_waits_with_the_metrics_of_older_ones(
    store: Store,
) -> None:
    """A metric that is reported once must not be lost because GM was away then."""
    outbox = Outbox(store)
    await outbox.add(JOB, content(1, accuracy=0.5, accuracy_alone_edge1=0.7), worker="a")
    await outbox.add(JOB, content(1, accuracy=0.5), worker="b")
    await outbox.add(JOB, content(2, accuracy=0.6), worker="a")
    (_, of_b), (_, of_a) = await waiting(outbox)
    assert of_b["output"]["ownerInfo"]["currentRound"] == 1
    assert of_a["output"]["ownerInfo"]["currentRound"] == 2
    assert of_a["output"]["models"][0]["metrics"] == {"accuracy": 0.6, "accuracy_alone_edge1": 0.7}


async def test_report_in_flight_is_left_alone_and_comes_first_again(store: Store) -> None:
    """It may have reached GM already; if not, order is kept."""
    outbox = Outbox(store)
    await outbox.add(JOB, content(1), worker="a")
    (first,) = await outbox.take(10)
    await outbox.add(JOB, content(2), worker="a")
    (second,) = await outbox.take(10)
    assert second.id > first.id
    outbox.put_back()
    assert [item.id for item in await outbox.take(10)] == [first.id, second.id]
    await outbox.done([first.id])
    assert await outbox.count() == 1


async def test_reports_survive_a_restart(tmp_path: Path) -> None:
    """Their numbers go on counting up."""
    numbers = []
    for number in range(3):
        store = Store(tmp_path)
        await store.open()
        outbox = Outbox(store)
        await outbox.add(JOB, content(number), worker=f"w{number}")
        numbers = [item.id for item in await outbox.take(10)]
        await store.close()
    assert numbers == [1, 2, 3]


async def test_oldest_are_dropped_beyond_the_bound(store: Store) -> None:
    """The disk of an edge that is away for months stays free."""
    outbox = Outbox(store, max_reports=3)
    for number in range(5):
        await outbox.add(WireKey("dataset", "default", f"d{number}"), b"{}")
    assert [name for name, _ in await waiting(outbox)] == ["d2", "d3", "d4"]


@pytest.mark.parametrize("recreated", [True, False])
async def test_reports_go_with_the_incarnation_that_they_are_about(
    store: Store, recreated: bool
) -> None:
    """They must not become the status of a successor of the same name."""
    outbox = Outbox(store)
    await store.apply([Put(Held(JOB, "old", "1"), b"{}")])
    await outbox.add(JOB, content(7), worker="a")
    await store.apply([Put(Held(JOB, "old", "2"), b"{}")])
    assert await outbox.count() == 1
    await store.apply([Put(Held(JOB, "new", "3"), b"{}")] if recreated else [Remove(JOB)])
    assert await outbox.count() == 0


async def test_reports_of_unknown_owners_wait_for_their_job(store: Store) -> None:
    """They are not sent before; then they are, once."""
    outbox, jobs = Outbox(store), JobIndex()
    await outbox.add(WireKey("default", "default", "fl"), content(1), worker="a")
    assert await waiting(outbox) == []
    await outbox.resolve(jobs)
    jobs.put(Held(JOB, "u", ""), b"{}")
    await outbox.resolve(jobs)
    await outbox.resolve(jobs)
    assert [name for name, _ in await waiting(outbox)] == ["fl"]


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        (b"{}", b"{}", b"{}"),
        (b"no json", content(1), content(1)),
        (content(1, a=1), b'{"output":{}}', b'{"output":{}}'),
        (content(1, a=1), b'{"output":{"models":[null]}}', b'{"output":{"models":[null]}}'),
        (
            content(1, a=1),
            b'{"output":{"models":null}}',
            b'{"output":{"models":[{"metrics":{"a":1}}]}}',
        ),
    ],
)
def test_merging_never_fails(older: bytes, newer: bytes, expected: bytes) -> None:
    """Workers may post anything."""
    assert json.loads(merge_metrics(older, newer)) == json.loads(expected)
