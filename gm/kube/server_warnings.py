"""What an API server warns of while it does what it was asked: headers ``Warning`` of its answers.

RFC 7234 section 5.5, as Kubernetes uses it: ``299 - "text"``, one header for each text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from gm.api.meta import ResourceType

__all__ = ["WarningLog", "is_about_version", "read_warnings"]

logger = logging.getLogger(__name__)

_TEXT_CODE = "299"  # Kubernetes's only one; others are about caches
_MOST_REMEMBERED = 256
# code, agent, quoted text, date
_WARNING = re.compile(r'\s*(\d{3}) +([^\s",]+) +"((?:[^"\\]|\\.)*)"(?: +"[^"]*")?\s*(?:,|\Z)')
_ESCAPED = re.compile(r"\\(.)")


def read_warnings(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts in the values of ``Warning`` headers, each once, in one line and printable.

    Of a header that breaks the rules, what comes before the fault counts.
    """
    texts = (_plain(text) for header in headers for text in _texts(header))
    return tuple(dict.fromkeys(filter(None, texts)))


def _texts(header: str) -> Iterable[str]:
    end = 0
    while (found := _WARNING.match(header, end)) is not None and found.end() > end:
        end = found.end()
        if found[1] == _TEXT_CODE:
            yield _ESCAPED.sub(r"\1", found[3])


def _plain(text: str) -> str:
    # bytes that are no UTF-8 arrive as surrogates, which nothing could encode again
    readable = text.encode(errors="surrogateescape").decode(errors="replace")
    return " ".join("".join(c if c.isprintable() else " " for c in readable).split())


def is_about_version(text: str, resource: ResourceType) -> bool:
    """Whether ``text`` is about the version of the API that was asked, whatever was asked of it."""
    return text.startswith(f"{resource.api_version} {resource.kind} is deprecated")


class WarningLog:
    """Logs each text once for each kind: what is said of every object is said once."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], None] = {}

    def tell(self, request: str, resource: ResourceType, text: str) -> None:
        """Log what the server said to ``request``, unless it has said so before."""
        known = resource.qualified, text
        if known in self._told:
            return
        self._told[known] = None
        if len(self._told) > _MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        logger.warning("the API server warns", extra={"request": request, "warning": text})
