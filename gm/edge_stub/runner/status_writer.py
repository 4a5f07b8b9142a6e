"""Keeps a pod's status in the API as its record says, written only when it differs."""

from __future__ import annotations

import asyncio
import collections
import logging
from datetime import UTC, datetime

import msgspec

from gm.api.meta import Json, ObjectKey
from gm.api.resources import PODS
from gm.edge_stub.runner.status import PodRecord, pod_status, status_patch
from gm.errors import BadRequest, Conflict, NotFound, ServiceError
from gm.kube import MERGE_PATCH, Client

__all__ = ["StatusWriter"]

logger = logging.getLogger(__name__)

_OWN_VERSIONS = 32


class StatusWriter:
    """Writes the status of one pod; ``pod`` is the newest version of it that is known.

    Writes carry the resourceVersion they were computed from; after a conflict the pod is read
    and the status computed again. A pod that had ended before this run is left as it is.
    """

    def __init__(
        self,
        client: Client,
        pod: Json,
        record: PodRecord,
        *,
        retry_seconds: float,
        retry_max_seconds: float,
    ) -> None:
        self.pod = pod
        self._client, self._record = client, record
        self._retry_seconds, self._retry_max_seconds = retry_seconds, retry_max_seconds
        self._dirty = asyncio.Event()
        self._lock = asyncio.Lock()
        self._own_versions: collections.deque[str] = collections.deque(maxlen=_OWN_VERSIONS)
        self._is_frozen = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")

    def observe(self, pod: Json) -> None:
        """Take note of a version that the watch told."""
        version = pod["metadata"]["resourceVersion"]
        # The watch tells our own writes too, late: an older one would only make a conflict.
        if version in self._own_versions and version != self._own_versions[-1]:
            return
        self.pod = pod
        self.touch()

    def touch(self) -> None:
        """The record changed: write soon."""
        self._dirty.set()

    async def run(self) -> None:
        """Write whenever there is something new, until cancelled; retries for ever."""
        pause = self._retry_seconds
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self.write()
                pause = self._retry_seconds
            except ServiceError as exc:
                logger.warning(
                    "pod status not written yet", extra={"object": str(self._key), "why": str(exc)}
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._retry_max_seconds)
                self._dirty.set()

    async def write(self) -> None:
        """Write the status if it differs. Raises: ServiceError for what may be tried again."""
        async with self._lock:
            while not self._is_frozen:
                current = self.pod.get("status") or {}
                generation = self.pod["metadata"].get("generation")
                desired = pod_status(
                    self._record, current, datetime.now(UTC), generation=generation
                )
                patch = status_patch(desired, current)
                if not patch or not await self._send(patch):
                    return

    async def _send(self, patch: Json) -> bool:
        """False when nothing more is to be written."""
        meta = self.pod["metadata"]
        precondition = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        try:
            answer = await self._client.patch(
                PODS,
                self._key,
                {"metadata": precondition, "status": patch},
                subresource="status",
                content_type=MERGE_PATCH,
            )
            written: Json = msgspec.json.decode(answer)
            self._own_versions.append(written["metadata"]["resourceVersion"])
            self.pod = written
            return False
        except NotFound:
            return False
        except Conflict:
            return await self._read_again()
        except BadRequest as exc:
            logger.error("pod status refused", extra={"object": str(self._key), "why": str(exc)})
            return False

    async def _read_again(self) -> bool:
        try:
            pod: Json = msgspec.json.decode(await self._client.get(PODS, self._key))
        except NotFound:
            return False
        if pod["metadata"]["uid"] != self.pod["metadata"]["uid"]:
            return False  # made again under this name: not ours to write
        self.pod = pod
        return True

    @property
    def _key(self) -> ObjectKey:
        meta = self.pod["metadata"]
        return ObjectKey(meta["namespace"], meta["name"])
