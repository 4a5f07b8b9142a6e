"""Objects as tables: what ``kubectl get`` prints, cells and ages rendered by the server."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from gm.devcluster.cells import NAME_DESCRIPTION
from gm.devcluster.info import ResourceInfo

__all__ = ["partial", "render"]


def partial(obj: Json) -> Json:
    """The object as ``PartialObjectMetadata``."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def render(
    info: ResourceInfo,
    objects: list[Json],
    *,
    now: float,
    include_object: str = "Metadata",
    headers: bool = True,
    metadata: Json | None = None,
) -> Json:
    """A ``Table`` of ``objects``.

    ``now`` is in seconds since the epoch; ``include_object`` is ``Metadata``, ``Object`` or
    ``None``; ``metadata`` is that of the list (by default the one object's resourceVersion).
    Without ``headers`` the columns are null, as in all events of a watch but the first.
    """
    definitions: list[Json] | None = None
    if headers:
        definitions = [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description
                or (NAME_DESCRIPTION if column.format == "name" else ""),
                "priority": column.priority,
            }
            for column in info.columns
        ]
    if metadata is None:
        version = objects[0]["metadata"].get("resourceVersion", "") if objects else ""
        metadata = {"resourceVersion": version}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": [_row(info, obj, now, include_object) for obj in objects],
    }


def _row(info: ResourceInfo, obj: Json, now: float, include_object: str) -> Json:
    included: Any = None
    if include_object == "Object":
        included = obj
    elif include_object != "None":
        included = partial(obj)
    stored = info.to_storage(obj)  # columns read the fields of the version that is stored
    return {"cells": [column.cell(stored, now) for column in info.columns], "object": included}
