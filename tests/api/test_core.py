"""Views of Kubernetes' own kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gm.api import core
from gm.api.core import Container, EnvVar, Lease, Namespace, Node, Pod, Secret, Service
from gm.api.meta import ObjectMeta
from tests.api import samples

KINDS: list[type[Any]] = [Lease, Namespace, Node, Pod, Secret, Service]


def nulls(view: type[msgspec.Struct]) -> dict[str, None]:
    """An object that has every field of ``view`` that may be null, as null."""
    fields = msgspec.inspect.type_info(view).fields  # type: ignore[attr-defined]
    return {f.encode_name: None for f in fields if f.default is None}


@pytest.mark.parametrize("view", KINDS)
def test_an_empty_object_of_each_kind_can_be_read(view: type[Any]) -> None:
    """API servers leave out whatever is empty."""
    assert samples.read({}, view).metadata == ObjectMeta()


@pytest.mark.parametrize("name", core.__all__)
def test_null_reads_as_missing_wherever_a_field_may_be_missing(name: str) -> None:
    """Go writes null for lists and times that are not set."""
    view = getattr(core, name)
    assert samples.read(dict(nulls(view)), view) == view()


def test_a_pod_is_read_as_far_as_we_need_it() -> None:
    """Names whose capitals camelCase does not give are among them."""
    pod = samples.read(
        {
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "unknown": 1},
            "spec": {
                "nodeName": "edge1",
                "hostNetwork": True,
                "restartPolicy": "OnFailure",
                "containers": [{"name": "c", "env": [{"name": "DATASET_NAME", "value": "ds1"}]}],
            },
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "hostIP": "10.250.0.11",
                "startTime": "2026-11-30T04:17:43Z",
                "conditions": [
                    {"type": "Ready", "status": "True", "lastProbeTime": None, "observed": 1}
                ],
                "containerStatuses": [
                    {
                        "name": "c",
                        "ready": True,
                        "restartCount": 2,
                        "state": {"running": {"startedAt": "2026-11-30T04:17:44Z"}},
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }
                ],
                "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "W"}}}],
            },
        },
        Pod,
    )
    assert str(pod.metadata.key) == "b/a"
    assert (pod.spec.node_name, pod.spec.host_network) == ("edge1", True)
    assert (pod.status.pod_ip, pod.status.host_ip) == ("10.0.0.1", "10.250.0.11")
    assert pod.status.start_time == datetime(2026, 11, 30, 4, 17, 43, tzinfo=UTC)
    assert pod.spec.containers is not None
    assert pod.spec.containers[0].env_value("DATASET_NAME") == "ds1"
    assert pod.status.container_statuses is not None
    status = pod.status.container_statuses[0]
    assert (status.ready, status.restart_count) == (True, 2)
    assert status.state is not None
    assert status.state.running is not None
    assert status.last_state is not None
    assert status.last_state.terminated is not None
    assert status.last_state.terminated.exit_code == 137
    assert pod.status.init_container_statuses is not None
    assert pod.status.conditions is not None
    assert pod.status.conditions[0].type == "Ready"


def test_of_two_variables_of_one_name_the_last_counts() -> None:
    """As for the process in the pod."""
    container = Container(env=(EnvVar(name="A", value="1"), EnvVar(name="A", value="2")))
    assert container.env_value("A") == "2"
    assert container.env_value("B") is None
    assert Container().env_value("A") is None


def test_a_service_is_read_with_its_ports_and_addresses() -> None:
    """A target port is a number or a name."""
    service = samples.read(
        {
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.96.0.1",
                "externalIPs": ["10.250.0.11"],
                "selector": {"a": "b"},
                "ports": [
                    {"port": 7363, "nodePort": 30001, "targetPort": 7363, "protocol": "TCP"},
                    {"name": "tcp-0", "port": 1, "targetPort": "web"},
                ],
            }
        },
        Service,
    )
    assert service.spec.cluster_ip == "10.96.0.1"
    assert service.spec.external_ips == ("10.250.0.11",)
    assert service.spec.ports is not None
    assert [port.target_port for port in service.spec.ports] == [7363, "web"]
    assert service.spec.ports[0].node_port == 30001


def test_a_node_gives_the_first_address_of_the_wanted_type() -> None:
    """ExternalIP, else InternalIP: the order is the caller's."""
    node = samples.read(
        {
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "10.250.0.11"},
                    {"type": "ExternalIP", "address": ""},
                    {"type": "Hostname", "address": "edge1"},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            },
        },
        Node,
    )
    assert node.address("ExternalIP", "InternalIP") == "10.250.0.11"
    assert node.address("ExternalIP") is None
    assert Node().address("InternalIP") is None
    assert node.status.daemon_endpoints is not None
    assert node.status.daemon_endpoints.kubelet_endpoint is not None
    assert node.status.daemon_endpoints.kubelet_endpoint.port == 10250


def test_a_lease_keeps_microseconds() -> None:
    """Leader election compares them."""
    lease = samples.read({"spec": {"renewTime": "2026-11-30T04:17:43.123456Z"}}, Lease)
    assert lease.spec.renew_time == datetime(2026, 11, 30, 4, 17, 43, 123456, tzinfo=UTC)


def test_views_are_frozen() -> None:
    """A lister hands the same view to everyone."""
    with pytest.raises(AttributeError):
        Pod().metadata = ObjectMeta()  # type: ignore[misc]
