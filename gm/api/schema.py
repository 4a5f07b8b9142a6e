"""How a field's annotation carries its description and its schema to the CRD generator.

Constraints given here bind the API server only, never the reading: an object that an older CRD
let through must still be readable, so that its status can say what is wrong with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["View", "doc"]


class View(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Base of all views: unknown fields are ignored, fields that hold the default not written."""


def doc(
    description: str,
    *,
    required: bool = False,
    keep_unknown: bool = False,
    schema_of: type[msgspec.Struct] | None = None,
    **schema: Any,
) -> msgspec.Meta:
    """Annotation of a field: its ``description`` and further keywords of its ``schema``.

    ``required``: the CRD demands the field. ``keep_unknown``: fields below it that the CRD does
    not name are kept. ``schema_of``: the type that describes it in the CRD, where reading is
    looser.
    """
    return msgspec.Meta(
        description=description,
        extra_json_schema=schema or None,
        extra={"required": required, "keep_unknown": keep_unknown, "schema_of": schema_of},
    )
