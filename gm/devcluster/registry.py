"""The resources that the embedded API server serves: built-ins, and those of CRDs."""

from __future__ import annotations

from collections.abc import Iterable

from gm.api.meta import Json
from gm.devcluster import builtin, crds
from gm.devcluster.info import Column, ResourceInfo, User

__all__ = ["Column", "Registry", "ResourceInfo", "User"]


class Registry:
    """The resources that are served now: built-ins, and custom ones while their CRD exists."""

    def __init__(self, infos: Iterable[ResourceInfo] | None = None) -> None:
        self._infos: dict[tuple[str, str, str], ResourceInfo] = {}
        self._custom: dict[str, list[tuple[str, str, str]]] = {}
        self.revision = 0
        """Raised with every change of what is served; discovery and OpenAPI are cached by it."""
        for info in builtin.resources() if infos is None else infos:
            self._infos[self._key(info)] = info

    @staticmethod
    def _key(info: ResourceInfo) -> tuple[str, str, str]:
        return (info.resource.group, info.resource.version, info.resource.plural)

    def lookup(self, group: str, version: str, plural: str) -> ResourceInfo | None:
        """The resource at ``/apis/GROUP/VERSION/PLURAL``; None means 404 page not found."""
        return self._infos.get((group, version, plural))

    def is_builtin(self, group: str) -> bool:
        """Whether a group is one of Kubernetes' own that is served here."""
        return any(key[0] == group and not info.is_custom for key, info in self._infos.items())

    def all(self) -> list[ResourceInfo]:
        """Every served resource: built-ins first, custom ones in the order of their CRDs."""
        return list(self._infos.values())

    def kind(self, group: str, kind: str, version: str = "") -> ResourceInfo | None:
        """The resource of a kind, of any version unless one is given."""
        for info in self._infos.values():
            resource = info.resource
            if (resource.group, resource.kind) == (group, kind) and version in (
                "",
                resource.version,
            ):
                return info
        return None

    def set_crd(self, crd: Json) -> Json:
        """Serve what ``crd`` defines, in place of what its former version defined.

        Returns: the ``status`` to store with it (conditions, acceptedNames, storedVersions), with
        ``Established`` true at once. Names that another kind holds already give ``NamesAccepted``
        false, and nothing is served.
        """
        name = crd["metadata"]["name"]
        before = {key: self._infos.pop(key) for key in self._custom.pop(name, [])}
        conflicts = crds.name_conflicts(crd, self._infos.values())
        if not conflicts:
            served = {self._key(info): info for info in crds.resources(crd)}
            self._infos |= served
            self._custom[name] = [*served]
        elif before:
            self._infos |= before
            self._custom[name] = [*before]
        self.revision += 1
        return crds.status(crd, conflicts)

    def remove_crd(self, name: str) -> list[ResourceInfo]:
        """Stop serving what the CRD ``name`` defined; returns that, so objects can be dropped."""
        self.revision += 1
        return [self._infos.pop(key) for key in self._custom.pop(name, [])]
