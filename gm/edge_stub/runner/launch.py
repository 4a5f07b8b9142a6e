"""A container of a pod as an order for a process: environment, command line, places."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gm.edge_stub.runner.container import Order
from gm.edge_stub.runner.env import Sources, container_env, expand
from gm.edge_stub.runner.facts import PodFacts
from gm.edge_stub.runner.files import mount_paths, remove
from gm.edge_stub.runner.images import ImageTable
from gm.edge_stub.runner.rewrite import Rewriter, rewrite_loopback

__all__ = ["Places", "container_order"]

_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
_TERMINATION_MESSAGE = "/dev/termination-log"
_HOSTNAME_LENGTH = 63
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Places:
    """Where a pod's things lie: ``directory`` is its own, ``root`` the node's file system."""

    def __init__(self, directory: Path, root: Path, volumes: Mapping[str, Path]) -> None:
        self.directory, self.root, self.volumes = directory, root, volumes

    def log(self, container: str, attempt: int) -> Path:
        """The log file of a container's run number ``attempt``."""
        return log_path(self.directory, container, attempt)

    def work(self, container: str, working_dir: str) -> Path:
        """Stand-in for a directory of the container's image; made when it is missing."""
        base = self.directory / "rootfs" / container
        path = base / os.path.normpath("/" + working_dir).lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def copies(self, container: str) -> Path:
        """Where a container's copies of single files of volumes lie."""
        return self.directory / "copies" / container

    def termination_message(self, container: str) -> Path:
        """The file for what a container says of its end."""
        return self.directory / "termination" / container

    def clear(self, container: str) -> None:
        """Remove what an earlier run of a container left in files of its own."""
        for path in (self.directory / "rootfs" / container, self.copies(container)):
            remove(path)
        message = self.termination_message(container)
        message.parent.mkdir(parents=True, exist_ok=True)
        message.write_bytes(b"")

    def temporary(self, container: str) -> Path:
        """The container's own directory for temporary files."""
        return self.work(container, "/tmp")  # noqa: S108 - below the pod's directory


def log_path(directory: Path, container: str, attempt: int) -> Path:
    """The log file of run ``attempt`` of ``container`` in a pod's ``directory``."""
    return directory / "logs" / container / f"{attempt}.log"


def container_order(
    container: Mapping[str, Any],
    facts: PodFacts,
    *,
    places: Places,
    images: ImageTable,
    sources: Sources,
    attempt: int,
    log_max_bytes: int,
    marker: str,
) -> Order:
    """What to execute for ``container``, with mount paths turned into real ones.

    The path of its termination message counts as one.
    Raises: UnknownImage, ConfigProblem, MountProblem.
    """
    name = container["name"]
    asked = container_env(container, facts, sources)
    argv = [expand(text, asked) for text in images.command_line(container)]
    mounts = {
        container.get("terminationMessagePath") or _TERMINATION_MESSAGE: str(
            places.termination_message(name)
        ),
        **mount_paths(container, places.volumes, asked, copies=places.copies(name)),
    }
    rewrite = Rewriter(mounts)
    log = places.log(name, attempt)
    log.parent.mkdir(parents=True, exist_ok=True)
    return Order(
        argv=tuple(rewrite.all(argv)),
        env={**_base_env(facts, places, name), **_local_env(asked, facts, places, rewrite)},
        cwd=_working_directory(container, places, rewrite),
        mounts=mounts,
        log=log,
        log_max_bytes=log_max_bytes,
        marker=marker,
    )


def _base_env(facts: PodFacts, places: Places, container: str) -> dict[str, str]:
    """What every process gets. Nothing else of ours is inherited: it may hold credentials."""
    return {
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        "PATH": _with_own_programs(os.environ.get("PATH") or _DEFAULT_PATH),
        "HOME": str(places.work(container, "/root")),
        "TMPDIR": str(places.temporary(container)),
        "HOSTNAME": facts.spec.get("hostname") or facts.name[:_HOSTNAME_LENGTH].rstrip("-."),
        "PYTHONUNBUFFERED": "1",  # else `logs -f` shows a Python program's lines minutes late
        "POD_IP": facts.pod_ip,
        "HOST_IP": facts.host_ip,
    }


def _local_env(
    asked: Mapping[str, str], facts: PodFacts, places: Places, rewrite: Rewriter
) -> dict[str, str]:
    """The variables that were asked for, true for this machine."""
    env = {name: rewrite(value) for name, value in asked.items()}
    if "DATA_PATH_PREFIX" in env:
        env["DATA_PATH_PREFIX"] = str(places.root)
    if "LC_SERVER" in env:
        env["LC_SERVER"] = rewrite_loopback(env["LC_SERVER"], facts.host_ip)
    if "PATH" in env:
        env["PATH"] = _with_own_programs(env["PATH"])
    return env


def _with_own_programs(path: str) -> str:
    """``path`` led by this program's own virtual environment: there ``python`` has the workers."""
    own = str(Path(sys.executable).parent)
    return path if path.split(":")[0] == own else f"{own}:{path}"


def _working_directory(container: Mapping[str, Any], places: Places, rewrite: Rewriter) -> Path:
    asked = container.get("workingDir") or ""
    real = rewrite(asked)
    if real != asked:
        path = Path(real)
        path.mkdir(parents=True, exist_ok=True)  # as container runtimes do
        return path
    if asked and Path(asked).is_dir():
        return Path(asked)  # a directory of this machine, as its programs are
    return places.work(container["name"], asked)
