"""EdgeNode: how the link to a node is doing, for people to look at; nothing depends on it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from gm.api.meta import ObjectMeta
from gm.api.schema import View, doc

__all__ = ["EdgeNode", "EdgeNodeStatus", "Quarantined"]


class Quarantined(View, frozen=True, kw_only=True):
    """An object that is not sent to the node."""

    key: Annotated[str, doc("The object: kind/namespace/name.", required=True)] = ""
    reason: Annotated[str | None, doc("Why it is not sent.")] = None
    since: Annotated[datetime | None, doc("When it was set aside.")] = None


class EdgeNodeStatus(View, frozen=True, kw_only=True):
    """How the link to the node is doing."""

    connected: Annotated[bool | None, doc("The node has a session now.")] = None
    protocol: Annotated[str | None, doc("v1 (Sedna's) or v2.")] = None
    since: Annotated[datetime | None, doc("When the link last came up or went down.")] = None
    last_seen: Annotated[datetime | None, doc("When the node last gave a sign of life.")] = None
    pending: Annotated[
        int | None, doc("Objects that the node lacks, or has an old version of.")
    ] = None
    pending_keys: Annotated[
        tuple[str, ...] | None, doc("The first 50 of them: kind/namespace/name.")
    ] = None
    held: Annotated[int | None, doc("Objects that the node holds.")] = None
    held_keys: Annotated[
        tuple[str, ...] | None, doc("The first 50 of them: kind/namespace/name.")
    ] = None
    quarantined: Annotated[
        tuple[Quarantined, ...] | None, doc("Objects that can not be sent to the node.")
    ] = None


class EdgeNode(View, frozen=True, kw_only=True):
    """How the link to a node is doing; written by the Global Manager."""

    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[EdgeNodeStatus, doc("How the link to the node is doing.")] = EdgeNodeStatus()
