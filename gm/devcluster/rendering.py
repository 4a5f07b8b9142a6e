"""Objects and lists in the form that a client has asked for."""

from __future__ import annotations

import time

import msgspec
from aiohttp import web

from gm.api.meta import Json
from gm.devcluster import tables
from gm.devcluster.answers import answer, raw_answer
from gm.devcluster.call import Call
from gm.devcluster.info import ResourceInfo
from gm.devcluster.listing import Page
from gm.devcluster.negotiate import not_acceptable
from gm.devcluster.store import Record

__all__ = ["page", "shown", "stored"]


def stored(call: Call, record: Record, status: int = 200) -> web.Response:
    """An object as it is stored, in the version and form that are asked for."""
    obj = record.view(call.info.from_storage)
    if obj is record.object and not call.form.shown_as and not call.form.is_yaml:
        return raw_answer(record.encoded, status)
    return shown(call, [obj], status)


def shown(
    call: Call, objects: list[Json], status: int = 200, *, of: ResourceInfo | None = None
) -> web.Response:
    """One object (of another kind than the resource's, if ``of`` says so) as asked for.

    Raises: StatusError (406) if it is asked for as a list.
    """
    form = call.form
    if form.shown_as == "PartialObjectMetadataList":
        raise not_acceptable(
            f"you requested {form.shown_as}, but the requested object is not a list "
            f"({_go_name(call.info)})"
        )
    if form.is_table:
        return answer(_table(call, objects, of=of), status, form=form)
    if form.is_partial:
        return answer(tables.partial(objects[0], form.version), status, form=form)
    return answer(objects[0], status, form=form)


def _table(
    call: Call,
    objects: list[Json],
    metadata: Json | None = None,
    *,
    of: ResourceInfo | None = None,
) -> Json:
    return tables.render(
        of or call.info,
        objects,
        now=time.time(),
        include_object=call.query.get("includeObject", "Metadata"),
        metadata=metadata,
        version=call.form.version,
    )


def page(call: Call, found: Page) -> web.Response:
    """A list. Raises: StatusError (406) if it is asked for as one object."""
    info, form = call.info, call.form
    views = [record.view(info.from_storage) for record in found.records]
    if form.shown_as == "PartialObjectMetadata":
        raise not_acceptable(
            f"you requested {form.shown_as}, but the requested object is a list "
            f"({_go_name(info, 'List')})"
        )
    if form.is_table:
        return answer(_table(call, views, found.metadata), form=form)
    if form.is_partial:
        listed = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": found.metadata,
            "items": [tables.partial(view, form.version) for view in views],
        }
        return answer(listed, form=form)
    head = {"kind": info.list_kind, "apiVersion": info.resource.api_version}
    if not info.is_custom:
        listed = {**head, "metadata": found.metadata, "items": [_item(view) for view in views]}
        return answer(listed, form=form)
    metadata = {"continue": "", **found.metadata}
    if form.is_yaml:
        return answer({**head, "metadata": metadata, "items": views}, form=form)
    encoded = b",".join(
        record.encoded if view is record.object else msgspec.json.encode(view)
        for record, view in zip(found.records, views, strict=True)
    )
    opening = msgspec.json.encode({**head, "metadata": metadata})[:-1]
    return raw_answer(opening + b',"items":[' + encoded + b"]}")


def _item(view: Json) -> Json:
    """An object as lists of built-in kinds hold it: they say once what kind it is."""
    return {key: value for key, value in view.items() if key not in ("kind", "apiVersion")}


def _go_name(info: ResourceInfo, suffix: str = "") -> str:
    """The Go type of an object or a list, which some refusals name."""
    if info.is_custom:
        return f"*unstructured.Unstructured{suffix}"
    package = info.storage.group.partition(".")[0] or "core"
    return f"*{package}.{info.resource.kind}{suffix}"
