"""Secrets that edges hold copies of: read one by one, never listed or watched."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from gm.api.core import Secret
from gm.api.meta import ObjectKey
from gm.api.resources import SECRETS
from gm.controllers.credentials import credential_annotation
from gm.errors import InvalidSpec, NotFound, ServiceError
from gm.kube.client import Client
from gm.messagelayer import WireKey

__all__ = ["SecretCopies"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_SLOW_POLL_SECONDS = 30.0
_PATIENCE_SECONDS = 60.0


class _Copy:
    """One Secret: who needs it, and what was read of it last."""

    __slots__ = ("annotation", "due", "is_read", "since", "users")

    def __init__(self, now: float) -> None:
        self.users: set[WireKey] = set()
        self.annotation: str | None = None
        self.is_read = False
        self.since = self.due = now


class SecretCopies:
    """Keeps the credential annotations of Secrets current.

    A Secret that is missing is looked for each second, after a minute each 30 s; one that was
    found, every ``resync_seconds``. ``on_change`` is called with each object whose Secret was
    read for the first time, or has changed.
    """

    def __init__(
        self, client: Client, on_change: Callable[[WireKey], None], *, resync_seconds: float
    ) -> None:
        self._client = client
        self._on_change = on_change
        self._resync_seconds = resync_seconds
        self._copies: dict[ObjectKey, _Copy] = {}
        self._names: dict[WireKey, ObjectKey] = {}
        self._wake = asyncio.Event()

    def want(self, user: WireKey, secret: ObjectKey | None) -> None:
        """``user`` needs ``secret``, and no other one; None: it needs none."""
        if self._names.get(user) == secret:
            return
        self._release(user)
        if secret is None:
            return
        self._names[user] = secret
        copy = self._copies.get(secret)
        if copy is None:
            copy = self._copies[secret] = _Copy(asyncio.get_running_loop().time())
            self._wake.set()
        copy.users.add(user)

    def is_read(self, user: WireKey) -> bool:
        """Whether an answer came about the Secret of ``user``; True if it needs none."""
        name = self._names.get(user)
        return name is None or self._copies[name].is_read

    def annotation(self, user: WireKey) -> str | None:
        """The credential of ``user``; None while its Secret does not exist, or holds none."""
        name = self._names.get(user)
        return self._copies[name].annotation if name is not None else None

    async def run(self) -> None:
        """Read Secrets as they are due, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            due = min((copy.due for copy in self._copies.values()), default=None)
            if due is None or due > loop.time():
                wait = None if due is None else due - loop.time()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()
                continue
            for key, copy in list(self._copies.items()):
                if copy.due <= loop.time() and self._copies.get(key) is copy:
                    await self._read(key, copy)

    async def _read(self, key: ObjectKey, copy: _Copy) -> None:
        now = asyncio.get_running_loop().time()
        is_slow = now - copy.since > _PATIENCE_SECONDS
        copy.due = now + (_SLOW_POLL_SECONDS if is_slow else _POLL_SECONDS)
        annotation = None
        try:
            raw = await self._client.get(SECRETS, key)
        except NotFound:
            pass
        except ServiceError as exc:
            # what was read before still holds; nothing was read: those who need it wait
            logger.warning("secret can not be read", extra={"secret": str(key), "reason": str(exc)})
            return
        else:
            with contextlib.suppress(InvalidSpec):
                annotation = credential_annotation(msgspec.json.decode(raw, type=Secret))
            copy.since = asyncio.get_running_loop().time()
            copy.due = copy.since + self._resync_seconds
        if copy.is_read and copy.annotation == annotation:
            return
        copy.annotation, copy.is_read = annotation, True
        for user in sorted(copy.users):
            self._on_change(user)

    def _release(self, user: WireKey) -> None:
        name = self._names.pop(user, None)
        if name is None:
            return
        copy = self._copies[name]
        copy.users.discard(user)
        if not copy.users:
            del self._copies[name]
