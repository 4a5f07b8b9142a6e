"""What is wrong with a service, or with the change of one, in the words of kube-apiserver."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from gm.api.meta import Json
from gm.devcluster.metadata import (
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid_value,
    labels_causes,
    required,
    unsupported,
)
from gm.devcluster.rules import choice, ip_address, port_name, port_number
from gm.devcluster.status import Cause

__all__ = ["service", "service_change"]

_KINDS = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
_REACHABLE = ("LoadBalancer", "NodePort")


def service(obj: Json) -> Iterator[Cause]:
    """A service."""
    spec, ports = obj["spec"], obj["spec"].get("ports") or []
    yield from choice(spec, "spec", "type", _KINDS)
    if spec.get("type") == "ExternalName":
        yield from _external_name(spec.get("externalName", ""))
        return
    if not ports and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    yield from _ports(ports, spec)
    yield from choice(spec, "spec", "sessionAffinity", ["ClientIP", "None"])
    yield from labels_causes(spec.get("selector") or {}, "spec.selector")
    for index, address in enumerate(spec.get("externalIPs") or []):
        yield from _external_address(address, f"spec.externalIPs[{index}]")
    yield from _policies(spec)
    yield from _addresses(spec)


def _external_name(name: str) -> Iterator[Cause]:
    if not name:
        yield required("spec.externalName")
    elif problem := dns_subdomain(name.removesuffix(".")):
        yield invalid_value("spec.externalName", name, problem)


def _ports(ports: list[Json], spec: Json) -> Iterator[Cause]:
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    given: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        where = f"spec.ports[{index}]"
        yield from _port(port, where, names, many=len(ports) > 1)
        key = (port.get("port"), port.get("protocol"))
        if key in numbers:
            shown = {"Name": "", "Protocol": key[1], "AppProtocol": None, "Port": key[0]}
            yield duplicate(where, {**shown, "TargetPort": 0, "NodePort": 0})
        numbers.add(key)
        if not (node_port := port.get("nodePort")):
            continue
        if spec.get("type") == "ClusterIP":
            why = "may not be used when `type` is 'ClusterIP'"
            yield forbidden(f"{where}.nodePort", why)
        if (node_port, port.get("protocol")) in given:
            why = "provided port is already allocated"
            yield invalid_value(f"{where}.nodePort", node_port, why)
        given.add((node_port, port.get("protocol")))


def _port(port: Json, path: str, names: set[str], *, many: bool) -> Iterator[Cause]:
    name = port.get("name", "")
    if not name and many:
        yield required(f"{path}.name")
    elif name:
        if problem := dns_label(name):
            yield invalid_value(f"{path}.name", name, problem)
        elif name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
    yield from port_number(port.get("port", 0), f"{path}.port")
    yield from choice(port, path, "protocol", ["SCTP", "TCP", "UDP"])
    target = port.get("targetPort")
    if isinstance(target, int):
        yield from port_number(target, f"{path}.targetPort")
    elif isinstance(target, str):
        yield from port_name(target, f"{path}.targetPort")


def _external_address(address: str, path: str) -> Iterator[Cause]:
    if wrong := [*ip_address(address, path)]:
        yield from wrong
        return
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback:
        why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
        yield invalid_value(path, address, why)
    if parsed.is_unspecified:
        yield invalid_value(path, address, f"may not be unspecified ({address})")


def _policies(spec: Json) -> Iterator[Cause]:
    """What only services of some types may say, and with which words."""
    is_balanced = spec.get("type") == "LoadBalancer"
    only = "may only be used when `type` is 'LoadBalancer'"
    policy = spec.get("externalTrafficPolicy")
    if policy and spec.get("type") not in _REACHABLE and not spec.get("externalIPs"):
        why = "may only be set for externally-accessible services"
        yield invalid_value("spec.externalTrafficPolicy", policy, why)
    yield from choice(spec, "spec", "externalTrafficPolicy", ["Cluster", "Local"])
    yield from choice(spec, "spec", "internalTrafficPolicy", ["Cluster", "Local"])
    if spec.get("allocateLoadBalancerNodePorts") is not None and not is_balanced:
        yield forbidden("spec.allocateLoadBalancerNodePorts", only)
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges and not is_balanced:
        yield forbidden("spec.LoadBalancerSourceRanges", only)
    for index, block in enumerate(ranges):
        try:
            ipaddress.ip_network(block, strict=False)
        except ValueError:
            why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid_value(f"spec.LoadBalancerSourceRanges[{index}]", block, why)


def _addresses(spec: Json) -> Iterator[Cause]:
    """A service's own addresses, in a cluster that has IPv4 alone."""
    own, first = spec.get("clusterIP"), next(iter(spec.get("clusterIPs") or ()), "")
    if own and first and own != first:
        why = "first value must match `clusterIP`"
        yield invalid_value("spec.clusterIPs", spec["clusterIPs"], why)
    elif own and own != "None":
        yield from ip_address(own, "spec.clusterIPs[0]")
    for index, family in enumerate(spec.get("ipFamilies") or []):
        where = f"spec.ipFamilies[{index}]"
        if family not in ("IPv4", "IPv6"):
            yield unsupported(where, family, ["IPv4", "IPv6"])
        elif family == "IPv6":
            yield invalid_value(where, family, "not configured on this cluster")
    if (policy := spec.get("ipFamilyPolicy")) == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        yield invalid_value("spec.ipFamilyPolicy", policy, why)


def _ingress(service: Json) -> Any:
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress")


def service_change(new: Json, old: Json) -> Iterator[Cause]:
    """A service keeps its address, unless it becomes or was an ExternalName."""
    before, after = old["spec"], new["spec"]
    given = _ingress(new)
    if given and given != _ingress(old) and after.get("type") != "LoadBalancer":
        why = "may only be used when `spec.type` is 'LoadBalancer'"
        yield forbidden("status.loadBalancer.ingress", why)
    if "ExternalName" in (before.get("type"), after.get("type")):
        return
    if before.get("clusterIP") and before.get("clusterIP") != after.get("clusterIP"):
        value = [after.get("clusterIP", "")]
        yield invalid_value("spec.clusterIPs[0]", value, "may not change once set")
