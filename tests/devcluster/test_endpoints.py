"""Where a Service's pods are."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.endpoints import EndpointsController, resolve_ports
from gm.devcluster.gc import GarbageCollector
from tests.devcluster.core import Plain, Settler, plain, pod, settle

SLICES = "endpointslices.discovery.k8s.io"


class _World:
    """An API with the endpoints controller, at rest between steps."""

    def __init__(self) -> None:
        self.api: Plain = plain(widgets=False)
        self.settler: Settler = settle(
            self.api, EndpointsController(self.api.api), GarbageCollector(self.api.api)
        )

    def service(self, name: str = "web", **spec: Any) -> None:
        self.api.create(
            "services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "labels": {"team": "a"}},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec},
            },
        )
        self.settler.settle()

    def pod(self, name: str, ip: str, *, ready: bool = True, **spec: Any) -> None:
        self.api.create("pods", pod(name, meta={"labels": {"app": "web"}}, nodeName="n", **spec))
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status: Json = {"phase": "Running", "conditions": [condition]}
        if ip:
            status["podIP"] = ip
        self.status(name, status)

    def status(self, name: str, status: Json) -> None:
        self.api.patch("pods", name, lambda p: {**p, "status": status}, subresource="status")
        self.settler.settle()

    def delete(self, plural: str, name: str) -> None:
        delete(self.api.api, self.api.info(plural), self.api.key(plural, name), DeleteOptions())
        self.settler.settle()

    @property
    def subsets(self) -> list[Json]:
        found: list[Json] = self.api.get("endpoints", "web").get("subsets") or []
        return found

    @property
    def slice(self) -> Json:
        (record,) = self.api.store.table(SLICES).records()
        return record.object


@pytest.fixture
def world() -> _World:
    """An empty one."""
    return _World()


def test_ready_pods_are_addresses(world: _World) -> None:
    """Others are listed apart; both forms say the same."""
    world.service(ports=[{"port": 80, "targetPort": 8080, "name": "http"}])
    world.pod("a", "10.0.0.1")
    world.pod("b", "10.0.0.2", ready=False)
    world.pod("c", "")
    (subset,) = world.subsets
    assert [a["ip"] for a in subset["addresses"]] == ["10.0.0.1"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["10.0.0.2"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert subset["addresses"][0]["targetRef"]["name"] == "a"
    found = {e["addresses"][0]: e["conditions"]["ready"] for e in world.slice["endpoints"]}
    assert found == {"10.0.0.1": True, "10.0.0.2": False}
    assert world.slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web"


def test_changes_of_pods_are_followed(world: _World) -> None:
    """Readiness, labels, the end, and deletion."""
    world.service()
    assert world.subsets == []
    world.pod("a", "10.0.0.1")
    assert len(world.subsets) == 1
    before = world.api.store.table("endpoints").revision
    world.api.patch("pods", "a", _labelled(app="web", more="x"))
    world.settler.settle()
    assert world.api.store.table("endpoints").revision == before
    world.api.patch("pods", "a", _labelled(app="other"))
    world.settler.settle()
    assert world.subsets == []
    world.api.patch("pods", "a", _labelled(app="web"))
    world.settler.settle()
    assert len(world.subsets) == 1
    world.status("a", {"phase": "Succeeded", "podIP": "10.0.0.1"})
    assert world.subsets == []


def _labelled(**labels: str) -> Any:
    return lambda p: {**p, "metadata": {**p["metadata"], "labels": labels}}


def test_a_pod_that_terminates_gets_no_new_connections(world: _World) -> None:
    """The slice says that it terminates."""
    world.service()
    world.pod("a", "10.0.0.1")
    world.delete("pods", "a")
    assert world.subsets == []
    (endpoint,) = world.slice["endpoints"]
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}


def test_not_ready_addresses_can_be_published(world: _World) -> None:
    """For peers that must find each other before they are ready."""
    world.service(publishNotReadyAddresses=True)
    world.pod("a", "10.0.0.1", ready=False)
    assert [a["ip"] for a in world.subsets[0]["addresses"]] == ["10.0.0.1"]


def test_a_deleted_service_takes_both_along(world: _World) -> None:
    """The slice by its owner reference."""
    world.service()
    world.pod("a", "10.0.0.1")
    world.delete("services", "web")
    assert world.api.names("endpoints") == []
    assert world.api.names(SLICES) == []


@pytest.mark.parametrize(
    "spec", [{"selector": None}, {"type": "ExternalName", "externalName": "x"}]
)
def test_services_without_selector_are_left_alone(world: _World, spec: Json) -> None:
    """Whoever made them says where they lead."""
    world.service(**spec)
    world.pod("a", "10.0.0.1")
    assert world.api.names("endpoints") == []


def test_named_ports_are_those_of_each_pod(world: _World) -> None:
    """Pods with different numbers make different subsets; without the name, none."""

    def containers(port: int, name: str = "http") -> list[Json]:
        ports = [{"containerPort": port, "name": name}]
        return [{"name": "c", "image": "i", "ports": ports}]

    world.service(ports=[{"port": 80, "targetPort": "http"}])
    world.pod("a", "10.0.0.1", containers=containers(8080))
    world.pod("b", "10.0.0.2", containers=containers(9090))
    assert [s["ports"][0]["port"] for s in world.subsets] == [8080, 9090]
    service = world.api.get("services", "web")
    assert resolve_ports(service, pod("x", containers=containers(1, "other"))) == []


def test_ipv6_addresses_make_an_ipv6_slice(world: _World) -> None:
    """By the pods' addresses."""
    world.service()
    world.pod("a", "fd00::1")
    assert world.slice["addressType"] == "IPv6"


def test_a_pod_may_have_an_address_without_a_node(world: _World) -> None:
    """The node is only told if it is known."""
    world.service()
    world.api.create("pods", pod("a", meta={"labels": {"app": "web"}}))
    world.status("a", {"phase": "Running", "podIP": "10.0.0.1"})
    (address,) = world.subsets[0]["notReadyAddresses"]
    assert "nodeName" not in address
    assert "nodeName" not in world.slice["endpoints"][0]


def test_endpoints_may_have_been_deleted_by_hand(world: _World) -> None:
    """Then there is nothing to remove with the Service."""
    world.service()
    world.delete("endpoints", "web")
    world.delete("services", "web")
    assert world.api.names("endpoints") == []
