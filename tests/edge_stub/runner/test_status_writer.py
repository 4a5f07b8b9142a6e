"""Writing a pod's status: conflicts, refusals, and pods that are gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gm.api.meta import Json, ObjectKey, ResourceType
from gm.api.resources import PODS
from gm.edge_stub.runner.status import PodRecord
from gm.edge_stub.runner.status_writer import StatusWriter
from gm.errors import ApiUnreachable, Invalid
from gm.kube import Client
from tests.cluster.cluster import Cluster
from tests.edge_stub.runner.harness import Edge


class Watched(Client):
    """A client that counts status patches, and fails as many of them as it is told."""

    patches = 0
    failures: tuple[Exception, ...] = ()

    async def patch(
        self, resource: ResourceType, key: ObjectKey, body: Any, **options: Any
    ) -> bytes:
        """Count, fail or pass on."""
        self.patches += 1
        if self.failures:
            failure, *rest = self.failures
            self.failures = tuple(rest)
            raise failure
        return await super().patch(resource, key, body, **options)


async def writer_of(client: Client, node: Edge, name: str = "p") -> tuple[StatusWriter, PodRecord]:
    """A writer for a new pod."""
    pod = await node.create(name, "true")
    record = PodRecord.restore(pod, host_ip="127.1.1.1", now=datetime.now(UTC))
    writer = StatusWriter(client, pod, record, retry_seconds=0.01, retry_max_seconds=0.02)
    return writer, record


async def connect(cluster: Cluster) -> Watched:
    """A watched client."""
    client = await Watched.connect(kubeconfig=cluster.kubeconfig)
    assert isinstance(client, Watched)
    return client


async def status_of(node: Edge, name: str = "p") -> Json:
    """The pod's status in the API."""
    pod = await node.cluster.get(PODS, name)
    assert pod is not None
    found: Json = pod["status"]
    return found


async def test_a_status_is_written_once_and_then_only_when_it_differs(node: Edge) -> None:
    """No write without a change; one for a change."""
    async with await connect(node.cluster) as client:
        writer, record = await writer_of(client, node)
        await writer.write()
        await writer.write()
        assert client.patches == 1
        record.pod_ip = "127.1.1.64"
        await writer.write()
        assert client.patches == 2
    status = await status_of(node)
    assert (status["hostIP"], status["podIP"]) == ("127.1.1.1", "127.1.1.64")


async def test_a_conflict_means_read_again_and_compute_again(node: Edge) -> None:
    """What the other wrote is kept."""
    gate = {"type": "example.com/gate", "status": "True"}
    async with await connect(node.cluster) as client:
        writer, _ = await writer_of(client, node)
        await node.cluster.set_pod_status("p", conditions=[gate])
        await writer.write()
    conditions = [c["type"] for c in (await status_of(node))["conditions"]]
    assert {"example.com/gate", "Ready"} <= set(conditions)


async def test_an_older_version_of_its_own_is_not_taken_for_news(node: Edge) -> None:
    """The watch tells own writes late; taking them up would only make conflicts."""
    async with await connect(node.cluster) as client:
        writer, record = await writer_of(client, node)
        await writer.write()
        first = writer.pod
        record.pod_ip = "127.1.1.64"
        await writer.write()
        second = writer.pod
        writer.observe(first)
        assert writer.pod is second
        await writer.write()
        assert client.patches == 2
        labelled = {**second, "metadata": {**second["metadata"], "resourceVersion": "x"}}
        writer.observe(labelled)
        assert writer.pod is labelled


async def test_a_pod_that_is_gone_or_made_again_is_left_alone(node: Edge) -> None:
    """Its name may belong to another one now."""
    async with await connect(node.cluster) as client:
        writer, record = await writer_of(client, node)
        await node.cluster.finish_delete("p")
        await writer.write()
        await node.create("p", "true")
        record.pod_ip = "127.1.1.64"
        await writer.write()
    assert "podIP" not in await status_of(node)


async def test_a_pod_that_had_ended_is_never_written(node: Edge) -> None:
    """An earlier run, or somebody else, has said the last word."""
    async with await connect(node.cluster) as client:
        pod = await node.create("p", "true")
        await node.cluster.set_pod_status("p", phase="Failed", reason="Evicted")
        ended = msgspec.json.decode(await client.get(PODS, node.cluster.key("p")))
        record = PodRecord.restore(pod, host_ip="127.1.1.1", now=datetime.now(UTC))
        writer = StatusWriter(client, ended, record, retry_seconds=1, retry_max_seconds=1)
        await writer.write()
        assert client.patches == 0


async def test_failures_are_tried_again_but_refusals_are_not(
    node: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    """An API server that does not answer, and one that says no."""
    async with await connect(node.cluster) as client:
        writer, record = await writer_of(client, node)
        client.failures = (ApiUnreachable("down"), ApiUnreachable("down"))
        async with asyncio.TaskGroup() as group:
            running = group.create_task(writer.run())
            writer.touch()

            async def is_written() -> bool:
                return (await status_of(node)).get("hostIP") == "127.1.1.1"

            await node.cluster.wait_for(is_written, what="the status")
            running.cancel()
        assert client.patches == 3
        client.failures = (Invalid("patch", code=422, reason="Invalid", message="no"),)
        record.pod_ip = "127.1.1.64"
        await writer.write()
        assert client.patches == 4
    assert "pod status refused" in caplog.text
    assert "podIP" not in await status_of(node)
