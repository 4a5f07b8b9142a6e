"""The state directory of one local system: logs, kubeconfig, pids and each node's root."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType

from gm.errors import ConfigError

__all__ = ["StateDirectory", "free_directory"]

_MARKER = ".gm-local-system"


class StateDirectory:
    """A directory that one running system owns.

     With ``fresh`` whatever an earlier system left in it is removed first; a directory that holds
     anything else is refused, never emptied, and so is one whose objects are meant to be kept
    . ``option`` is the flag that named it, for messages. The lock is the kernel's, so
     that it ends with the process.

     Raises: ConfigError if the directory is in use, or is somebody else's.
    """

    def __init__(self, path: Path, *, fresh: bool = False, option: str = "--dir") -> None:
        self.path = path.resolve()
        marker = self.path / _MARKER
        try:
            if self.path.exists() and not marker.exists() and any(self.path.iterdir()):
                raise ConfigError(
                    f"{path} exists and was not made by gm; name another directory with {option}"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(marker, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            raise ConfigError(
                f"can not use {path}: {exc.strerror or exc}; name another directory with {option}"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = marker.read_text().strip() or "another process"
            os.close(self._lock)
            raise ConfigError(
                f"{path} is in use by process {owner}; stop it or name another one with {option}"
            ) from None
        if fresh and self.network.exists():
            os.close(self._lock)
            raise ConfigError(
                f"{path} keeps the objects of `gm up --state`, and this would delete them; name "
                f"another directory with {option}, or go on with `gm up --state {path}`"
            )
        if fresh:
            self._empty()
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())
        self.logs.mkdir(exist_ok=True)
        self.nodes.mkdir(exist_ok=True)

    def _empty(self) -> None:
        for entry in self.path.iterdir():
            if entry.name == _MARKER:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.path / "logs"

    @property
    def nodes(self) -> Path:
        """One directory per node, each that node's file system."""
        return self.path / "nodes"

    @property
    def network(self) -> Path:
        """The loopback network's prefix, if objects that name its addresses are kept."""
        return self.path / "network"

    @property
    def kubeconfig(self) -> Path:
        """What ``KUBECONFIG`` is set to."""
        return self.path / "kubeconfig"

    @property
    def pids(self) -> Path:
        """``name pid`` lines of the running processes."""
        return self.path / "pids"

    def close(self) -> None:
        """Let another process use the directory."""
        os.close(self._lock)

    def __enter__(self) -> StateDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def free_directory(base: Path, *, fresh: bool = False) -> StateDirectory:
    """``base``, or ``base-2``, ``base-3``, ... when a running system owns those before."""
    for number in range(1, 100):
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            return StateDirectory(path, fresh=fresh)
        except ConfigError as exc:
            if "is in use by process" not in str(exc):
                raise
    raise ConfigError(f"{base} and 98 directories like it are in use; stop some of them")
