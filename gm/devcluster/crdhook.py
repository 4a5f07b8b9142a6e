"""CustomResourceDefinitions: served as soon as they are stored, until they are gone."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster.registry import Registry

__all__ = ["CrdHook"]


class CrdHook:
    """Tells the registry what to serve."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def creating(self, obj: Json, *, dry_run: bool) -> None:
        """Serve a new definition at once: clients need not wait for Established."""
        if dry_run:
            stored = [v["name"] for v in obj["spec"]["versions"] if v.get("storage")]
            names = {"plural": "", "kind": ""}
            obj["status"] = {"conditions": None, "acceptedNames": names, "storedVersions": stored}
        else:
            obj["status"] = self._registry.set_crd(obj)

    def updating(self, new: Json, old: Json, *, dry_run: bool) -> None:
        """Serve the changed definition."""
        if not dry_run and new.get("spec") != old.get("spec"):
            new["status"] = self._registry.set_crd(new)

    def removed(self, obj: Json) -> None:
        """Serve it no more."""
        self._registry.remove_crd(obj["metadata"]["name"])

    def restored(self, obj: Json) -> None:
        """Serve it again."""
        self._registry.set_crd(obj)
