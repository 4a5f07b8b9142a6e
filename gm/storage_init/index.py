"""Indirect URLs: a file that lists what to download, as Sedna's datasets with an index use it.

Lines of text; empty ones and those that begin with ``#`` count for nothing. The first is the URL
that the others, names of files or directories, are relative to.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gm.api.urls import HostPath, Remote, parse_url
from gm.errors import InvalidSpec

__all__ = ["MAX_INDEX_BYTES", "Index", "read_index"]

MAX_INDEX_BYTES = 64 << 20


class Index(msgspec.Struct, frozen=True):
    """Names relative to ``base``; None if the index lists nothing that has to be downloaded."""

    base: Remote | None
    names: list[str]


def read_index(path: Path) -> Index:
    """What the index at ``path`` lists, each name once. Blocks.

    Raises: ValueError with the reason; OSError.
    """
    if path.stat().st_size > MAX_INDEX_BYTES:
        raise ValueError(f"it is no index: larger than {MAX_INDEX_BYTES >> 20} MiB")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is no index: not UTF-8 text") from None
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) < 2:
        return Index(None, [])
    try:
        base = parse_url(lines[0].replace("obs://", "s3://", 1), field="its first line")
    except InvalidSpec as exc:
        raise ValueError(exc.message) from None
    if isinstance(base, HostPath):
        return Index(None, [])  # on the node already: the pod mounts it, if it wants it
    return Index(base, list(dict.fromkeys(lines[1:])))
