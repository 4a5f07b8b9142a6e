"""The namespace where GM keeps its records and leases."""

from __future__ import annotations

import logging

from gm.api.resources import NAMESPACES
from gm.errors import AlreadyExists, Forbidden
from gm.kube import Client

__all__ = ["create_namespace"]

logger = logging.getLogger(__name__)


async def create_namespace(client: Client, name: str) -> None:
    """Make namespace ``name`` unless it exists, or namespaces may not be made.

    Then it has to exist, which whoever writes there finds out. Raises: ServiceError.
    """
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        await client.create(NAMESPACES, "", body)
    except (AlreadyExists, Forbidden):  # the roles that we ship do not allow it
        return
    logger.info("namespace for gm's records made", extra={"namespace": name})
