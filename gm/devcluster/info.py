"""One resource of the embedded API server: its names, its verbs, what happens on a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gm.api.meta import Json, ResourceType
from gm.devcluster.scalepaths import ScalePaths
from gm.devcluster.schema import Schema

__all__ = ["VERBS", "Behaviour", "Column", "ResourceInfo", "User", "version_order"]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class User:
    """Who asks."""

    name: str = "admin"
    uid: str = "admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table; ``cell`` gets the object and the time (seconds since the epoch)."""

    name: str
    cell: Callable[[Json, float], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


def version_order(name: str) -> tuple[int, int, int, str]:
    """A sorting key that puts v2 before v1, v1 before v1beta1, and that before v1alpha1."""
    for rank, word in enumerate(("", "beta", "alpha")):
        major, _, minor = name.removeprefix("v").partition(word) if word else (name[1:], "", "0")
        if name.startswith("v") and major.isdigit() and minor.isdigit():
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, name)


class Behaviour(Protocol):
    """What a kind does on writes; see ``gm.devcluster.preparing``."""

    def create(
        self, info: ResourceInfo, obj: Json, *, field_validation: str, duplicates: Sequence[str]
    ) -> list[str]:
        """Prepare an object for its first write, in place; returns warnings."""

    def update(
        self,
        info: ResourceInfo,
        new: Json,
        old: Json,
        *,
        subresource: str,
        field_validation: str,
        duplicates: Sequence[str],
    ) -> list[str]:
        """Prepare an object that replaces ``old``, in place; returns warnings."""


@dataclass(frozen=True, kw_only=True)
class ResourceInfo:
    """One resource of one group and version.

    Objects are kept in the store under ``storage``, in its version; ``to_storage`` and
    ``from_storage`` translate (the identity for nearly every kind: they return their argument).
    A resource with ``answer`` keeps nothing: its only verb is create, and the answer is what
    ``answer(obj, user)`` returns.
    """

    resource: ResourceType
    storage: ResourceType
    singular: str
    list_kind: str
    schema: Schema
    behaviour: Behaviour
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: frozenset[str] = frozenset()
    is_custom: bool = False
    warning: str = ""
    """What everybody is told who asks for this resource: that its version is deprecated."""
    scale: ScalePaths | None = None
    selectable_fields: frozenset[str] = frozenset()
    """What a field selector may name beyond metadata.name and metadata.namespace."""
    to_storage: Callable[[Json], Json] = field(default=lambda obj: obj)
    from_storage: Callable[[Json], Json] = field(default=lambda obj: obj)
    answer: Callable[[Json, User], Json] | None = None

    @property
    def patch_schema(self) -> Schema | None:
        """Where a strategic merge patch finds merge keys; None for custom resources (415)."""
        return None if self.is_custom else self.schema

    def prepare_create(
        self, obj: Json, *, field_validation: str = "Warn", duplicates: Sequence[str] = ()
    ) -> list[str]:
        """Prune, default and validate a new object, in place.

        ``duplicates`` are the messages of ``decoding.decode`` about repeated keys. The name must
        have been generated already. Returns: warnings for the client. Raises: StatusError, 400
        for what can not be decoded (also unknown fields with ``Strict``), 422 for what is invalid.
        """
        return self.behaviour.create(
            self, obj, field_validation=field_validation, duplicates=duplicates
        )

    def prepare_update(
        self,
        new: Json,
        old: Json,
        *,
        subresource: str = "",
        field_validation: str = "Warn",
        duplicates: Sequence[str] = (),
    ) -> list[str]:
        """Like ``prepare_create`` for an object that replaces ``old`` (which is left as it is).

        What the client may not write here (status through the main path, spec through
        ``status``, server-owned metadata) is taken from ``old``. Afterwards ``new == old`` means
        that nothing changed.
        """
        return self.behaviour.update(
            self,
            new,
            old,
            subresource=subresource,
            field_validation=field_validation,
            duplicates=duplicates,
        )
