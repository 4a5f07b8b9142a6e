"""Objects as tables: what ``kubectl get`` prints, cells and ages rendered by the server."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from gm.devcluster.cells import NAME_DESCRIPTION
from gm.devcluster.info import ResourceInfo
from gm.devcluster.metadata import quoted
from gm.devcluster.status import bad_request

__all__ = ["check_include", "partial", "render"]


def partial(obj: Json, version: str = "v1") -> Json:
    """The object as ``PartialObjectMetadata``, in a version of ``meta.k8s.io``."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def check_include(include_object: str) -> None:
    """Raises: StatusError (400) for what a row can not include."""
    if include_object not in ("", "Metadata", "Object", "None"):
        raise bad_request(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"{quoted(include_object)}: must be 'Metadata', 'Object', 'None', or empty"
        )


def render(
    info: ResourceInfo,
    objects: list[Json],
    *,
    now: float,
    include_object: str = "Metadata",
    headers: bool = True,
    metadata: Json | None = None,
    version: str = "v1",
) -> Json:
    """A ``Table`` of ``objects``.

    ``now`` is in seconds since the epoch; ``include_object`` is ``Metadata``, ``Object`` or
    ``None``; ``metadata`` is that of the list (by default the one object's resourceVersion).
    Without ``headers`` the columns are null, as in all events of a watch but the first.
    ``version`` is that of ``meta.k8s.io``. Raises: StatusError (400) for another
    ``include_object``.
    """
    check_include(include_object)
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
        newest = objects[0]["metadata"].get("resourceVersion", "") if objects else ""
        metadata = {"resourceVersion": newest}
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": [_row(info, obj, now, include_object, version) for obj in objects],
    }


def _row(info: ResourceInfo, obj: Json, now: float, include_object: str, version: str) -> Json:
    included: Any = None
    if include_object == "Object":
        included = obj
    elif include_object != "None":
        included = partial(obj, version)
    stored = info.to_storage(obj)  # columns read the fields of the version that is stored
    return {"cells": [column.cell(stored, now) for column in info.columns], "object": included}
