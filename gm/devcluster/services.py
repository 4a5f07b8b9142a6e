"""Addresses and ports of Services: given out on create, kept on update, taken back on delete."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable, Iterator

from gm.api.meta import Json
from gm.devcluster.status import Cause, StatusError, invalid

__all__ = ["NODE_PORTS", "ServiceHook"]

NODE_PORTS = range(30000, 32768)
_NETWORK = ipaddress.ip_network("10.96.0.0/16")
_FIRST_DYNAMIC = 256  # the first addresses are left to people who choose one
_NEEDS_NODE_PORT = ("NodePort", "LoadBalancer")


class ServiceHook:
    """Allocates cluster addresses and node ports; the only one that knows which are taken."""

    def __init__(self, *, seed: int | None = None) -> None:
        self._addresses: set[str] = set()
        self._ports: set[tuple[str, int]] = set()
        # Where the search begins is random, so that a new Service does not get at once what a
        # deleted one had: clients may still hold connections to it.
        self._random = random.Random(seed)  # noqa: S311

    def creating(self, obj: Json, *, dry_run: bool) -> None:
        """Give a new Service its address and ports."""
        self._allocate(obj, None, dry_run=dry_run)

    def updating(self, new: Json, old: Json, *, dry_run: bool) -> None:
        """Give out what a changed Service needs in addition, take back what it needs no more."""
        self._allocate(new, old, dry_run=dry_run)

    def removed(self, obj: Json) -> None:
        """Take back everything."""
        self._addresses -= set(_addresses(obj))
        self._ports -= set(_ports(obj))

    def restored(self, obj: Json) -> None:
        """Keep what it has from being given to another."""
        self._addresses |= set(_addresses(obj))
        self._ports |= set(_ports(obj))

    def _allocate(self, new: Json, old: Json | None, *, dry_run: bool) -> None:
        held_addresses = set(_addresses(old)) if old else set()
        held_ports = set(_ports(old)) if old else set()
        addresses = self._addresses - held_addresses
        ports = self._ports - held_ports
        self._set_address(new, addresses)
        self._set_ports(new, ports, dry_run=dry_run)
        if not dry_run:  # only now: an error above must leave what is taken as it was
            self._addresses = addresses | set(_addresses(new))
            self._ports = ports | set(_ports(new))

    def _set_address(self, obj: Json, taken: set[str]) -> None:
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                spec.pop(field, None)
            return
        address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        if address and address != "None":
            self._check_address(obj, address, taken)
        elif not address:
            address = self._free_address(taken)
        spec["clusterIP"], spec["clusterIPs"] = address, [address]

    def _check_address(self, obj: Json, address: str, taken: set[str]) -> None:
        try:
            is_inside = ipaddress.ip_address(address) in _NETWORK
        except ValueError:
            is_inside = False
        why = ""
        if not is_inside:
            why = (
                "failed to allocate IP "
                f"{address}: the provided IP ({address}) is not in the valid range. The range of "
                f"valid IPs is {_NETWORK}"
            )
        elif address in taken:
            why = f"failed to allocate IP {address}: provided IP is already allocated"
        if why:
            raise _invalid(obj, "spec.clusterIPs", f'["{address}"]', why)

    def _free_address(self, taken: set[str]) -> str:
        count = _NETWORK.num_addresses - 1
        offset = self._random.randrange(_FIRST_DYNAMIC, count)
        for n in range(_FIRST_DYNAMIC, count):
            number = _FIRST_DYNAMIC + (offset + n) % (count - _FIRST_DYNAMIC)
            address = str(_NETWORK[number])
            if address not in taken:
                return address
        raise StatusError(500, "InternalError", "failed to allocate a serviceIP: range is full")

    def _set_ports(self, obj: Json, taken: set[tuple[str, int]], *, dry_run: bool) -> None:
        spec = obj["spec"]
        if not _is_watched(spec):
            spec.pop("healthCheckNodePort", None)
        if spec.get("type") not in _NEEDS_NODE_PORT:
            return
        chosen: set[tuple[str, int]] = set()
        for index, port in enumerate(spec.get("ports") or ()):
            if number := port.get("nodePort"):
                field = f"spec.ports[{index}].nodePort"
                if number not in NODE_PORTS and not dry_run:  # upstream does not look then
                    why = (
                        "provided port is not in the valid range. The range of valid ports is "
                        f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
                    )
                    raise _invalid(obj, field, str(number), why)
                if (_protocol(port), number) in taken:
                    raise _invalid(obj, field, str(number), "provided port is already allocated")
                chosen.add((_protocol(port), number))
        wants_ports = spec.get("allocateLoadBalancerNodePorts", True)
        for port in spec.get("ports") or ():
            if not port.get("nodePort") and wants_ports:
                port["nodePort"] = self._free_port(taken | chosen, _protocol(port))
                chosen.add((_protocol(port), port["nodePort"]))
        if _is_watched(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._free_port(taken | chosen, "TCP")

    def _free_port(self, taken: Iterable[tuple[str, int]], protocol: str) -> int:
        used = {number for other, number in taken if other == protocol}
        free = [number for number in NODE_PORTS if number not in used]
        if not free:
            raise StatusError(500, "InternalError", "failed to allocate a nodePort: range is full")
        return self._random.choice(free)


def _is_watched(spec: Json) -> bool:
    """Whether a load balancer asks each node if it has pods of the service."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _protocol(port: Json) -> str:
    return str(port.get("protocol") or "TCP")


def _addresses(obj: Json) -> Iterator[str]:
    address = obj["spec"].get("clusterIP")
    if address and address != "None":
        yield address


def _ports(obj: Json) -> Iterator[tuple[str, int]]:
    for port in obj["spec"].get("ports") or ():
        if port.get("nodePort"):
            yield (_protocol(port), port["nodePort"])
    if number := obj["spec"].get("healthCheckNodePort"):
        yield ("TCP", number)


def _invalid(obj: Json, field: str, value: str, why: str) -> StatusError:
    cause = Cause("FieldValueInvalid", f"Invalid value: {value}: {why}", field)
    return invalid("Service", "", obj["metadata"]["name"], [cause])
