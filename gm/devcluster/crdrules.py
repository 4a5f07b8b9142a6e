"""What a CRD must be like, and what may not change of it, in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

from gm.api.meta import Json
from gm.devcluster import structural
from gm.devcluster.jsonpath import JsonPathError, compile_path
from gm.devcluster.metadata import (
    dns_subdomain,
    duplicate,
    forbidden,
    invalid_value,
    required,
    service_name,
    unsupported,
)
from gm.devcluster.status import Cause

__all__ = ["validate", "validate_change", "warnings"]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (*("byte", "date", "date-time", "double", "float", "int32", "int64", "password"),)
_PROTECTED = (".k8s.io", ".kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"
_MAX_WARNING = 256
_MAX_SELECTABLE = 8


def validate(crd: Json) -> Iterator[Cause]:
    """What is wrong with a CRD."""
    spec = crd["spec"]
    names, group = spec.get("names") or {}, spec.get("group", "")
    if crd["metadata"].get("name") != f"{names.get('plural', '')}.{group}":
        why = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", crd["metadata"].get("name", ""), why)
    if not group:
        yield required("spec.group")
    elif problem := dns_subdomain(group):
        yield invalid_value("spec.group", group, problem)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
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
    yield from _conversion(spec.get("conversion") or {})
    yield from _names(names)
    yield from _versions(spec.get("versions") or [])


def _conversion(conversion: Json) -> Iterator[Cause]:
    if (strategy := conversion.get("strategy", "None")) != "None":
        known = ["None"] if strategy == "Webhook" else ["None", "Webhook"]
        yield unsupported("spec.conversion.strategy", strategy, known)
        return
    webhook = conversion.get("webhook") or {}
    why = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig"):
        yield forbidden("spec.conversion.webhookClientConfig", why)
    if webhook.get("conversionReviewVersions"):
        yield forbidden("spec.conversion.conversionReviewVersions", why)


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
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or []):
            if problem := service_name(value):
                yield invalid_value(f"spec.names.{field}[{index}]", value, problem)
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
            if index == 0:  # which the older API has in a place of its own
                yield invalid_value("spec.version", version.get("name", ""), problem)
        yield from _deprecation(version, where)
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
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            yield from _scale(scale, f"{prefix}.subresources.scale")
        yield from _selectable(version.get("selectableFields") or [], schema or {}, prefix)
    if not stored:
        yield invalid_value("status.storedVersions", None, "must have at least one stored version")
    elif len(stored) > 1:
        why = f"must have the storage version {stored[-1]}"
        yield invalid_value("status.storedVersions", stored[:1], why)


def _deprecation(version: Json, path: str) -> Iterator[Cause]:
    if (said := version.get("deprecationWarning")) is None:
        return
    where = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid_value(where, said, "can only be set for deprecated versions")
    if not said:
        yield invalid_value(where, said, "must not be an empty string")
    if len(said) > _MAX_WARNING:
        yield invalid_value(where, said, f"must be <= {_MAX_WARNING} characters long")
    for index, letter in enumerate(said):
        if not letter.isprintable():
            why = (
                "must only contain printable UTF-8 characters; non-printable character found at "
                f"index {index}"
            )
            yield invalid_value(where, said, why)
            break


def _scale(scale: Json, path: str) -> Iterator[Cause]:
    """Paths to what the subresource shows."""
    for field, roots in (
        ("specReplicasPath", (".spec",)),
        ("statusReplicasPath", (".status",)),
        ("labelSelectorPath", (".spec", ".status")),
    ):
        there, where = scale.get(field) or "", f"{path}.{field}"
        if not there:
            if field != "labelSelectorPath":
                yield required(where)
        elif not there.startswith("."):
            yield invalid_value(where, there, "must be a simple json path starting with .")
        elif not there.startswith(tuple(f"{root}." for root in roots)):
            wanted = " or ".join(roots)
            either = "either " if len(roots) > 1 else ""
            yield invalid_value(where, there, f"should be a json path under {either}{wanted}")


def _selectable(fields: list[Json], schema: Json, prefix: str) -> Iterator[Cause]:
    """Fields that selectors may name."""
    if len(fields) > _MAX_SELECTABLE:
        message = f"Too many: {len(fields)}: must have at most {_MAX_SELECTABLE} items"
        yield Cause("FieldValueTooMany", message, f"{prefix}.selectableFields")
    seen: set[str] = set()
    for index, field in enumerate(fields):
        path, where = field.get("jsonPath") or "", f"{prefix}.selectableFields[{index}].jsonPath"
        if not path:
            yield required(where)
            continue
        if why := _unselectable(path, schema):
            yield invalid_value(where, path, why)
        if path in seen:
            yield duplicate(where, path)
        seen.add(path)


def _unselectable(path: str, schema: Json) -> str:
    """Why selectors can not name a path; empty if they can."""
    if not path.startswith("."):
        return f"is an invalid path: expected [ or . but got: {path.partition('.')[0]}"
    if "[" in path:
        return "is an invalid path: array notation is not allowed"
    node: Json | None = schema
    parts = path[1:].split(".")
    for part in parts:
        inner = (node or {}).get("additionalProperties")
        node = ((node or {}).get("properties") or {}).get(part)
        if node is None and isinstance(inner, dict):
            node = inner
    if node is None or parts[0] in ("metadata", "apiVersion", "kind"):
        return "is an invalid path: does not refer to a valid field"
    if node.get("type") not in ("string", "boolean", "integer"):
        return (
            "must point to a field of type string, boolean or integer. Enum string fields and "
            "strings with formats are allowed."
        )
    return ""


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
    if (form := column.get("format") or "") and form not in _COLUMN_FORMATS:
        why = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield invalid_value(f"{path}.format", form, why)
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
    found: list[str] = []
    for version in crd["spec"].get("versions") or []:
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        found += [f'unrecognized format "{name}"' for name in structural.formats(schema)]
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
