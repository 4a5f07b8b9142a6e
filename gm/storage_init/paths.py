"""From keys and names that others chose to paths that stay inside the directory."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["WORK_DIRECTORY", "inside", "shown"]

WORK_DIRECTORY = ".gm-storage-init"
"""In each DIR, while files are under way; gone when all are there."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def inside(directory: Path, name: str) -> Path:
    """The path of ``name`` below ``directory``; empty and ``.`` parts count for nothing.

    Raises: ValueError with the reason, if it would lie elsewhere or can not be a file.
    """
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise ValueError("its name has '..' in it and would leave the directory")
    if "\0" in name:
        raise ValueError("its name holds a NUL byte, which no file can have")
    if WORK_DIRECTORY in parts:
        raise ValueError(f"its name has {WORK_DIRECTORY} in it, which is kept for partial files")
    if any(len(part.encode(errors="surrogatepass")) > 255 for part in parts):
        raise ValueError("a part of its name is longer than 255 bytes")
    return directory.joinpath(*parts)


def shown(name: str) -> str:
    """``name`` fit for one line of a log."""
    name = _CONTROL.sub("?", name)
    return name if len(name) <= 200 else name[:197] + "..."
