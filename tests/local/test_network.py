"""Loopback networks: reserved, distinct, and given back."""

from __future__ import annotations

import random
import socket

import pytest

from gm.errors import ConfigError
from gm.local import network
from gm.local.network import LoopbackNetwork


def test_two_systems_never_share_a_network() -> None:
    """The same random choice twice still gives two networks."""
    with (
        LoopbackNetwork(rng=random.Random(7)) as first,
        LoopbackNetwork(rng=random.Random(7)) as second,
    ):
        assert first.prefix != second.prefix
        assert first.cidr == f"{first.prefix}.0/24"


def test_a_closed_network_can_be_had_again() -> None:
    """Closing gives the reservation back at once."""
    with LoopbackNetwork(rng=random.Random(7)) as first:
        prefix = first.prefix
    with LoopbackNetwork(rng=random.Random(7)) as second:
        assert second.prefix == prefix


def test_its_addresses_can_be_listened_on() -> None:
    """Any address of the network is a loopback address of this machine."""
    with LoopbackNetwork() as net, socket.socket() as listener:
        listener.bind((net.address(10), 0))
        listener.listen()
        assert listener.getsockname()[0] == net.address(10)


def test_no_free_network_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing is free, the message says what to do."""
    monkeypatch.setattr(network, "_TRIES", 1)
    with (
        LoopbackNetwork(rng=random.Random(7)),
        pytest.raises(ConfigError, match="stop another"),
    ):
        LoopbackNetwork(rng=random.Random(7))
