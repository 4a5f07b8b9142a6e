"""A runner against a test's cluster, and what tests ask about its pods."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from gm.api.resources import EVENTS, NODES, PODS
from gm.edge_stub.runner import Runner, RunnerSettings, Tuning
from gm.errors import NotFound
from tests.cluster.cluster import Cluster
from tests.edge_stub.runner.support import loopback

__all__ = ["FAST", "Edge", "edge", "is_ready", "status", "waiting"]

FAST = Tuning(
    backoff_first_seconds=0.1,
    backoff_max_seconds=0.4,
    lease_renew_seconds=0.2,
    retry_seconds=0.05,
    retry_max_seconds=0.2,
    stop_grace_seconds=0.5,
    follow_poll_seconds=0.01,
    endpoints_seconds=0.05,
)


class Edge:
    """A node played by the runner in this process, for a test's namespace."""

    def __init__(self, cluster: Cluster, directory: Path, address: str = "") -> None:
        self.cluster = cluster
        self.name = f"n-{secrets.token_hex(4)}"
        self.address = address or loopback()
        self.directory = directory / self.name
        self.root = self.directory / "root"

    def settings(self, **changes: Any) -> RunnerSettings:
        """What `gm up` would give it."""
        wanted: dict[str, Any] = {
            "node": self.name,
            "root": self.root,
            "state": self.directory / "state",
            "address": self.address,
            "kubeconfig": Path(self.cluster.kubeconfig),
            "any_pod": True,
        }
        return RunnerSettings(**(wanted | changes))

    @contextlib.asynccontextmanager
    async def running(self, tuning: Tuning = FAST, **changes: Any) -> AsyncIterator[Runner]:
        """The runner, ready, for the body's lifetime; stopped properly afterwards."""
        stopping = asyncio.Event()
        runner = Runner(self.settings(**changes), tuning)
        async with asyncio.TaskGroup() as group:
            group.create_task(runner.run(stopping))
            await runner.wait_ready()
            try:
                yield runner
            finally:
                stopping.set()

    async def create(self, name: str, *command: str, **spec: Any) -> dict[str, Any]:
        """A pod on this node that runs a shell script, or ``spec`` as it is."""
        container = {"name": "main", "image": "none", **spec.pop("container", {})}
        if command:
            container["command"] = ["sh", "-c", *command]
        body = {
            "metadata": {"name": name, **spec.pop("metadata", {})},
            "spec": {
                "nodeName": self.name,
                "containers": [container],
                "terminationGracePeriodSeconds": 1,
                **spec,
            },
        }
        async with self.cluster.client() as client:
            created: dict[str, Any] = msgspec.json.decode(
                await client.create(PODS, self.cluster.namespace, body)
            )
        return created

    async def wait(
        self, name: str, holds: Callable[[dict[str, Any]], Any], what: str = ""
    ) -> dict[str, Any]:
        """The pod, once ``holds`` is true of it."""

        async def look() -> dict[str, Any] | None:
            pod = await self.cluster.get(PODS, name)
            return pod if pod is not None and holds(pod) else None

        found: dict[str, Any] = await self.cluster.wait_for(
            look, what=what or f"what pod {name} should become"
        )
        return found

    async def wait_phase(self, name: str, phase: str) -> dict[str, Any]:
        """The pod, once its phase is ``phase``."""
        return await self.wait(name, lambda pod: pod["status"].get("phase") == phase, phase)

    async def wait_ready(self, name: str) -> dict[str, Any]:
        """The pod, once it is Ready."""
        return await self.wait(name, is_ready, "Ready")

    async def delete(self, name: str, *, grace_seconds: int | None = None) -> None:
        """Ask for a pod's deletion and wait until it is gone."""
        async with self.cluster.client() as client:
            await client.delete(PODS, self.cluster.key(name), grace_period_seconds=grace_seconds)
        await self.wait_gone(name)

    async def wait_gone(self, name: str) -> None:
        """Return once there is no such pod."""

        async def look() -> bool:
            return await self.cluster.get(PODS, name) is None

        await self.cluster.wait_for(look, what=f"the end of pod {name}")

    async def log(self, name: str, *arguments: str) -> str:
        """What ``kubectl logs`` prints."""
        return await self.cluster.kubectl("logs", name, *arguments)

    async def wait_event(self, name: str, reason: str) -> dict[str, Any]:
        """The first Event about ``name`` with ``reason``, once there is one."""

        async def look() -> dict[str, Any] | None:
            for event in await self.cluster.list(EVENTS):
                if event["involvedObject"]["name"] == name and event["reason"] == reason:
                    return event
            return None

        found: dict[str, Any] = await self.cluster.wait_for(look, what=f"event {reason}")
        return found

    async def node(self) -> dict[str, Any]:
        """The Node object."""
        node = await self.cluster.get(NODES, self.name)
        assert node is not None
        return node


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether a pod has the condition Ready."""
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def status(pod: dict[str, Any], field: str = "containerStatuses") -> dict[str, Any]:
    """The status of the pod's first container."""
    found: dict[str, Any] = (pod["status"].get(field) or [{}])[0]
    return found


def waiting(pod: dict[str, Any]) -> dict[str, Any]:
    """Why the first container waits."""
    found: dict[str, Any] = status(pod).get("state", {}).get("waiting", {})
    return found


@contextlib.asynccontextmanager
async def edge(cluster: Cluster, directory: Path) -> AsyncIterator[Edge]:
    """A node for one test; its Node object is removed afterwards."""
    made = Edge(cluster, directory)
    yield made
    async with cluster.client() as client:
        with contextlib.suppress(NotFound):
            from gm.api.meta import ObjectKey

            await client.delete(NODES, ObjectKey("", made.name))
