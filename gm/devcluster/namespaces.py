"""Deletion of namespaces and of CRDs: both go only when what is in them has gone."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import ObjectKey
from gm.devcluster.api import Api
from gm.devcluster.controller import Controller
from gm.devcluster.deletion import CRD_CLEANUP, DeleteOptions, delete
from gm.devcluster.store import Change, Table

__all__ = ["DefinitionCleaner", "NamespaceCleaner"]

_NAMESPACES = "namespaces"
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def _empty(api: Api, table: Table, namespace: str = "") -> bool:
    """Delete what a table holds of a namespace. Returns: whether nothing is left."""
    info = api.of_table(table.name)
    for record in list(table.records(namespace)):
        if info is not None and not record.is_deleting:
            delete(api, info, record.key, DeleteOptions(propagation_policy="Background"))
    return not table.keys(namespace)


class NamespaceCleaner(Controller[str]):
    """Empties namespaces that are being deleted, then lets them go."""

    def observe(self, change: Change) -> Iterable[str]:
        """A namespace that is being deleted, or in which something has happened."""
        if change.table == _NAMESPACES:
            return [change.record.key.name] if change.record.is_deleting else []
        return [change.record.key.namespace] if change.record.key.namespace else []

    def reconcile(self, key: str) -> float | None:
        """Delete the content; lift the finalizer when there is none left."""
        name = ObjectKey("", key)
        record = self.store.table(_NAMESPACES).get(name)
        if record is None or not record.is_deleting:
            return None
        emptied = [_empty(self.api, table, key) for table in self.store.tables()]
        spec = record.object.get("spec") or {}
        if all(emptied) and spec.get("finalizers"):
            kept = [f for f in spec["finalizers"] if f != "kubernetes"]
            new = {
                **record.object,
                "metadata": dict(record.meta),
                "spec": {**spec, "finalizers": kept},
            }
            self.api.commit(self.api.builtin(_NAMESPACES), record, new)
        return None


class DefinitionCleaner(Controller[str]):
    """Deletes the objects of CRDs that are being deleted, then lets the CRDs go."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._waiting: dict[str, str] = {}  # table of the objects -> name of the CRD

    def observe(self, change: Change) -> Iterable[str]:
        """A CRD that is being deleted, or whose objects go."""
        if change.table == _CRDS:
            return [change.record.key.name] if change.record.is_deleting else []
        waiting = self._waiting.get(change.table)
        return [waiting] if waiting else []

    def reconcile(self, key: str) -> float | None:
        """Delete the objects; lift the finalizer when there are none left."""
        name = ObjectKey("", key)
        record = self.store.table(_CRDS).get(name)
        if record is None or not record.is_deleting:
            self._waiting.pop(key, None)
            return None
        self._waiting[key] = key  # a CRD's name is its objects' qualified plural
        if _empty(self.api, self.store.table(key)):
            del self._waiting[key]
            kept = [f for f in record.meta.get("finalizers") or () if f != CRD_CLEANUP]
            meta = {**record.meta, "finalizers": kept}
            info = self.api.builtin("customresourcedefinitions", "apiextensions.k8s.io")
            self.api.commit(info, record, {**record.object, "metadata": meta})
        return None
