"""NodePorts: every node forwards to ready pods of any node."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gm.api.core import ServicePort
from gm.api.resources import PODS, SERVICES
from gm.edge_stub.runner.ports import Target, targets
from tests.cluster.cluster import Cluster
from tests.edge_stub.runner.harness import Edge, edge

SERVER = "exec python -u -m http.server --bind $POD_IP 8000"


def raw(pod: dict[str, Any]) -> msgspec.Raw:
    """As a list gives it."""
    return msgspec.Raw(msgspec.json.encode(pod))


def ready_pod(address: str, *, ready: str = "True", deleted: bool = False) -> msgspec.Raw:
    """A pod with one named port."""
    return raw(
        {
            "metadata": {"name": "p", **({"deletionTimestamp": "T"} if deleted else {})},
            "spec": {"containers": [{"ports": [{"name": "web", "containerPort": 8000}]}]},
            "status": {"podIP": address, "conditions": [{"type": "Ready", "status": ready}]},
        }
    )


def test_targets_are_ready_pods() -> None:
    """Neither ones that end nor ones that are not there yet."""
    pods = [
        ready_pod("127.0.0.1"),
        ready_pod("127.0.0.2", ready="False"),
        ready_pod("127.0.0.3", deleted=True),
        raw({"metadata": {}, "spec": {}}),
    ]
    assert targets(pods, ServicePort(port=80, target_port=7)) == [Target("127.0.0.1", 7)]


@pytest.mark.parametrize(
    ("target_port", "expected"),
    [("web", [Target("127.0.0.1", 8000)]), (None, [Target("127.0.0.1", 80)]), ("nope", [])],
)
def test_target_ports_have_names_too(target_port: str | None, expected: list[Target]) -> None:
    """Without one it is the Service's port."""
    assert (
        targets([ready_pod("127.0.0.1")], ServicePort(port=80, target_port=target_port)) == expected
    )


def service(name: str, node_port: int, **spec: Any) -> dict[str, Any]:
    """A NodePort Service of pods with label app=NAME."""
    return {
        "metadata": {"name": name},
        "spec": {
            "type": "NodePort",
            "selector": {"app": name},
            "ports": [{"port": 80, "targetPort": "web", "nodePort": node_port}],
            **spec,
        },
    }


def free_node_port() -> int:
    """A NodePort; other tests of this run pick others, very probably, or below 30086."""
    return random.randint(30100, 32767)


async def create_service(cluster: Cluster, name: str, **spec: Any) -> int:
    """Make such a Service; returns its NodePort."""
    from gm.errors import Invalid

    async with cluster.client() as client:
        while True:
            number = free_node_port()
            with contextlib.suppress(Invalid):
                await client.create(SERVICES, cluster.namespace, service(name, number, **spec))
                return number


async def get(address: str, port: int) -> str:
    """The answer to a request, or "" if none comes."""
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                writer.write_eof()
                return (await reader.read()).decode()
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except OSError:
        return ""


async def wait_answer(cluster: Cluster, address: str, port: int, text: str) -> None:
    """Return once ``text`` is answered."""

    async def look() -> bool:
        return text in await get(address, port)

    await cluster.wait_for(look, what=f"an answer with {text!r} from {address}:{port}")


POD = {
    "metadata": {"labels": {"app": "web"}},
    "container": {"ports": [{"name": "web", "containerPort": 8000}]},
}


async def test_a_pod_of_another_node_is_reached_through_every_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    """And through the new one after it was replaced; not after the Service went."""
    async with (
        edge(cluster, tmp_path) as one,
        edge(cluster, tmp_path) as two,
        one.running(),
        two.running(),
    ):
        number = await create_service(cluster, "web")
        await one.create("web-1", f"mkdir first; {SERVER}", **POD)
        for node in (one, two):
            await wait_answer(cluster, node.address, number, "first/")
        await one.delete("web-1")
        await two.create("web-2", f"mkdir second; {SERVER}", **POD)
        for node in (one, two):
            await wait_answer(cluster, node.address, number, "second/")
        async with cluster.client() as client:
            await client.delete(SERVICES, cluster.key("web"))

        async def is_closed() -> bool:
            try:
                _, writer = await asyncio.open_connection(one.address, number)
            except ConnectionError as exc:  # reset if it is about to close
                return isinstance(exc, ConnectionRefusedError)
            writer.close()
            return False

        await cluster.wait_for(is_closed, what="the port's end")


async def test_a_service_without_ready_pods_closes_connections(node: Edge) -> None:
    """As nobody is there to answer."""
    async with node.running():
        number = await create_service(node.cluster, "none")
        without = await create_service(node.cluster, "unselected", selector=None)

        async def is_listening() -> bool:
            with contextlib.suppress(ConnectionRefusedError):
                for port in (number, without):
                    _, writer = await asyncio.open_connection(node.address, port)
                    writer.close()
                return True
            return False

        await node.cluster.wait_for(is_listening, what="a listener")
        assert await get(node.address, number) == ""
        assert await get(node.address, without) == ""


async def test_a_changed_selector_and_port_are_followed(node: Edge) -> None:
    """The listener stays or moves; the pods are asked for anew."""
    async with node.running(), node.cluster.client() as client:
        number = await create_service(node.cluster, "web", selector={"app": "nobody"})
        await node.create("web-1", SERVER, **POD)
        await node.wait_ready("web-1")
        key = node.cluster.key("web")
        await client.patch(SERVICES, key, {"spec": {"selector": {"app": "web"}}})
        await wait_answer(node.cluster, node.address, number, "200 OK")
        await client.patch(SERVICES, key, {"spec": {"type": "ClusterIP"}})

        async def is_closed() -> bool:
            return await get(node.address, number) == ""

        await node.cluster.wait_for(is_closed, what="the port's end")


async def test_a_port_in_use_is_said_and_taken_when_it_is_free(node: Edge) -> None:
    """An event on the Service, then it works."""
    number = await create_service(node.cluster, "web")
    with socket.socket() as taken:
        taken.bind((node.address, number))
        taken.listen()
        async with node.running():
            event = await node.wait_event("web", "NodePortInUse")
            assert f"{node.address}:{number}" in event["message"]
            await node.create("web-1", SERVER, **POD)
            taken.close()
            await wait_answer(node.cluster, node.address, number, "200 OK")


async def test_a_pod_that_refuses_is_passed_over(node: Edge) -> None:
    """Ready is said before the program listens; the next one answers."""
    async with node.running():
        number = await create_service(node.cluster, "web")
        await node.create("dead", "sleep 1000", **POD)
        await node.wait_ready("dead")
        assert await get(node.address, number) == ""
        await node.create("alive", SERVER, **POD)
        await wait_answer(node.cluster, node.address, number, "200 OK")
        pods = await node.cluster.list(PODS)
        assert len(pods) == 2


async def test_a_guest_forwards_ports_of_sedna_objects_only(node: Edge) -> None:
    """Other people's Services are other people's."""
    owner = {"apiVersion": "sedna.io/v1alpha1", "kind": "X", "name": "x", "uid": "u"}
    async with node.running(any_pod=False), node.cluster.client() as client:
        others = await create_service(node.cluster, "others")
        sednas = await create_service(node.cluster, "sednas")
        references = [{**owner, "controller": True}]
        await client.patch(
            SERVICES, node.cluster.key("sednas"), {"metadata": {"ownerReferences": references}}
        )

        async def is_listening() -> bool:
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection(node.address, sednas)
                writer.close()
                return True
            return False

        await node.cluster.wait_for(is_listening, what="a listener")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(node.address, others)


async def test_open_connections_end_with_the_runner(node: Edge) -> None:
    """A peer must not wait for ever."""
    async with node.running():
        number = await create_service(node.cluster, "web")
        await node.create("web-1", SERVER, **POD)
        await wait_answer(node.cluster, node.address, number, "200 OK")
        reader, writer = await asyncio.open_connection(node.address, number)
    async with asyncio.timeout(20):
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
