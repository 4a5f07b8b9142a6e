"""The same requests to a real kube-apiserver and to ours: what both must answer alike.

What our code makes of an object is computed here, in this process; each server is then asked to
do the same (as a dry run), so that a difference to the real one shows as a failure.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from gm.api.meta import Json
from gm.devcluster.registry import Registry
from gm.devcluster.status import StatusError
from gm.kube import Client
from tests.cluster.cluster import Cluster

REGISTRY = Registry()
C: Json = {"name": "c", "image": "i"}
DEPLOYMENT: Json = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}},
}


def pod(spec: Json | None = None, **fields: Any) -> Json:
    """A pod; ``fields`` are those of its container."""
    return {"spec": {"containers": [{**C, **fields}], **(spec or {})}}


def service(*ports: Json, **spec: Any) -> Json:
    """A service."""
    return {"spec": {"ports": [*ports], **spec}}


P: Json = {"port": 80}
VOLUMES: list[Json] = [
    {"name": "a"},
    {"name": "b", "hostPath": {"path": "/x"}},
    {"name": "s", "secret": {"secretName": "s"}},
    {
        "name": "d",
        "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]},
    },
]
ENV: list[Json] = [
    {"name": "A", "value": "b"},
    {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
]
MIXED: Json = {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": "0.5"}}

# plural, group, object: accepted by both, or refused by both with the same words.
OBJECTS: dict[str, tuple[str, str, Json]] = {
    "pod": ("pods", "", pod()),
    "pod with tag": ("pods", "", pod(image="r.io:5000/i:v1")),
    "pod on the host's network": (
        "pods",
        "",
        pod({"hostNetwork": True}, ports=[{"containerPort": 80}]),
    ),
    "pod with volumes": (
        "pods",
        "",
        pod({"volumes": VOLUMES}, volumeMounts=[{"name": "b", "mountPath": "/d"}]),
    ),
    "pod with variables": ("pods", "", pod(env=ENV)),
    "pod with resources": ("pods", "", pod(resources=MIXED)),
    "pod with probes": (
        "pods",
        "",
        pod(livenessProbe={"httpGet": {"port": 80}}, readinessProbe={"exec": {"command": ["a"]}}),
    ),
    "pod that tolerates all": ("pods", "", pod({"tolerations": [{"operator": "Exists"}]})),
    "pod with a service account": ("pods", "", pod({"serviceAccountName": "x"})),
    "pod with a status": ("pods", "", {**pod(), "status": {"phase": "Running"}}),
    "pod without containers": ("pods", "", {"spec": {"containers": []}}),
    "pod without spec": ("pods", "", {}),
    "pod with text for bool": ("pods", "", pod({"hostNetwork": "true"})),
    "pod with text for list": ("pods", "", pod({"containers": "x"})),
    "pod with number for text": ("pods", "", pod(env=[{"name": "A", "value": 1}])),
    "pod with no quantity": ("pods", "", pod(resources={"limits": {"cpu": "x"}})),
    "pod asks for too much": (
        "pods",
        "",
        pod(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
    ),
    "pod with an odd policy": ("pods", "", pod({"restartPolicy": "Foo"})),
    "pod with two containers of a name": ("pods", "", pod({"containers": [C, C]})),
    "pod with an unknown volume": (
        "pods",
        "",
        pod(volumeMounts=[{"name": "v", "mountPath": "/d"}]),
    ),
    "pod with an odd port name": ("pods", "", pod(ports=[{"containerPort": 80, "name": "A_"}])),
    "pod with an odd label": ("pods", "", {**pod(), "metadata": {"labels": {"a b": "c"}}}),
    "pod with an odd name": ("pods", "", {**pod(), "metadata": {"name": "Bad_Name"}}),
    "node": (
        "nodes",
        "",
        {
            "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {
                "capacity": {"cpu": 4, "memory": "1024Mi"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            },
        },
    ),
    "service by itself": ("services", "", service(P)),
    "headless service": ("services", "", service(clusterIP="None", selector={"a": "b"})),
    "external service": ("services", "", service(type="ExternalName", externalName="a.b")),
    "service without ports": ("services", "", service()),
    "service with nameless ports": ("services", "", service(P, {"port": 81})),
    "service with a loopback address": ("services", "", service(P, externalIPs=["127.0.0.1"])),
    "service of an odd type": ("services", "", service(P, type="Foo")),
    "service with an odd name": ("services", "", {**service(P), "metadata": {"name": "1s"}}),
    "namespace": (
        "namespaces",
        "",
        {"metadata": {"labels": {"a": "b"}}, "spec": {"finalizers": []}},
    ),
    "secret": ("secrets", "", {"stringData": {"a": "b"}, "data": {"c": "ZA==", "d": None}}),
    "secret that is no base64": ("secrets", "", {"data": {"c": "?"}}),
    "secret that lacks a key": ("secrets", "", {"type": "kubernetes.io/tls"}),
    "config map": ("configmaps", "", {"data": {"a": "", "b": None}, "binaryData": {"z": "YQ=="}}),
    "config map with an odd key": ("configmaps", "", {"data": {"b c": ""}}),
    "service account": ("serviceaccounts", "", {}),
    "event": (
        "events",
        "",
        {
            "involvedObject": {"kind": "Pod", "name": "x", "namespace": "%(ns)s"},
            "firstTimestamp": "2024-01-01T01:00:00.5+01:00",
            "count": 1,
        },
    ),
    "event elsewhere": ("events", "", {"involvedObject": {"kind": "Node", "name": "x"}}),
    "lease": (
        "leases",
        "coordination.k8s.io",
        {"spec": {"holderIdentity": "me", "renewTime": "2024-01-01T00:00:00.100000Z"}},
    ),
    "lease of no time": ("leases", "coordination.k8s.io", {"spec": {"leaseDurationSeconds": 0}}),
    "deployment": ("deployments", "apps", {"spec": DEPLOYMENT}),
    "deployment that recreates": (
        "deployments",
        "apps",
        {"spec": {**DEPLOYMENT, "replicas": 0, "strategy": {"type": "Recreate"}}},
    ),
    "deployment of nothing": ("deployments", "apps", {"spec": {}}),
    "deployment of everything": ("deployments", "apps", {"spec": {**DEPLOYMENT, "selector": {}}}),
    "replica set of everything": ("replicasets", "apps", {"spec": {**DEPLOYMENT, "selector": {}}}),
    "replica set": ("replicasets", "apps", {"spec": DEPLOYMENT}),
    "endpoints": (
        "endpoints",
        "",
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ),
    "service with a port of null": ("services", "", {"spec": {"ports": [None]}}),
    "service with a port that is too large": ("services", "", service({**P, "targetPort": 2**31})),
    "service with a map for a port": ("services", "", service({**P, "targetPort": {"a": 1}})),
    "pod with a variable of null": ("pods", "", pod(env=[None])),
    "pod with an argument of null": ("pods", "", pod(command=[None, "a"], args=[None])),
    "pod with a toleration of null": ("pods", "", pod({"tolerations": [None]})),
    "pod with a list for a quantity": ("pods", "", pod(resources={"limits": {"cpu": [1]}})),
    "pod with yes for a quantity": ("pods", "", pod(resources={"limits": {"cpu": True}})),
    "node with a taint of null": ("nodes", "", {"spec": {"taints": [None]}}),
    "label without a name": ("configmaps", "", {"metadata": {"labels": {"/": "x"}}}),
    "annotation of a long name": ("configmaps", "", {"metadata": {"annotations": {"-" * 64: ""}}}),
    "event of an odd name": (
        *("events", ""),
        {
            "metadata": {"name": "Not a name"},
            "involvedObject": {"kind": "Pod", "name": "x", "namespace": "%(ns)s"},
        },
    ),
    "endpoint slice with a port of null": (
        *("endpointslices", "discovery.k8s.io"),
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [None]},
    ),
    "endpoint slice": (
        "endpointslices",
        "discovery.k8s.io",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"port": 80}],
        },
    ),
}

_GIVEN_OUT = ("clusterIP", "clusterIPs")


def clean(obj: Json) -> Json:
    """An object without what each server gives out on its own."""
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        obj["metadata"].pop(field, None)
    if obj["kind"] == "Service" and obj["spec"].get("clusterIP") != "None":
        for field in _GIVEN_OUT:
            obj["spec"].pop(field, None)
    return obj


def whole(case: str, namespace: str) -> tuple[str, str, Json]:
    """Group and plural of a case, and its object as a client sends it."""
    plural, group, body = OBJECTS[case]
    info = REGISTRY.lookup(group, "v1", plural)
    assert info is not None
    text = msgspec.json.encode(body).decode().replace("%(ns)s", namespace)
    obj = {
        "apiVersion": info.resource.api_version,
        "kind": info.resource.kind,
        **msgspec.json.decode(text),
    }
    meta = obj.setdefault("metadata", {})
    meta.setdefault("name", f"x{namespace[2:]}")
    if info.resource.namespaced:
        meta["namespace"] = namespace
    return group, plural, obj


def ours(group: str, plural: str, obj: Json) -> Json:
    """The object, or the failure, that our code makes of a new one."""
    info = REGISTRY.lookup(group, "v1", plural)
    assert info is not None
    try:
        info.prepare_create(obj)
    except StatusError as exc:
        return exc.body()
    return clean(obj)


async def theirs(client: Client, path: str, obj: Json) -> Json:
    """The object, or the failure, that a server answers with."""
    answer = await client.raw("POST", path, query={"dryRun": "All"}, body=msgspec.json.encode(obj))
    decoded: Json = msgspec.json.decode(answer.body)
    return decoded if decoded["kind"] == "Status" else clean(decoded)


@pytest.mark.parametrize("case", OBJECTS)
async def test_a_new_object_becomes_what_it_becomes_on_a_real_server(
    cluster: Cluster, case: str
) -> None:
    """The same defaults, or the same words of refusal."""
    group, plural, obj = whole(case, cluster.namespace)
    info = REGISTRY.lookup(group, "v1", plural)
    assert info is not None
    async with cluster.client() as client:
        got = await theirs(client, info.resource.path(cluster.namespace), copy.deepcopy(obj))
    assert got == ours(group, plural, obj)


TABLES: dict[str, str] = {
    "/api/v1/namespaces": "Name Status Age",
    "/api/v1/nodes": "Name Status Roles Age Version *Internal-IP *External-IP *OS-Image "
    "*Kernel-Version *Container-Runtime",
    "/api/v1/pods": "Name Ready Status Restarts Age *IP *Node *Nominated_Node *Readiness_Gates",
    "/api/v1/secrets": "Name Type Data Age",
    "/api/v1/configmaps": "Name Data Age",
    "/api/v1/serviceaccounts": "Name Secrets Age",
    "/api/v1/services": "Name Type Cluster-IP External-IP Port(s) Age *Selector",
    "/api/v1/endpoints": "Name Endpoints Age",
    "/api/v1/persistentvolumeclaims": "Name Status Volume Capacity Access_Modes StorageClass "
    "VolumeAttributesClass Age *VolumeMode",
    "/api/v1/events": "Last_Seen Type Reason Object *Subobject *Source Message *First_Seen *Count "
    "*Name",
    "/apis/events.k8s.io/v1/events": "Last_Seen Type Reason Object *Subobject *Source Message "
    "*First_Seen *Count *Name",
    "/apis/apps/v1/deployments": "Name Ready Up-to-date Available Age *Containers *Images "
    "*Selector",
    "/apis/apps/v1/replicasets": "Name Desired:integer Current:integer Ready:integer Age "
    "*Containers *Images *Selector",
    "/apis/autoscaling/v2/horizontalpodautoscalers": "Name Reference Targets MinPods MaxPods "
    "Replicas Age",
    "/apis/coordination.k8s.io/v1/leases": "Name Holder Age",
    "/apis/discovery.k8s.io/v1/endpointslices": "Name AddressType Ports Endpoints Age",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name Created_At:date",
    "/apis/sedna.io/v1alpha1/datasets": "Name Node Samples:integer Format Age:date",
}


def head(definition: Json) -> str:
    """A column in the notation of ``TABLES``."""
    star = "*" if definition["priority"] else ""
    kind = "" if definition["type"] == "string" else f":{definition['type']}"
    return f"{star}{definition['name'].replace(' ', '_')}{kind}"


@pytest.mark.parametrize("path", TABLES)
async def test_tables_have_the_columns_of_a_real_server(cluster: Cluster, path: str) -> None:
    """Names, types, which are wide, and which is the name."""
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    async with cluster.client() as client:
        answer = await client.raw("GET", path, query={"limit": "1"}, accept=accept)
    table = msgspec.json.decode(answer.body)
    columns = table["columnDefinitions"]
    assert " ".join(head(column) for column in columns) == TABLES[path]
    assert [c["format"] for c in columns if c["name"] == "Name"] == ["name"]
