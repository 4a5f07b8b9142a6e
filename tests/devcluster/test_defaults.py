"""Defaults of built-in kinds, as recorded from a real server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster import defaults
from gm.devcluster.registry import Registry

REGISTRY = Registry()


def created(plural: str, obj: Json, *, group: str = "", version: str = "v1") -> Json:
    """An object as it is stored."""
    info = REGISTRY.lookup(group, version, plural)
    assert info is not None
    obj = copy.deepcopy(obj)
    meta = obj.setdefault("metadata", {})
    meta.setdefault("name", "x")
    if info.resource.namespaced:
        meta["namespace"] = "default"
    info.prepare_create(obj)
    return obj


def container(**fields: Any) -> Json:
    """The container of a pod that has only this one, as it is stored."""
    found: Json = pod({"containers": [{"name": "c", "image": "i", **fields}]})["containers"][0]
    return found


def pod(spec: Json) -> Json:
    """A pod's spec as it is stored."""
    found: Json = created("pods", {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}})
    return found["spec"]  # type: ignore[no-any-return]


def test_a_pod_gets_all_its_defaults() -> None:
    """Those of the spec, of its container, and of admission."""
    assert created("pods", {"spec": {"containers": [{"name": "c", "image": "i"}]}}) == {
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "Always",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("r.io:5000/i", "Always"),
        ("i:v1", "IfNotPresent"),
        ("r.io:5000/i:v1", "IfNotPresent"),
        ("i@sha256:00", "IfNotPresent"),
    ],
)
def test_a_tag_other_than_latest_is_pulled_once(image: str, policy: str) -> None:
    """The rule for imagePullPolicy."""
    assert container(image=image)["imagePullPolicy"] == policy
    assert container(image=image, imagePullPolicy="Never")["imagePullPolicy"] == "Never"


def test_tolerations_that_a_pod_has_are_not_added_again() -> None:
    """A toleration of everything is enough."""
    everything = [{"operator": "Exists"}]
    assert pod({"tolerations": everything})["tolerations"] == everything
    mine = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    keys = [t["key"] for t in pod({"tolerations": [mine]})["tolerations"]]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    other = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
    assert len(pod({"tolerations": [other]})["tolerations"]) == 3


def test_host_network_takes_the_ports_of_the_host() -> None:
    """A container's port is the node's."""
    spec = {
        "hostNetwork": True,
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
    }
    assert pod(spec)["containers"][0]["ports"] == [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
    ]


def test_parts_of_containers_get_theirs() -> None:
    """Limits, probes, hooks, references to fields."""
    assert container(resources={"limits": {"cpu": "1"}})["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "1"},
    }
    probe = container(livenessProbe={"httpGet": {"port": 80}})["livenessProbe"]
    assert probe == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container(startupProbe={"grpc": {"port": 1}})["startupProbe"]["grpc"]["service"] == ""
    hook = container(lifecycle={"preStop": {"httpGet": {"port": 1}}})["lifecycle"]["preStop"]
    assert hook["httpGet"] == {"port": 1, "path": "/", "scheme": "HTTP"}
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "B"}]
    assert container(env=env)["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"


def test_volumes_get_theirs() -> None:
    """Modes, types, and emptyDir for one that says nothing."""
    item = {"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}
    sources = [{"downwardAPI": {"items": [item]}}, {"configMap": {"name": "c"}}]
    volumes = pod(
        {
            "serviceAccount": "robot",
            "volumes": [
                {"name": "a"},
                {"name": "b", "hostPath": {"path": "/x"}},
                {"name": "c", "secret": {"secretName": "s"}},
                {"name": "d", "downwardAPI": {"items": [item]}},
                {
                    "name": "e",
                    "projected": {"sources": [*sources, {"serviceAccountToken": {"path": "t"}}]},
                },
            ],
        }
    )["volumes"]
    assert volumes[0] == {"name": "a", "emptyDir": {}}
    assert volumes[1]["hostPath"] == {"path": "/x", "type": ""}
    assert volumes[2]["secret"]["defaultMode"] == 420
    assert volumes[3]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    projected = volumes[4]["projected"]["sources"]
    assert projected[0]["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    assert projected[2]["serviceAccountToken"]["expirationSeconds"] == 3600


def test_the_service_account_has_two_names() -> None:
    """The old one and the new one say the same."""
    spec = pod({"serviceAccountName": "robot"})
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")


@pytest.mark.parametrize(
    ("given", "address", "addresses"),
    [
        ({"podIP": "10.0.0.1"}, "10.0.0.1", ["10.0.0.1"]),
        ({"podIPs": [{"ip": "10.0.0.1"}]}, "10.0.0.1", ["10.0.0.1"]),
        ({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}]}, "10.0.0.1", ["10.0.0.1"]),
        (
            {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]},
            "10.0.0.1",
            ["10.0.0.1", "::1"],
        ),
    ],
)
def test_both_fields_with_a_pods_address_agree(
    given: Json, address: str, addresses: list[str]
) -> None:
    """Clients read the one or the other."""
    obj: Json = {"spec": {"containers": []}, "status": given}
    defaults.pod(obj)
    assert obj["status"]["podIP"] == address
    assert [each["ip"] for each in obj["status"]["podIPs"]] == addresses


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: Json, quality: str) -> None:
    """Guaranteed is who asks for exactly its limits."""
    assert defaults.quality_of_service({"containers": [{"resources": resources}]}) == quality


def service(spec: Json) -> Json:
    """A service's spec as it is stored, before it gets its address."""
    found: Json = created("services", {"spec": {"ports": [{"port": 80}], **spec}})
    return found["spec"]  # type: ignore[no-any-return]


def test_services_get_theirs() -> None:
    """By type."""
    assert service({}) == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    }
    assert service({"type": "NodePort"})["externalTrafficPolicy"] == "Cluster"
    assert service({"externalIPs": ["1.2.3.4"]})["externalTrafficPolicy"] == "Cluster"
    assert service({"type": "LoadBalancer"})["allocateLoadBalancerNodePorts"] is True
    assert service({"clusterIP": "None"})["clusterIPs"] == ["None"]
    assert service({"sessionAffinity": "ClientIP"})["sessionAffinityConfig"] == {
        "clientIP": {"timeoutSeconds": 10800}
    }
    assert "ipFamilies" not in service({"type": "ExternalName", "externalName": "a.b"})


def test_a_load_balancer_s_address_is_virtual() -> None:
    """Unless it says otherwise."""
    ingress = [{"ip": "1.2.3.4"}, {"hostname": "h"}]
    obj: Json = {"spec": {}, "status": {"loadBalancer": {"ingress": ingress}}}
    defaults.service(obj)
    assert ingress == [{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "h"}]


DEPLOYMENT: Json = {
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
}


def test_deployments_and_replica_sets_get_theirs() -> None:
    """Their templates those of pods, but not those of admission."""
    spec = created("deployments", DEPLOYMENT, group="apps")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    template = spec["template"]["spec"]
    assert template["restartPolicy"] == "Always"
    assert "tolerations" not in template
    recreate = copy.deepcopy(DEPLOYMENT)
    recreate["spec"] |= {"strategy": {"type": "Recreate"}, "replicas": 0}
    spec = created("deployments", recreate, group="apps")["spec"]
    assert (spec["strategy"], spec["replicas"]) == ({"type": "Recreate"}, 0)
    assert created("replicasets", DEPLOYMENT, group="apps")["spec"]["replicas"] == 1


def test_the_small_kinds_get_theirs() -> None:
    """Namespaces, secrets, events, claims, autoscalers, endpoints."""
    namespace = created("namespaces", {})
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert (namespace["spec"], namespace["status"]) == (
        {"finalizers": ["kubernetes"]},
        {"phase": "Active"},
    )
    secret = created("secrets", {"stringData": {"a": "b"}, "data": {"c": "ZA=="}})
    assert (secret["data"], secret["type"]) == ({"c": "ZA==", "a": "Yg=="}, "Opaque")
    assert "stringData" not in secret
    event = created("events", {"involvedObject": {"namespace": "default"}})
    assert (event["eventTime"], event["firstTimestamp"], event["lastTimestamp"]) == (None,) * 3
    assert created("persistentvolumeclaims", {})["spec"]["volumeMode"] == "Filesystem"
    scaler = created(
        "horizontalpodautoscalers",
        {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}},
        group="autoscaling",
        version="v2",
    )["spec"]
    assert scaler["minReplicas"] == 1
    assert scaler["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]
    assert created("endpoints", {"subsets": subsets})["subsets"][0]["ports"] == [
        {"port": 80, "protocol": "TCP"}
    ]
    slices = created(
        "endpointslices",
        {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": []},
        group="discovery.k8s.io",
    )
    assert slices["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    node = created("nodes", {"status": {"capacity": {"cpu": 4}}})
    assert node["status"]["allocatable"] == {"cpu": "4"}
