"""Objects of the other built-in kinds that are taken, and that are not."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from gm.kube import MERGE_PATCH
from tests.devcluster.golden.objects import core
from tests.devcluster.golden.steps import CORE, Step, judge, patch, post

__all__ = ["STEPS"]

APPS = "/apis/apps/v1/namespaces/$ns"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/$ns/events"
P: Json = {"port": 80}

SERVICES: dict[str, Json] = {
    "with a node port": {"type": "NodePort"},
    "with a load balancer": {"type": "LoadBalancer"},
    "with a balancer without node ports": {
        "type": "LoadBalancer",
        "allocateLoadBalancerNodePorts": False,
    },
    "with an odd outside name": {"type": "ExternalName", "externalName": "X_"},
    "without an outside name": {"type": "ExternalName"},
    "of an odd type": {"type": "Foo"},
    "outside of the network": {"clusterIP": "1.2.3.4"},
    "at no address": {"clusterIP": "foo"},
    "at two addresses": {"clusterIP": "10.96.200.200", "clusterIPs": ["10.96.200.201"]},
    "without ports": {"ports": []},
    "without ports and address": {"ports": [], "clusterIP": "None"},
    "with ports without names": {"ports": [P, {"port": 81}]},
    "with a port twice": {"ports": [{**P, "name": "a"}, {**P, "name": "b"}]},
    "with a port in two protocols": {
        "ports": [{**P, "name": "a"}, {**P, "name": "b", "protocol": "UDP"}]
    },
    "with port 0": {"ports": [{"port": 0}]},
    "with a target": {"ports": [{**P, "targetPort": "http"}]},
    "with an empty target": {"ports": [{**P, "targetPort": ""}]},
    "with an odd target": {"ports": [{**P, "targetPort": "Bad_Name_Too_Long"}]},
    "with a node port that it can not have": {"ports": [{**P, "nodePort": 30001}]},
    "with a node port twice": {
        "type": "NodePort",
        "ports": [
            {**P, "nodePort": 30007, "name": "a"},
            {"port": 81, "nodePort": 30007, "name": "b"},
        ],
    },
    "with odd affinity": {"sessionAffinity": "Foo"},
    "with affinity": {"sessionAffinity": "ClientIP"},
    "with affinity that is not used": {
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}
    },
    "with a policy that it can not have": {"externalTrafficPolicy": "Local"},
    "with a policy": {"type": "NodePort", "externalTrafficPolicy": "Local"},
    "with an odd policy": {"internalTrafficPolicy": "Foo"},
    "with outside addresses": {"externalIPs": ["1.2.3.4"]},
    "with a loopback address": {"externalIPs": ["127.0.0.1"]},
    "of two families": {"ipFamilyPolicy": "RequireDualStack"},
    "of the other family": {"ipFamilies": ["IPv6"]},
    "with what a balancer has": {"allocateLoadBalancerNodePorts": True},
    "with odd ranges": {"loadBalancerSourceRanges": ["x"]},
    "with an odd selector": {"selector": {"a b": "c"}},
    "with nothing to say": {
        "publishNotReadyAddresses": False,
        "externalName": "",
        "sessionAffinity": "",
        "type": "",
        "externalIPs": [],
        "loadBalancerIP": "",
        "healthCheckNodePort": 0,
        "ports": [{**P, "nodePort": 0, "name": "", "targetPort": 0, "protocol": ""}],
    },
}
SECRETS: dict[str, Json] = {
    "from both": {"data": {"a": "YQ=="}, "stringData": {"a": "b"}},
    "with half of the padding": {"data": {"a": "YQ="}},
    "without padding": {"data": {"a": "YQ"}},
    "with a number": {"data": {"a": 1}},
    "with null": {"data": {"a": None}},
    "for TLS": {"type": "kubernetes.io/tls"},
    "for a registry": {
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": "e30="},
    },
    "for a registry, no JSON": {
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": "YQ=="},
    },
    "for a user": {"type": "kubernetes.io/basic-auth"},
    "for an account": {"type": "kubernetes.io/service-account-token"},
    "of an empty type": {"type": ""},
    "with an odd key": {"data": {"a/b": "YQ=="}},
}
MAPS: dict[str, Json] = {
    "with a number": {"data": {"a": 1}},
    "with null": {"data": {"a": None}},
    "with an empty key": {"data": {"": "x"}},
    "with a key of two dots": {"data": {"..": "x"}},
    "with a key that begins with two dots": {"data": {"..x": "x"}},
    "with a long key": {"data": {"x" * 254: "x"}},
    "with a key twice": {"data": {"a": "x"}, "binaryData": {"a": "YQ=="}},
}


def service(name: str, spec: Json) -> Step:
    """A service that selects pods."""
    obj = core("Service", "s", spec={"selector": {"a": "b"}, "ports": [P], **spec})
    asked = [f"spec.{field}" for field in spec if field not in ("clusterIP", "clusterIPs")]
    return judge(f"a service {name}", f"{CORE}/services", obj, *asked)


def workload(**spec: Any) -> Json:
    """A deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}], **spec.pop("pod", {})},
            },
            **spec,
        },
    }


def rolling(**update: Any) -> Json:
    """How a deployment changes its pods."""
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": update}}


DEPLOYMENTS: dict[str, Json] = {
    "with nothing to say": {"paused": False, "minReadySeconds": 0, "revisionHistoryLimit": 0},
    "of less than nothing": {"replicas": -1},
    "that is ready before": {"minReadySeconds": -1},
    "that keeps less than nothing": {"revisionHistoryLimit": -1},
    "that has no time": {"progressDeadlineSeconds": 1, "minReadySeconds": 5},
    "of an odd strategy": {"strategy": {"type": "Foo"}},
    "that recreates by rolling": {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
    "that never changes": rolling(maxSurge=0, maxUnavailable=0),
    "that changes oddly": rolling(maxSurge="x%", maxUnavailable=-1),
    "that changes too much": rolling(maxUnavailable="150%"),
    "of other pods": {"selector": {"matchLabels": {"a": "zz"}}},
    "of pods by values": {
        "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    },
    "of pods by an odd operator": {
        "selector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}
    },
    "of pods that end": {"pod": {"restartPolicy": "Never"}},
    "of pods with a deadline": {"pod": {"activeDeadlineSeconds": 5}},
    "of pods with a mistake": {"pod": {"tolerations": [{"operator": "Foo"}]}},
}
NODES: dict[str, Json] = {
    "with an odd taint": {"taints": [{"key": "a", "effect": "Foo"}]},
    "with a taint twice": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2},
    "with a taint of nothing": {"taints": [{"key": "", "effect": "NoSchedule"}]},
    "with a taint of an odd value": {
        "taints": [{"key": "a", "value": "b c", "effect": "NoExecute"}]
    },
    "with a network": {"podCIDR": "10.0.0.0/24"},
    "with nothing to say": {"unschedulable": False, "podCIDR": "", "providerID": ""},
}
NAMESPACES: dict[str, tuple[Json, Json]] = {
    "of a long name": ({"name": "x" * 64}, {}),
    "of an odd name": ({"name": "Bad_"}, {}),
    "of a name with a dot": ({"name": "a.b"}, {}),
    "that calls itself otherwise": (
        {"name": "q", "labels": {"kubernetes.io/metadata.name": "zzz"}},
        {},
    ),
    "with an odd finalizer": ({"name": "q"}, {"finalizers": ["foo"]}),
    "with a finalizer": ({"name": "q"}, {"finalizers": ["x.io/y"]}),
}
MICRO = "2026-01-01T00:00:00.000001Z"
LEASE_SPECS: dict[str, Json] = {
    "of nobody": {"holderIdentity": "", "leaseTransitions": 0},
    "of no time": {"leaseDurationSeconds": 0},
    "with a time in seconds": {"renewTime": "2026-01-01T00:00:00Z"},
    "with a time in microseconds": {"renewTime": MICRO},
    "with an odd time": {"renewTime": "bad"},
    "that changed less than never": {"leaseTransitions": -1},
}
OLD_EVENTS: dict[str, Json] = {
    "of an odd type": {"type": "Foo"},
    "with empty texts": {"reason": "", "count": 0, "source": {"component": "", "host": ""}},
    "with a time": {"firstTimestamp": "2020-01-01T00:00:00.5Z"},
    "with a newer time": {"eventTime": "2020-01-01T00:00:00Z"},
    "about another namespace": {
        "involvedObject": {"kind": "Pod", "namespace": "other", "name": "n"}
    },
    "about a node": {"involvedObject": {"kind": "Node", "name": "n"}},
}
NEW_EVENTS: dict[str, Json] = {
    "that is complete": {},
    "of an odd type": {"type": "Foo"},
    "without a time": {"eventTime": None},
    "without a reason": {"reason": ""},
    "without an action": {"action": ""},
    "from nowhere": {"reportingInstance": ""},
    "from an odd place": {"reportingController": "bad one"},
    "with a long note": {"note": "n" * 1100},
    "with a long reason": {"reason": "r" * 130},
    "with a series": {"series": {"count": 2, "lastObservedTime": MICRO}},
    "with a series of one": {"series": {"count": 1}},
    "with an old count": {"deprecatedCount": 3},
    "with an old source": {"deprecatedSource": {"component": "x"}},
}


def old_event(**fields: Any) -> Json:
    """An event of the core group."""
    about = {"kind": "Pod", "namespace": "$ns", "name": "x"}
    return core("Event", "e", **{"involvedObject": about, **fields})


def new_event(name: str = "e", **fields: Any) -> Json:
    """An event of the newer group."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "regarding": {"kind": "Pod", "namespace": "$ns", "name": "x"},
        "eventTime": MICRO,
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        **fields,
    }


def whole(kind: str, api_version: str, spec: Json) -> Json:
    """An object with a spec."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "q"}, "spec": spec}


def merge(name: str, path: str, change: Json) -> Step:
    """A merge patch, of whose answer only what is wrong is compared."""

    def pick(body: Any) -> Any:
        return body if body["kind"] == "Status" else "taken"

    return patch(name, path, change, MERGE_PATCH, pick=pick)


STEPS: tuple[Step, ...] = (
    *(service(name, spec) for name, spec in SERVICES.items()),
    *(
        judge(f"a secret {name}", f"{CORE}/secrets", core("Secret", "s", **fields), "data", "type")
        for name, fields in SECRETS.items()
    ),
    *(
        judge(
            f"a config map {name}", f"{CORE}/configmaps", core("ConfigMap", "c", **fields), "data"
        )
        for name, fields in MAPS.items()
    ),
    *(
        judge(
            f"a deployment {name}",
            f"{APPS}/deployments",
            workload(**fields),
            *(f"spec.{field}" for field in fields if field != "pod"),
        )
        for name, fields in DEPLOYMENTS.items()
    ),
    judge(
        "a deployment of a long name",
        f"{APPS}/deployments",
        {**workload(), "metadata": {"name": "d" * 64}},
    ),
    *(
        judge(f"a node {name}", "/api/v1/nodes", whole("Node", "v1", spec), "spec")
        for name, spec in NODES.items()
    ),
    *(
        judge(
            f"a namespace {name}",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": spec},
            "metadata.labels",
            "spec",
        )
        for name, (meta, spec) in NAMESPACES.items()
    ),
    *(
        judge(f"a lease {name}", LEASES, whole("Lease", "coordination.k8s.io/v1", spec), "spec")
        for name, spec in LEASE_SPECS.items()
    ),
    *(
        judge(f"an event {name}", f"{CORE}/events", old_event(**fields), *fields)
        for name, fields in OLD_EVENTS.items()
    ),
    *(
        judge(f"a newer event {name}", EVENTS, new_event(**fields), *new_event(**fields))
        for name, fields in NEW_EVENTS.items()
    ),
    # changes
    post("a newer event", EVENTS, new_event("e2")),
    merge("a newer event says something else", f"{EVENTS}/e2", {"note": "x"}),
    merge(
        "a newer event happens again",
        f"{EVENTS}/e2",
        {"series": {"count": 2, "lastObservedTime": MICRO}},
    ),
    merge("an older event says something else", f"{CORE}/events/e2", {"message": "x"}),
    merge("a namespace ends by its status", f"{CORE}/status", {"status": {"phase": "Terminating"}}),
    merge("a namespace without finalizers", CORE, {"spec": {"finalizers": []}}),
    Step("deployed", "POST", f"{APPS}/deployments", workload()),
    merge(
        "a status that does not add up",
        f"{APPS}/deployments/d/status",
        {"status": {"replicas": 1, "readyReplicas": 2}},
    ),
    patch(
        "a status with a condition",
        f"{APPS}/deployments/d/status",
        {"status": {"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]}},
        pick=lambda body: body["status"],
    ),
)
