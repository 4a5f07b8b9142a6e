"""How a client is let in, and what else a connection needs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gm.errors import ConfigError

__all__ = ["Access", "Credentials", "Token"]

logger = logging.getLogger(__name__)

# however often the server answers 401, an exec plugin runs this often at most
_RENEW_SECONDS = 10.0


@dataclass(frozen=True)
class Token:
    """Value of the Authorization header, and how long it is good; None: until it is refused."""

    authorization: str | None
    lifetime_seconds: float | None = None


class Credentials:
    """The Authorization header, kept fresh.

    ``load`` reads the source again: when the token's lifetime is over, and when the server
    refuses it.
    """

    def __init__(
        self,
        token: Token,
        load: Callable[[], Awaitable[Token]] | None = None,
        *,
        renew_seconds: float = _RENEW_SECONDS,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._token = token
        self._load = load
        self._renew_seconds = renew_seconds
        self._clock = clock or asyncio.get_running_loop().time
        self._read_at = self._clock()
        self._lock = asyncio.Lock()

    async def header(self) -> str | None:
        """Value of the Authorization header, if there is one.

        One caller waits while the source is read; the others go on with the old token, whose
        lifetime leaves time for that.
        """
        if self._is_over():
            async with self._lock:
                await self._reload()
        return self._token.authorization

    async def renew(self, *, rejected: str | None) -> bool:
        """Read the source again because the server answered 401; whether it gave another one."""
        async with self._lock:
            if self._token.authorization != rejected:
                return True  # another request has renewed it in the meantime
            if self._age() < self._renew_seconds:
                return False
            await self._reload()
            return self._token.authorization != rejected

    def _age(self) -> float:
        return self._clock() - self._read_at

    def _is_over(self) -> bool:
        lifetime = self._token.lifetime_seconds
        return lifetime is not None and self._age() >= lifetime

    async def _reload(self) -> None:
        self._read_at = self._clock()
        if self._load is None:
            return
        try:
            self._token = await self._load()
        except ConfigError as exc:
            # the old one may be good still, and the server says so if it is not
            logger.warning("credentials could not be renewed", extra={"reason": str(exc)})


@dataclass(frozen=True)
class Access:
    """Everything that a connection needs."""

    server: str
    namespace: str
    credentials: Credentials
    ssl_context: ssl.SSLContext | None = None
    tls_server_name: str | None = None
    proxy: str | None = None
