"""Sessions end with their Node: an agent of a node that was removed is not left half alive."""

from __future__ import annotations

import logging

from gm.api.core import Node
from gm.kube.informer import Informer
from gm.kube.lister import Event, EventType
from gm.messagelayer import Hub

__all__ = ["close_sessions_of_removed"]

logger = logging.getLogger(__name__)


def close_sessions_of_removed(nodes: Informer[Node], hub: Hub) -> None:
    """Whenever a Node is deleted, close its session and forget its untaken reports.

    Its agent may come back: under that name, if there is a Node again, it starts from its desired
    state as any other.
    """

    async def tell(event: Event[Node]) -> None:
        if event.type is not EventType.DELETED or event.old is None:
            return
        name = event.old.key.name
        if hub.is_connected(name):
            logger.info("the Node of a connected node was deleted", extra={"node": name})
        hub.disconnect(name, reason="the Node object was deleted")

    nodes.add_handler(tell)
