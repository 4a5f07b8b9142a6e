"""What pods are, and what of them may change; the words are a real kube-apiserver's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.podspec import pod_change, pod_warnings
from tests.devcluster.core import lines, mistakes, stored

C: Json = {"name": "c", "image": "i"}


def pod(**spec: Any) -> list[str]:
    """What is wrong with a pod."""
    return mistakes("pods", {"spec": {"containers": [C], **spec}})


def container(**fields: Any) -> list[str]:
    """What is wrong with a container, its path left out."""
    told = pod(containers=[{**C, **fields}])
    return [line.replace("spec.containers[0].", "") for line in told]


def port(**fields: Any) -> list[str]:
    """What is wrong with a container's port."""
    return container(ports=[{"containerPort": 80, **fields}])


FIELD: Json = {"fieldRef": {"fieldPath": "metadata.name"}}
LETTERS = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
PODS: dict[str, tuple[list[str], list[str]]] = {
    "good": (pod(nodeSelector={"a": "b"}, nodeName="n", hostname="h"), []),
    "no containers": (pod(containers=[]), ["spec.containers: Required value"]),
    "restart policy": (
        pod(restartPolicy="Foo"),
        ['spec.restartPolicy: Unsupported value: "Foo": supported values: "Always", "OnFailure", '
         '"Never"'],
    ),
    "dns policy": (
        pod(dnsPolicy="x"),
        ['spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirstWithHostNet", '
         '"ClusterFirst", "Default", "None"'],
    ),
    "same name": (
        pod(containers=[C, C]), ['spec.containers[1].name: Duplicate value: "c"']
    ),
    "same name as an init container": (
        pod(initContainers=[C]), ['spec.initContainers[0].name: Duplicate value: "c"']
    ),
    "container name": (container(name=""), ["name: Required value"]),
    "image": (container(image=""), ["image: Required value"]),
    "image with blank": (
        container(image=" x"),
        ['image: Invalid value: " x": must not have leading or trailing whitespace'],
    ),
    "pull policy": (
        container(imagePullPolicy="x"),
        ['imagePullPolicy: Unsupported value: "x": supported values: "Always", "IfNotPresent", '
         '"Never"'],
    ),
    "variable without name": (container(env=[{"value": "x"}]), ["env[0].name: Required value"]),
    "two values": (
        container(env=[{"name": "A", "value": "b", "valueFrom": FIELD}]),
        ['env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
    ),
    "no source": (
        container(env=[{"name": "A", "valueFrom": {}}]),
        ['env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, '
         "`resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"],
    ),
    "equals sign": (
        container(env=[{"name": "A=B"}]),
        ['env[0].name: Invalid value: "A=B": a valid environment variable name must consist only '
         "of printable ASCII characters other than '='"],
    ),
    "unknown volume": (
        container(volumeMounts=[{"name": "v", "mountPath": "/d"}]),
        ['volumeMounts[0].name: Not found: "v"'],
    ),
    "mount of nothing": (
        container(volumeMounts=[{}]),
        ["volumeMounts[0].name: Required value", "volumeMounts[0].mountPath: Required value"],
    ),
    "more than the limit": (
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        ['resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
    ),
    "port": (
        port(containerPort=99999),
        ["ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive"],
    ),
    "no port": (port(containerPort=0), ["ports[0].containerPort: Required value"]),
    "host port": (
        port(hostPort=70000),
        ["ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    "protocol": (
        port(protocol="X"),
        ['ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"'],
    ),
    "long port name": (
        port(name="TooLongPortNameXX"),
        ['ports[0].name: Invalid value: "TooLongPortNameXX": must be no more than 15 characters',
         f'ports[0].name: Invalid value: "TooLongPortNameXX": {LETTERS}'],
    ),
    "port name without letters": (
        port(name="80"),
        ['ports[0].name: Invalid value: "80": must contain at least one letter (a-z)'],
    ),
    "same port name": (
        container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
        ['ports[1].name: Duplicate value: "a"'],
    ),
    "volume without name": (
        pod(volumes=[{"emptyDir": {}}]), ["spec.volumes[0].name: Required value"]
    ),
    "same volume": (
        pod(volumes=[{"name": "v"}, {"name": "v"}]),
        ['spec.volumes[1].name: Duplicate value: "v"'],
    ),
    "two sources": (
        pod(volumes=[{"name": "v", "hostPath": {"path": "/a"}, "emptyDir": {}}]),
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    ),
    "sources without what they need": (
        pod(volumes=[{"name": "a", "hostPath": {"path": ""}}, {"name": "b", "secret": {}},
                     {"name": "c", "configMap": {}}]),
        ["spec.volumes[0].hostPath.path: Required value",
         "spec.volumes[1].secret.secretName: Required value",
         "spec.volumes[2].configMap.name: Required value"],
    ),
    "tolerations": (
        pod(tolerations=[{"key": "a", "operator": "x"}, {"value": "v"},
                         {"key": "k", "operator": "Exists", "value": "v"},
                         {"key": "a", "value": "b", "effect": "z"}]),
        ['spec.tolerations[0].operator: Unsupported value: "x": supported values: "Equal", '
         '"Exists"',
         'spec.tolerations[1].operator: Invalid value: "": operator must be Exists when `key` is '
         'empty, which means "match all values and all keys"',
         'spec.tolerations[2].operator: Invalid value: "v": value must be empty when `operator` is '
         "'Exists'",
         'spec.tolerations[3].effect: Unsupported value: "z": supported values: "NoSchedule", '
         '"PreferNoSchedule", "NoExecute"'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PODS)
def test_mistakes_in_pods_are_told(case: str) -> None:
    """Field and words."""
    told, expected = PODS[case]
    assert told == expected


@pytest.mark.parametrize("field", ["nodeName", "hostname", "serviceAccountName"])
def test_names_in_a_pod_follow_the_rules_of_names(field: str) -> None:
    """As the objects that they name."""
    assert pod(**{field: "A_"})[0].startswith(f'spec.{field}: Invalid value: "A_": a lowercase')


def test_names_of_containers_and_volumes_are_labels() -> None:
    """DNS labels."""
    assert "RFC 1123 label" in container(name="A")[0]
    assert "RFC 1123 label" in pod(volumes=[{"name": "V_"}])[0]
    assert pod(nodeSelector={"a b": "c"})[0].startswith("spec.nodeSelector: Invalid value")


def test_little_of_a_pod_can_change() -> None:
    """Images, the deadline, and more tolerations."""
    old = stored("pods", {"spec": {"containers": [C], "initContainers": [{**C, "name": "i"}]}})

    def change(**spec: Any) -> list[str]:
        new = copy.deepcopy(old)
        new["spec"] |= spec
        return mistakes("pods", new, old=old)

    containers = old["spec"]["containers"]
    assert change(containers=[{**containers[0], "image": "j"}], activeDeadlineSeconds=5) == []
    assert change(tolerations=[*old["spec"]["tolerations"], {"operator": "Exists"}]) == []
    old["spec"]["activeDeadlineSeconds"] = 5
    assert change(activeDeadlineSeconds=4) == []
    field = "spec.activeDeadlineSeconds: Invalid value: "
    assert change(activeDeadlineSeconds=6) == [
        f"{field}6: must be less than or equal to previous value"
    ]
    assert change(activeDeadlineSeconds=None) == [
        f"{field}null: must not update from a positive integer to nil value"
    ]
    del old["spec"]["activeDeadlineSeconds"]
    assert change(containers=[*containers, {**C, "name": "d"}]) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]
    told = change(restartPolicy="Never", nodeName="n")
    assert told[0].startswith("spec: Forbidden: pod updates may not change fields other than `spec")
    assert told[0].endswith("nodeName, restartPolicy would change")
    assert change(terminationGracePeriodSeconds=1) != []
    assert change(tolerations=[{"operator": "Exists"}])[0].startswith("spec.tolerations: Forbidden")
    old["spec"]["terminationGracePeriodSeconds"] = -1
    assert change(terminationGracePeriodSeconds=1) == []


OLD: Json = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "activeDeadlineSeconds": 9,
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "schedulingGates": [{"name": "x.io/y"}],
        "restartPolicy": "Always",
    },
    "status": {"qosClass": "BestEffort"},
}
DEADLINE = "spec.activeDeadlineSeconds: Invalid value:"


def changed(**spec: Any) -> list[str]:
    """What is wrong with a change; a field that becomes None goes."""
    new = copy.deepcopy(OLD)
    new["spec"].update(spec)
    new["spec"] = {key: value for key, value in new["spec"].items() if value is not None}
    return lines(pod_change(new, OLD))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"containers": [{"name": "c", "image": "j"}]}, []),
        ({"activeDeadlineSeconds": 3}, []),
        ({"tolerations": [*OLD["spec"]["tolerations"], {"operator": "Exists"}]}, []),
        ({"schedulingGates": []}, []),
        (
            {"containers": [C, {**C, "name": "d"}]},
            ["spec.containers: Forbidden: pod updates may not add or remove containers"],
        ),
        (
            {"activeDeadlineSeconds": 10},
            [f"{DEADLINE} 10: must be less than or equal to previous value"],
        ),
        (
            {"activeDeadlineSeconds": None},
            [f"{DEADLINE} null: must not update from a positive integer to nil value"],
        ),
        (
            {"tolerations": []},
            [
                "spec.tolerations: Forbidden: existing toleration can not be modified except its "
                "tolerationSeconds"
            ],
        ),
        (
            {"schedulingGates": [{"name": "new"}]},
            [
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new "
                "scheduling gate 'new'"
            ],
        ),
    ],
)
def test_what_may_change_of_a_pod(change: Json, told: list[str]) -> None:
    """Images, a nearer deadline, more tolerations, fewer gates; nothing else."""
    assert changed(**change) == told


def test_a_refused_change_names_the_fields() -> None:
    """In the order of the alphabet."""
    (line,) = changed(restartPolicy="Never", hostNetwork=True)
    assert line.startswith("spec: Forbidden: pod updates may not change fields other than")
    assert line.endswith(": hostNetwork, restartPolicy would change")


def test_who_writes_a_pod_is_warned() -> None:
    """Of a name that is no host's, and of a secret without one."""
    pod = {"metadata": {"name": "a.b"}, "spec": {"containers": [C], "imagePullSecrets": [{}]}}
    name, secret = pod_warnings(pod)
    assert name.startswith("metadata.name: this is used in the Pod's hostname")
    assert secret == 'spec.imagePullSecrets[0].name: invalid empty name ""'
    assert pod_warnings({"metadata": {"name": "ab"}, "spec": {"containers": [C]}}) == []
