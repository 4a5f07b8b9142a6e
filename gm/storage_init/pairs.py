"""The initializer's arguments: pairs of a URL and the directory that it goes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from gm.api.urls import HostPath, StorageUrl, parse_url, redacted
from gm.errors import ConfigError, InvalidSpec
from gm.storage_init.settings import DEFAULT_MARK

__all__ = ["Pair", "parse_pairs"]


class Pair(msgspec.Struct, frozen=True):
    """``location`` goes to ``directory``; with ``is_index`` what the file there lists does."""

    location: StorageUrl
    directory: Path
    is_index: bool = False

    @property
    def name(self) -> str:
        """The URL without what may be secret, for messages."""
        if isinstance(self.location, HostPath):
            return self.location.path
        return redacted(self.location.url)


def parse_pairs(arguments: Sequence[str], *, mark: str = DEFAULT_MARK) -> list[Pair]:
    """The pairs that ``arguments`` (URL DIR URL DIR ...) make; the same one twice counts once.

    Sedna puts ``mark`` before the directory of an index; before the URL it means the same.

    Raises: ConfigError that names the argument, without anything secret in it.
    """
    if not arguments or len(arguments) % 2:
        raise ConfigError(
            f"storage-init takes pairs of URL and DIR, but got {len(arguments)} arguments"
        )
    urls, directories = arguments[::2], arguments[1::2]
    pairs = [
        _pair(url, directory, mark=mark, position=2 * index + 1)
        for index, (url, directory) in enumerate(zip(urls, directories, strict=True))
    ]
    return list(dict.fromkeys(pairs))


def _pair(url: str, directory: str, *, mark: str, position: int) -> Pair:
    is_index = url.startswith(mark) or directory.startswith(mark)
    url, directory = url.removeprefix(mark), directory.removeprefix(mark)
    if not directory:
        raise ConfigError(f"argument {position + 1}: the directory is empty")
    try:
        location = parse_url(url, field=f"argument {position}")
    except InvalidSpec as exc:
        raise ConfigError(exc.message) from None
    if isinstance(location, HostPath) and not is_index:
        raise ConfigError(
            f"argument {position}: {location.path} is a path of this machine and needs no "
            "download; allowed is s3://bucket/key, http://... or https://..."
        )
    return Pair(location, Path(directory), is_index)
