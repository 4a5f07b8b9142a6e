"""EdgeNodes of a whole GM, on API servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gm.api.core import Node
from gm.api.meta import ObjectKey
from gm.api.resources import DATASETS, EDGE_NODES, NODES
from gm.config import Config, LeaderElectionConfig, WebsocketConfig
from gm.controllers.edgenodes import EdgeNodes, EdgeNodeSettings
from gm.controllers.manager import Manager
from gm.errors import Forbidden, ServiceError
from tests.controllers.conftest import Site
from tests.controllers.fake_informer import FakeInformer
from tests.fakes.edge import EdgeV2

QUICK = EdgeNodeSettings(
    settle_seconds=0.05,
    look_again_seconds=0.1,
    sweep_seconds=0.2,
    refresh_seconds=0.5,
    return_seconds=1.0,
    writes_per_second=200,
    relist_seconds=1.0,
)


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
