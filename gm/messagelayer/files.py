"""Files that change while the program runs: certificates and tokens that are rotated."""

from __future__ import annotations

from pathlib import Path

__all__ = ["WatchedFiles"]

_Stamp = tuple[int, int, int]


class WatchedFiles:
    """Notices by looking, which also works for mounted Secrets, whose files are swapped links."""

    def __init__(self, *paths: str) -> None:
        self.paths = tuple(Path(path) for path in paths if path)
        self._stamps = self._look()

    def have_changed(self) -> bool:
        """Whether a file is another one than when this was asked last."""
        before, self._stamps = self._stamps, self._look()
        return before != self._stamps

    def _look(self) -> list[_Stamp | None]:
        return [_stamp(path) for path in self.paths]


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
