"""What every Kubernetes object has (identity, owners, conditions) and where it is served."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

__all__ = [
    "Condition",
    "ObjectKey",
    "ObjectMeta",
    "OwnerReference",
    "PartialObject",
    "ResourceType",
    "controller_of",
]


class ObjectKey(msgspec.Struct, frozen=True, order=True):
    """Name of an object within its kind; ``str()`` gives ``namespace/name`` (or ``name``)."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind and where an API server serves it."""

    group: str = ""
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``, as objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``pods`` or ``datasets.sedna.io``, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path; without ``namespace`` a namespaced kind's path spans all namespaces."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural, *filter(None, (name, subresource))])


class OwnerReference(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """One entry of ``metadata.ownerReferences``."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The metadata that we read. A view: never written back whole."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""  # opaque: compare for equality only
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def deletion_requested(self) -> datetime | None:
        """When removal was asked for: ``deletion_timestamp`` is when the grace period ends."""
        if self.deletion_timestamp is None:
            return None
        return self.deletion_timestamp - timedelta(seconds=self.deletion_grace_period_seconds or 0)


class Condition(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """A condition as Kubernetes' own kinds write it."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None
    last_probe_time: datetime | None = None
    last_heartbeat_time: datetime | None = None


class PartialObject(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Any object, seen only as far as its metadata goes."""

    metadata: ObjectMeta
    api_version: str = ""
    kind: str = ""


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner reference that is marked as controller, if any."""
    return next((ref for ref in meta.owner_references or () if ref.controller), None)


Json = dict[str, Any]
"""An object as plain JSON: what is written to the API server."""
