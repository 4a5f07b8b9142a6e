"""Leader election on a Lease: of several replicas, one works.

Clocks of different machines are not compared: a lease counts as abandoned when this process has
seen no change of it for its whole duration. A leader that can not renew stops working before
another one may begin, and then stands for election again: an outage of the API server pauses a
lone replica, it does not end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import LEASES
from gm.errors import AlreadyExists, Conflict, NotFound, ServiceError

__all__ = ["LeaderElector", "LeaderSettings", "LeaseApi"]

logger = logging.getLogger(__name__)


class LeaderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times, in seconds; the defaults are those of Kubernetes' own components.

    A leader gives up ``renew_deadline_seconds`` after its last renewal; others may take over
    ``lease_seconds`` after it.
    """

    lease_seconds: int = 15
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0
    release_seconds: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.renew_deadline_seconds < self.lease_seconds:
            raise ValueError("retry_seconds < renew_deadline_seconds < lease_seconds is required")


class LeaseApi(Protocol):
    """The part of ``Client`` that an election needs."""

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """As ``Client.get``."""
        ...

    async def create(
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any] | bytes
    ) -> bytes:
        """As ``Client.create``."""
        ...

    async def replace(
        self, resource: ResourceType, key: ObjectKey, body: Mapping[str, Any] | bytes
    ) -> bytes:
        """As ``Client.replace``."""
        ...


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Lease).decode


def _unique_identity() -> str:
    """The pod's name, and something that tells its incarnations apart."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"


class LeaderElector:
    """Stands for election on the Lease ``key`` and runs a body while it leads."""

    def __init__(
        self,
        client: LeaseApi,
        key: ObjectKey,
        *,
        identity: str | None = None,
        settings: LeaderSettings | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.identity = identity or _unique_identity()
        self.waiting_for: str | None = None
        """Why this replica does not lead yet, for people; None while it leads."""
        self._client = client
        self._key = key
        self._settings = settings or LeaderSettings()
        self._jitter = jitter
        self._lease: _Lease | None = None
        self._changed_at = 0.0  # when this process saw the lease change last
        self._renewed_at = 0.0
        self._is_leader = False
        self._may_hold = False  # a write was sent, whatever came of it

    @property
    def is_leader(self) -> bool:
        """Whether the body may run now."""
        return self._is_leader

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run ``body`` whenever this replica leads, until it returns by itself.

        It is cancelled when the lease is lost, and started again when it is won again. The lease
        is released when ``body`` returns or raises, and when ``run`` is cancelled.
        """
        try:
            is_finished = False
            while not is_finished:
                await self._acquire()
                is_finished = await self._lead(body)
        finally:
            await self._release()

    async def _lead(self, body: Callable[[], Awaitable[None]]) -> bool:
        """Run ``body`` as long as the lease is held; whether it returned by itself."""
        logger.info("leading", extra={"lease": str(self._key), "identity": self.identity})
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(self._renew(), name="lease-renewal")
            working = group.create_task(_run(body), name="leader-body")
            await asyncio.wait({renewing, working}, return_when=asyncio.FIRST_COMPLETED)
            is_finished = working.done()
            renewing.cancel()
            working.cancel()
        if not is_finished:
            logger.warning(
                "leadership lost", extra={"lease": str(self._key), "reason": self.waiting_for}
            )
        return is_finished

    async def _acquire(self) -> None:
        """Wait until the lease is ours."""
        while True:
            try:
                if await self._try_acquire():
                    self.waiting_for = None
                    self._is_leader = True
                    return
            except ServiceError as exc:
                self._wait_for(str(exc))
            # jittered, so that replicas do not collide each time
            await asyncio.sleep(self._settings.retry_seconds * (0.8 + 0.4 * self._jitter()))

    async def _try_acquire(self) -> bool:
        started = _now()
        try:
            self._observe(_decode(await self._client.get(LEASES, self._key)))
        except NotFound:
            self._lease = None
        try:
            if self._lease is None or self._is_free(self._lease):
                await self._write(self._lease)
                self._renewed_at = started
                return True
        except (AlreadyExists, Conflict):
            self._wait_for("another replica was quicker")
        return False

    def _observe(self, lease: _Lease) -> None:
        if self._lease is None or self._lease != lease:
            self._changed_at = _now()
        self._lease = lease

    def _is_free(self, lease: _Lease) -> bool:
        spec = lease.spec
        if not spec.holder_identity or spec.holder_identity == self.identity:
            return True
        seconds = spec.lease_duration_seconds or self._settings.lease_seconds
        left = self._changed_at + seconds - _now()
        if left <= 0:
            logger.info(
                "taking over a lease that is not renewed any more",
                extra={"lease": str(self._key), "holder": spec.holder_identity},
            )
            return True
        self._wait_for(f"lease {self._key} is held by {spec.holder_identity}")
        return False

    def _wait_for(self, reason: str) -> None:
        if reason != self.waiting_for:
            self.waiting_for = reason
            logger.info("waiting to lead", extra={"lease": str(self._key), "reason": reason})

    async def _renew(self) -> None:
        """Renew until the lease is lost.

        What counts is when a successful request was sent, not when its answer came: others count
        from when the server wrote it.
        """
        while True:
            await asyncio.sleep(self._settings.retry_seconds)
            started = _now()
            deadline = self._renewed_at + self._settings.renew_deadline_seconds
            try:
                async with asyncio.timeout_at(deadline):
                    await self._write(self._lease)
                self._renewed_at = started
            except (Conflict, NotFound):
                if not await self._is_still_ours(deadline):
                    return self._lose("the lease was taken or deleted")
            except (ServiceError, TimeoutError) as exc:
                logger.warning(
                    "the lease could not be renewed, trying on",
                    extra={"lease": str(self._key), "reason": str(exc)},
                )
                if _now() + self._settings.retry_seconds >= deadline:
                    await asyncio.sleep(deadline - _now())
                    return self._lose(f"no renewal until the deadline: {exc}")

    async def _is_still_ours(self, deadline: float) -> bool:
        """Whether the conflict was with a write of our own, whose answer was lost."""
        try:
            async with asyncio.timeout_at(deadline):
                lease = _decode(await self._client.get(LEASES, self._key))
        except (ServiceError, TimeoutError):
            return False
        if lease.spec.holder_identity != self.identity:
            return False
        self._lease = lease
        return True

    def _lose(self, reason: str) -> None:
        self._is_leader = False
        self._wait_for(reason)

    async def _write(self, lease: _Lease | None) -> None:
        """Write the lease with us as its holder, if it is unchanged since ``lease``."""
        self._may_hold = True
        spec = lease.spec if lease is not None else _Spec()
        now = _timestamp()
        is_ours = spec.holder_identity == self.identity
        body = self._body(
            {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self._settings.lease_seconds,
                "acquireTime": spec.acquire_time if is_ours and spec.acquire_time else now,
                "renewTime": now,
                "leaseTransitions": (spec.lease_transitions or 0)
                + (lease is not None and not is_ours),
            },
            lease,
        )
        if lease is None:
            written = await self._client.create(LEASES, self._key.namespace, body)
        else:
            written = await self._client.replace(LEASES, self._key, body)
        self._observe(_decode(written))

    def _body(self, spec: dict[str, Any], lease: _Lease | None) -> dict[str, Any]:
        meta = {"namespace": self._key.namespace, "name": self._key.name}
        if lease is not None:
            meta["resourceVersion"] = lease.metadata.resource_version
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": meta,
            "spec": spec,
        }

    async def _release(self) -> None:
        """Let another replica take over at once; if that fails it waits for the lease's end."""
        self._is_leader = False
        if not self._may_hold:
            return
        with contextlib.suppress(ServiceError, TimeoutError):
            async with asyncio.timeout(self._settings.release_seconds):
                # read afresh: a write whose answer did not come any more may have changed it
                lease = _decode(await self._client.get(LEASES, self._key))
                if lease.spec.holder_identity != self.identity:
                    return
                now = _timestamp()
                spec = {
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                    "acquireTime": now,
                    "renewTime": now,
                    "leaseTransitions": lease.spec.lease_transitions or 0,
                }
                await self._client.replace(LEASES, self._key, self._body(spec, lease))
                logger.info("lease released", extra={"lease": str(self._key)})


async def _run(body: Callable[[], Awaitable[None]]) -> None:
    await body()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
