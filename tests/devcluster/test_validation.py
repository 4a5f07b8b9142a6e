"""Mistakes in objects of built-in kinds; the words are those of a real server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.registry import Registry
from gm.devcluster.status import StatusError

REGISTRY = Registry()
C: Json = {"name": "c", "image": "i"}


def causes(plural: str, obj: Json, *, group: str = "", old: Json | None = None) -> list[str]:
    """What is wrong with an object, or with its change from ``old``."""
    info = REGISTRY.lookup(group, "v1", plural)
    assert info is not None
    obj = copy.deepcopy(obj)
    meta = obj.setdefault("metadata", {})
    meta.setdefault("name", "x")
    if info.resource.namespaced:
        meta.setdefault("namespace", "default")
    try:
        if old is None:
            info.prepare_create(obj)
        else:
            info.prepare_update(obj, old)
    except StatusError as exc:
        return [f"{cause.field}: {cause.message}" for cause in exc.causes]
    return []


def pod(**spec: Any) -> list[str]:
    """What is wrong with a pod."""
    return causes("pods", {"spec": {"containers": [C], **spec}})


def container(**fields: Any) -> list[str]:
    """What is wrong with a container, its path left out."""
    told = pod(containers=[{**C, **fields}])
    return [line.replace("spec.containers[0].", "") for line in told]


def port(**fields: Any) -> list[str]:
    """What is wrong with a container's port."""
    return container(ports=[{"containerPort": 80, **fields}])


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
        container(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "f"}}}]),
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


def stored(plural: str, obj: Json, *, group: str = "") -> Json:
    """An object as it is stored."""
    info = REGISTRY.lookup(group, "v1", plural)
    assert info is not None
    obj = copy.deepcopy(obj)
    obj.setdefault("metadata", {}).update(name="x", namespace="default")
    info.prepare_create(obj)
    return obj


def test_little_of_a_pod_can_change() -> None:
    """Images, the deadline, and more tolerations."""
    old = stored("pods", {"spec": {"containers": [C], "initContainers": [{**C, "name": "i"}]}})

    def change(**spec: Any) -> list[str]:
        new = copy.deepcopy(old)
        new["spec"] |= spec
        return causes("pods", new, old=old)

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


def service(*ports: Json, **spec: Any) -> list[str]:
    """What is wrong with a service."""
    return causes("services", {"spec": {"ports": [*ports], **spec}})


P = {"port": 80}
SERVICES: dict[str, tuple[list[str], list[str]]] = {
    "good": (service(P, type="NodePort"), []),
    "headless": (service(clusterIP="None"), []),
    "external": (service(type="ExternalName", externalName="a.b"), []),
    "external without name": (service(type="ExternalName"), ["spec.externalName: Required value"]),
    "no ports": (service(), ["spec.ports: Required value"]),
    "names": (
        service(P, {"port": 81}),
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    "same name": (
        service({"port": 80, "name": "a"}, {"port": 81, "name": "a"}),
        ['spec.ports[1].name: Duplicate value: "a"'],
    ),
    "same port": (
        service({"port": 80, "name": "a"}, {"port": 80, "name": "b"}),
        ['spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}'],
    ),
    "no port": (
        service({"port": 0}),
        ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
         "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive"],
    ),
    "node port": (
        service({"port": 80, "nodePort": 30000}),
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    "type": (
        service(P, type="Foo"),
        ['spec.type: Unsupported value: "Foo": supported values: "ClusterIP", "ExternalName", '
         '"LoadBalancer", "NodePort"'],
    ),
    "affinity": (
        service(P, sessionAffinity="x"),
        ['spec.sessionAffinity: Unsupported value: "x": supported values: "ClientIP", "None"'],
    ),
    "target": (
        service({"port": 80, "targetPort": "A"}),
        [f'spec.ports[0].targetPort: Invalid value: "A": {LETTERS}',
         'spec.ports[0].targetPort: Invalid value: "A": must contain at least one letter (a-z)'],
    ),
    "addresses": (
        service(P, externalIPs=["1.2.3.4", "127.0.0.1", "x", "0.0.0.0"]),
        ['spec.externalIPs[1]: Invalid value: "127.0.0.1": may not be in the loopback range '
         "(127.0.0.0/8, ::1/128)",
         'spec.externalIPs[2]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
         "2001:db8::ffff)",
         'spec.externalIPs[3]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SERVICES)
def test_mistakes_in_services_are_told(case: str) -> None:
    """Field and words."""
    told, expected = SERVICES[case]
    assert told == expected


def test_names_of_services_and_their_ports_are_labels() -> None:
    """A service's name becomes part of a variable's: DNS-1035."""
    told = causes("services", {"metadata": {"name": "1s"}, "spec": {"ports": [P]}})
    assert "DNS-1035 label" in told[0]
    assert "RFC 1123 label" in service({"port": 80, "name": "A"})[0]
    assert service(P, selector={"a": "b c"})[0].startswith("spec.selector: Invalid value")


def test_a_service_keeps_its_address() -> None:
    """Unless it is or becomes an ExternalName."""
    old = stored("services", {"spec": {"ports": [P], "clusterIP": "10.96.0.7"}})
    new = copy.deepcopy(old)
    new["spec"]["clusterIP"] = "10.96.0.8"
    assert causes("services", new, old=old) == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.0.8"]: may not change once set'
    ]
    new["spec"] = {"type": "ExternalName", "externalName": "a.b"}
    assert causes("services", new, old=old) == []


def test_events_lie_where_their_object_does() -> None:
    """Those about cluster-wide objects in ``default``."""

    def event(namespace: str, about: str, **more: Any) -> list[str]:
        meta = {"namespace": namespace}
        obj = {"metadata": meta, "involvedObject": {"namespace": about}, **more}
        return causes("events", obj)

    assert event("default", "default") == event("default", "") == []
    wrong = 'involvedObject.namespace: Invalid value: "%s": does not match event.namespace'
    assert event("default", "other") == [wrong % "other"]
    assert event("kube-system", "") == [wrong % ""]
    at = "2024-01-01T00:00:00.000000Z"
    assert event("default", "", eventTime=at, type="Odd") == [
        "reportingComponent: Required value",
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
        'type: Invalid value: "Odd": has invalid value: ',
    ]


def test_keys_of_config_maps_and_secrets_are_file_names() -> None:
    """And some types of secrets need certain ones."""
    told = causes("configmaps", {"data": {"a b": "", "..": "", "a": ""}, "binaryData": {"a": ""}})
    assert [line.split(":")[0] for line in told] == ["data[a]", "data[a b]", "data[..]"]
    assert "a valid config key must consist of" in told[1]
    assert causes("secrets", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}) == [
        "data[tls.key]: Required value"
    ]


def test_what_is_immutable_stays() -> None:
    """A secret's type always, data when it says so."""
    old = stored("secrets", {"data": {"a": "YQ=="}})
    assert causes("secrets", {**old, "type": "x"}, old=old) == [
        'type: Invalid value: "x": field is immutable'
    ]
    fixed = stored("configmaps", {"data": {"a": "b"}, "immutable": True})
    assert causes("configmaps", fixed, old=fixed) == []
    why = "Forbidden: field is immutable when `immutable` is set"
    assert causes("configmaps", {**fixed, "data": {}, "immutable": False}, old=fixed) == [
        f"immutable: {why}",
        f"data: {why}",
    ]


def test_taints_and_leases_are_checked() -> None:
    """An effect that is known, a duration that is one."""
    assert causes("nodes", {"spec": {"taints": [{"key": "a", "effect": "x"}]}}) == [
        'metadata.taints[0].effect: Unsupported value: "x": supported values: "NoSchedule", '
        '"PreferNoSchedule", "NoExecute"'
    ]
    group = "coordination.k8s.io"
    assert causes("leases", {"spec": {"leaseDurationSeconds": 0}}, group=group) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]
    assert causes("leases", {"spec": {}}, group=group) == []


def deployment(**spec: Any) -> Json:
    """A deployment."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}}
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}}


def test_mistakes_in_deployments_are_told() -> None:
    """Selector, replicas, strategy, template."""

    def told(**spec: Any) -> list[str]:
        return causes("deployments", deployment(**spec), group="apps")

    assert told() == []
    assert causes("replicasets", deployment(), group="apps") == []
    assert told(replicas=-1) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]
    mismatch = "`selector` does not match template `labels`"
    assert told(selector=None, template={}) == [
        "spec.selector: Required value",
        f"spec.template.metadata.labels: Invalid value: null: {mismatch}",
        "spec.template.spec.containers: Required value",
    ]
    assert told(selector={"matchLabels": {"z": "b"}}) == [
        f'spec.template.metadata.labels: Invalid value: {{"a":"b"}}: {mismatch}'
    ]
    assert told(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}) == [
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is "
        "'Recreate'"
    ]
    template = deployment()["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    assert told(template=template) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]


def test_a_deployment_keeps_its_selector() -> None:
    """Or its pods would be lost."""
    old = stored("deployments", deployment(), group="apps")
    new = copy.deepcopy(old)
    new["spec"]["selector"]["matchLabels"] = {"a": "b", "c": "d"}
    new["spec"]["template"]["metadata"]["labels"]["c"] = "d"
    assert causes("deployments", new, group="apps", old=old) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable'
    ]
