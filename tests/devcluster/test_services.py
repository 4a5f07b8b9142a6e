"""Cluster addresses and node ports."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.api.meta import Json
from gm.devcluster.services import NODE_PORTS, ServiceHook
from gm.devcluster.status import StatusError
from tests.devcluster.core import plain


def _service(*ports: Json, **spec: Any) -> Json:
    listed = list(ports) or [{"port": 80, "protocol": "TCP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"type": "ClusterIP", "ports": listed, **spec},
    }


def _created(hook: ServiceHook, service: Json, *, dry_run: bool = False) -> Json:
    hook.creating(service, dry_run=dry_run)
    spec: Json = service["spec"]
    return spec


def test_a_service_gets_an_address_of_its_own() -> None:
    """From the service network, above the part that people choose from."""
    hook = ServiceHook()
    addresses = [_created(hook, _service())["clusterIP"] for _ in range(200)]
    assert len(set(addresses)) == 200
    network = ipaddress.ip_network("10.96.0.0/16")
    assert all(ipaddress.ip_address(a) in network for a in addresses)
    assert all(int(ipaddress.ip_address(a)) - int(network[0]) >= 256 for a in addresses)


def test_headless_and_external_services_have_none() -> None:
    """``None`` is kept as it is; ExternalName has no address at all."""
    hook = ServiceHook()
    headless = _created(hook, _service(clusterIP="None"))
    assert (headless["clusterIP"], headless["clusterIPs"]) == ("None", ["None"])
    again = _created(hook, _service(clusterIP="None"))
    assert again["clusterIP"] == "None"
    external = _created(hook, _service(type="ExternalName", clusterIP="10.96.1.1"))
    assert "clusterIP" not in external


def test_node_ports_are_given_to_those_types_that_have_them() -> None:
    """In the usual range, one for each port."""
    hook = ServiceHook()
    ports = [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]
    numbers = [p["nodePort"] for p in _created(hook, _service(*ports, type="NodePort"))["ports"]]
    assert len(set(numbers)) == 2
    assert all(number in NODE_PORTS for number in numbers)
    assert "nodePort" not in _created(hook, _service())["ports"][0]


def test_a_chosen_port_or_address_is_taken_once() -> None:
    """The second gets 422 with the words of a real API server."""
    hook = ServiceHook()
    port = {"port": 80, "nodePort": 30333}
    _created(hook, _service(dict(port), type="NodePort", clusterIP="10.96.3.3"))
    with pytest.raises(StatusError) as taken:
        _created(hook, _service(dict(port), type="NodePort"))
    assert taken.value.message == (
        'Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 30333: '
        "provided port is already allocated"
    )
    with pytest.raises(StatusError, match="provided IP is already allocated"):
        _created(hook, _service(clusterIP="10.96.3.3"))
    udp = {"port": 80, "nodePort": 30333, "protocol": "UDP"}
    assert _created(hook, _service(udp, type="NodePort"))["ports"][0]["nodePort"] == 30333


@pytest.mark.parametrize("number", [80, 29999, 32768])
def test_ports_outside_the_range_are_refused(number: int) -> None:
    """And the range is named."""
    with pytest.raises(StatusError, match="valid ports is 30000-32767"):
        _created(ServiceHook(), _service({"port": 80, "nodePort": number}, type="NodePort"))


@pytest.mark.parametrize("address", ["1.2.3.4", "nonsense"])
def test_addresses_outside_the_network_are_refused(address: str) -> None:
    """422."""
    with pytest.raises(StatusError, match=r"The range of valid IPs is 10\.96\.0\.0/16"):
        _created(ServiceHook(), _service(clusterIP=address))


def test_a_deleted_service_gives_back_what_it_held() -> None:
    """Others may have it then."""
    hook = ServiceHook()
    wanted = {"type": "NodePort", "clusterIP": "10.96.3.3"}
    first = _service({"port": 80, "nodePort": 30333}, **wanted)
    _created(hook, first)
    hook.removed(first)
    _created(hook, _service({"port": 80, "nodePort": 30333}, **wanted))


def test_a_dry_run_takes_nothing() -> None:
    """It shows what would be given."""
    hook = ServiceHook()
    shown = _created(hook, _service(type="NodePort", clusterIP="10.96.3.3"), dry_run=True)
    assert shown["ports"][0]["nodePort"] in NODE_PORTS
    _created(hook, _service(clusterIP="10.96.3.3"))


def test_a_refused_service_takes_nothing() -> None:
    """Neither its address nor the ports before the bad one."""
    hook = ServiceHook()
    ports = [{"port": 1, "nodePort": 30001}, {"port": 2, "nodePort": 1}]
    with pytest.raises(StatusError):
        _created(hook, _service(*ports, type="NodePort", clusterIP="10.96.3.3"))
    good = _service({"port": 1, "nodePort": 30001}, type="NodePort", clusterIP="10.96.3.3")
    _created(hook, good)


def test_an_update_keeps_what_is_kept_and_gives_back_what_is_not() -> None:
    """Becoming ClusterIP gives the port back; becoming NodePort takes one."""
    hook = ServiceHook()
    old = _service({"port": 80, "nodePort": 30333}, type="NodePort")
    _created(hook, old)
    address = old["spec"]["clusterIP"]
    new = _service(clusterIP=address)
    hook.updating(new, old, dry_run=False)
    assert new["spec"]["clusterIP"] == address
    other = _service({"port": 80, "nodePort": 30333}, type="NodePort")
    _created(hook, other)
    again = _service(type="NodePort", clusterIP=address)
    hook.updating(again, new, dry_run=False)
    assert again["spec"]["ports"][0]["nodePort"] not in (None, 30333)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["create", "update", "remove"]), max_size=30), st.data())
def test_no_two_services_ever_hold_the_same(steps: list[str], data: st.DataObject) -> None:
    """Whatever is created, changed and removed in whatever order."""
    hook, alive = ServiceHook(seed=1), list[Json]()
    for step in steps:
        if step == "create" or not alive:
            service = _service(type=data.draw(st.sampled_from(["ClusterIP", "NodePort"])))
            _created(hook, service)
            alive.append(service)
            continue
        n = data.draw(st.integers(0, len(alive) - 1))
        if step == "remove":
            hook.removed(alive.pop(n))
        else:
            kind = data.draw(st.sampled_from(["ClusterIP", "NodePort"]))
            changed = _service(type=kind, clusterIP=alive[n]["spec"]["clusterIP"])
            hook.updating(changed, alive[n], dry_run=False)
            alive[n] = changed
        addresses = [s["spec"]["clusterIP"] for s in alive]
        ports = [p["nodePort"] for s in alive for p in s["spec"]["ports"] if "nodePort" in p]
        assert len(set(addresses)) == len(addresses)
        assert len(set(ports)) == len(ports)


def test_all_ports_taken() -> None:
    """500, as upstream."""
    hook = ServiceHook()
    everything = [{"port": 1, "nodePort": number} for number in NODE_PORTS]
    _created(hook, _service(*everything, type="NodePort"))
    with pytest.raises(StatusError, match="failed to allocate a nodePort: range is full"):
        _created(hook, _service(type="NodePort"))


def test_addresses_are_released_by_the_api() -> None:
    """The hook is called on delete."""
    api = plain(widgets=False)
    info = api.info("services")
    service = _service(clusterIP="10.96.7.7")
    for _ in range(2):
        api.create("services", service)
        api.api.remove(info, api.key("services", "s"))


def test_all_addresses_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """500, after every one has been given out."""
    monkeypatch.setattr("gm.devcluster.services._NETWORK", ipaddress.ip_network("10.96.0.0/28"))
    monkeypatch.setattr("gm.devcluster.services._FIRST_DYNAMIC", 10)
    hook = ServiceHook()
    given = {_created(hook, _service())["clusterIP"] for _ in range(5)}
    assert given == {f"10.96.0.{n}" for n in range(10, 15)}
    with pytest.raises(StatusError, match="failed to allocate a serviceIP: range is full"):
        _created(hook, _service())
