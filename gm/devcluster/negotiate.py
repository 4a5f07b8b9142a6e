"""Accept and Content-Type: which form of an answer the client wants."""

from __future__ import annotations

from dataclasses import dataclass

from gm.devcluster.status import StatusError

__all__ = ["Form", "media_type", "negotiate"]

_JSON = "application/json"
_YAML = "application/yaml"


@dataclass(frozen=True)
class Form:
    """The form of an answer: its media type and, maybe, another kind to show objects as."""

    media_type: str = _JSON
    shown_as: str = ""
    """``Table``, ``PartialObjectMetadata``, ``PartialObjectMetadataList`` or empty."""

    @property
    def is_yaml(self) -> bool:
        """Whether the answer is YAML."""
        return self.media_type == _YAML

    @property
    def is_table(self) -> bool:
        """Whether the answer is a table."""
        return self.shown_as == "Table"

    @property
    def is_partial(self) -> bool:
        """Whether only metadata is shown."""
        return self.shown_as.startswith("PartialObjectMetadata")


_SHOWN_AS = {
    ("meta.k8s.io", "Table"),
    ("meta.k8s.io", "PartialObjectMetadata"),
    ("meta.k8s.io", "PartialObjectMetadataList"),
}


def media_type(header: str) -> str:
    """A Content-Type without its parameters, in lower case."""
    return header.partition(";")[0].strip().lower()


def negotiate(accept: str) -> Form:
    """The first form in an Accept header that is served here; protobuf is not.

    Raises: StatusError (406) if there is none.
    """
    if not accept:
        return Form()
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        values = dict(p.partition("=")[::2] for p in parameters)
        if kind in ("*/*", "application/*"):
            return Form()
        if kind not in (_JSON, _YAML):
            continue
        shown_as = values.get("as", "")
        if not shown_as:
            return Form(kind)
        if (values.get("g", ""), shown_as) in _SHOWN_AS:
            return Form(kind, shown_as)
    raise StatusError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    )
