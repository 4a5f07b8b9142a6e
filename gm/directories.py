"""Directories that one process owns for as long as it runs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gm.errors import ConfigError

__all__ = ["DirectoryClaim", "DirectoryInUse"]


class DirectoryInUse(ConfigError):
    """Another process owns the directory."""


class DirectoryClaim:
    """Sole ownership of ``path``, which is made if missing.

    A directory that holds anything, but neither the file ``marker`` nor one of ``relatives`` (the
    markers of programs that this one may share a directory with), is somebody else's and refused.
    ``option`` is the flag that named it, for messages. The lock is the kernel's, so that it ends
    with the process.

    Raises: DirectoryInUse; ConfigError if the directory is somebody else's, or can not be made.
    """

    def __init__(
        self, path: Path, *, marker: str, option: str, relatives: tuple[str, ...] = ()
    ) -> None:
        self.path, self.marker = path.resolve(), marker
        file = self.path / marker
        try:
            if not self._is_ours((marker, *relatives)):
                raise ConfigError(
                    f"{path} exists and was not made by gm; name another directory with {option}"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise ConfigError(
                f"can not use {path}: {exc.strerror or exc}; name another directory with {option}"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = file.read_text().strip() or "another process"
            os.close(self._lock)
            raise DirectoryInUse(
                f"{path} is in use by process {owner}; stop it or name another one with {option}"
            ) from None
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def _is_ours(self, markers: tuple[str, ...]) -> bool:
        if not self.path.exists() or not any(self.path.iterdir()):
            return True
        return any((self.path / marker).exists() for marker in markers)

    def close(self) -> None:
        """Let another process own the directory."""
        os.close(self._lock)
