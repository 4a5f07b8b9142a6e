"""Objects as the API server answers them, in the form that listers keep."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gm.kube.lister import Stored, View
from gm.kube.strip import without_managed_fields

__all__ = ["stored"]

T = TypeVar("T", bound=View)


def stored(raw: bytes, view: type[T]) -> Stored[T]:
    """``raw``, one object as JSON, seen as ``view``."""
    decoded = msgspec.json.decode(raw, type=view)
    meta = decoded.metadata
    return Stored(meta.key, meta.uid, meta.resource_version, decoded, without_managed_fields(raw))
