"""One request, as far as it is understood before it is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aiohttp import web

from gm.api.meta import ObjectKey
from gm.devcluster.api import WriteOptions
from gm.devcluster.info import ResourceInfo
from gm.devcluster.listing import parse_bool
from gm.devcluster.metadata import forbidden, invalid_value
from gm.devcluster.negotiate import Form, negotiate
from gm.devcluster.routes import Target
from gm.devcluster.status import Cause, invalid

__all__ = ["Call", "understand", "write_options"]

_MAX_MANAGER_BYTES = 128


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request to a resource."""

    request: web.BaseRequest
    info: ResourceInfo
    target: Target
    form: Form
    query: Mapping[str, str]

    @property
    def key(self) -> ObjectKey:
        """What object is meant."""
        namespace = self.target.namespace if self.info.resource.namespaced else ""
        return ObjectKey(namespace, self.target.name)


def understand(request: web.BaseRequest, info: ResourceInfo, target: Target) -> Call:
    """What is asked, and in which form. Raises: StatusError (406)."""
    form = _form(request, info, target)
    return Call(request=request, info=info, target=target, form=form, query=request.query)


def _form(request: web.BaseRequest, info: ResourceInfo, target: Target) -> Form:
    """The form of the answer. Raises: StatusError (406)."""
    if target.subresource == "log":
        return Form()
    is_list = request.method == "GET" and not target.name and "watch" in info.verbs
    return negotiate(_accept(request), streams=is_list and parse_bool(request.query.get("watch")))


def _accept(request: web.BaseRequest) -> str:
    return ",".join(request.headers.getall("Accept", ()))


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


def write_options(query: Mapping[str, str], kind: str) -> WriteOptions:
    """The query parameters of a write. Raises: StatusError (422)."""
    causes = [*_manager_causes(query.get("fieldManager", ""))]
    if kind == "PatchOptions" and "force" in query:
        causes.append(forbidden("force", "may not be specified for non-apply patch"))
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "")
    if dry_run not in ("", "All"):
        message = f'Unsupported value: ["{dry_run}"]: supported values: "All"'
        causes.append(Cause("FieldValueNotSupported", message, "dryRun"))
    if validation not in ("", "Ignore", "Strict", "Warn"):
        listed = '"", "Ignore", "Strict", "Warn"'
        message = f'Unsupported value: "{validation}": supported values: {listed}'
        causes.append(Cause("FieldValueNotSupported", message, "fieldValidation"))
    if causes:
        raise invalid(kind, "meta.k8s.io", "", causes)
    return WriteOptions(dry_run=bool(dry_run), field_validation=validation or "Warn")
