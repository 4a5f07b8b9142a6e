"""The cells of the other built-in kinds."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from gm.devcluster.columns import BUILTIN, DEFAULT

NOW = 1_704_067_260.0
META: Json = {"name": "x", "creationTimestamp": "2024-01-01T00:00:00Z"}


def cells(kind: str, meta: Json | None = None, **parts: Any) -> dict[str, Any]:
    """All cells of an object, by column."""
    obj = {"metadata": {**META, **(meta or {})}, **parts}
    return {column.name: column.cell(obj, NOW) for column in BUILTIN[kind]}


def test_a_kind_that_says_nothing_has_name_and_age() -> None:
    """The columns of kinds without any of their own."""
    assert [column.cell({"metadata": META}, NOW) for column in DEFAULT] == ["x", "60s"]


def test_nodes() -> None:
    """Readiness, roles, versions, addresses."""
    empty = cells("Node")
    assert (empty["Status"], empty["Roles"], empty["Version"]) == ("Unknown", "<none>", "")
    assert (empty["Internal-IP"], empty["OS-Image"]) == ("<none>", "<unknown>")
    full = cells(
        "Node",
        {"labels": {"node-role.kubernetes.io/edge": "", "kubernetes.io/role": "a", "z": "y",
                    "node-role.kubernetes.io/": ""}},
        spec={"unschedulable": True},
        status={
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1", "osImage": "Debian"},
        },
    )  # fmt: skip
    assert full["Status"] == "NotReady,SchedulingDisabled"
    assert (full["Roles"], full["Version"]) == ("a,edge", "v1")
    assert (full["Internal-IP"], full["External-IP"]) == ("1.2.3.4", "<none>")
    assert (full["OS-Image"], full["Kernel-Version"]) == ("Debian", "<unknown>")
    ready = cells("Node", status={"conditions": [{"type": "Ready", "status": "True"}]})
    assert ready["Status"] == "Ready"


def test_services() -> None:
    """Addresses by type, ports with node ports."""
    spec = {"type": "NodePort", "clusterIP": "10.0.0.1", "selector": {"a": "b"}}
    ports = [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    shown = cells("Service", spec={**spec, "ports": ports})
    assert shown["Port(s)"] == "80:30080/TCP,53/UDP"
    assert (shown["Cluster-IP"], shown["External-IP"], shown["Selector"]) == (
        "10.0.0.1",
        "<none>",
        "a=b",
    )
    assert cells("Service", spec={"externalIPs": ["1.1.1.1", "2.2.2.2"]})["External-IP"] == (
        "1.1.1.1,2.2.2.2"
    )
    named = cells("Service", spec={"type": "ExternalName", "externalName": "a.b"})
    assert (named["External-IP"], named["Cluster-IP"], named["Port(s)"]) == (
        "a.b",
        "<none>",
        "<none>",
    )
    balanced = {"type": "LoadBalancer"}
    assert cells("Service", spec=balanced)["External-IP"] == "<pending>"
    ingress = {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}, {"hostname": "h"}]}}
    assert cells("Service", spec=balanced, status=ingress)["External-IP"] == "1.1.1.1,h"


def test_workloads() -> None:
    """Counts, containers, images, selectors."""
    containers = [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": containers}},
    }
    status = {"readyReplicas": 1, "updatedReplicas": 2, "replicas": 3}
    shown = cells("Deployment", spec=spec, status=status)
    assert shown["Ready"] == "1/3"
    assert (shown["Up-to-date"], shown["Available"]) == (2, 0)
    assert (shown["Containers"], shown["Images"], shown["Selector"]) == ("c,d", "i,j", "a=b")
    assert cells("Deployment")["Containers"] == ""
    shown = cells("ReplicaSet", spec=spec, status=status)
    assert (shown["Desired"], shown["Current"], shown["Ready"]) == (3, 3, 1)


def test_autoscalers() -> None:
    """What is scaled, by what."""
    resource = {"name": "cpu", "target": {"averageUtilization": 80}}
    metrics: list[Json] = [{"type": "Resource", "resource": resource}, {"type": "Pods"}]
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    shown = cells("HorizontalPodAutoscaler", spec={**spec, "metrics": metrics, "minReplicas": 1})
    assert shown["Reference"] == "Deployment/d"
    assert shown["Targets"] == "cpu: <unknown>/80%, <unknown>/<auto>"
    assert (shown["MinPods"], shown["MaxPods"], shown["Replicas"]) == ("1", 3, 0)
    bare = cells("HorizontalPodAutoscaler", spec=spec)
    assert (bare["Targets"], bare["MinPods"]) == ("<none>", "<unset>")


def test_events() -> None:
    """Old and new ways of counting and of naming who told."""
    old = cells(
        "Event",
        involvedObject={"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
        source={"component": "kubelet", "host": "n"},
        firstTimestamp="2024-01-01T00:00:00Z",
        lastTimestamp="2024-01-01T00:00:50Z",
        count=3,
        message=" hello \n",
        type="Normal",
        reason="R",
    )
    assert old == {
        "Last Seen": "10s",
        "Type": "Normal",
        "Reason": "R",
        "Object": "pod/p",
        "Subobject": "spec.containers{c}",
        "Source": "kubelet, n",
        "Message": "hello",
        "First Seen": "60s",
        "Count": 3,
        "Name": "x",
    }
    new = cells(
        "Event",
        involvedObject={"kind": "Node"},
        eventTime="2024-01-01T00:00:00.000000Z",
        reportingComponent="gm",
        series={"count": 5, "lastObservedTime": "2024-01-01T00:00:55.000000Z"},
    )
    assert (new["Last Seen"], new["First Seen"], new["Count"]) == ("5s", "60s", 5)
    assert (new["Source"], new["Object"]) == ("gm", "node")
    once = cells("Event", eventTime="2024-01-01T00:00:00.000000Z")
    assert (once["Last Seen"], once["Count"]) == ("60s", 1)


def test_the_small_kinds() -> None:
    """Counts, phases, holders."""
    assert cells("Namespace", status={"phase": "Active"})["Status"] == "Active"
    secret = cells("Secret", type="Opaque", data={"a": "", "b": ""})
    assert (secret["Type"], secret["Data"]) == ("Opaque", 2)
    assert cells("ConfigMap", data={"a": ""}, binaryData={"b": ""})["Data"] == 2
    assert cells("ServiceAccount", secrets=[{}])["Secrets"] == 1
    assert cells("Lease", spec={"holderIdentity": "me"})["Holder"] == "me"
    created = cells("CustomResourceDefinition")["Created At"]
    assert created == "2024-01-01T00:00:00Z"


def test_endpoints_and_slices() -> None:
    """The first three, and how many more."""
    addresses = [{"ip": f"10.0.0.{n}"} for n in range(1, 6)]
    subsets = [{"addresses": addresses, "ports": [{"port": 80}]}]
    shown = cells("Endpoints", subsets=subsets)["Endpoints"]
    assert shown == "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more..."
    assert cells("Endpoints", subsets=[{"addresses": addresses[:1]}])["Endpoints"] == "10.0.0.1"
    assert cells("Endpoints")["Endpoints"] == "<none>"
    shown = cells(
        "EndpointSlice",
        addressType="IPv4",
        ports=[{"port": 80}, {}],
        endpoints=[{"addresses": ["10.0.0.1"]}],
    )
    assert (shown["AddressType"], shown["Ports"], shown["Endpoints"]) == (
        "IPv4",
        "80,*",
        "10.0.0.1",
    )
    empty = cells("EndpointSlice")
    assert (empty["Ports"], empty["Endpoints"]) == ("<unset>", "<unset>")


def test_claims() -> None:
    """Capacity and modes only with a volume."""
    status = {
        "phase": "Bound",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce", "Odd"],
    }
    spec = {"volumeName": "v", "storageClassName": "s", "volumeMode": "Filesystem"}
    bound = cells("PersistentVolumeClaim", spec=spec, status=status)
    assert (bound["Status"], bound["Capacity"], bound["Access Modes"]) == (
        "Bound",
        "1Gi",
        "RWO,Odd",
    )
    assert (bound["StorageClass"], bound["VolumeAttributesClass"]) == ("s", "<unset>")
    waiting = cells("PersistentVolumeClaim", status={"phase": "Pending", "accessModes": ["x"]})
    assert (waiting["Status"], waiting["Capacity"], waiting["Access Modes"]) == ("Pending", "", "")
    going = cells("PersistentVolumeClaim", {"deletionTimestamp": "x"})
    assert going["Status"] == "Terminating"
