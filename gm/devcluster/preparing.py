"""What happens to an object of a built-in kind on a write: decode, default, validate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gm.api.meta import Json
from gm.devcluster.info import ResourceInfo
from gm.devcluster.metadata import dns_subdomain, validate_metadata, validate_update
from gm.devcluster.schema import TypeMismatch, check_types, normalise, prune
from gm.devcluster.status import Cause, StatusError, bad_request, invalid

__all__ = [
    "SERVER_OWNED",
    "BuiltinBehaviour",
    "carry_metadata",
    "drop_server_owned",
    "drop_unknown",
    "raise_causes",
    "undecodable",
]

_REFUSED = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def _nothing(_obj: Json) -> None:
    """No defaults."""


def _no_causes(_obj: Json) -> Iterable[Cause]:
    return ()


def _no_change_causes(_new: Json, _old: Json) -> Iterable[Cause]:
    return ()


def undecodable(info: ResourceInfo, obj: Json, why: str) -> StatusError:
    """400: the body can not be turned into an object of the kind."""
    kind, version = obj.get("kind", info.resource.kind), info.resource.version
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def drop_unknown(
    info: ResourceInfo,
    obj: Json,
    *,
    field_validation: str,
    duplicates: Sequence[str],
    in_order: bool = False,
) -> list[str]:
    """Prune ``obj`` in place; returns warnings, ``in_order`` of the alphabet.

    Raises: StatusError 400 if ``field_validation`` is ``Strict`` and there is anything to say.
    """
    unknown: list[str] = []
    prune(info.schema, obj, unknown=unknown)
    if in_order:
        unknown.sort()
    found = [*duplicates, *(f'unknown field "{path}"' for path in unknown)]
    if found and field_validation == "Strict":
        raise undecodable(info, obj, f"strict decoding error: {', '.join(found)}")
    return [] if field_validation == "Ignore" else found


def carry_metadata(new: Json, old: Json) -> None:
    """Take from ``old`` the metadata that only the server writes."""
    mine, stored = new.setdefault("metadata", {}), old["metadata"]
    mine.pop("managedFields", None)  # field ownership is not tracked
    mine.pop("selfLink", None)
    for field in (*SERVER_OWNED, "generation", "namespace", "name"):
        if field in _REFUSED and mine.get(field) is not None:
            continue  # another one is refused
        if field in stored:
            mine[field] = stored[field]
        elif field not in _REFUSED:
            mine.pop(field, None)


def drop_server_owned(meta: Json) -> None:
    """Forget what a client may not say of a new object."""
    for field in (*SERVER_OWNED, "managedFields", "selfLink", "generation"):
        meta.pop(field, None)


def raise_causes(info: ResourceInfo, obj: Json, causes: Sequence[Cause]) -> None:
    """Raises: StatusError 422 if there are any causes."""
    if causes:
        resource = info.resource
        name = obj.get("metadata", {}).get("name", "")
        raise invalid(resource.kind, info.storage.group, name, causes)


def _kept(info: ResourceInfo, old: Json, subresource: str) -> list[str]:
    """The fields that a write through a path does not change."""
    if not subresource:
        return ["status"] if "status" in info.subresources else []
    written = "spec" if subresource == "finalize" else subresource
    return [field for field in {**old, "status": {}} if field not in ("metadata", written)]


@dataclass(frozen=True, kw_only=True)
class BuiltinBehaviour:
    """The rules of one built-in kind.

    ``begin`` sets what a new object starts with whatever the client sent (its status),
    ``defaults`` fills in what was left out, on every write.
    """

    named: bool = True
    name_rule: Callable[[str], str] = dns_subdomain
    begin: Callable[[Json], None] = _nothing
    defaults: Callable[[Json], None] = _nothing
    validate: Callable[[Json], Iterable[Cause]] = _no_causes
    carry: Callable[[Json, Json], object] = lambda _new, _old: None
    validate_change: Callable[[Json, Json], Iterable[Cause]] = _no_change_causes
    warn: Callable[[Json], list[str]] = lambda _obj: []
    warns_on_update: bool = True
    names_any_finalizer: bool = False

    def create(
        self, info: ResourceInfo, obj: Json, *, field_validation: str, duplicates: Sequence[str]
    ) -> list[str]:
        """Prepare a new object, in place."""
        warnings = self._decode(info, obj, field_validation, duplicates)
        drop_server_owned(obj.setdefault("metadata", {}))
        self.begin(obj)
        self._finish(info, obj)
        raise_causes(info, obj, self._causes(info, obj))
        return [*warnings, *self.warn(obj)]

    def update(
        self,
        info: ResourceInfo,
        new: Json,
        old: Json,
        *,
        subresource: str,
        field_validation: str,
        duplicates: Sequence[str],
    ) -> list[str]:
        """Prepare an object that replaces ``old``, in place."""
        warnings = self._decode(info, new, field_validation, duplicates)
        carry_metadata(new, old)
        for field in _kept(info, old, subresource):
            new.pop(field, None)
            if field in old:
                new[field] = copy.deepcopy(old[field])
        if subresource != "finalize":
            self.carry(new, old)
        self._finish(info, new)
        causes = [*validate_update(new["metadata"], old["metadata"]), *self._causes(info, new)]
        raise_causes(info, new, [*causes, *self.validate_change(new, old)])
        if subresource or not self.warns_on_update or new.get("spec") == old.get("spec"):
            return warnings
        return [*warnings, *self.warn(new)]

    def _decode(
        self, info: ResourceInfo, obj: Json, field_validation: str, duplicates: Sequence[str]
    ) -> list[str]:
        warnings = drop_unknown(info, obj, field_validation=field_validation, duplicates=duplicates)
        try:
            check_types(info.schema, obj)
        except TypeMismatch as exc:
            raise undecodable(info, obj, str(exc)) from exc
        return warnings

    def _finish(self, info: ResourceInfo, obj: Json) -> None:
        normalise(info.schema, obj)
        self.defaults(obj)

    def _causes(self, info: ResourceInfo, obj: Json) -> list[Cause]:
        if not self.named:  # reviews are questions, not objects
            return [*self.validate(obj)]
        meta = obj["metadata"]
        namespaced = info.resource.namespaced
        causes = validate_metadata(
            meta,
            namespaced=namespaced,
            name_rule=self.name_rule,
            is_custom=self.names_any_finalizer,
        )
        return [*causes, *self.validate(obj)]
