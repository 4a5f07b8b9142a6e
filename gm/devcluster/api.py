"""What the verbs do to the store: create, update, patch, delete; no I/O, so never half done.

Everything between reading an object and committing its next version happens in one step of
the event loop. So nothing here can meet a conflict with itself; conflicts arise only where a
client says which version it has seen.
"""

from __future__ import annotations

import copy
import secrets
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gm.api.meta import Json, ObjectKey
from gm.devcluster.gotime import timestamp
from gm.devcluster.identity import (
    check_kind,
    check_names,
    check_patched,
    check_version,
    metadata_of,
    other_incarnation,
    set_namespace,
    shown_in_refusals,
)
from gm.devcluster.info import ResourceInfo
from gm.devcluster.metadata import invalid_value, unique_owners
from gm.devcluster.registry import Registry
from gm.devcluster.status import (
    Cause,
    StatusError,
    already_exists,
    forbidden,
    invalid,
    not_found,
    stale,
)
from gm.devcluster.store import Record, Store, Table

__all__ = ["Api", "Hook", "WriteOptions", "Written"]

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
_MAX_GENERATED_PREFIX = 58

_WITH_GENERATION = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "daemonsets.apps",
        "deployments.apps",
        "endpointslices.discovery.k8s.io",
        "jobs.batch",
        "pods",
        "replicasets.apps",
        "statefulsets.apps",
    }
)
_COUNTED_METADATA = {
    "deployments.apps": "annotations",
    "endpointslices.discovery.k8s.io": "labels",
}
"""What of the metadata counts as spec."""
_NEED_RESOURCE_VERSION = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "endpointslices.discovery.k8s.io",
        "leases.coordination.k8s.io",
    }
)
_CREATED_BY_UPDATE = frozenset({"endpoints", "events", "leases.coordination.k8s.io", "services"})


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Query parameters of a write; ``duplicates`` are the body's repeated keys."""

    dry_run: bool = False
    field_validation: str = "Warn"
    duplicates: Sequence[str] = ()


_DEFAULTS = WriteOptions()
_ANY_VERSION = (None, "", "0")
_MAX_OBJECT_BYTES = 1536 * 1024
_INTERNAL = WriteOptions(field_validation="Ignore")


@dataclass(frozen=True)
class Written:
    """What a write left: the version to answer with, and warnings for the client."""

    record: Record
    warnings: Sequence[str] = ()
    created: bool = False


class Hook(Protocol):
    """What one kind does beyond its schema. Objects are in the storage version."""

    def creating(self, obj: Json, *, dry_run: bool) -> None:
        """Complete a new object, in place, or refuse it (StatusError)."""

    def updating(self, new: Json, old: Json, *, dry_run: bool) -> None:
        """Complete a changed object, in place, or refuse it (StatusError)."""

    def removed(self, obj: Json) -> None:
        """Let go of what a deleted object held."""

    def restored(self, obj: Json) -> None:
        """Take note of an object that an earlier life of the server left; it stays as it is."""


class Api:
    """The verbs over one store."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self.store, self.registry = store, registry
        self.hooks: dict[str, Hook] = {}
        self._by_table: dict[str, ResourceInfo] = {}
        self._tables_at = -1

    def table(self, info: ResourceInfo) -> Table:
        """Where objects of a resource are kept."""
        return self.store.table(info.storage.qualified)

    def builtin(self, plural: str, group: str = "", version: str = "v1") -> ResourceInfo:
        """A built-in resource."""
        info = self.registry.lookup(group, version, plural)
        if info is None:
            raise LookupError(f"{plural}.{group}/{version} is not served")
        return info

    def of_table(self, name: str) -> ResourceInfo | None:
        """The resource whose storage version a table holds; None if it is not served."""
        if self._tables_at != self.registry.revision:
            self._tables_at = self.registry.revision
            self._by_table = {}
            for info in self.registry.all():
                if info.answer is None and info.storage == info.resource:
                    self._by_table.setdefault(info.storage.qualified, info)
        return self._by_table.get(name)

    def get(self, info: ResourceInfo, key: ObjectKey) -> Record:
        """The newest version of an object. Raises: StatusError (404)."""
        record = self.table(info).get(key)
        if record is None:
            raise not_found(info.resource, key.name)
        return record

    # -- create ---------------------------------------------------------------------------

    def create(
        self, info: ResourceInfo, namespace: str, obj: Json, options: WriteOptions = _DEFAULTS
    ) -> Written:
        """Store a new object; ``obj`` is given away."""
        check_kind(info, obj)
        meta = metadata_of(info, obj)
        if not options.dry_run and meta.pop("resourceVersion", None) not in _ANY_VERSION:
            message = "resourceVersion should not be set on objects to be created"
            raise StatusError(500, "", message)
        set_namespace(info, meta, namespace)
        self._check_definition(info, meta.get("name", ""))
        self._generate_name(info, meta)
        self._check_namespace(info, meta)
        warnings = info.prepare_create(
            obj, field_validation=options.field_validation, duplicates=options.duplicates
        )
        warnings += unique_owners(meta)
        meta["uid"], meta["creationTimestamp"] = str(uuid.uuid4()), timestamp()
        if info.is_custom or info.storage.qualified in _WITH_GENERATION:
            meta["generation"] = 1
        key = ObjectKey(meta.get("namespace", ""), meta["name"])
        table = self.table(info)
        if table.get(key) is not None:
            raise already_exists(info.resource, key.name)
        stored = info.to_storage(obj)
        if (hook := self.hooks.get(info.storage.qualified)) is not None:
            hook.creating(stored, dry_run=options.dry_run)
        _check_size(stored, options)
        record = Record(key, stored, 0) if options.dry_run else table.put(key, stored)
        return Written(_written_as(info, record), warnings, created=True)

    def make(self, info: ResourceInfo, namespace: str, obj: Json) -> Record:
        """``create`` for controllers inside the server."""
        resource = info.resource
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return self.create(info, namespace, whole, _INTERNAL).record

    def _generate_name(self, info: ResourceInfo, meta: Json) -> None:
        prefix = meta.get("generateName")
        if meta.get("name") or not isinstance(prefix, str) or not prefix:
            return
        table = self.table(info)
        while True:
            suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
            name = prefix[:_MAX_GENERATED_PREFIX] + suffix
            if table.get(ObjectKey(meta.get("namespace", ""), name)) is None:
                meta["name"] = name
                return

    def _check_definition(self, info: ResourceInfo, name: str) -> None:
        """Nothing is created of a kind that is going away."""
        if not info.is_custom:
            return
        table = self.store.table("customresourcedefinitions.apiextensions.k8s.io")
        record = table.get(ObjectKey("", info.resource.qualified))
        if record is not None and record.is_deleting:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(info.resource, name, why)

    def _check_namespace(self, info: ResourceInfo, meta: Json) -> None:
        """Nothing is created in a namespace that is absent or going away."""
        if not info.resource.namespaced:
            return
        name = meta["namespace"]
        record = self.store.table("namespaces").get(ObjectKey("", name))
        if record is None:
            raise not_found(self.builtin("namespaces").resource, name)
        if record.is_deleting:
            why = f"unable to create new content in namespace {name} because it is being terminated"
            cause = Cause(
                "NamespaceTerminating",
                f"namespace {name} is being terminated",
                "metadata.namespace",
            )
            raise forbidden(info.resource, meta.get("name", ""), why, [cause])

    # -- update ---------------------------------------------------------------------------

    def replace(
        self,
        info: ResourceInfo,
        key: ObjectKey,
        obj: Json,
        *,
        subresource: str = "",
        options: WriteOptions = _DEFAULTS,
    ) -> Written:
        """PUT: ``obj`` is the whole object, and given away."""
        record = self.table(info).get(key)
        try:
            self._check_replacement(info, key, obj, record)
        except StatusError:
            self._check_readable(info, obj, options)
            raise
        if record is None:
            return self._create_by_update(info, key, obj, subresource, options)
        return self._update(info, record, obj, subresource, options)

    @staticmethod
    def _check_replacement(
        info: ResourceInfo, key: ObjectKey, obj: Json, record: Record | None
    ) -> None:
        """Raises: StatusError (400, 409, 422) if ``obj`` is no new version of ``record``."""
        check_kind(info, obj)
        meta = metadata_of(info, obj)
        check_names(info, meta, key)
        if record is None:
            return
        _check_version_given(info, meta, key.name)
        if (uid := meta.get("uid")) and uid != record.uid:
            raise other_incarnation(info, key, uid, record.uid)

    def _create_by_update(
        self, info: ResourceInfo, key: ObjectKey, obj: Json, subresource: str, options: WriteOptions
    ) -> Written:
        if subresource or info.storage.qualified not in _CREATED_BY_UPDATE:
            self._check_readable(info, obj, options)
            raise not_found(info.resource, key.name)
        meta = metadata_of(info, obj)
        version, uid = meta.pop("resourceVersion", None), meta.get("uid")
        if version or uid:
            self._check_readable(info, copy.deepcopy(obj), options)
        check_version(version)
        if uid:
            raise other_incarnation(info, key, uid, "")
        return self.create(info, key.namespace, obj, options)

    def _check_patched_names(
        self, info: ResourceInfo, new: Json, key: ObjectKey, options: WriteOptions
    ) -> None:
        try:
            check_names(info, metadata_of(info, new), key)
        except StatusError:
            shown = msgspec.json.encode(new)
            with shown_in_refusals(shown, new["kind"]):
                self._check_readable(info, new, options)
            raise

    @staticmethod
    def _check_readable(info: ResourceInfo, obj: Json, options: WriteOptions) -> None:
        """Raises: StatusError (400) if ``obj`` can not be decoded, which counts before all else."""
        metadata_of(info, obj)
        try:
            info.prepare_create(
                obj, field_validation=options.field_validation, duplicates=options.duplicates
            )
        except StatusError as error:
            if error.code == 400:
                raise

    def patch(
        self,
        info: ResourceInfo,
        key: ObjectKey,
        change: Callable[[Json], Json],
        *,
        subresource: str = "",
        options: WriteOptions = _DEFAULTS,
    ) -> Written:
        """PATCH: ``change`` gets a copy of the object that it may use up, and gives the next."""
        record = self.get(info, key)
        seen = record.view(info.from_storage)
        new = change(record.copy() if seen is record.object else copy.deepcopy(seen))
        check_patched(info, new)
        self._check_patched_names(info, new, key, options)
        _check_version_given(info, new["metadata"], key.name)
        with shown_in_refusals(msgspec.json.encode(new), new["kind"]):
            return self._update(info, record, new, subresource, options)

    def modify(
        self,
        info: ResourceInfo,
        key: ObjectKey,
        change: Callable[[Json], Json],
        *,
        subresource: str = "",
    ) -> Record:
        """``patch`` for controllers inside the server."""
        return self.patch(info, key, change, subresource=subresource, options=_INTERNAL).record

    def _update(
        self, info: ResourceInfo, record: Record, new: Json, subresource: str, options: WriteOptions
    ) -> Written:
        meta = new["metadata"]
        version = meta.get("resourceVersion")
        if version not in (*_ANY_VERSION, record.meta["resourceVersion"]):
            self._check_readable(info, new, options)
            check_version(version)
            raise stale(info.resource, record.key.name)
        old = record.view(info.from_storage)
        warnings = info.prepare_update(
            new,
            old,
            subresource=subresource,
            field_validation=options.field_validation,
            duplicates=options.duplicates,
        )
        warnings += unique_owners(new["metadata"])
        stored = info.to_storage(new)
        if (hook := self.hooks.get(info.storage.qualified)) is not None:
            hook.updating(stored, record.object, dry_run=options.dry_run)
        _check_size(stored, options)
        return Written(self.commit(info, record, stored, dry_run=options.dry_run), warnings)

    def commit(
        self, info: ResourceInfo, record: Record, new: Json, *, dry_run: bool = False
    ) -> Record:
        """Store ``new`` (storage version, given away) in place of ``record``.

        A version that changes nothing is not stored. One that lifts the last finalizer of an
        object that waits for its deletion deletes it.
        """
        meta, before = new["metadata"], record.meta
        meta["resourceVersion"] = before["resourceVersion"]
        if "generation" in before and _is_new_generation(
            info, new, self._stored_view(info, record)
        ):
            meta["generation"] = before["generation"] + 1
        if _may_go(new):
            if not dry_run:
                self.remove(info, record.key, last=new)
            return Record(record.key, new, record.revision)
        if new == record.object:
            return record
        if dry_run:
            return Record(record.key, new, record.revision)
        return _written_as(info, self.table(info).put(record.key, new))

    @staticmethod
    def _stored_view(info: ResourceInfo, record: Record) -> Json:
        """The object as it would be stored now: with what its schema has added since."""
        seen = record.view(info.from_storage)
        return record.object if seen is record.object else info.to_storage(seen)

    def remove(self, info: ResourceInfo, key: ObjectKey, last: Json | None = None) -> Record:
        """Take an object out of the store; what it held is let go."""
        removed = self.table(info).remove(key, last)
        if (hook := self.hooks.get(info.storage.qualified)) is not None:
            hook.removed(removed.object)
        return removed


def _check_version_given(info: ResourceInfo, meta: Json, name: str) -> None:
    """Raises: StatusError (422) where an update must say which version it is of."""
    needs_version = info.is_custom or info.storage.qualified in _NEED_RESOURCE_VERSION
    if needs_version and meta.get("resourceVersion") in _ANY_VERSION:
        why = "must be specified for an update"
        cause = invalid_value("metadata.resourceVersion", 0, why)
        raise invalid(info.resource.plural, info.resource.group, name, [cause])


def _written_as(info: ResourceInfo, record: Record) -> Record:
    """Note that the object needs no second look when it is read under the same rules."""
    if info.is_custom and info.storage == info.resource:
        record.is_seen_as(info.from_storage)
    return record


def _check_size(stored: Json, options: WriteOptions) -> None:
    """Raises: StatusError (500, as upstream) for what a client makes larger than etcd takes."""
    if options is not _INTERNAL and len(msgspec.json.encode(stored)) > _MAX_OBJECT_BYTES:
        raise StatusError(500, "", "etcdserver: request is too large")


def _is_new_generation(info: ResourceInfo, new: Json, old: Json) -> bool:
    if not info.is_custom:
        qualified = info.storage.qualified
        if (counted := _COUNTED_METADATA.get(qualified)) is not None:
            before, after = (obj["metadata"].get(counted) or {} for obj in (old, new))
            if before != after:
                return True
        if qualified == "endpointslices.discovery.k8s.io":
            return any(new.get(k) != old.get(k) for k in new.keys() | old.keys() if k != "metadata")
        return bool(new.get("spec") != old.get("spec"))
    ignored = {"metadata", "status"} if "status" in info.subresources else {"metadata"}
    return any(new.get(k) != old.get(k) for k in new.keys() | old.keys() if k not in ignored)


def _may_go(obj: Json) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not (obj.get("kind") == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
    )
