"""Custom resource definitions: what a CRD must be like, and the resources that it makes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from gm.api.meta import Json, ResourceType
from gm.devcluster import structural
from gm.devcluster.cells import name_column
from gm.devcluster.columns import DEFAULT
from gm.devcluster.custom import CustomBehaviour, custom_schema, printer_column
from gm.devcluster.info import ResourceInfo
from gm.devcluster.jsonpath import JsonPathError, compile_path
from gm.devcluster.metadata import invalid_value, required, service_name, unsupported
from gm.devcluster.status import Cause
from gm.devcluster.values import Validator

__all__ = ["name_conflicts", "resources", "status", "validate", "validate_change", "warnings"]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_PROTECTED = (".k8s.io", ".kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"


# --- what a CRD must be like --------------------------------------------------------------------


def validate(crd: Json) -> Iterator[Cause]:
    """What is wrong with a CRD."""
    spec = crd["spec"]
    names, group = spec.get("names") or {}, spec.get("group", "")
    if crd["metadata"].get("name") != f"{names.get('plural', '')}.{group}":
        why = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", crd["metadata"].get("name", ""), why)
    if not group:
        yield required("spec.group")
    protected = group in ("k8s.io", "kubernetes.io") or group.endswith(_PROTECTED)
    if protected and not (crd["metadata"].get("annotations") or {}).get(_APPROVAL):
        why = f'protected groups must have approval annotation "{_APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111'
        yield required(f"metadata.annotations[{_APPROVAL}]", why)
    scope = spec.get("scope")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield unsupported("spec.scope", scope, ["Cluster", "Namespaced"])
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"  # noqa: E501
        yield invalid_value("spec.preserveUnknownFields", True, why)
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        yield unsupported("spec.conversion.strategy", spec["conversion"]["strategy"], ["None"])
    yield from _names(names)
    yield from _versions(spec.get("versions") or [])


def _names(names: Json) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field, "")
        if not value:
            yield required(f"spec.names.{field}")
        elif "ind" in field and (problem := service_name(value.lower())):
            why = f"may have mixed case, but should otherwise match: {problem}"
            yield invalid_value(f"spec.names.{field}", value, why)
        elif "ind" not in field and (problem := service_name(value)):
            yield invalid_value(f"spec.names.{field}", value, problem)
    for index, value in enumerate(names.get("shortNames") or []):
        if problem := service_name(value):
            yield invalid_value(f"spec.names.shortNames[{index}]", value, problem)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        why = "kind and listKind may not be the same"
        yield invalid_value("spec.names.listKind", names["listKind"], why)


def _versions(versions: list[Json]) -> Iterator[Cause]:
    names = [version.get("name", "") for version in versions]
    if len({*names}) != len(names):
        why = "must contain unique version names"
        yield invalid_value("spec.versions", _shown(versions), why)
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    if len(stored) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", _shown(versions), why)
    for index, version in enumerate(versions):
        where = f"spec.versions[{index}]"
        if problem := service_name(version.get("name", "")):
            yield invalid_value(f"{where}.name", version.get("name", ""), problem)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            yield required(f"{where}.schema.openAPIV3Schema")
        else:
            # The real server names the schema of a CRD's only version so, too.
            alone = len(versions) == 1
            place = "spec.validation" if alone else f"{where}.schema"
            yield from _schema(version, schema, f"{place}.openAPIV3Schema")
        prefix = "spec" if len(versions) == 1 else where
        for number, column in enumerate(version.get("additionalPrinterColumns") or []):
            yield from _column(column, f"{prefix}.additionalPrinterColumns[{number}]")
    if not stored:
        yield invalid_value("status.storedVersions", None, "must have at least one stored version")
    elif len(stored) > 1:
        why = f"must have the storage version {stored[0]}"
        yield invalid_value("status.storedVersions", stored[:1], why)


def _schema(version: Json, schema: Json, path: str) -> Iterator[Cause]:
    kind = schema.get("type") or "object"
    if kind != "object" and "status" in (version.get("subresources") or {}):
        why = (
            'only "object" is allowed as the type at the root of the schema if the status '
            "subresource is enabled"
        )
        yield invalid_value(f"{path}.type", kind, why)
    yield from structural.check(schema, path)


def _shown(versions: list[Json]) -> list[Json]:
    """Versions as upstream holds them, where all share schema and columns."""
    shared = ("Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
    return [
        {
            "Name": version.get("name", ""),
            "Served": version.get("served", False),
            "Storage": version.get("storage", False),
            "Deprecated": version.get("deprecated", False),
            "DeprecationWarning": version.get("deprecationWarning"),
            **dict.fromkeys(shared),
        }
        for version in versions
    ]


def _column(column: Json, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield required(f"{path}.name")
    allowed = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("type"):
        yield required(f"{path}.type", allowed)
    elif column["type"] not in _COLUMN_TYPES:
        yield invalid_value(f"{path}.type", column["type"], allowed)
    json_path = column.get("jsonPath", "")
    if not json_path:
        yield required(f"{path}.JSONPath")
    elif not json_path.startswith("."):
        why = "must be a simple json path starting with ."
        yield invalid_value(f"{path}.JSONPath", json_path, why)


def validate_change(new: Json, old: Json) -> Iterator[Cause]:
    """What may not change of a CRD."""
    before, after = old["spec"], new["spec"]
    for field in ("group", "scope"):
        if before.get(field) != after.get(field):
            yield invalid_value(f"spec.{field}", after.get(field), "field is immutable")
    for field in ("kind", "plural"):
        if (value := after["names"].get(field)) != before["names"].get(field):
            yield invalid_value(f"spec.names.{field}", value, "field is immutable")
    names = [version.get("name") for version in after.get("versions") or []]
    for index, stored in enumerate((old.get("status") or {}).get("storedVersions") or []):
        if stored not in names:
            why = f"missing from spec.versions; {stored} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {stored} and removes {stored} from status.storedVersions"  # noqa: E501
            yield invalid_value(f"status.storedVersions[{index}]", stored, why)


def warnings(crd: Json) -> list[str]:
    """What a CRD asks for that is not done here."""
    found = []
    for version in crd["spec"].get("versions") or []:
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        if paths := [*structural.cel_rules(schema)]:
            found.append(
                f"this embedded API server does not evaluate x-kubernetes-validations (version "
                f"{version.get('name')}: {', '.join(paths)})"
            )
        for column in version.get("additionalPrinterColumns") or []:
            try:
                compile_path(column["jsonPath"])
            except JsonPathError as exc:
                found.append(f"column {column['name']} stays empty: {exc}")
    return found


# --- names and conditions -----------------------------------------------------------------------


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
        ],
        "acceptedNames": names,
        "storedVersions": [*stored, *([storage] if storage not in stored else [])],
    }


def _condition(kind: str, says: tuple[str, str, str], before: Json | None) -> Json:
    """A condition; an unchanged one keeps the time of its last transition."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = before["lastTransitionTime"] if before and before.get("status") == says[0] else now
    return {
        "type": kind,
        "status": says[0],
        "lastTransitionTime": since,
        "reason": says[1],
        "message": says[2],
    }


# --- what a CRD makes ---------------------------------------------------------------------------


def resources(crd: Json) -> list[ResourceInfo]:
    """One resource for each served version."""
    spec = crd["spec"]
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    return [_resource(spec, version, storage) for version in spec["versions"] if version["served"]]


def _same(obj: Json) -> Json:
    return obj


def _as_version(api_version: str) -> Callable[[Json], Json]:
    """Without conversion, versions differ in nothing but their name."""

    def translate(obj: Json) -> Json:
        return {**obj, "apiVersion": api_version}

    return translate


def _resource(spec: Json, version: Json, storage: str) -> ResourceInfo:
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
    deprecation = ""
    if version.get("deprecated"):
        usual = f"{resource.api_version} {resource.kind} is deprecated"
        deprecation = version.get("deprecationWarning") or usual
    declared = version.get("additionalPrinterColumns") or []
    columns = (name_column(), *map(printer_column, declared)) if declared else DEFAULT
    fields = [f.get("jsonPath", "") for f in version.get("selectableFields") or []]
    moved = resource != stored
    return ResourceInfo(
        resource=resource,
        storage=stored,
        singular=names["singular"],
        list_kind=names["listKind"],
        schema=custom_schema(raw),
        behaviour=CustomBehaviour(Validator(raw), has_status=has_status, warning=deprecation),
        columns=columns,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset({"status"} if has_status else ()),
        is_custom=True,
        selectable_fields=frozenset(field.removeprefix(".") for field in fields),
        to_storage=_as_version(stored.api_version) if moved else _same,
        from_storage=_as_version(resource.api_version) if moved else _same,
    )
