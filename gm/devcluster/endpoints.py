"""Where a Service's pods are: Endpoints and EndpointSlices, from pods' addresses and readiness."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.controller import Controller
from gm.devcluster.selectors import match_labels
from gm.devcluster.store import Change, Record

__all__ = ["EndpointsController", "resolve_ports"]

_MANAGED_BY = "endpointslice-controller.k8s.io"
_SERVICE_LABEL = "kubernetes.io/service-name"


class EndpointsController(Controller[ObjectKey]):
    """Keeps both kinds for each Service with a selector."""

    kinds = ("pods", "services")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        # pods by namespace and label: a Service must not look at all pods of a large namespace
        self._labelled: dict[tuple[str, str, str], set[ObjectKey]] = {}

    def observe(self, change: Change) -> Iterable[ObjectKey]:
        """The Service; or those that select the pod, or did."""
        if change.table == "services":
            return [change.record.key]
        self._note(change)
        labels = [r.labels for r in (change.record, change.previous) if r is not None]
        return [
            service.key
            for service in self.store.table("services").records(change.record.key.namespace)
            if any(match_labels(_selector(service), held) for held in labels)
        ]

    def reconcile(self, key: ObjectKey) -> float | None:
        """Write what has changed for one Service."""
        service = self.store.table("services").get(key)
        slice_key = ObjectKey(key.namespace, _slice_name(key.name))
        if service is None or service.is_deleting:
            self._remove("endpoints", key)
            return None  # slices have an owner: the garbage collector takes them
        selector = _selector(service)
        if not selector or service.object["spec"].get("type") == "ExternalName":
            return None  # whoever made it says where it leads
        pods = [
            pod
            for pod in self._selected(key.namespace, selector)
            if _address(pod) and not _is_over(pod)
        ]
        self._write("endpoints", "", key, _endpoints(service, pods))
        self._write("endpointslices", "discovery.k8s.io", slice_key, _slice(service, pods))
        return None

    def _note(self, change: Change) -> None:
        key = change.record.key
        for place in _places(change.previous) if change.previous is not None else ():
            held = self._labelled.get(place, set())
            held.discard(key)
            if not held:
                self._labelled.pop(place, None)
        if change.type != "DELETED":
            for place in _places(change.record):
                self._labelled.setdefault(place, set()).add(key)

    def _selected(self, namespace: str, selector: dict[str, str]) -> list[Record]:
        """The pods that ``selector`` matches, in order."""
        nobody: set[ObjectKey] = set()
        held = [self._labelled.get((namespace, *pair), nobody) for pair in selector.items()]
        fewest = min(held, key=len)
        pods = (self.store.table("pods").get(key) for key in sorted(fewest))
        return [pod for pod in pods if pod is not None and match_labels(selector, pod.labels)]

    def _remove(self, plural: str, key: ObjectKey) -> None:
        info = self.api.builtin(plural)
        if self.api.table(info).get(key) is not None:
            self.api.remove(info, key)

    def _write(self, plural: str, group: str, key: ObjectKey, content: Json) -> None:
        info = self.api.builtin(plural, group)
        if self.api.table(info).get(key) is None:
            content["metadata"]["name"] = key.name
            self.api.make(info, key.namespace, content)
            return

        def change(obj: Json) -> Json:
            kept: Json = {k: obj[k] for k in ("apiVersion", "kind", "metadata")}
            fields = {k: v for k, v in content.items() if k != "metadata"}
            return {**kept, **fields}

        self.api.modify(info, key, change)


def _places(pod: Record) -> list[tuple[str, str, str]]:
    return [(pod.key.namespace, name, value) for name, value in pod.labels.items()]


def _selector(service: Record) -> dict[str, str]:
    selector: dict[str, str] = service.object["spec"].get("selector") or {}
    return selector


def _slice_name(service: str) -> str:
    return f"{service}-{hashlib.sha256(service.encode()).hexdigest()[:5]}"


def _address(pod: Record) -> str:
    return str((pod.object.get("status") or {}).get("podIP") or "")


def _is_over(pod: Record) -> bool:
    return (pod.object.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _is_ready(pod: Record) -> bool:
    conditions = (pod.object.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def resolve_ports(service: Json, pod: Json) -> list[tuple[str, int, str]]:
    """Name, number and protocol of a Service's ports at one pod; unknown names are left out."""
    named = {
        (port.get("name"), port.get("protocol") or "TCP"): port["containerPort"]
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
    }
    resolved: list[tuple[str, int, str]] = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        target = port.get("targetPort") or port["port"]
        number = target if isinstance(target, int) else named.get((target, protocol))
        if number is not None:
            resolved.append((port.get("name") or "", int(number), protocol))
    return resolved


def _reference(pod: Record) -> Json:
    return {
        "kind": "Pod",
        "namespace": pod.key.namespace,
        "name": pod.key.name,
        "uid": pod.uid,
    }


def _endpoints(service: Record, pods: list[Record]) -> Json:
    groups: dict[tuple[tuple[str, int, str], ...], tuple[list[Json], list[Json]]] = {}
    unready_too = service.object["spec"].get("publishNotReadyAddresses")
    for pod in pods:
        if pod.is_deleting and not unready_too:
            continue
        ports = tuple(resolve_ports(service.object, pod.object))
        ready, unready = groups.setdefault(ports, ([], []))
        address = {"ip": _address(pod), "targetRef": _reference(pod)}
        if node := pod.object["spec"].get("nodeName"):
            address["nodeName"] = node
        (ready if unready_too or _is_ready(pod) else unready).append(address)
    subsets: list[Json] = []
    for ports, (ready, unready) in sorted(groups.items()):
        subset: Json = {}
        if ready:
            subset["addresses"] = ready
        if unready:
            subset["notReadyAddresses"] = unready
        subset["ports"] = [_port(*port) for port in ports]
        subsets.append(subset)
    labels = {**service.labels, "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    return {"metadata": {"labels": labels}, "subsets": subsets}


def _port(name: str, number: int, protocol: str) -> Json:
    port: Json = {"name": name} if name else {}
    return {**port, "port": number, "protocol": protocol}


def _slice(service: Record, pods: list[Record]) -> Json:
    endpoints: list[Json] = []
    for pod in pods:
        serving = _is_ready(pod)
        endpoint: Json = {
            "addresses": [_address(pod)],
            "conditions": {
                "ready": serving and not pod.is_deleting,
                "serving": serving,
                "terminating": pod.is_deleting,
            },
            "targetRef": _reference(pod),
        }
        if node := pod.object["spec"].get("nodeName"):
            endpoint["nodeName"] = node
        endpoints.append(endpoint)
    ports: list[Json] = []
    if pods:
        ports = [
            {"name": name, "port": number, "protocol": protocol}
            for name, number, protocol in resolve_ports(service.object, pods[0].object)
        ]
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": service.key.name,
        "uid": service.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {
        **service.labels,
        _SERVICE_LABEL: service.key.name,
        "endpointslice.kubernetes.io/managed-by": _MANAGED_BY,
    }
    return {
        "metadata": {"labels": labels, "ownerReferences": [owner]},
        "addressType": _family(pods),
        "endpoints": endpoints,
        "ports": ports,
    }


def _family(pods: list[Record]) -> str:
    versions = {ipaddress.ip_address(_address(pod)).version for pod in pods}
    return "IPv6" if versions == {6} else "IPv4"
