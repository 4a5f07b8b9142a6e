"""Mount paths in a container's texts become the paths that they stand for on this machine.

Processes share the machine's file system, so a container that is told ``DATA=/data/train.npz``
and mounts a volume at ``/data`` must be told the volume's real place instead.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

__all__ = ["Rewriter", "rewrite_loopback"]

_EDGES = r"=,;:\s'\"<>|&()"
"""What may stand before and after a path: nothing that makes a longer path or URL of it."""


class Rewriter:
    """Replaces each occurrence of a mount path, in one pass, the longest path first.

    ``mounts`` maps mountPath to real path. An occurrence begins the text or follows one of
    ``= , ; :``, white space, a quote or what a shell knows (``< > | & ( )``), and is followed by
    the end, ``/`` or one of these. A trailing slash of a mountPath counts for nothing; a mount at
    ``/`` is left alone.
    """

    def __init__(self, mounts: Mapping[str, str]) -> None:
        self._real = {
            path.rstrip("/"): real.rstrip("/") or "/"
            for path, real in mounts.items()
            if path.rstrip("/")
        }
        self._pattern = _pattern(frozenset(self._real))

    def __call__(self, text: str) -> str:
        """``text`` with real paths."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._real[match[0]], text)

    def all(self, texts: Iterable[str]) -> list[str]:
        """Each of ``texts`` with real paths."""
        return [self(text) for text in texts]


@functools.lru_cache(maxsize=128)
def _pattern(paths: frozenset[str]) -> re.Pattern[str] | None:
    if not paths:
        return None
    longest_first = sorted(paths, key=lambda path: (-len(path), path))
    alternatives = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?:\A|(?<=[{_EDGES}]))(?:{alternatives})(?=\Z|[/{_EDGES}])")


def rewrite_loopback(url: str, address: str) -> str:
    """``url`` with ``address`` as its host if it names this machine's loopback, else unchanged.

    On a real node ``localhost`` is that node; here several nodes share one machine.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return url
    if host is None or not _is_loopback(host):
        return url
    user, at, _ = parts.netloc.rpartition("@")
    netloc = f"{user}{at}{address}" + ("" if port is None else f":{port}")
    return parts._replace(netloc=netloc).geturl()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
