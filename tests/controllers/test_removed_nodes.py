"""Deleting a Node ends the session of its agent."""

from __future__ import annotations

from typing import Any

from gm.api.core import Node
from gm.api.meta import ObjectKey
from gm.api.resources import NODES
from gm.controllers.removed_nodes import close_sessions_of_removed
from gm.messagelayer.session import NODE_GONE
from tests.controllers.conftest import Site
from tests.controllers.fake_informer import FakeInformer
from tests.fakes.edge import EdgeV2
from tests.messagelayer.support import open_hub


async def test_session_ends_with_the_node_and_a_new_node_starts_anew_P1_040(site: Site) -> None:
    """The agent hears why; under a Node of that name again it gets everything."""
    await site.references(trainers=1)
    name = site.node("edge0")
    async with site.gm() as manager:
        async with EdgeV2.connected(manager.websocket_port, name) as edge:
            await edge.wait_for(lambda: bool(edge.held))
            async with site.cluster.client() as client:
                await client.delete(NODES, ObjectKey("", name))
            assert await edge.wait_closed() == (NODE_GONE, "the Node object was deleted")
        await site.nodes("edge0")
        async with EdgeV2.connected(manager.websocket_port, name) as again:
            await again.wait_for(lambda: bool(again.held))
            assert again.closed is None


async def test_other_events_and_other_nodes_end_nothing() -> None:
    """A Node that comes or changes, a Node without session, the end of the first list."""
    hub = open_hub()
    closed: list[str] = []
    hub.disconnect = lambda node, **_: closed.append(node)  # type: ignore[method-assign]
    nodes: Any = FakeInformer(NODES, Node)
    close_sessions_of_removed(nodes, hub)
    for _ in range(2):
        await nodes.put({"metadata": {"name": "edge1"}})
    await nodes.sync()
    assert closed == []
    await nodes.remove("edge1")
    assert closed == ["edge1"]
