"""Loopback addresses, each used once on the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gm.edge_stub.runner.addresses import AddressPool, NoFreeAddress
from gm.errors import ConfigError
from tests.edge_stub.runner.support import loopback


@pytest.fixture
def node() -> str:
    """An address for a node."""
    return loopback()


@pytest.fixture
def pool(node: str) -> Iterator[AddressPool]:
    """An open pool with the default range."""
    made = AddressPool(node)
    made.open()
    yield made
    made.close()


def test_pods_get_the_upper_addresses_of_the_nodes_network(pool: AddressPool) -> None:
    """Nodes and servers have the lower ones."""
    network = pool.node.rpartition(".")[0]
    assert [pool.allocate(), pool.allocate()] == [f"{network}.64", f"{network}.65"]


def test_a_released_address_is_used_again_last(node: str) -> None:
    """So that a late connection does not reach another pod."""
    base = node.rpartition(".")[0]
    pool = AddressPool(node, f"{base}.100-{base}.102")
    first = pool.allocate()
    pool.release(first)
    assert [pool.allocate() for _ in range(3)] == [f"{base}.101", f"{base}.102", first]
    with pytest.raises(NoFreeAddress, match="are in use"):
        pool.allocate()
    pool.close()


def test_two_nodes_share_a_range_without_collision(pool: AddressPool) -> None:
    """Whichever process they are in: the kernel keeps the reservations."""
    other_address = pool.node.rpartition(".")[0] + ".61"
    other = AddressPool(other_address)
    other.open()
    taken = {p.allocate() for p in (pool, other) for _ in range(50)}
    assert len(taken) == 100
    other.close()


def test_a_nodes_address_belongs_to_one_runner(pool: AddressPool) -> None:
    """And is not released with a pod that shares it."""
    pool.release(pool.node)
    with pytest.raises(ConfigError, match="another runner on this machine uses it"):
        AddressPool(pool.node).open()


def test_a_range_that_holds_the_nodes_own_address_skips_it(node: str) -> None:
    """A pod must not get it."""
    pool = AddressPool(node, f"{node}-{node}")
    with pytest.raises(NoFreeAddress):
        pool.allocate()
    pool.release("127.0.0.1")  # not ours: nothing happens


@pytest.mark.parametrize("address", ["10.0.0.1", "localhost", "", "::1", "127.0.0.300"])
def test_only_ipv4_loopback_addresses_will_do(address: str) -> None:
    """Processes without walls must not be reachable from elsewhere."""
    with pytest.raises(ConfigError, match=r"want an address in 127\.0\.0\.0/8"):
        AddressPool(address)


@pytest.mark.parametrize("pods", ["127.0.0.9-127.0.0.5", "127.0.0.1-10.0.0.1", "all"])
def test_a_range_must_be_one(pods: str) -> None:
    """First before last, both loopback."""
    with pytest.raises(ConfigError, match="pod addresses"):
        AddressPool("127.0.0.1", pods)


def test_an_address_that_this_machine_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems have 127.0.0.1 only."""

    class Refusing:
        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> Refusing:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def bind(self, _address: object) -> None:
            raise OSError(99, "cannot assign requested address")

    monkeypatch.setattr("socket.socket", Refusing)
    with pytest.raises(ConfigError, match="this machine can not listen there"):
        AddressPool("127.9.9.9").open()
