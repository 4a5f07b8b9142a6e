"""A whole fleet that loses GM and comes back."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from websockets.exceptions import InvalidHandshake

from gm.edge_stub.agent import GOING_AWAY, Backoff
from gm.messagelayer import Hub
from tests.fakes.edge import EdgeV2
from tests.messagelayer.support import desired, open_hub, serving, until

NODES = 500
WELCOME_AND_SYNCED = 2 * NODES
PER_SECOND = 150
FASTER = 20  # than an LC's own times, which are 1 s, 60 s and 60 s


class Arrivals:
    """An onlooker that notes when sessions began (loop time)."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def joined(self, node: str) -> None:
        self.times.append(asyncio.get_running_loop().time())

    def left(self, node: str, *, silent_seconds: float) -> None:
        pass

    def changed(self, node: str) -> None:
        pass

    def most_within(self, seconds: float) -> int:
        """How many began within any ``seconds``."""
        return max(
            sum(began <= other < began + seconds for other in self.times) for began in self.times
        )


class Node:
    """An agent with the edge stub's own back-off; what it holds outlives its connections."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: dict[str, Any] = {}

    async def live(self, port: int) -> None:
        clock = asyncio.get_running_loop().time
        backoff = Backoff(
            first_seconds=1 / FASTER, max_seconds=60 / FASTER, stable_seconds=60 / FASTER
        )
        while True:
            lasted, code = 0.0, None
            with contextlib.suppress(OSError, InvalidHandshake, TimeoutError):
                async with EdgeV2.connected(port, self.name, held=self.held) as edge:
                    began = clock()
                    code, _ = await edge.wait_closed(seconds=600)
                    lasted = clock() - began
            going_away = code == GOING_AWAY
            delay = backoff.next_delay(lasted_seconds=lasted, going_away=going_away)
            await asyncio.sleep(delay)


def hub_for(nodes: list[Node], version: int) -> Hub:
    """A hub that wants an object on each node."""
    hub = open_hub()
    for node in nodes:
        hub.put(node.name, desired("d", version))
    return hub


def is_in_step(nodes: list[Node], version: int) -> bool:
    """Whether each node holds that version."""
    return all([digest for _, digest, _ in node.held.values()] == [f"{version}-"] for node in nodes)


async def test_fleet_comes_back_at_a_bounded_rate_after_a_restart_P1_046() -> None:
    """Nobody is lost, nobody hammers, and what nodes have already is not sent again."""
    nodes = [Node(f"n{number}") for number in range(NODES)]
    limits = {"connections_per_second": PER_SECOND}
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        hub = hub_for(nodes, 1)
        async with serving(hub, connections_per_second=10_000) as server:
            port = server.port
            living = [group.create_task(node.live(port)) for node in nodes]
            await until(lambda: is_in_step(nodes, 1), 60)
        for version in (2, 2):  # an upgrade, and a restart that changes nothing
            hub = hub_for(nodes, version)
            hub.onlooker = arrivals = Arrivals()
            async with serving(hub, port=port, **limits):
                began = loop.time()
                await until(lambda h=hub: h.session_count == NODES, 60)  # type: ignore[misc]
                await until(lambda v=version: is_in_step(nodes, v), 60)  # type: ignore[misc]
                assert loop.time() - began < 90 / FASTER * 10, "90 s, with time for a slow machine"
                assert arrivals.most_within(1) <= 2 * PER_SECOND + 10, "a burst, then the rate"
                await until(lambda h=hub: h.counters["frames_out"] >= WELCOME_AND_SYNCED, 60)  # type: ignore[misc]
        assert hub.counters["frames_out"] == WELCOME_AND_SYNCED, "each holds it already"
        for each in living:
            each.cancel()
