"""Rules for names, labels and the rest of ``metadata``, in the words of kube-apiserver."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gm.api.meta import Json
from gm.devcluster.gojson import fingerprint
from gm.devcluster.status import Cause

__all__ = [
    "dns_label",
    "dns_label_problems",
    "dns_subdomain",
    "duplicate",
    "forbidden",
    "invalid_value",
    "label_value",
    "labels_causes",
    "not_found_value",
    "qualified_name",
    "qualified_name_problems",
    "quoted",
    "required",
    "service_name",
    "unique_owners",
    "unsupported",
    "validate_metadata",
    "validate_update",
]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN.pattern}')"
)
_STANDARD_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
_ANNOTATIONS_BYTES = 256 * 1024


def quoted(value: Any) -> str:
    """A value as error messages show it."""
    return msgspec.json.encode(value).decode()


def invalid_value(field: str, value: Any, why: str) -> Cause:
    """``FIELD: Invalid value: VALUE: WHY``."""
    return Cause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {why}", field)


def required(field: str, why: str = "") -> Cause:
    """``FIELD: Required value: WHY``."""
    return Cause("FieldValueRequired", "Required value" + (f": {why}" if why else ""), field)


def unsupported(field: str, value: Any, allowed: list[str]) -> Cause:
    """``FIELD: Unsupported value: VALUE: supported values: ...``."""
    listed = ", ".join(quoted(item) for item in allowed)
    message = f"Unsupported value: {quoted(value)}: supported values: {listed}"
    return Cause("FieldValueNotSupported", message, field)


def duplicate(field: str, value: Any) -> Cause:
    """``FIELD: Duplicate value: VALUE``."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {quoted(value)}", field)


def not_found_value(field: str, value: Any) -> Cause:
    """``FIELD: Not found: VALUE``."""
    return Cause("FieldValueNotFound", f"Not found: {quoted(value)}", field)


def forbidden(field: str, why: str) -> Cause:
    """``FIELD: Forbidden: WHY``."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def dns_subdomain(name: str) -> str:
    """What is wrong with a name that must be a DNS-1123 subdomain; empty when nothing is."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_RULE


def dns_label(name: str) -> str:
    """What is wrong with a name that must be a DNS-1123 label; empty when nothing is."""
    return next(iter(dns_label_problems(name)), "")


def dns_label_problems(name: str) -> list[str]:
    """All that is wrong with such a name."""
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    if _LABEL.fullmatch(name):
        return found
    if _SUBDOMAIN.fullmatch(name):
        return [*found, "must not contain dots"]
    return [
        *found,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
        f"regex used for validation is '{_LABEL.pattern}')",
    ]


def service_name(name: str) -> str:
    """What is wrong with a name that must be a DNS-1035 label; empty when nothing is."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _DNS_1035.fullmatch(name):
        return ""
    return (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
        f"'abc-123', regex used for validation is '{_DNS_1035.pattern}')"
    )


def qualified_name(key: str) -> str:
    """What is wrong with a label or annotation key; empty when nothing is."""
    return next(iter(qualified_name_problems(key)), "")


def qualified_name_problems(key: str) -> list[str]:
    """All that is wrong with such a key."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            f"'123-abc', regex used for validation is '{_NAME_PART.pattern}') with an optional "
            "DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    found: list[str] = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash and (problem := dns_subdomain(prefix)):
        found.append(f"prefix part {problem}")
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 characters")
    if not _NAME_PART.fullmatch(name):
        found.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
            "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
            f"regex used for validation is '{_NAME_PART.pattern}')"
        )
    return found


def label_value(value: str) -> str:
    """What is wrong with a label's value; empty when nothing is."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    if _VALUE.fullmatch(value):
        return ""
    return (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
        "or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        f"'my_value',  or '12345', regex used for validation is '{_VALUE.pattern}')"
    )


def labels_causes(labels: Json, field: str) -> Iterator[Cause]:
    """What is wrong with a map of labels."""
    for key, value in labels.items():
        for problem in qualified_name_problems(key):
            yield invalid_value(field, key, problem)
        if problem := label_value(value or ""):
            yield invalid_value(field, value, problem)


def validate_metadata(
    meta: Json, *, namespaced: bool, name_rule: Callable[[str], str], is_custom: bool = False
) -> list[Cause]:
    """What is wrong with an object's metadata.

    ``is_custom`` is also for CRDs: their finalizers may have any name.
    """
    causes: list[Cause] = []
    name, prefix = meta.get("name"), meta.get("generateName")
    if prefix and (problem := name_rule(prefix[:-2] + "a" if prefix[1:].endswith("-") else prefix)):
        causes.append(invalid_value("metadata.generateName", prefix, problem))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif problem := name_rule(name):
        causes.append(invalid_value("metadata.name", name, problem))
    if namespaced and not meta.get("namespace"):
        causes.append(required("metadata.namespace"))
    causes += labels_causes(meta.get("labels") or {}, "metadata.labels")
    annotations = meta.get("annotations") or {}
    for key in annotations:
        for problem in qualified_name_problems(key.lower()):
            causes.append(invalid_value("metadata.annotations", key, problem))
    size = sum(len(k.encode()) + len((v or "").encode()) for k, v in annotations.items())
    if size > _ANNOTATIONS_BYTES:
        causes.append(
            Cause(
                "FieldValueTooLong",
                f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes",
                "metadata.annotations",
            )
        )
    causes += _owner_causes(meta.get("ownerReferences") or [])
    causes += _finalizer_causes(meta.get("finalizers") or [], is_custom=is_custom)
    return causes


def _owner_causes(references: list[Json]) -> Iterator[Cause]:
    field = "metadata.ownerReferences"
    for reference in references:
        version = reference.get("apiVersion") or ""
        if not version or version.count("/") > 1:
            yield invalid_value(f"{field}.apiVersion", version, "version must not be empty")
        for key in ("kind", "name", "uid"):
            if not reference.get(key):
                yield invalid_value(f"{field}.{key}", reference.get(key) or "", "must not be empty")
        if (version, reference.get("kind")) == ("v1", "Event"):
            why = "/v1, Kind=Event is disallowed from being an owner"
            yield invalid_value(field, reference, why)
    controllers = [r for r in references if r.get("controller")]
    if len(controllers) > 1:
        names = " and ".join(f"{r.get('kind')}/{r.get('name')}" for r in controllers[:2])
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {names}'
        )
        yield Cause("FieldValueInvalid", f"Invalid value: {quoted(references)}: {why}", field)


def unique_owners(meta: Json) -> list[str]:
    """Drop owners that are named twice, in place; returns what the client is told about it."""
    references = meta.get("ownerReferences") or []
    uids = Counter(str(reference.get("uid", "")) for reference in references)
    repeated = sorted(uid for uid, count in uids.items() if count > 1)
    if not repeated:
        return []
    seen = {fingerprint(reference): reference for reference in references}
    meta["ownerReferences"] = [*seen.values()]
    return [
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references "
        "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(repeated)}"
    ]


def _finalizer_causes(finalizers: list[str], *, is_custom: bool) -> Iterator[Cause]:
    for index, finalizer in enumerate(finalizers):
        if problem := qualified_name(finalizer):
            yield invalid_value("metadata.finalizers", finalizer, problem)
        elif not is_custom and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            yield invalid_value(
                f"metadata.finalizers[{index}]",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def validate_update(new: Json, old: Json) -> list[Cause]:
    """What is wrong with the change from ``old`` metadata to ``new``."""
    changed = [
        invalid_value(f"metadata.{field}", new[field], "field is immutable")
        for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if new.get(field) not in (None, "", old.get(field))
    ]
    causes = [*changed, *_new_finalizers(new, old)]
    return [*causes, *causes]  # upstream looks twice


def _new_finalizers(new: Json, old: Json) -> list[Cause]:
    if not old.get("deletionTimestamp"):
        return []
    before = {*(old.get("finalizers") or [])}
    added = [f for f in new.get("finalizers") or [] if f not in before]
    if not added:
        return []
    listed = ", ".join(quoted(finalizer) for finalizer in added)
    return [
        forbidden(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}",
        )
    ]
