"""The state directory of one local system: logs, kubeconfig, pids and each node's root."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from types import TracebackType

from gm.directories import DirectoryClaim, DirectoryInUse
from gm.errors import ConfigError

__all__ = ["StateDirectory", "free_directory"]

_MARKER = ".gm-local-system"


class StateDirectory:
    """A directory that one running system owns.

    With ``fresh`` whatever an earlier system left in it is removed first; a directory that holds
    anything else is refused, never emptied, and so is one whose objects are meant to be kept.
    ``option`` is the flag that named it, for messages.

    Raises: ConfigError if the directory is in use, or is somebody else's.
    """

    def __init__(self, path: Path, *, fresh: bool = False, option: str = "--dir") -> None:
        self._claim = DirectoryClaim(path, marker=_MARKER, option=option)
        self.path = self._claim.path
        if fresh and self.network.exists():
            self.close()
            raise ConfigError(
                f"{path} keeps the objects of `gm up --state`, and this would delete them; name "
                f"another directory with {option}, or go on with `gm up --state {path}`"
            )
        if fresh:
            self._empty()
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
        self._claim.close()

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
        with contextlib.suppress(DirectoryInUse):
            return StateDirectory(path, fresh=fresh)
    raise ConfigError(f"{base} and 98 directories like it are in use; stop some of them")
