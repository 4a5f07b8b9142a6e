"""What an EdgeNode says about its node: pure functions from what the hub knows to a status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from gm.api.meta import Json, ObjectMeta, PartialObject
from gm.api.sedna import EdgeNode, EdgeNodeStatus, Quarantined
from gm.controllers.conditions import timestamp, truncated
from gm.messagelayer import NodeStatus, WireKey

__all__ = ["MAX_KEYS", "WRITER", "Known", "Link", "compute", "status_patch"]

MAX_KEYS = 50
"""How many objects an EdgeNode names in each of its lists."""
WRITER = "sedna.io/global-manager"
"""Annotation: which Global Manager writes the EdgeNode, and removes it when it is of no use."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link as this process has seen it come up, or go down."""

    since: datetime
    last_seen: datetime | None = None


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """An EdgeNode as it was read or written last, as far as it matters for the next write.

    ``link`` and ``holding`` are hashes of the two parts of its status; ``is_ours`` tells whether
    this process has written it.
    """

    name: str
    uid: str
    resource_version: str
    owner_uid: str
    writer: str
    link: int
    holding: int
    connected: bool
    since: datetime | None
    last_seen: datetime | None
    held: int
    quarantined: Mapping[str, datetime | None]
    is_ours: bool

    @classmethod
    def of(cls, raw: bytes | msgspec.Raw, *, is_ours: bool) -> Known:
        """What is worth remembering of an EdgeNode's JSON."""
        try:
            node = _decode(raw)
        except msgspec.ValidationError:  # somebody wrote nonsense, which our next write replaces
            node = EdgeNode(metadata=_decode_partial(raw).metadata)
        meta, status = node.metadata, node.status
        return cls(
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            owner_uid=_owner_uid(meta),
            writer=(meta.annotations or {}).get(WRITER, ""),
            link=_link_hash(status),
            holding=_holding_hash(status),
            connected=bool(status.connected),
            since=status.since,
            last_seen=status.last_seen,
            held=status.held or 0,
            quarantined={item.key: item.since for item in status.quarantined or ()},
            is_ours=is_ours,
        )

    @property
    def was_never_connected(self) -> bool:
        """Whether no link of this node was ever seen."""
        return not self.connected and self.since is None

    def shows(self, status: EdgeNodeStatus) -> bool:
        """Whether writing ``status`` would tell nothing new, ``lastSeen`` aside."""
        if _link_hash(status) != self.link:
            return False
        # what a node that is away holds is not known anew: what was written last stays
        return not status.connected or _holding_hash(status) == self.holding


_decode = msgspec.json.Decoder(EdgeNode).decode
_decode_partial = msgspec.json.Decoder(PartialObject).decode


def compute(
    snapshot: NodeStatus | None, known: Known | None, link: Link | None, now: datetime
) -> EdgeNodeStatus:
    """The status of a node; None in fields of which nothing is known (anew)."""
    if snapshot is None:
        # it shall hold nothing: all that it held last is to be deleted there
        return EdgeNodeStatus(
            connected=False,
            since=_since(known, link, now),
            last_seen=_last_seen(known, link),
            pending=known.held if known is not None else 0,
        )
    status = EdgeNodeStatus(
        connected=snapshot.connected,
        since=_since(known, link, now),
        last_seen=_last_seen(known, link),
        pending=snapshot.pending,
        pending_keys=_names(snapshot.lacking),
        held=0 if known is None or known.was_never_connected else None,
        quarantined=_quarantined(snapshot.quarantined, known, now),
    )
    if not snapshot.connected:
        return status
    since = link.since if link is not None else now
    silent = timedelta(seconds=round(snapshot.silent_seconds or 0.0))
    return msgspec.structs.replace(
        status,
        protocol=snapshot.protocol,
        since=since,
        last_seen=max(since, now - silent),
        held=len(snapshot.held),
        held_keys=_names(snapshot.held),
    )


def status_patch(status: EdgeNodeStatus) -> Json:
    """The merge patch that makes an EdgeNode say ``status``, as far as that says anything."""
    patch: Json = {
        "connected": status.connected,
        "since": _time(status.since),
        "lastSeen": _time(status.last_seen),
        "pending": status.pending,
        "pendingKeys": status.pending_keys,
        "quarantined": [
            {"key": item.key, "reason": item.reason, "since": _time(item.since)}
            for item in status.quarantined or ()
        ]
        or None,
    }
    if status.held is not None:
        patch["held"] = status.held
    if status.connected:
        patch |= {"protocol": status.protocol, "heldKeys": status.held_keys}
    return patch


def _since(known: Known | None, link: Link | None, now: datetime) -> datetime | None:
    """When the link went down, as near as we can tell."""
    if link is not None:
        return link.since
    if known is None:
        return None
    return now if known.connected else known.since


def _last_seen(known: Known | None, link: Link | None) -> datetime | None:
    if link is not None and link.last_seen is not None:
        return link.last_seen
    return known.last_seen if known is not None else None


def _names(keys: Iterable[WireKey]) -> tuple[str, ...] | None:
    names = tuple(_name(key) for key, _ in zip(keys, range(MAX_KEYS), strict=False))
    return names or None


def _name(key: WireKey) -> str:
    return f"{key.kind}/{key.namespace}/{key.name}"


def _quarantined(
    found: Mapping[WireKey, str], known: Known | None, now: datetime
) -> tuple[Quarantined, ...] | None:
    before = known.quarantined if known is not None else {}
    listed = tuple(
        Quarantined(
            key=_name(key), reason=truncated(found[key]), since=before.get(_name(key)) or now
        )
        for key in sorted(found)[:MAX_KEYS]
    )
    return listed or None


def _owner_uid(meta: ObjectMeta) -> str:
    return next((o.uid for o in meta.owner_references or () if o.kind == "Node"), "")


def _link_hash(status: EdgeNodeStatus) -> int:
    return hash(
        (
            bool(status.connected),
            status.since,
            status.pending,
            status.pending_keys,
            tuple((i.key, i.reason, i.since) for i in status.quarantined or ()),
        )
    )


def _holding_hash(status: EdgeNodeStatus) -> int:
    return hash((status.protocol, status.held, status.held_keys))


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp(moment)
