"""Pods that are taken, and pods that are not: each differs in a little from one that is good."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from tests.devcluster.golden.steps import CORE, Step, judge, patch

__all__ = ["STEPS"]

PODS = f"{CORE}/pods"
EMPTY = [{"name": "v", "emptyDir": {}}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def variable(**source: Any) -> Json:
    """A container with one variable that is set from somewhere."""
    return {"env": [{"name": "A", "valueFrom": source}]}


def port(**fields: Any) -> Json:
    """A container with one port."""
    return {"ports": [{"containerPort": 80, **fields}]}


def limits(**amounts: Any) -> Json:
    """A container with limits."""
    return {"resources": {"limits": amounts}}


def alive(**probe: Any) -> Json:
    """A container that is asked if it is alive."""
    return {"livenessProbe": probe}


def mounted(*mounts: Json) -> Json:
    """A container that mounts volumes."""
    return {"volumeMounts": [*mounts]}


CONTAINERS: dict[str, Json] = {
    "no image": {"image": ""},
    "spaces before the image": {"image": " x"},
    "no name": {"name": ""},
    "an odd name": {"name": "Bad_Name"},
    "a name with a dot": {"name": "a.b"},
    "an odd pull policy": {"imagePullPolicy": "Foo"},
    "an empty pull policy": {"imagePullPolicy": ""},
    "an odd message policy": {"terminationMessagePolicy": "Foo"},
    "a restart policy": {"restartPolicy": "Always"},
    "nothing to say": {"workingDir": "", "command": [], "args": None, "tty": False, "stdin": False},
    "text for a command": {"command": "ls"},
    "an unknown field": {"bogus": 1},
    # variables
    "a variable twice": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
    "a variable with a space": {"env": [{"name": "A B"}]},
    "a variable with =": {"env": [{"name": "A=B"}]},
    "a variable without a name": {"env": [{"name": ""}]},
    "variables that are empty": {"env": [{"name": "A", "value": ""}, {"name": "B"}]},
    "variables as a map": {"env": {"A": "B"}},
    "a variable from nowhere": variable(),
    "a variable from a field": variable(fieldRef={"fieldPath": "status.podIP"}),
    "a variable from a label": variable(fieldRef={"fieldPath": "metadata.labels['x']"}),
    "a variable from all labels": variable(fieldRef={"fieldPath": "metadata.labels"}),
    "a variable from an unknown field": variable(fieldRef={"fieldPath": "status.nope"}),
    "a variable from a field in brackets": variable(fieldRef={"fieldPath": "metadata.name['x']"}),
    "a variable from a secret": variable(secretKeyRef={"name": "s", "key": "k"}),
    "a variable from a secret, no key": variable(secretKeyRef={"name": "s"}),
    "a variable from a secret, no name": variable(secretKeyRef={"key": "k"}),
    "a variable from a map, odd key": variable(configMapKeyRef={"name": "s", "key": "a b"}),
    "a variable from a limit": variable(resourceFieldRef={"resource": "limits.cpu"}),
    "a variable from no resource": variable(resourceFieldRef={"resource": "foo"}),
    "a variable from two places": variable(
        fieldRef={"fieldPath": "status.podIP"}, secretKeyRef={"name": "s", "key": "k"}
    ),
    "a variable with value and source": {
        "env": [
            {"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
        ]
    },
    "variables from a map": {"envFrom": [{"configMapRef": {"name": "x"}}]},
    "variables from nowhere": {"envFrom": [{}]},
    "variables from two places": {
        "envFrom": [{"configMapRef": {"name": "x"}, "secretRef": {"name": "y"}}]
    },
    "variables with an odd prefix": {"envFrom": [{"prefix": "a=", "secretRef": {"name": "y"}}]},
    # ports
    "port 0": port(containerPort=0),
    "port 70000": port(containerPort=70000),
    "an odd port name": port(name="Bad_"),
    "an odd protocol": port(protocol="FOO"),
    "a port of the host": port(hostPort=8080),
    "port names that are equal": {
        "ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]
    },
    "ports that are equal": {"ports": [{"containerPort": 80}, {"containerPort": 80}]},
    "host ports that are equal": {
        "ports": [{"containerPort": 80, "hostPort": 8}, {"containerPort": 81, "hostPort": 8}]
    },
    # resources
    "no quantity": limits(cpu="x"),
    "a quantity of another alphabet": limits(cpu="0x"),
    "a negative quantity": limits(cpu=-1),
    "a null quantity": limits(cpu=None),
    "an unknown resource": limits(foo="1"),
    "less than it wants": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}},
    "parts of thousandths": limits(cpu="1.0005", memory="1.5Gi", **{"ephemeral-storage": "1e3"}),
    "many spellings": limits(cpu="100000m", memory="128974848", **{"ephemeral-storage": "12E"}),
    "a device": limits(**{"nvidia.com/gpu": 1}),
    "half a device": limits(**{"nvidia.com/gpu": "0.5"}),
    "a device without limit": {"resources": {"requests": {"nvidia.com/gpu": 1}}},
    # probes, hooks, rights
    "a probe of nothing": alive(),
    "a probe by HTTP": alive(httpGet={"port": 80}),
    "a probe of port 0": alive(httpGet={"port": 0}),
    "a probe of no command": alive(exec={}),
    "a probe in two ways": alive(exec={"command": ["x"]}, tcpSocket={"port": 1}),
    "a probe in no time": alive(exec={"command": ["x"]}, periodSeconds=-1),
    "a probe with zeros": alive(exec={"command": ["x"]}, periodSeconds=0, successThreshold=0),
    "a probe that must succeed twice": alive(exec={"command": ["x"]}, successThreshold=2),
    "readiness by name": {"readinessProbe": {"tcpSocket": {"port": "http"}}},
    "start by gRPC": {"startupProbe": {"grpc": {"port": 5}}},
    "a hook of nothing": {"lifecycle": {"preStop": {}}},
    "a hook": {"lifecycle": {"postStart": {"httpGet": {"port": 80}}}},
    "a user below 0": {"securityContext": {"runAsUser": -1}},
    "a user": {"securityContext": {"runAsUser": 0, "privileged": False}},
    "rights that contradict": {
        "securityContext": {"privileged": True, "allowPrivilegeEscalation": False}
    },
    # mounts
    "an unknown volume": mounted({"name": "w", "mountPath": "/a"}),
    "a mount nowhere": mounted({"name": "v", "mountPath": ""}),
    "two mounts at a place": mounted(
        {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}
    ),
    "a mount with a colon": mounted({"name": "v", "mountPath": "/a:b"}),
    "a part of a volume": mounted({"name": "v", "mountPath": "/a", "subPath": "x/y"}),
    "a part above a volume": mounted({"name": "v", "mountPath": "/a", "subPath": "../x"}),
    "a part at the root": mounted({"name": "v", "mountPath": "/a", "subPath": "/x"}),
    "a mount, not read-only": mounted({"name": "v", "mountPath": "/a", "readOnly": False}),
}


def volume(**source: Any) -> Json:
    """A pod with one more volume."""
    return {"volumes": [*EMPTY, {"name": "w", **source}]}


def near(**affinity: Any) -> Json:
    """A pod that wants to be near something."""
    return {"affinity": affinity}


def nodes(*needs: Json, field: str = "matchExpressions") -> Json:
    """A pod that must be on some nodes."""
    return near(nodeAffinity={REQUIRED: {"nodeSelectorTerms": [{field: [*needs]}]}})


def tolerant(**toleration: Any) -> Json:
    """A pod that tolerates something."""
    return {"tolerations": [toleration]}


SPECS: dict[str, Json] = {
    "an odd restart policy": {"restartPolicy": "Foo"},
    "an odd DNS policy": {"dnsPolicy": "Foo"},
    "a negative grace": {"terminationGracePeriodSeconds": -1},
    "no grace": {"terminationGracePeriodSeconds": 0},
    "no time": {"activeDeadlineSeconds": 0},
    "a number with a fraction": {"activeDeadlineSeconds": 1.5},
    "a number that is too large": {"activeDeadlineSeconds": 10**20},
    "an odd node": {"nodeName": "Bad_Node"},
    "an odd account": {"serviceAccountName": "Bad_"},
    "an odd host name": {"hostname": "Bad_"},
    "an odd domain": {"hostname": "ok", "subdomain": "x.y"},
    "an empty scheduler": {"schedulerName": ""},
    "what is false or empty": {
        "hostNetwork": False,
        "hostPID": False,
        "enableServiceLinks": False,
        "nodeName": "",
        "automountServiceAccountToken": False,
        "hostname": "",
        "restartPolicy": "",
        "priorityClassName": "",
        "dnsPolicy": "",
        "nodeSelector": {},
        "securityContext": {},
    },
    "an unknown field": {"bogus": 1},
    "an odd selector": {"nodeSelector": {"a b": "c"}},
    "a selector of odd values": {"nodeSelector": {"a": "c d"}},
    "a secret without a name": {"imagePullSecrets": [{}]},
    "an odd host": {"hostAliases": [{"ip": "x"}]},
    "an odd alias": {"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a b"]}]},
    "an odd name server": {"dnsConfig": {"nameservers": ["x"]}},
    "too many name servers": {"dnsConfig": {"nameservers": ["1.1.1.1"] * 4}},
    "no DNS": {"dnsPolicy": "None"},
    "DNS of its own": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}},
    "another system": {"os": {"name": "foo"}},
    "processes of two kinds": {"shareProcessNamespace": True, "hostPID": True},
    "a group below 0": {"securityContext": {"fsGroup": -1, "supplementalGroups": [-1]}},
    "gates": {"schedulingGates": [{"name": "x.io/y"}, {"name": "x.io/y"}, {"name": "a b"}]},
    "a gate and a node": {"schedulingGates": [{"name": "x.io/y"}], "nodeName": "n"},
    "containers for debugging": {"ephemeralContainers": [{"name": "e", "image": "i"}]},
    # containers
    "no containers": {"containers": []},
    "two containers of a name": {
        "containers": [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]
    },
    "a container of nothing": {"containers": [{}]},
    "a container of a name before": {"initContainers": [{"name": "c", "image": "i"}]},
    "a container beside": {
        "initContainers": [{"name": "d", "image": "i", "restartPolicy": "Always"}]
    },
    "a container that is restarted oddly": {
        "initContainers": [{"name": "d", "image": "i", "restartPolicy": "Foo"}]
    },
    "a container before that is asked": {
        "initContainers": [
            {"name": "d", "image": "i", "readinessProbe": {"exec": {"command": ["x"]}}}
        ]
    },
    "ports on the host's network": {
        "hostNetwork": True,
        "containers": [{"name": "c", "image": "i", **port(hostPort=81)}],
    },
    # volumes
    "a volume without a name": {"volumes": [{"emptyDir": {}}]},
    "a volume of an odd name": {"volumes": [{"name": "V_", "emptyDir": {}}]},
    "two volumes of a name": {"volumes": [*EMPTY, *EMPTY]},
    "a volume of nothing": volume(),
    "a volume of two kinds": volume(emptyDir={}, hostPath={"path": "/x"}),
    "a volume of the host": volume(hostPath={"path": "/x"}),
    "a volume of no path": volume(hostPath={"path": ""}),
    "a volume of a path that goes up": volume(hostPath={"path": "/a/../b"}),
    "a volume of an odd type": volume(hostPath={"path": "/x", "type": "Foo"}),
    "a volume of no secret": volume(secret={"secretName": ""}),
    "a volume of a secret": volume(secret={"secretName": "s", "optional": False}),
    "a volume of an odd mode": volume(secret={"secretName": "s", "defaultMode": 4096}),
    "a volume with a file above it": volume(
        configMap={"name": "s", "items": [{"key": "a", "path": "../b"}]}
    ),
    "a volume with a file of no key": volume(
        configMap={"name": "s", "items": [{"key": "", "path": "/b"}]}
    ),
    "a volume of fields": volume(
        downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    ),
    "a volume of wrong fields": volume(
        downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "status.podIP"}}]}
    ),
    "a volume of no fields": volume(downwardAPI={"items": [{"path": "a"}]}),
    "a volume of no sources": volume(projected={"sources": []}),
    "a volume of no claim": volume(persistentVolumeClaim={"claimName": ""}),
    "a volume of no server": volume(nfs={"server": "", "path": "x"}),
    # where it may run
    "a toleration of an odd operator": tolerant(key="a", operator="Foo"),
    "a toleration of everything": tolerant(operator="Exists"),
    "a toleration with a value": tolerant(key="a", operator="Exists", value="b"),
    "a toleration without a key": tolerant(value="b"),
    "a toleration of an odd effect": tolerant(key="a", effect="Foo"),
    "a toleration for a time": tolerant(key="a", effect="NoSchedule", tolerationSeconds=5),
    "a toleration of an odd key": tolerant(key="a b", operator="Exists"),
    "a toleration of an odd value": tolerant(key="a", value="a b"),
    "no nodes": near(nodeAffinity={REQUIRED: {"nodeSelectorTerms": []}}),
    "nodes by an odd operator": nodes({"key": "a", "operator": "Foo"}),
    "nodes by no values": nodes({"key": "a", "operator": "In"}),
    "nodes by values too many": nodes({"key": "a", "operator": "Exists", "values": ["x"]}),
    "nodes by two numbers": nodes({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
    "nodes by name": nodes(
        {"key": "metadata.name", "operator": "In", "values": ["a"]}, field="matchFields"
    ),
    "nodes by an odd field": nodes(
        {"key": "foo", "operator": "In", "values": ["a"]}, field="matchFields"
    ),
    "nodes by two names": nodes(
        {"key": "metadata.name", "operator": "In", "values": ["a", "b"]}, field="matchFields"
    ),
    "nodes that weigh nothing": near(
        nodeAffinity={
            PREFERRED: [
                {
                    "weight": 0,
                    "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                }
            ]
        }
    ),
    "pods near by nothing": near(
        podAntiAffinity={REQUIRED: [{"labelSelector": {"matchLabels": {"a": "b"}}}]}
    ),
    "pods near": near(
        podAntiAffinity={
            REQUIRED: [{"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "k"}]
        }
    ),
    "pods near by odd labels": near(
        podAffinity={
            REQUIRED: [
                {
                    "labelSelector": {"matchExpressions": [{"key": "q", "operator": "Bar"}]},
                    "topologyKey": "k",
                    "namespaces": ["Bad_"],
                }
            ]
        }
    ),
    "pods spread by nothing": {
        "topologySpreadConstraints": [
            {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Foo", "labelSelector": {}}
        ]
    },
    "pods spread without labels": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
}

UID = "0e7d7d0a-2f68-4c4e-9f0e-0d1b4f4b6a11"
OWNER: Json = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": UID}
METADATA: dict[str, Json] = {
    "a name that is too long": {"name": "x" * 254},
    "a name that is no label": {"name": "x" * 63 + ".a"},
    "an odd generated name": {"generateName": "Bad_", "name": "p"},
    "an annotation with a number": {"annotations": {"a": 1}},
    "a label of nothing": {"labels": {"a": None}},
    "a label that is too long": {"labels": {"x" * 64: "b" * 64}},
    "a finalizer of no domain": {"finalizers": ["foo"]},
    "a finalizer of Kubernetes": {"finalizers": ["kubernetes"]},
    "two controllers": {
        "ownerReferences": [
            {**OWNER, "controller": True},
            {**OWNER, "uid": "v", "controller": True},
        ]
    },
    "an owner that is an event": {"ownerReferences": [{**OWNER, "kind": "Event"}]},
    "an owner of an odd version": {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
    "an owner twice": {"ownerReferences": [OWNER, OWNER]},
    "what the server owns": {
        "uid": "u",
        "generation": 7,
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "selfLink": "/x",
        "deletionGracePeriodSeconds": 3,
    },
    "an odd time": {"creationTimestamp": "yesterday"},
    "an odd month": {"creationTimestamp": "2020-13-01T00:00:00Z"},
    "more than a time": {"creationTimestamp": "2020-01-01T00:00:00Zz"},
}


def pod(meta: Json, spec: Json, container: Json) -> Json:
    """A pod that no scheduler looks at."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **meta},
        "spec": {
            "schedulerName": "none",
            "volumes": EMPTY,
            "containers": [{"name": "c", "image": "i", **container}],
            **spec,
        },
    }


def status(name: str, **change: Any) -> Step:
    """A change of a pod's status, as its kubelet makes it."""

    def pick(body: Any) -> Any:
        return body if body["kind"] == "Status" else body["status"]

    return patch(
        f"status of a pod: {name}",
        f"{PODS}/told/status",
        {"status": change},
        "application/strategic-merge-patch+json",
        pick=pick,
    )


RUNNING = {"name": "c", "ready": True, "restartCount": 1, "image": "i", "imageID": ""}
STEPS: tuple[Step, ...] = (
    *(
        judge(
            f"a container with {name}",
            PODS,
            pod({}, {}, fields),
            *(f"spec.containers.0.{field}" for field in fields),
            "status",
        )
        for name, fields in CONTAINERS.items()
    ),
    *(
        judge(
            f"a pod with {name}", PODS, pod({}, fields, {}), *(f"spec.{field}" for field in fields)
        )
        for name, fields in SPECS.items()
    ),
    *(
        judge(f"a pod with {name}", PODS, pod(fields, {}, {}), "metadata")
        for name, fields in METADATA.items()
    ),
    judge("a gated pod", PODS, pod({}, {"schedulingGates": [{"name": "x.io/y"}]}, {}), "status"),
    Step("told", "POST", PODS, pod({"name": "told"}, {}, {})),
    status("an odd phase", phase="Foo"),
    status("a condition", conditions=[{"type": "Ready", "status": "True"}]),
    status("that goes", conditions=[{"type": "Ready", "$patch": "delete"}]),
    status("a container runs", containerStatuses=[{**RUNNING, "state": {"running": {}}}]),
    status(
        "a container has ended",
        containerStatuses=[{**RUNNING, "state": {"terminated": {"exitCode": 3}}}],
    ),
    status("addresses", podIPs=[{"ip": "10.0.0.1"}]),
    status("another address", podIP="10.0.0.2"),
    status("another class", qosClass="Guaranteed"),
    status("nothing new", podIP="10.0.0.2"),
    patch(
        "a pod's grace amid its life",
        f"{PODS}/told",
        {"metadata": {"deletionGracePeriodSeconds": 5}},
    ),
    patch("a pod at any version", f"{PODS}/told", {"metadata": {"resourceVersion": "0"}}),
    patch("a pod with a gate", f"{PODS}/told", {"spec": {"schedulingGates": [{"name": "a"}]}}),
    patch("a generated name afterwards", f"{PODS}/told", {"metadata": {"generateName": "x-"}}),
)
