"""Loopback addresses of nodes and pods, each used by one of them only on the whole machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator

from gm.errors import ConfigError, GmError

__all__ = ["AddressPool", "NoFreeAddress"]

_FIRST_POD, _LAST_POD = 64, 254  # of the node's /24; nodes and servers have the lower ones


class NoFreeAddress(GmError):
    """Every address of the range is in use by some pod."""


class AddressPool:
    """Reserves the node's own address, and hands out addresses to its pods.

    A reservation is a bound abstract Unix socket: atomic among all runners of this machine,
    valid in this network namespace just as the addresses are, and released by the kernel
    however this process ends. So several nodes may share one range.

    Raises: ConfigError for an address or a range that can not be used.
    """

    def __init__(self, node: str, pods: str = "") -> None:
        self.node = _loopback(node, "--address")
        self._first, self._last = _range(pods) if pods else _default_range(node)
        self._next = self._first
        self._held: dict[str, socket.socket] = {}

    def open(self) -> None:
        """Reserve the node's address. Raises: ConfigError if it is taken or does not exist."""
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.bind((self.node, 0))
        except OSError as exc:
            raise ConfigError(
                f"--address {self.node}: this machine can not listen there: {exc.strerror}"
            ) from exc
        if not self._reserve(self.node):
            raise ConfigError(
                f"--address {self.node}: another runner on this machine uses it; "
                "give each node its own, such as 127.0.0.11, 127.0.0.12"
            )

    def allocate(self) -> str:
        """An address for a pod; recently released ones come last. Raises: NoFreeAddress."""
        for number in self._candidates():
            address = str(ipaddress.IPv4Address(number))
            if address != self.node and self._reserve(address):
                self._next = number + 1
                return address
        first, last = ipaddress.IPv4Address(self._first), ipaddress.IPv4Address(self._last)
        raise NoFreeAddress(f"all pod addresses from {first} to {last} are in use")

    def release(self, address: str) -> None:
        """Give a pod's ``address`` back; the node's own, which some pods share, stays."""
        if address != self.node and address in self._held:
            self._held.pop(address).close()

    def close(self) -> None:
        """Give everything back."""
        for held in self._held.values():
            held.close()
        self._held.clear()

    def _candidates(self) -> Iterator[int]:
        yield from range(self._next, self._last + 1)
        yield from range(self._first, min(self._next, self._last + 1))

    def _reserve(self, address: str) -> bool:
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0gm-runner-address-{address}")
        except OSError:
            held.close()
            return False
        self._held[address] = held
        return True


def _loopback(text: str, what: str) -> str:
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise ConfigError(
            f"{what} {text!r}: want an address in 127.0.0.0/8: the runner's pods are processes of "
            "this machine, and their logs and ports are for this machine only"
        )
    return str(address)


def _default_range(node: str) -> tuple[int, int]:
    base = int(ipaddress.IPv4Address(node)) & ~0xFF
    return base + _FIRST_POD, base + _LAST_POD


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    ends = [
        int(ipaddress.IPv4Address(_loopback(end.strip(), "pod addresses")))
        for end in ((first, last) if dash else (first, first))
    ]
    if ends[0] > ends[1]:
        raise ConfigError(f"pod addresses {text!r}: want FIRST-LAST, the lower one first")
    return ends[0], ends[1]
