"""Puts what an earlier life of the server kept back into its place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from gm.devcluster.api import Api
from gm.devcluster.statefile import Saved, SavedObject
from gm.devcluster.store import Record

__all__ = ["restore"]

_CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def restore(api: Api, saved: Saved) -> None:
    """Fill the store of ``api``, which is new; its hooks take note of every object."""
    revision = api.store.next_revision()
    for table, group in itertools.groupby(saved.objects, lambda saved: saved.table):
        objects = list(group)
        records = (Record(each.key, each.object, each.revision) for each in objects)
        api.store.table(table).restore(records, revision)
        hook = api.hooks.get(table)
        if hook is not None:
            for each in sorted(objects, key=_names_refused) if table == _CRDS else objects:
                hook.restored(each.object)


def _names_refused(definition: SavedObject) -> bool:
    """Whether another CRD holds the names: that one must come first to hold them again."""
    conditions: Iterable[dict[str, str]] = (definition.object.get("status") or {}).get(
        "conditions"
    ) or ()
    return any(c.get("type") == "NamesAccepted" and c.get("status") == "False" for c in conditions)
