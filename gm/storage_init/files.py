"""What is to be brought, one file at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

__all__ = ["RemoteFile"]


class RemoteFile(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become the file ``target``.

    ``name`` is for messages; ``origin`` is a number that tells sources apart. ``link`` makes the
    URL of one attempt; it may hold a password or a signature and must never be shown. Partial
    bytes lie in ``work``. With ``unpack`` an archive is unpacked beside itself; ``is_taken``
    tells which paths it must leave alone.
    """

    name: str
    origin: int
    target: Path
    work: Path
    link: Callable[[], str]
    is_taken: Callable[[Path], bool]
    is_s3: bool = False
    unpack: bool = False
