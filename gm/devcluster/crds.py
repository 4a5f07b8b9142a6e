"""Custom resource definitions: what a CRD must be like, and the resources that it makes."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import Json
from gm.devcluster.info import ResourceInfo
from gm.devcluster.status import Cause

__all__ = ["name_conflicts", "resources", "status", "validate", "validate_change"]


def validate(crd: Json) -> Iterable[Cause]:
    """What is wrong with a CRD."""
    return []


def validate_change(new: Json, old: Json) -> Iterable[Cause]:
    """What may not change of a CRD."""
    return []


def name_conflicts(crd: Json, served: Iterable[ResourceInfo]) -> list[str]:
    """Why the names of ``crd`` can not be accepted beside those that are served."""
    return []


def resources(crd: Json) -> list[ResourceInfo]:
    """One resource for each served version."""
    return []


def status(crd: Json, conflicts: list[str]) -> Json:
    """The status to store with ``crd``."""
    return {}
