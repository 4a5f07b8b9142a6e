"""The record of v1 keys, kept in a fixed number of shards of some store with compare-and-swap.

Nodes are hashed over the shards, and what all nodes of a shard want to read or write within a
short time is one read and one write. Several GMs may write the same shard: an entry carries who
wrote it, so that a session that has been replaced elsewhere learns it instead of undoing things.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from gm.errors import GmError, ServiceError
from gm.messagelayer.message import WireKey
from gm.messagelayer.pace import Pace
from gm.messagelayer.record import Changes, Claim, Holder

__all__ = ["SHARDS", "ShardConflict", "ShardStore", "ShardedRecord", "shard_of"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

SHARDS = 64
"""How many shards there are; fixed, since a node's shard must be the same for all GMs."""

_WINDOW_SECONDS = 0.02
_PER_SECOND = 25  # reads, and writes, over all shards; a burst may touch each shard once
_RETRY_SECONDS = (0.2, 5.0)


class ShardConflict(GmError):
    """Somebody else has written the shard since it was read."""


class ShardStore(Protocol):
    """Where the shards lie. Failures are ServiceError; they are tried again for ever."""

    async def read(self, shard: int) -> tuple[bytes, str]:
        """Content and version of a shard, read live; both empty if it does not exist."""

    async def write(self, shard: int, content: bytes, version: str) -> str:
        """Replace the content of ``version`` (empty: create); gives the new version.

        Raises: ShardConflict when the shard has another version by now.
        """


def shard_of(node: str) -> int:
    """The shard that has the entry of ``node``."""
    return zlib.crc32(node.encode()) % SHARDS


class _Entry(msgspec.Struct, array_like=True):
    """What a node may hold, and the claim that wrote it last (greater ones are newer)."""

    epoch: int
    owner: str
    packed: bytes  # packed one by one, so that a write packs only those that changed

    @property
    def rank(self) -> tuple[int, str]:
        return self.epoch, self.owner

    def keys(self) -> dict[WireKey, int]:
        """Keys with the identities of their incarnations; none if they are unreadable."""
        try:
            groups = _decode_keys(zlib.decompress(self.packed))
        except (msgspec.MsgspecError, zlib.error) as exc:
            logger.error(  # where it broke says nothing
                "an entry of the v1 record is unreadable", extra={"cause": str(exc)}
            )
            return {}
        return {
            WireKey(kind, namespace, name): identity
            for (kind, namespace), names in groups
            for name, identity in names.items()
        }


class _Content(msgspec.Struct):
    nodes: dict[str, _Entry]
    format: int = 1


_Groups = list[tuple[tuple[str, str], dict[str, int]]]
_decode_keys = msgspec.msgpack.Decoder(_Groups).decode
_decode_content = msgspec.msgpack.Decoder(_Content).decode
_encode = msgspec.msgpack.Encoder().encode


def _packed(keys: dict[WireKey, int]) -> bytes:
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for key, identity in sorted(keys.items()):
        groups.setdefault((key.kind, key.namespace), {})[key.name] = identity
    return zlib.compress(_encode(list(groups.items())))


class _Claim:
    """A session's claim; ``rank`` decides between claims, ``told`` is what its holder knows."""

    def __init__(self, record: ShardedRecord, holder: Holder) -> None:
        self.holder, self.rank = holder, (0, "")
        self.told: dict[WireKey, int] = {}
        self.has_committed = self.is_released = False
        self._record = record

    def commit(self, changes: Changes) -> None:
        self._record.enqueue(self, dict(changes))

    def release(self) -> None:
        self.is_released = True


class _Shard:
    """One shard: what is known of it, and what waits to be done."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: dict[str, _Entry] = {}
        self.version: str | None = None  # None: must be read before it can be written
        self.claims: list[_Claim] = []
        self.commits: list[tuple[_Claim, dict[WireKey, int]]] = []
        self.is_busy = False


class ShardedRecord:
    """A :class:`gm.messagelayer.record.Record` over a :class:`ShardStore`."""

    def __init__(
        self,
        store: ShardStore,
        *,
        window_seconds: float = _WINDOW_SECONDS,
        per_second: float = _PER_SECOND,
        retry_seconds: tuple[float, float] = _RETRY_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._window, self._retry = store, window_seconds, retry_seconds
        self._now = now
        self._shards = [_Shard(number) for number in range(SHARDS)]
        self._busy: asyncio.Queue[_Shard] = asyncio.Queue()
        self._reads = Pace(per_second=per_second, burst=SHARDS)
        self._failing: set[int] = set()
        self._writes = Pace(per_second=per_second, burst=SHARDS)

    def claim(self, holder: Holder) -> Claim:
        """See :class:`gm.messagelayer.record.Record`."""
        claim = _Claim(self, holder)
        shard = self._shards[shard_of(holder.node)]
        shard.claims.append(claim)
        self._wake(shard)
        return claim

    def enqueue(self, claim: _Claim, changes: dict[WireKey, int]) -> None:
        """Commit ``changes`` with the next write of the shard."""
        shard = self._shards[shard_of(claim.holder.node)]
        shard.commits.append((claim, changes))
        self._wake(shard)

    async def run(self) -> None:
        """Read and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                shard = await self._busy.get()
                group.create_task(self._work(shard), name=f"v1-record-{shard.number}")

    def _wake(self, shard: _Shard) -> None:
        if not shard.is_busy:
            shard.is_busy = True
            self._busy.put_nowait(shard)

    async def _work(self, shard: _Shard) -> None:
        """Do what waits for ``shard``, in turns: whatever comes during one is in the next."""
        await asyncio.sleep(self._window)
        while shard.claims or shard.commits:
            if shard.claims:
                await self._read_for_claims(shard)
            if shard.commits:
                await self._write_commits(shard)
            await asyncio.sleep(0)
        shard.is_busy = False

    async def _read_for_claims(self, shard: _Shard) -> None:
        await self._reads.wait()
        claims, shard.claims = shard.claims, []
        # What an older claim of this GM has not written by now must never be written: the new
        # one builds on what it reads here.
        shard.commits = [commit for commit in shard.commits if not commit[0].is_released]
        await self._read(shard)
        for claim in claims:
            entry = shard.entries.get(claim.holder.node)
            epoch = max(entry.epoch if entry else 0, int(self._now() * 1000)) + 1
            claim.rank = (epoch, secrets.token_hex(4))
            claim.told = entry.keys() if entry else {}
            if not claim.is_released:
                claim.holder.recorded(claim.told)

    async def _write_commits(self, shard: _Shard) -> None:
        await self._writes.wait()
        commits, shard.commits = shard.commits, []
        while True:
            if shard.version is None:
                await self._read(shard)
            entries = dict(shard.entries)
            done = [
                (claim, keys)
                for claim, changes in commits
                if (keys := _apply(entries, claim, changes)) is not None
            ]
            if await self._write(shard, entries):
                break
        current = {id(claim): keys for claim, keys in done}
        for claim, _ in commits:
            if not claim.is_released:
                _tell(claim, current.get(id(claim)))

    async def _read(self, shard: _Shard) -> None:
        content, version = await self._insist(shard, lambda: self._store.read(shard.number))
        shard.entries, shard.version = _unpack(shard.number, content), version

    async def _write(self, shard: _Shard, entries: dict[str, _Entry]) -> bool:
        """Whether ``entries`` are durable now; False: read again and merge again."""
        if entries == shard.entries:
            return True
        content, version = _encode(_Content(entries)), shard.version or ""
        try:
            shard.version = await self._insist(
                shard, lambda: self._store.write(shard.number, content, version)
            )
        except ShardConflict:
            shard.version = None
            return False
        shard.entries = entries
        return True

    async def _insist(self, shard: _Shard, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works: without the record no new key may be sent to a v1 node."""
        delay, most = self._retry
        while True:
            try:
                result = await attempt()
            except ServiceError as exc:
                self._note_failure(shard, exc)
            else:
                self._note_success(shard)
                return result
            await asyncio.sleep(delay)
            delay = min(delay * 2, most)

    def _note_failure(self, shard: _Shard, exc: ServiceError) -> None:
        """One line per outage, not one per shard and attempt."""
        if not self._failing:
            logger.warning(
                "the v1 record can not be kept; new objects wait for it",
                extra={"shard": shard.number, "cause": str(exc)},
            )
        self._failing.add(shard.number)

    def _note_success(self, shard: _Shard) -> None:
        if shard.number in self._failing:
            self._failing.remove(shard.number)
            if not self._failing:
                logger.info("the v1 record can be kept again")


def _apply(
    entries: dict[str, _Entry], claim: _Claim, changes: dict[WireKey, int]
) -> dict[WireKey, int] | None:
    """Write ``changes`` into ``entries``; None if a newer claim has written there.

    Gives what the node may hold as it was found.
    """
    node = claim.holder.node
    entry = entries.get(node)
    if claim.is_released or (entry is not None and entry.rank > claim.rank):
        return None
    found = entry.keys() if entry is not None else {}
    keys = {key: identity for key, identity in {**found, **changes}.items() if identity}
    if keys:
        if keys != found or entry is None or entry.rank != claim.rank:
            entries[node] = _Entry(*claim.rank, _packed(keys))
    else:
        entries.pop(node, None)
    return found


def _tell(claim: _Claim, found: dict[WireKey, int] | None) -> None:
    """Tell a claim's holder how its commit ended."""
    if found is None:
        claim.holder.superseded()
        return
    if not claim.has_committed and found != claim.told:
        # An older session elsewhere has written since this claim read; from now on it can not.
        claim.holder.recorded(found)
    claim.has_committed = True
    claim.holder.committed()


def _unpack(number: int, content: bytes) -> dict[str, _Entry]:
    if not content:
        return {}
    try:
        decoded = _decode_content(content)
        for entry in decoded.nodes.values():
            entry.keys()
    except (msgspec.MsgspecError, zlib.error) as exc:
        logger.error(  # the bytes say nothing to anybody
            "a shard of the v1 record is unreadable and begins anew",
            extra={"shard": number, "cause": str(exc)},
        )
        return {}
    return decoded.nodes
