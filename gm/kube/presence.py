"""Who works alone, without an election, finds out here that somebody else does the same work.

Each process that works alone leaves its mark on a Lease now and then. Who finds another's mark over
its own knows that both are at work, whatever their clocks say; what was there before it left its
first one proves nothing, since whoever left that may be gone.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from datetime import UTC, datetime

import msgspec

from gm.api.meta import ObjectKey
from gm.api.resources import LEASES
from gm.errors import AlreadyExists, Conflict, NotFound, ServiceError
from gm.kube.leader import LeaseApi

__all__ = ["Presence"]

logger = logging.getLogger(__name__)

_MAX_TOLD = 100


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()


_decode = msgspec.json.Decoder(_Lease).decode


class Presence:
    """Marks the Lease ``key``, and warns of whoever else marks it or leads on Lease ``elected``.

    That costs three requests each ``interval_seconds``. It is a courtesy: no failure disturbs
    anybody, and a namespace that is missing is not made for it.
    """

    def __init__(
        self,
        client: LeaseApi,
        key: ObjectKey,
        *,
        elected: ObjectKey,
        identity: str | None = None,
        interval_seconds: float = 30.0,
    ) -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"
        self._client = client
        self._key, self._elected = key, elected
        self._interval_seconds = interval_seconds
        self._has_marked = False
        self._elected_version: str | None = None
        self._told: set[str] = set()

    async def run(self) -> None:
        """Mark and look until cancelled."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self._mark()
                await self._look_for_leader()
            except (ServiceError, msgspec.MsgspecError) as exc:
                logger.debug(
                    "whether somebody else does this work is not known", extra={"reason": str(exc)}
                )

    async def _mark(self) -> None:
        lease = await self._read(self._key)
        holder = lease.spec.holder_identity if lease is not None else None
        if self._has_marked and holder and holder != self.identity:
            self._tell(self._key, holder)
        try:
            await self._write(lease)
            self._has_marked = True
        except (AlreadyExists, Conflict):
            return  # somebody was quicker, and is seen next time

    async def _look_for_leader(self) -> None:
        """A leader renews its lease all the time; one that is gone is seen no more."""
        lease = await self._read(self._elected)
        if lease is None:
            return
        version, before = lease.metadata.resource_version, self._elected_version
        self._elected_version = version
        if before not in (None, version) and lease.spec.holder_identity:
            self._tell(self._elected, lease.spec.holder_identity)

    async def _read(self, key: ObjectKey) -> _Lease | None:
        try:
            return _decode(await self._client.get(LEASES, key))
        except NotFound:
            return None

    async def _write(self, lease: _Lease | None) -> None:
        meta = {"namespace": self._key.namespace, "name": self._key.name}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": meta,
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": max(1, round(2 * self._interval_seconds)),
                "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
        if lease is None:
            await self._client.create(LEASES, self._key.namespace, body)
        else:
            meta["resourceVersion"] = lease.metadata.resource_version
            await self._client.replace(LEASES, self._key, body)

    def _tell(self, key: ObjectKey, holder: str) -> None:
        """Once for each, of which a loop of crashes may make very many."""
        if holder in self._told:
            return
        if len(self._told) >= _MAX_TOLD:
            self._told.clear()
        self._told.add(holder)
        logger.warning(
            "another gm works on the same objects; run one alone, or each with "
            "leaderElection.enabled",
            extra={"lease": str(key), "other": holder, "identity": self.identity},
        )
