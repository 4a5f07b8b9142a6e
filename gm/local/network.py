"""Loopback networks: every system on this machine gets a 127.a.b.0/24 of its own."""

from __future__ import annotations

import random
import socket
from types import TracebackType

from gm.errors import ConfigError

__all__ = ["LoopbackNetwork"]

_TRIES = 200


class LoopbackNetwork:
    """A /24 within 127.0.0.0/8 that no other system on this machine uses.

    ``prefix`` (``127.a.b``) asks for that one: pods of an earlier run were told its addresses. The
    reservation is a bound abstract Unix socket: atomic, valid in this network namespace just as the
    addresses are, and released by the kernel however this process ends.
    """

    def __init__(self, prefix: str = "", *, rng: random.Random | None = None) -> None:
        if prefix:
            if not self._take(prefix):
                raise ConfigError(
                    f"network {prefix}.0/24 belongs to another system just now; stop that first"
                )
            return
        rng = rng or random.Random()  # noqa: S311 - a choice, not a secret
        for _ in range(_TRIES):
            # 127.0.x.y is where everybody else's servers listen.
            if self._take(f"127.{rng.randint(1, 254)}.{rng.randint(0, 254)}"):
                return
        raise ConfigError("no free loopback network 127.a.b.0/24 found; stop another `gm up` first")

    def _take(self, prefix: str) -> bool:
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0gm-loopback-{prefix}")
        except OSError:
            held.close()
            return False
        self._held, self.prefix = held, prefix
        return True

    def address(self, host: int) -> str:
        """The address of ``host`` (1 to 254) in this network."""
        return f"{self.prefix}.{host}"

    @property
    def cidr(self) -> str:
        """The network as ``127.a.b.0/24``."""
        return f"{self.prefix}.0/24"

    def close(self) -> None:
        """Give the network back."""
        self._held.close()

    def __enter__(self) -> LoopbackNetwork:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
