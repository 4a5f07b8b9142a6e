"""The built-in kinds as a whole, and what they do to their objects beyond defaults."""

from __future__ import annotations

import copy

import pytest

from gm.api.meta import Json
from gm.devcluster import builtin
from gm.devcluster.info import ResourceInfo
from gm.devcluster.status import StatusError

INFOS = {info.resource.qualified: info for info in builtin.resources()}


@pytest.mark.parametrize("name", INFOS)
def test_every_kind_has_a_schema_columns_and_a_list_kind(name: str) -> None:
    """What discovery, tables and lists need."""
    info = INFOS[name]
    assert info.schema.fields
    assert info.schema.reference.endswith(f".{info.resource.kind}")
    assert info.columns
    assert info.list_kind == f"{info.resource.kind}List"
    assert info.singular.islower()
    assert (info.answer is not None) == (info.verbs == ("create",))


def services() -> tuple[ResourceInfo, Json]:
    """The resource, and a node port service that has all it was given."""
    info = INFOS["services"]
    ports = [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81}]
    spec = {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": ports}
    old: Json = {"metadata": {"name": "s", "namespace": "n"}, "spec": spec}
    info.prepare_create(old)
    old["spec"]["ports"][1]["nodePort"] = 30081
    return info, old


def changed(spec: Json) -> Json:
    """The service's spec after an update to ``spec``."""
    info, old = services()
    new: Json = {"metadata": {"name": "s"}, "spec": copy.deepcopy(spec)}
    info.prepare_update(new, old)
    result: Json = new["spec"]
    return result


def test_an_update_keeps_what_a_service_was_given() -> None:
    """Its address, and node ports by the ports' names."""
    ports = [{"name": "b", "port": 82}, {"name": "a", "port": 80}, {"name": "c", "port": 83}]
    spec = changed({"type": "NodePort", "ports": ports})
    assert spec["clusterIP"] == "10.96.0.9"
    assert [p.get("nodePort") for p in spec["ports"]] == [30081, 30080, None]


def test_a_service_that_becomes_a_plain_one_gives_its_node_ports_back() -> None:
    """Also when they are sent along, as a patch does."""
    _, old = services()
    spec = changed({**old["spec"], "type": "ClusterIP"})
    assert all("nodePort" not in port for port in spec["ports"])
    assert "externalTrafficPolicy" not in spec
    kept = changed({**old["spec"], "type": "ClusterIP", "externalIPs": ["1.2.3.4"]})
    assert kept["externalTrafficPolicy"] == "Cluster"


def test_an_external_name_needs_nothing() -> None:
    """No address is carried over to it."""
    assert "clusterIP" not in changed({"type": "ExternalName", "externalName": "a.b"})


def test_a_namespace_keeps_its_finalizers_and_its_label() -> None:
    """They leave through /finalize only."""
    info = INFOS["namespaces"]
    old: Json = {"metadata": {"name": "n"}, "spec": {"finalizers": ["x.io/mine"]}}
    info.prepare_create(old)
    assert old["spec"]["finalizers"] == ["x.io/mine", "kubernetes"]
    new: Json = {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"finalizers": []}}
    info.prepare_update(new, old)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "n"}


def test_a_node_brings_its_status_along() -> None:
    """A kubelet registers itself with what it has."""
    obj: Json = {"metadata": {"name": "n"}, "status": {"addresses": []}}
    obj["status"]["nodeInfo"] = {"kubeletVersion": "v1"}
    INFOS["nodes"].prepare_create(obj)
    assert obj["status"]["nodeInfo"]["kubeletVersion"] == "v1"
    assert obj["spec"] == {}


def test_events_of_the_newer_group_are_stored_as_core_events() -> None:
    """And must be complete."""
    info = INFOS["events.events.k8s.io"]
    assert info.storage == INFOS["events"].resource
    obj: Json = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "n",
    }
    with pytest.raises(StatusError, match="eventTime: Required value"):
        info.prepare_create(copy.deepcopy(obj))
    obj |= {
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "action": "Act",
        "reason": "Because",
        "type": "Normal",
    }
    info.prepare_create(obj)
    stored = info.to_storage(obj)
    assert (stored["kind"], stored["apiVersion"]) == ("Event", "v1")
    assert stored["involvedObject"]["name"] == "p"
    assert info.from_storage(stored)["note"] == "n"
