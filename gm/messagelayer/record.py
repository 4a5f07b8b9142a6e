"""What v1 nodes may hold, so that a delete reaches them whatever happened in between.

A v1 node can not say what it holds, so GM notes each key before its first insert goes out, and
strikes it when its delete is delivered. The sessions (:mod:`gm.messagelayer.session`) decide what
to note; where it is kept is a :class:`Record`'s matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gm.messagelayer.message import WireKey

__all__ = ["Claim", "Holder", "MemoryRecord", "Record"]

Changes = Mapping[WireKey, int]
"""Keys to note with the identity of their incarnation, or to strike: identity 0."""


class Holder(Protocol):
    """A session, as the record sees it; each method is called from the event loop."""

    node: str

    def recorded(self, keys: Changes) -> None:
        """The record has been read: these keys the node may hold.

        Comes again with the first commit, should somebody have written in between.
        """

    def committed(self) -> None:
        """The changes that were committed last are durable."""

    def superseded(self) -> None:
        """Another GM, or a newer session, writes this node's entry now; this session must end."""


class Claim(Protocol):
    """A session's right to write its node's entry, until a newer claim exists."""

    def commit(self, changes: Changes) -> None:
        """Make ``changes`` durable, then call ``committed``; one commit at a time.

        The first commit tells all other claims of this node that they are superseded.
        """

    def release(self) -> None:
        """The session has ended: call it back no more.

        Changes that are not durable yet become so before another claim of the node reads its
        entry, or never.
        """


class Record(Protocol):
    """Where entries are kept."""

    def claim(self, holder: Holder) -> Claim:
        """Read the entry of ``holder``'s node, then call ``recorded``."""

    async def run(self) -> None:
        """Do what reading and writing needs, until cancelled."""


class MemoryRecord:
    """A record as durable as the process: for tests, and for GM without a cluster to keep it."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[WireKey, int]] = {}
        self._claims: dict[str, _MemoryClaim] = {}

    def claim(self, holder: Holder) -> Claim:
        """See :class:`Record`; the answer comes before this returns."""
        claim = _MemoryClaim(self, holder)
        holder.recorded(dict(self.entries.get(holder.node, {})))
        return claim

    async def run(self) -> None:
        """Nothing has to be done."""

    def write(self, claim: _MemoryClaim, changes: Changes) -> None:
        """Apply ``changes``; a claim committing for the first time supersedes the one before."""
        node = claim.holder.node
        if not claim.is_current:
            claim.holder.superseded()
            return
        last = self._claims.get(node)
        if last is not None and last is not claim:
            last.is_current = False
        self._claims[node] = claim
        entry = self.entries.setdefault(node, {})
        for key, identity in changes.items():
            if identity:
                entry[key] = identity
            else:
                entry.pop(key, None)
        if not entry:
            del self.entries[node]
        claim.holder.committed()

    def forget(self, claim: _MemoryClaim) -> None:
        """Drop a claim whose session has ended."""
        if self._claims.get(claim.holder.node) is claim:
            del self._claims[claim.holder.node]


class _MemoryClaim:
    def __init__(self, record: MemoryRecord, holder: Holder) -> None:
        self.holder, self.is_current = holder, True
        self._record = record

    def commit(self, changes: Changes) -> None:
        self._record.write(self, changes)

    def release(self) -> None:
        self._record.forget(self)
