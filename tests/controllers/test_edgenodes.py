"""EdgeNodes: the rate in virtual time, and a GM that writes them to API servers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gm.api.core import Node
from gm.api.meta import ObjectKey
from gm.api.resources import DATASETS, EDGE_NODES, NODES
from gm.config import Config, LeaderElectionConfig, WebsocketConfig
from gm.controllers.edgenode_status import WRITER
from gm.controllers.edgenodes import EdgeNodes, EdgeNodeSettings
from gm.controllers.manager import Manager
from gm.errors import (
    AlreadyExists,
    ApiUnreachable,
    Conflict,
    Forbidden,
    NotFound,
    ServiceError,
    TooManyRequests,
)
from gm.kube.client import ListResult
from gm.kube.lister import Event, EventType
from gm.messagelayer import Hub
from gm.messagelayer.session import Gate, NodeState, Session
from gm.messagelayer.session_v2 import V2Session
from tests.controllers.conftest import Site
from tests.controllers.fake_informer import FakeInformer
from tests.fakes.edge import EdgeV2
from tests.kube.virtual_time import virtual_time
from tests.messagelayer.support import desired, key, open_hub

WRITER_NAME = "sedna/*"
MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)
QUICK = EdgeNodeSettings(
    settle_seconds=0.05,
    look_again_seconds=0.1,
    sweep_seconds=0.2,
    refresh_seconds=0.5,
    return_seconds=1.0,
    writes_per_second=200,
    relist_seconds=1.0,
)


class FakeApi:
    """EdgeNodes in memory, with optimistic concurrency; in place of a Client."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.asked_at: list[float] = []
        self.verbs: Counter[str] = Counter()
        self.fail: Callable[[str], ServiceError | None] = lambda _: None
        self._version = 0

    def _ask(self, verb: str) -> None:
        self.asked_at.append(asyncio.get_running_loop().time())
        self.verbs[verb] += 1
        failure = self.fail(verb)
        if failure is not None:
            raise failure

    def put(self, body: dict[str, Any]) -> bytes:
        """Store a version."""
        self._version += 1
        meta = {**body["metadata"], "resourceVersion": str(self._version)}
        meta.setdefault("uid", f"uid-{self._version}")
        self.objects[meta["name"]] = {**body, "metadata": meta}
        return msgspec.json.encode(self.objects[meta["name"]])

    async def pages(self, resource: Any) -> AsyncIterator[ListResult]:
        """All in one page."""
        self._ask("list")
        yield ListResult([msgspec.Raw(msgspec.json.encode(o)) for o in self.objects.values()], "")

    async def get(self, resource: Any, at: ObjectKey) -> bytes:
        """One of them."""
        self._ask("get")
        if at.name not in self.objects:
            raise NotFound("get", code=404, reason="NotFound")
        return msgspec.json.encode(self.objects[at.name])

    async def create(self, resource: Any, namespace: str, body: dict[str, Any]) -> bytes:
        """Status is dropped, as by a status subresource."""
        self._ask("create")
        if body["metadata"]["name"] in self.objects:
            raise AlreadyExists("create", code=409, reason="AlreadyExists")
        return self.put({"metadata": body["metadata"]})

    async def patch(
        self, resource: Any, at: ObjectKey, patch: dict[str, Any], *, subresource: str = ""
    ) -> bytes:
        """A merge patch of one level."""
        self._ask("patch")
        found = self.objects.get(at.name)
        if found is None:
            raise NotFound("patch", code=404, reason="NotFound")
        if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict("patch", code=409, reason="Conflict")
        if not subresource:
            return self.put({**found, "metadata": {**found["metadata"], **patch["metadata"]}})
        status = {**found.get("status", {}), **patch["status"]}
        return self.put({**found, "status": {k: v for k, v in status.items() if v is not None}})

    async def delete(self, resource: Any, at: ObjectKey, *, uid: str) -> None:
        """That incarnation only."""
        self._ask("delete")
        if at.name not in self.objects:
            raise NotFound("delete", code=404, reason="NotFound")
        if self.objects[at.name]["metadata"]["uid"] != uid:
            raise Conflict("delete", code=409, reason="Conflict")
        del self.objects[at.name]

    def status(self, name: str) -> dict[str, Any]:
        """Of one of them."""
        found: dict[str, Any] = self.objects[name].get("status", {})
        return found


class Bench:
    """A hub, EdgeNodes and a fake API server in virtual time."""

    def __init__(
        self,
        *,
        hub: Hub | None = None,
        is_synced: bool = True,
        api: FakeApi | None = None,
        is_alone: bool = True,
        settings: EdgeNodeSettings | None = None,
    ) -> None:
        self.hub = hub or open_hub()
        self.api = api or FakeApi()
        self.nodes = FakeInformer(NODES, Node)
        self.nodes.is_synced = is_synced
        self.edge_nodes = EdgeNodes(
            self.hub,
            self.api,  # type: ignore[arg-type]
            self.nodes,  # type: ignore[arg-type]
            writer=WRITER_NAME,
            is_alone=is_alone,
            settings=settings or EdgeNodeSettings(),
            now=self.now,
        )

    def now(self) -> datetime:
        """The wall clock goes with the loop's."""
        seconds = int(asyncio.get_running_loop().time())
        return MIDNIGHT + timedelta(seconds=seconds)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """EdgeNodes run as long as the body."""
        task = asyncio.ensure_future(self.edge_nodes.run())
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def node(self, name: str, uid: str = "node-uid") -> None:
        """There is a Node."""
        await self.nodes.put({"metadata": {"name": name, "namespace": "", "uid": uid}})

    async def remove_node(self, name: str) -> None:
        """There is no Node any more."""
        found = self.nodes.lister.get(ObjectKey("", name))
        assert found is not None
        self.nodes.lister.remove(found.key)
        await self.edge_nodes._node_event(Event(EventType.DELETED, NODES, old=found))

    def connect(self, name: str) -> Session:
        """A session that has nothing to send."""

        def make(state: NodeState, gate: Gate) -> Session:
            return V2Session(state, gate, max_frame_bytes=1000)

        return self.hub.attach(name, make)

    def status(self, name: str) -> dict[str, Any]:
        """What the EdgeNode says."""
        return self.api.status(name)


def most_per_second(times: list[float], seconds: float) -> float:
    """The highest rate in any stretch of ``seconds``."""
    first, worst = 0, 0
    for last, at in enumerate(times):
        while times[first] <= at - seconds:
            first += 1
        worst = max(worst, last - first + 1)
    return worst / seconds


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
            "edgenodes.sedna.io: the CRD is not installed",
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


# With API servers.


def quick(site: Site) -> Site:
    """``site`` with a GM that writes EdgeNodes soon."""
    site.edge_nodes = QUICK
    return site


async def edge_node(site: Site, name: str) -> dict[str, Any] | None:
    """The EdgeNode of a node of this test."""
    return await site.cluster.get(EDGE_NODES, site.node(name))


async def status_when(
    site: Site, name: str, predicate: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """An EdgeNode's status as soon as it fulfils ``predicate``."""

    async def look() -> dict[str, Any] | None:
        found = await edge_node(site, name)
        status: dict[str, Any] = (found or {}).get("status") or {}
        return status if predicate(status) else None

    found = await site.cluster.wait_for(look, what=f"EdgeNode {name}")
    assert found is not None
    return found


async def wait_gone(site: Site, name: str) -> None:
    """Return when there is no such EdgeNode."""

    async def is_gone() -> bool:
        return await edge_node(site, name) is None

    await site.cluster.wait_for(is_gone, what=f"removal of EdgeNode {name}")


async def test_edge_node_tells_what_a_node_holds_and_lacks(site: Site) -> None:
    """In kubectl's words too; link by link, over both wires."""
    await quick(site).nodes("edge0")
    await site.dataset("d0", "edge0")
    held = f"dataset/{site.namespace}/d0"
    async with site.gm() as manager:
        status = await status_when(site, "edge0", lambda s: s.get("pending") == 1)
        assert status == {"connected": False, "pending": 1, "pendingKeys": [held], "held": 0}
        async with site.edge("edge0"):
            status = await status_when(site, "edge0", lambda s: s.get("held") == 1)
            status = await status_when(site, "edge0", lambda s: s.get("pending") == 0)
            assert (status["connected"], status["protocol"]) == (True, "v1")
            assert status["heldKeys"] == [held]
            assert "pendingKeys" not in status
            assert status["since"] <= status["lastSeen"]
            name = site.node("edge0")
            table = (await site.cluster.kubectl("get", "edgenodes", name)).splitlines()
            assert table[0].split() == (
                ["NAME", "NODE", "CONNECTED", "PROTOCOL", "PENDING", "HELD", "LAST-SEEN", "AGE"]
            )
            assert table[1].split()[:6] == [name, name, "true", "v1", "0", "1"]
            described = await site.cluster.kubectl("describe", "en", name)
            assert held in described
        status = await status_when(site, "edge0", lambda s: not s.get("connected"))
        assert (status["held"], status["heldKeys"], status["pending"]) == (1, [held], 0)
        await site.patch(DATASETS, "d0", {"spec": {"url": "/data/other.txt"}})
        await status_when(site, "edge0", lambda s: s.get("pendingKeys") == [held])
        async with EdgeV2.connected(manager.websocket_port, name):
            status = await status_when(site, "edge0", lambda s: s.get("protocol") == "v2")
            await status_when(site, "edge0", lambda s: s["pending"] == 0 and s["held"] == 1)
            first = await status_when(site, "edge0", lambda s: bool(s.get("lastSeen")))
            # once a minute by default; here twice a second
            await status_when(site, "edge0", lambda s: s["lastSeen"] > first["lastSeen"])


async def test_object_that_can_not_be_sent_is_named_P0_031(site: Site) -> None:
    """With the reason, for as long as it lasts."""
    await quick(site).nodes("edge0")
    site.config = msgspec.structs.replace(
        site.config,
        websocket=WebsocketConfig(address="127.0.0.1", port=0, max_frame_bytes=4096),
    )
    await site.dataset("d0", "edge0")
    huge = {"metadata": {"annotations": {"note": "x" * 5000}}}
    await site.patch(DATASETS, "d0", huge)
    async with site.gm(), site.edge("edge0"):
        status = await status_when(site, "edge0", lambda s: bool(s.get("quarantined")))
        (found,) = status["quarantined"]
        assert found["key"] == f"dataset/{site.namespace}/d0"
        assert "4096 allowed" in found["reason"]
        described = await site.cluster.kubectl("describe", "en", site.node("edge0"))
        assert "4096 allowed" in described
        await site.patch(DATASETS, "d0", {"metadata": {"annotations": {"note": None}}})
        status = await status_when(site, "edge0", lambda s: not s.get("quarantined"))
        await status_when(site, "edge0", lambda s: s["held"] == 1)


async def test_edge_node_goes_with_its_node_and_survives_gm(site: Site) -> None:
    """The garbage collector removes it, or GM; desired state alone makes one too."""
    await quick(site).nodes("edge0")
    await site.cluster.start_controllers()
    await site.dataset("d0", "edge0")
    await site.dataset("d1", "nowhere")
    async with site.gm():
        async with site.edge("edge0"):
            await status_when(site, "edge0", lambda s: s.get("held") == 1 and s["connected"])
            await status_when(site, "nowhere", lambda s: s.get("pending") == 1)
            found = await edge_node(site, "edge0")
        assert found is not None
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Node", site.node("edge0"))
        await status_when(site, "edge0", lambda s: not s["connected"])
    await site.delete(DATASETS, "d1")
    async with site.gm():
        again = await status_when(site, "edge0", lambda s: s.get("held") == 1)
        assert again["connected"] is False
        await wait_gone(site, "nowhere")
        await site.delete(DATASETS, "d0")
        await status_when(site, "edge0", lambda s: s.get("pending") == 1)
        async with site.cluster.client() as client:
            await client.delete(NODES, ObjectKey("", site.node("edge0")))
        await wait_gone(site, "edge0")


async def test_writes_that_are_refused_disturb_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The node gets its objects; it is said once why there is no EdgeNode."""
    await quick(site).nodes("edge0")
    await site.dataset("d0", "edge0")

    def refuse(call: Any) -> ServiceError | None:
        if call.kind != "EdgeNode":
            return None
        return Forbidden(f"{call.verb} edgenodes.sedna.io x", code=403, reason="Forbidden")

    site.faults.fail = refuse
    async with site.gm(), site.edge("edge0") as edge:
        await edge.wait_for(lambda: bool(edge.held))
        await site.dataset("d1", "edge0")
        await edge.wait_for(lambda: len(edge.held) == 2)

        def is_told() -> bool:
            return "edge nodes can not be written" in caplog.text

        await site.cluster.wait_for(is_told)
        assert await edge_node(site, "edge0") is None
        site.faults.heal()
        await status_when(site, "edge0", lambda s: s.get("held") == 2)
    told = [r for r in caplog.records if r.message == "edge nodes can not be written"]
    assert [r.reason for r in told] == ["create edgenodes.sedna.io failed: 403 Forbidden"]  # type: ignore[attr-defined]


def test_manager_names_the_writer_and_knows_of_replicas() -> None:
    """Two GMs of one cluster, with a namespace each, are two writers."""

    def made(config: Config) -> EdgeNodes:
        return Manager(config)._make_edge_nodes(
            None,  # type: ignore[arg-type]
            type("Informers", (), {"nodes": FakeInformer(NODES, Node)})(),
        )

    single = made(Config(state_namespace="sys"))
    assert (single._writer, single._is_alone) == ("sys/*", True)
    one = made(
        Config(
            state_namespace="sys", namespace="a", leader_election=LeaderElectionConfig(enabled=True)
        )
    )
    assert (one._writer, one._is_alone) == ("sys/a", False)
