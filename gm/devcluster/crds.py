"""Custom resource definitions: their status, and the resources that they make."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from gm.api.meta import Json, ResourceType
from gm.devcluster.cells import name_column
from gm.devcluster.columns import DEFAULT
from gm.devcluster.custom import CustomBehaviour, custom_schema, printer_column
from gm.devcluster.gotime import timestamp
from gm.devcluster.info import ResourceInfo, version_order
from gm.devcluster.scalepaths import ScalePaths
from gm.devcluster.schema import Schema, apply_defaults, prune
from gm.devcluster.values import Validator

__all__ = ["name_conflicts", "resources", "status"]


def name_conflicts(crd: Json, served: Iterable[ResourceInfo]) -> list[tuple[str, str]]:
    """The names of ``crd`` that another kind of its group holds, as (reason, name)."""
    spec, names = crd["spec"], crd["spec"]["names"]
    taken: set[str] = set()
    kinds: set[str] = set()
    for info in served:
        if info.resource.group == spec["group"]:
            taken |= {info.resource.plural, info.singular, *info.short_names}
            kinds |= {info.resource.kind, info.list_kind}
    wanted = [
        ("PluralConflict", names["plural"], taken),
        ("SingularConflict", names.get("singular", ""), taken),
        *(("ShortNamesConflict", short, taken) for short in names.get("shortNames") or []),
        ("KindConflict", names["kind"], kinds),
        ("ListKindConflict", names.get("listKind", ""), kinds),
    ]
    return [(reason, name) for reason, name, held in wanted if name and name in held]


def status(crd: Json, conflicts: list[tuple[str, str]]) -> Json:
    """The status to store with ``crd``."""
    before = crd.get("status") or {}
    storage = next(v["name"] for v in crd["spec"]["versions"] if v.get("storage"))
    stored = [*(before.get("storedVersions") or [])]
    if conflicts:
        reason, name = conflicts[-1]
        accepted = ("False", reason, f'"{name}" is already in use')
        established = ("False", "NotAccepted", "not all names are accepted")
        names = before.get("acceptedNames") or {"kind": "", "plural": ""}
    else:
        accepted = ("True", "NoConflicts", "no conflicts found")
        established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
        names = copy.deepcopy(crd["spec"]["names"])
    known = {c.get("type"): c for c in before.get("conditions") or []}
    return {
        "conditions": [
            _condition("NamesAccepted", accepted, known.get("NamesAccepted")),
            _condition("Established", established, known.get("Established")),
            *(known[kind] for kind in known if kind not in ("NamesAccepted", "Established")),
        ],
        "acceptedNames": names,
        "storedVersions": [*stored, *([storage] if storage not in stored else [])],
    }


def _condition(kind: str, says: tuple[str, str, str], before: Json | None) -> Json:
    """A condition; an unchanged one keeps the time of its last transition."""
    unchanged = before is not None and before.get("status") == says[0]
    since = before["lastTransitionTime"] if before and unchanged else timestamp()
    return {
        "type": kind,
        "status": says[0],
        "lastTransitionTime": since,
        "reason": says[1],
        "message": says[2],
    }


def resources(crd: Json) -> list[ResourceInfo]:
    """One resource for each served version."""
    spec = crd["spec"]
    storage = next(v for v in spec["versions"] if v.get("storage"))
    stored = storage["name"], custom_schema(storage["schema"]["openAPIV3Schema"])
    return [_resource(spec, version, *stored) for version in spec["versions"] if version["served"]]


def _written_in(stored: str, schema: Schema) -> Callable[[Json], Json]:
    """Brings what was written in any version into the one that is stored, under its schema.

    Without conversion, versions differ in nothing but their name and their schema.
    """

    def write(obj: Json) -> Json:
        if obj.get("apiVersion") == stored:
            return obj
        written = {**copy.deepcopy(obj), "apiVersion": stored}
        prune(schema, written, unknown=[])
        return written

    return write


def _read_in(api_version: str, schema: Schema, stored: Schema) -> Callable[[Json], Json]:
    """Shows stored objects under the rules of the ``stored`` version as they are now.

    What was written before the CRD changed is pruned and gets its defaults; of what it has then,
    another version shows what its own ``schema`` knows.
    """

    def read(obj: Json) -> Json:
        seen = copy.deepcopy(obj)
        seen["apiVersion"] = api_version
        prune(stored, seen, unknown=[])
        apply_defaults(stored, seen)
        if schema is not stored:
            prune(schema, seen, unknown=[])
        return obj if seen == obj else seen

    return read


def _deprecation(spec: Json, version: Json) -> str:
    """What everybody is told who uses a version that is deprecated."""
    if not version.get("deprecated"):
        return ""
    if said := version.get("deprecationWarning"):
        return str(said)
    group, kind = spec["group"], spec["names"]["kind"]
    names = [v["name"] for v in spec["versions"] if v["served"] and not v.get("deprecated")]
    newer = [n for n in names if version_order(n) < version_order(version["name"])]
    usual = f"{group}/{version['name']} {kind} is deprecated"
    return f"{usual}; use {group}/{min(newer, key=version_order)} {kind}" if newer else usual


def _scale(version: Json) -> ScalePaths | None:
    declared = (version.get("subresources") or {}).get("scale")
    if declared is None:
        return None
    return ScalePaths(
        replicas=declared["specReplicasPath"].removeprefix("."),
        ready=declared["statusReplicasPath"].removeprefix("."),
        selector=(declared.get("labelSelectorPath") or "").removeprefix("."),
    )


def _resource(spec: Json, version: Json, storage: str, stored_schema: Schema) -> ResourceInfo:
    names, group = spec["names"], spec["group"]

    def resource_type(name: str) -> ResourceType:
        return ResourceType(
            group=group,
            version=name,
            kind=names["kind"],
            plural=names["plural"],
            namespaced=spec["scope"] == "Namespaced",
        )

    resource, stored = resource_type(version["name"]), resource_type(storage)
    raw = version["schema"]["openAPIV3Schema"]
    has_status = (version.get("subresources") or {}).get("status") is not None
    scale = _scale(version)
    schema = stored_schema if version["name"] == storage else custom_schema(raw)
    declared = version.get("additionalPrinterColumns") or []
    columns = (name_column(), *map(printer_column, declared)) if declared else DEFAULT
    fields = [f.get("jsonPath", "") for f in version.get("selectableFields") or []]
    parts = {"status": has_status, "scale": scale is not None}
    return ResourceInfo(
        resource=resource,
        storage=stored,
        singular=names["singular"],
        list_kind=names["listKind"],
        schema=schema,
        behaviour=CustomBehaviour(Validator(raw), has_status=has_status, scale=scale),
        columns=columns,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset(name for name, is_served in parts.items() if is_served),
        is_custom=True,
        warning=_deprecation(spec, version),
        scale=scale,
        selectable_fields=frozenset(field.removeprefix(".") for field in fields),
        to_storage=_written_in(stored.api_version, stored_schema),
        from_storage=_read_in(resource.api_version, schema, stored_schema),
    )
