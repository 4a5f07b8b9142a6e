"""Mistakes in services; the words are those of a real server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.api.meta import Json
from tests.devcluster.core import mistakes, stored


def service(*ports: Json, **spec: Any) -> list[str]:
    """What is wrong with a service."""
    return mistakes("services", {"spec": {"ports": [*ports], **spec}})


P = {"port": 80}
LETTERS = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
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
        ['spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,'
         '"TargetPort":0,"NodePort":0}'],
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
    told = mistakes("services", {"metadata": {"name": "1s"}, "spec": {"ports": [P]}})
    assert "DNS-1035 label" in told[0]
    assert "RFC 1123 label" in service({"port": 80, "name": "A"})[0]
    assert service(P, selector={"a": "b c"})[0].startswith("spec.selector: Invalid value")


def test_a_service_keeps_its_address() -> None:
    """Unless it is or becomes an ExternalName."""
    old = stored("services", {"spec": {"ports": [P], "clusterIP": "10.96.0.7"}})
    new = copy.deepcopy(old)
    new["spec"]["clusterIP"] = "10.96.0.8"
    assert mistakes("services", new, old=old) == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.0.8"]: may not change once set'
    ]
    new["spec"] = {"type": "ExternalName", "externalName": "a.b"}
    assert mistakes("services", new, old=old) == []
