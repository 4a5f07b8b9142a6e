"""One request, as far as it is understood before it is carried out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aiohttp import web

from gm.api.meta import ObjectKey
from gm.devcluster.api import WriteOptions
from gm.devcluster.info import ResourceInfo
from gm.devcluster.metadata import forbidden, invalid_value, unsupported
from gm.devcluster.negotiate import Form, negotiate
from gm.devcluster.query import Query, parse_bool
from gm.devcluster.routes import Target
from gm.devcluster.status import Cause, invalid

__all__ = ["Call", "dry_run_causes", "understand", "write_options"]

_MAX_MANAGER_BYTES = 128


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request to a resource."""

    request: web.BaseRequest
    info: ResourceInfo
    target: Target
    form: Form
    query: Query

    @property
    def method(self) -> str:
        """The HTTP method, GET for the HEAD that custom resources take."""
        is_head = self.request.method == "HEAD" and self.info.is_custom
        return "GET" if is_head else self.request.method

    @property
    def key(self) -> ObjectKey:
        """What object is meant."""
        namespace = self.target.namespace if self.info.resource.namespaced else ""
        return ObjectKey(namespace, self.target.name)


def understand(request: web.BaseRequest, info: ResourceInfo, target: Target, query: Query) -> Call:
    """What is asked, and in which form. Raises: StatusError (406)."""
    form = _form(request, info, target, query)
    return Call(request=request, info=info, target=target, form=form, query=query)


def _form(request: web.BaseRequest, info: ResourceInfo, target: Target, query: Query) -> Form:
    """The form of the answer. Raises: StatusError (406)."""
    if target.subresource == "log":
        return Form()
    is_list = request.method == "GET" and not target.name and "watch" in info.verbs
    return negotiate(_accept(request), streams=is_list and parse_bool(query.get("watch")))


def _accept(request: web.BaseRequest) -> str:
    return ",".join(request.headers.getall("Accept", ()))


def dry_run_causes(said: list[str]) -> Iterator[Cause]:
    """What is wrong with the values of ``dryRun``."""
    if {*said} - {"All"}:
        yield unsupported("dryRun", said, ["All"])


def _manager_causes(manager: str) -> Iterator[Cause]:
    """What is wrong with the name of who writes; it is not kept here."""
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        why = f"Too long: may not be more than {_MAX_MANAGER_BYTES} bytes"
        yield Cause("FieldValueTooLong", why, "fieldManager")
    for position, letter in enumerate(manager):
        if not letter.isprintable():
            why = f"invalid character U+{ord(letter):04X} (at position {position})"
            yield invalid_value("fieldManager", manager, why)
            return


def write_options(query: Query, kind: str) -> WriteOptions:
    """The query parameters of a write. Raises: StatusError (422)."""
    causes = [*_manager_causes(query.get("fieldManager", ""))]
    if kind == "PatchOptions" and "force" in query:
        causes.append(forbidden("force", "may not be specified for non-apply patch"))
    dry_run, validation = query.every("dryRun"), query.get("fieldValidation", "")
    causes += dry_run_causes(dry_run)
    if validation not in (known := ["", "Ignore", "Strict", "Warn"]):
        causes.append(unsupported("fieldValidation", validation, known))
    if causes:
        raise invalid(kind, "meta.k8s.io", "", causes)
    return WriteOptions(dry_run=bool(dry_run), field_validation=validation or "Warn")
