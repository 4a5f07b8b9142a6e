"""What survives a GM: the record of v1 keys; and who works when there are several."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Any

import msgspec
import pytest

from gm.api.meta import ObjectKey
from gm.api.resources import CONFIG_MAPS, DATASETS, LEASES, PODS
from gm.kube.client import Client
from gm.kube.presence import Presence
from gm.messagelayer import v2
from tests.controllers.conftest import Site


async def delete_meanwhile(site: Site, down: str, gm: contextlib.AsyncExitStack) -> None:
    """Delete B while GM, the edge or both are down; GM runs afterwards."""
    if down != "edge":
        await gm.aclose()
    await site.delete(DATASETS, "b")
    if down == "edge":
        await site.settled()
    else:
        await gm.enter_async_context(site.gm())


@pytest.mark.parametrize("down", ["gm", "edge", "both"])
async def test_a_delete_made_while_something_was_down_reaches_a_v1_node_P0_007(
    site: Site, down: str
) -> None:
    """The keys that a v1 node may hold outlive GM; A and C are sent again, as in each session."""
    keys = {name: f"dataset {site.namespace}/{name}" for name in "abc"}
    for name in keys:
        await site.dataset(name, "edge0")
    async with contextlib.AsyncExitStack() as gm:
        await gm.enter_async_context(site.gm())
        async with site.edge("edge0") as edge:
            await edge.wait_for(lambda: set(keys.values()) <= set(edge.held))
            assert await site.cluster.list(CONFIG_MAPS, "app.kubernetes.io/managed-by=gm")
            if down == "gm":
                await delete_meanwhile(site, down, gm)
        if down != "gm":
            await delete_meanwhile(site, down, gm)
        async with site.edge("edge0", held=dict(edge.held)) as back:
            await back.wait_for(lambda: len(back.frames) == 3)
            assert {frame["key"]: frame["header"]["operation"] for frame in back.frames} == {
                keys["a"]: "insert",
                keys["b"]: "delete",
                keys["c"]: "insert",
            }
            assert set(back.held) == {keys["a"], keys["c"]}


@pytest.mark.parametrize("down", ["gm", "edge", "both"])
async def test_a_delete_made_while_something_was_down_reaches_a_v2_node_P0_007_P1_060(
    site: Site, down: str
) -> None:
    """Its hello says what it holds; the answer is deletes of what is gone, nothing for A and C."""
    keys = {name: f"dataset {site.namespace}/{name}" for name in "abc"}
    for name in keys:
        await site.dataset(name, "edge0")
    async with contextlib.AsyncExitStack() as gm:
        await gm.enter_async_context(site.gm())
        async with site.edge_v2("edge0") as edge:
            await edge.wait_for(lambda: set(keys.values()) <= set(edge.held))
            if down == "gm":
                await delete_meanwhile(site, down, gm)
        if down != "gm":
            await delete_meanwhile(site, down, gm)
        ghost = {f"federatedlearningjob {site.namespace}/ghost": ("uid", "digest", b"{}")}
        async with site.edge_v2("edge0", held=edge.held | ghost) as back:
            await back.wait_for(lambda: bool(back.came(v2.Synced)))
            assert {frame.name for frame in back.came(v2.Delete)} == {"b", "ghost"}
            assert back.came(v2.Put) == []
            assert set(back.held) == {keys["a"], keys["c"]}


async def holder(client: Client, site: Site) -> str:
    """Identity of the replica that leads; empty if none does."""
    leases = await client.list(LEASES, namespace=site.namespace)
    specs = [msgspec.json.decode(item)["spec"] for item in leases.items]
    return specs[0].get("holderIdentity") or "" if specs else ""


async def test_of_two_replicas_one_makes_children_and_hands_over_when_it_stops_P1_078(
    site: Site,
) -> None:
    """Both serve nodes; the lease's holder makes the children; a clean stop frees the lease."""
    enabled = msgspec.structs.replace(site.config.leader_election, enabled=True)
    site.config = msgspec.structs.replace(site.config, leader_election=enabled)
    await site.references()
    async with site.cluster.client() as client:
        async with site.gm():

            async def has_leader() -> str:
                return await holder(client, site)

            first = await site.cluster.wait_for(has_leader)
            first_stopping = site.stopping
            async with site.gm(), site.edge("edge0") as edge:
                await edge.wait_for(lambda: f"dataset {site.namespace}/d0" in edge.held)
                assert await holder(client, site) == first
                first_stopping.set()

                async def has_changed() -> bool:
                    return await holder(client, site) not in ("", first)

                await site.cluster.wait_for(has_changed)
                await site.submit()

                async def pods() -> bool:
                    return len(await site.cluster.list(PODS)) == 3

                await site.cluster.wait_for(pods)
        assert await holder(client, site) == ""
        await client.get(LEASES, ObjectKey(site.namespace, f"gm-{site.namespace}"))


async def test_a_replica_that_does_not_lead_stops_at_once(site: Site) -> None:
    """Waiting for the lease does not hold up a stop."""
    enabled = msgspec.structs.replace(site.config.leader_election, enabled=True)
    site.config = msgspec.structs.replace(site.config, leader_election=enabled)
    async with site.cluster.client() as client, site.gm():

        async def has_leader() -> str:
            return await holder(client, site)

        await site.cluster.wait_for(has_leader)
        async with asyncio.timeout(15), site.gm():
            pass


async def test_gms_without_an_election_are_warned_of_each_other(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever starts a second one learns it from its log, and so does whoever runs the first."""
    soon = functools.partial(Presence, interval_seconds=0.1)
    monkeypatch.setattr("gm.controllers.manager.Presence", soon)

    def warned() -> list[Any]:
        return [r for r in caplog.records if r.getMessage().startswith("another gm works")]

    async with site.gm():
        async with site.gm():
            await site.cluster.wait_for(lambda: len(warned()) == 2)
        first, second = warned()
        assert (first.identity, first.other) == (second.other, second.identity)
        enabled = msgspec.structs.replace(site.config.leader_election, enabled=True)
        site.config = msgspec.structs.replace(site.config, leader_election=enabled)
        async with site.cluster.client() as client, site.gm():
            await site.cluster.wait_for(lambda: len(warned()) == 3)
            key = ObjectKey(site.namespace, f"gm-{site.namespace}")
            lease = msgspec.json.decode(await client.get(LEASES, key))
            assert warned()[-1].other == lease["spec"]["holderIdentity"]
