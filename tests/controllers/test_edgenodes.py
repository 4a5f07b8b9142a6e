"""EdgeNodes in virtual time: how often they are written, by whom, and when they go."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from gm.controllers.edgenode_status import WRITER
from gm.errors import ApiUnreachable, Forbidden, NotFound, ServiceError, TooManyRequests
from gm.messagelayer import Hub
from gm.messagelayer.session import Session
from tests.controllers.edgenode_bench import WRITER_NAME, Bench, FakeApi, most_per_second
from tests.kube.virtual_time import virtual_time
from tests.messagelayer.support import desired, key


@virtual_time
async def test_ten_thousand_flapping_nodes_stay_within_the_write_rate() -> None:
    """And when they come to rest, each EdgeNode says what is the case."""
    bench, names = Bench(), [f"edge{n}" for n in range(10_000)]
    seed = 5
    dice = random.Random(seed)
    sessions: dict[str, Session] = {}
    async with bench.running():
        for name in names:
            bench.hub.put(name, desired("d"))
        for _ in range(100):
            for name in dice.sample(names, 500):
                if name in sessions:
                    bench.hub.detach(sessions.pop(name))
                else:
                    sessions[name] = bench.connect(name)
            await asyncio.sleep(1)
        flapped = len(bench.api.asked_at)
        assert flapped <= 1 + 20 * 100 + 20, f"seed {seed}"
        await asyncio.sleep(2 * len(names) / 20)
    wrong = [n for n in names if bench.status(n)["connected"] is not (n in sessions)]
    assert wrong == [], f"seed {seed}"
    assert most_per_second(bench.api.asked_at, 10) <= 20 + 3
    assert bench.api.verbs["create"] == len(names), "each node had its turn"


@virtual_time
async def test_a_node_in_step_costs_a_write_each_minute_at_most() -> None:
    """For lastSeen; a node that is away costs none."""
    bench = Bench()
    bench.hub.put("away", desired("d"))
    async with bench.running():
        bench.hub.put("edge1", desired("d"))
        session = bench.connect("edge1")
        session.silent_seconds = lambda: 2.0
        await asyncio.sleep(5)
        before = len(bench.api.asked_at)
        assert bench.status("edge1")["lastSeen"] <= "2026-11-30T00:00:03Z"
        await asyncio.sleep(600)
    assert 8 <= len(bench.api.asked_at[before:]) - bench.api.verbs["list"] <= 12
    assert bench.status("edge1")["lastSeen"] >= "2026-11-30T00:09:00Z"


@virtual_time
async def test_last_seen_of_many_nodes_takes_no_more_than_half_of_the_rate() -> None:
    """A change of another node is written within seconds meanwhile."""
    bench, count = Bench(), 1000
    async with bench.running():
        for number in range(count):
            bench.hub.put(f"edge{number}", desired("d"))
            bench.connect(f"edge{number}")
        await asyncio.sleep(count * 2 / 20 + 60)
        before = len(bench.api.asked_at)
        for number in range(15):
            bench.hub.put(f"new{number}", desired("d"))
            await asyncio.sleep(20)
            assert f"new{number}" in bench.api.objects
        written = len(bench.api.asked_at) - before
    assert written / (15 * 20) <= 20 * 0.6


@virtual_time
async def test_changes_within_a_moment_are_one_write() -> None:
    """Connect, sync, done: an EdgeNode is made once and written once."""
    bench = Bench()
    async with bench.running():
        await asyncio.sleep(1)
        for number in range(100):
            bench.hub.put("edge1", desired(f"d{number}"))
        bench.connect("edge1")
        await asyncio.sleep(0.6)
        assert bench.api.verbs == {"list": 1, "create": 1, "patch": 1}
    assert bench.status("edge1")["pending"] == 100


@virtual_time
async def test_names_without_node_and_desired_state_leave_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """But one warning a minute, however many there are; links are forgotten with them."""
    bench = Bench()
    async with bench.running():
        for number in range(100):
            bench.hub.detach(bench.connect(f"made-up-{number}"))
            session = bench.connect("stranger")
            await asyncio.sleep(1)
            bench.hub.detach(session)
        await asyncio.sleep(1)
        assert bench.edge_nodes._links == {}
    assert bench.api.objects == {}
    warned = [r for r in caplog.records if "neither a Node" in r.message]
    assert 1 <= len(warned) <= 2


@virtual_time
async def test_a_node_is_written_as_soon_as_it_is_known() -> None:
    """By its Node, which then owns the EdgeNode, or by desired state; since when is right."""
    bench = Bench()
    async with bench.running():
        bench.connect("edge1")
        bench.connect("Bad_Name")
        bench.hub.put("Bad_Name", desired("d"))
        await bench.node("cloud")
        await asyncio.sleep(30)
        assert bench.api.objects == {}
        await bench.node("edge1")
        await asyncio.sleep(1)
        meta = bench.api.objects["edge1"]["metadata"]
        assert meta["annotations"] == {WRITER: WRITER_NAME}
        assert [o["uid"] for o in meta["ownerReferences"]] == ["node-uid"]
        assert bench.status("edge1")["since"] == "2026-11-30T00:00:00Z"
        await bench.node("edge1", uid="another")  # the Node was made again
        await asyncio.sleep(16)
        meta = bench.api.objects["edge1"]["metadata"]
        assert [o["uid"] for o in meta["ownerReferences"]] == ["another"]
    assert set(bench.api.objects) == {"edge1"}, "neither a bad name nor a Node without link"


@virtual_time
async def test_edge_node_without_node_and_desired_state_is_removed_by_its_writer_only() -> None:
    """Its own incarnation, also one that was left behind by the process before."""
    api = FakeApi()
    for name, writer in (("left-behind", WRITER_NAME), ("foreign", "other/*")):
        api.put({"metadata": {"name": name, "annotations": {WRITER: writer}}})
    bench = Bench(api=api)
    async with bench.running():
        bench.hub.put("edge1", desired("d"))
        await bench.node("edge2")
        bench.hub.detach(bench.connect("edge2"))
        await asyncio.sleep(20)
        assert set(api.objects) == {"foreign", "edge1", "edge2"}
        bench.hub.remove("edge1", key("d"))
        await asyncio.sleep(2)
        assert set(api.objects) == {"foreign", "edge2"}
        await bench.remove_node("edge2")
        await asyncio.sleep(2)
    assert set(api.objects) == {"foreign"}


@virtual_time
async def test_nothing_is_removed_while_nodes_can_not_be_listed() -> None:
    """It may have a Node."""
    api = FakeApi()
    api.put({"metadata": {"name": "edge1", "annotations": {WRITER: WRITER_NAME}}})
    bench = Bench(api=api, is_synced=False)
    bench.nodes.problem = "forbidden: list nodes"
    async with bench.running():
        await asyncio.sleep(60)
        assert set(api.objects) == {"edge1"}
        bench.nodes.is_synced = True
        await asyncio.sleep(60)
    assert api.objects == {}


@virtual_time
async def test_nothing_is_written_before_desired_state_is_full() -> None:
    """An empty desired state would say that nothing is pending."""
    hub = Hub()
    hub.expect(["dataset"])
    bench = Bench(hub=hub)
    async with bench.running():
        hub.put("edge1", desired("d"))
        bench.connect("edge1")
        await asyncio.sleep(60)
        assert bench.api.asked_at == []
        hub.complete("dataset")
        await asyncio.sleep(1)
    assert bench.status("edge1")["pending"] == 1


def restarted(bench: Bench, **options: Any) -> Bench:
    """Another process, with the same API server."""
    return Bench(api=bench.api, **options)


@virtual_time
async def test_after_a_restart_nodes_get_time_to_come_back() -> None:
    """What did not change is not written; a node that stays away is disconnected then."""
    first = Bench()
    async with first.running():
        for name in ("edge1", "edge2", "edge3"):
            await first.node(name)
            first.hub.put(name, desired("d"))
        first.connect("edge1")
        first.connect("edge2")
        await asyncio.sleep(5)
    written = len(first.api.asked_at)
    second = restarted(first)
    for name in ("edge1", "edge2", "edge3"):
        await second.node(name)
        second.hub.put(name, desired("d"))
    async with second.running():
        await asyncio.sleep(30)
        assert len(second.api.asked_at) == written + 1, "it is listed, nothing else"
        second.connect("edge1")
        await asyncio.sleep(1)
        assert second.status("edge1")["since"] == "2026-11-30T00:00:35Z"
        assert second.status("edge2")["connected"] is True
        await asyncio.sleep(75)
        assert second.status("edge1")["connected"] is True
        assert second.status("edge2")["connected"] is False
        assert second.status("edge2")["lastSeen"] == "2026-11-30T00:00:00Z"
    assert second.status("edge3")["connected"] is False


@virtual_time
async def test_replicas_leave_each_other_s_nodes_alone() -> None:
    """Until the one that served a node has written nothing for long: then it is gone."""
    first = Bench(is_alone=False)
    second = restarted(first, is_alone=False)
    for bench in (first, second):
        await bench.node("edge1")
        bench.hub.put("edge1", desired("d"))
    async with second.running():
        async with first.running():
            session = first.connect("edge1")
            await asyncio.sleep(900)
            assert second.status("edge1")["connected"] is True
            assert second.api.verbs["get"] <= 8
            newer = second.connect("edge1")  # it has dialled anew; the old link is half-open
            await asyncio.sleep(30)
            first.hub.detach(session)
            await asyncio.sleep(120)
            assert second.status("edge1")["connected"] is True
            second.hub.detach(newer)
            first.connect("edge1")
            await asyncio.sleep(60)
            assert second.status("edge1")["connected"] is True
        await asyncio.sleep(120)
        assert second.status("edge1")["connected"] is True
        await asyncio.sleep(600)
    assert second.status("edge1")["connected"] is False


@virtual_time
async def test_another_gm_s_edge_node_is_taken_over_with_its_session_only() -> None:
    """Two GMs with a namespace each share the Nodes of a cluster."""
    api = FakeApi()
    api.put({"metadata": {"name": "edge1", "annotations": {WRITER: "other/a"}}})
    bench = Bench(api=api)
    bench.hub.put("edge1", desired("d"))
    async with bench.running():
        await asyncio.sleep(60)
        assert api.objects["edge1"]["metadata"]["annotations"] == {WRITER: "other/a"}
        bench.connect("edge1")
        await asyncio.sleep(1)
    assert api.objects["edge1"]["metadata"]["annotations"] == {WRITER: WRITER_NAME}
    assert bench.status("edge1")["connected"] is True


@virtual_time
async def test_what_somebody_else_does_to_an_edge_node_is_mended() -> None:
    """Created before us, changed, deleted between two writes."""
    bench = Bench()
    async with bench.running():
        await asyncio.sleep(1)
        bench.api.put({"metadata": {"name": "edge1"}})
        bench.hub.put("edge1", desired("d"))
        await asyncio.sleep(2)
        assert bench.status("edge1")["pending"] == 1
        bench.api.put({**bench.api.objects["edge1"], "status": {"pending": 77}})
        bench.connect("edge1")
        await asyncio.sleep(3)
        assert (bench.status("edge1")["pending"], bench.status("edge1")["connected"]) == (1, True)
        del bench.api.objects["edge1"]
        await asyncio.sleep(80)
        assert bench.status("edge1")["connected"] is True
        del bench.api.objects["edge1"]
        bench.hub.remove("edge1", key("d"))
        bench.hub.put("edge1", desired("d"))
        await asyncio.sleep(1)
        bench.api.objects.clear()
        bench.hub.remove("edge1", key("d"))
        await asyncio.sleep(5)
    assert bench.api.objects == {}


@virtual_time
async def test_edge_node_that_vanishes_while_it_is_read_is_made_again() -> None:
    """Changed by somebody, which a write finds out, and then deleted."""
    bench = Bench()
    async with bench.running():
        bench.hub.put("edge1", desired("d"))
        await asyncio.sleep(2)
        bench.api.put(bench.api.objects["edge1"])
        bench.api.fail = lambda verb: bench.api.objects.clear() if verb == "get" else None
        bench.connect("edge1")
        await asyncio.sleep(2)
    assert bench.api.verbs["get"] == 1
    assert bench.status("edge1")["connected"] is True


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            NotFound("list edgenodes.sedna.io", code=404, reason="NotFound"),
            "edgenodes.sedna.io: the CRD is not installed;"
            " apply deploy/crds, or run `gm crds | kubectl apply -f -`",
        ),
        (
            Forbidden("list edgenodes.sedna.io", code=403, reason="Forbidden"),
            "list edgenodes.sedna.io failed: 403 Forbidden",
        ),
        (ApiUnreachable("connection refused by 10.0.0.1"), "the API server does not answer"),
    ],
)
def test_trouble_is_told_once_and_disturbs_nothing(
    failure: ServiceError, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked for ever more seldom; when it works again, all is written."""
    caplog.set_level(logging.INFO)

    @virtual_time
    async def run() -> None:
        bench = Bench()
        bench.api.fail = lambda _: failure
        async with bench.running():
            for number in range(1000):
                bench.hub.put(f"edge{number}", desired("d"))
            await asyncio.sleep(3600)
            assert len(bench.api.asked_at) <= 70
            bench.api.fail = lambda _: None
            await asyncio.sleep(60 + 1000 * 2 / 20)
            assert len(bench.api.objects) == 1000

    run()
    told = [r for r in caplog.records if r.name == "gm.controllers.edgenodes"]
    assert [r.message for r in told] == [
        "edge nodes can not be written",
        "edge nodes are written again",
    ]
    assert told[0].reason == said  # type: ignore[attr-defined]


@virtual_time
async def test_server_that_asks_for_patience_gets_it() -> None:
    """429 with Retry-After."""
    bench = Bench()
    bench.api.fail = lambda verb: (
        TooManyRequests("create", code=429, reason="TooManyRequests", retry_after_seconds=30)
        if verb == "create"
        else None
    )
    async with bench.running():
        bench.hub.put("edge1", desired("d"))
        await asyncio.sleep(100)
    assert 3 <= bench.api.verbs["create"] <= 4
