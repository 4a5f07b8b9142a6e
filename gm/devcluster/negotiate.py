"""Accept and Content-Type: which form of an answer the client wants."""

from __future__ import annotations

from dataclasses import dataclass

from gm.devcluster.status import StatusError

__all__ = ["Form", "media_type", "negotiate", "not_acceptable"]

_JSON = "application/json"
_YAML = "application/yaml"


@dataclass(frozen=True)
class Form:
    """The form of an answer: its media type and, maybe, another kind to show objects as."""

    media_type: str = _JSON
    shown_as: str = ""
    """``Table``, ``PartialObjectMetadata``, ``PartialObjectMetadataList`` or empty."""
    version: str = "v1"
    """The version of ``meta.k8s.io`` that the other kind is shown in."""

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


_SHOWN_AS = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_VERSIONS = ("v1", "v1beta1")


def media_type(header: str) -> str:
    """A Content-Type without its parameters, in lower case."""
    return header.partition(";")[0].strip().lower()


def not_acceptable(message: str) -> StatusError:
    """406: there is no such form of an answer."""
    return StatusError(406, "NotAcceptable", message)


def negotiate(accept: str, *, streams: bool = False) -> Form:
    """The best form in an Accept header that is served here; protobuf is not.

    ``streams`` is for watches, which are in JSON only.
    Raises: StatusError (406) if there is none.
    """
    if not accept:
        return Form()
    for kind, values in _clauses(accept):
        if kind in ("*/*", "application/*"):
            return Form()
        if kind != _JSON and (streams or kind != _YAML):
            continue
        shown_as, version = values.get("as", ""), values.get("v", "")
        if not shown_as:
            return Form(kind)
        if shown_as in _SHOWN_AS and values.get("g") == "meta.k8s.io" and version in _VERSIONS:
            return Form(kind, shown_as, version)
    offered = f"{_JSON};stream=watch" if streams else f"{_JSON}, {_YAML}"
    raise not_acceptable(f"only the following media types are accepted: {offered}")


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media types and their parameters, the most wanted first."""
    found: list[tuple[str, dict[str, str]]] = []
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        found.append((kind, dict(p.partition("=")[::2] for p in parameters)))
    return sorted(found, key=lambda item: -_quality(item[1].get("q", "1")))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
