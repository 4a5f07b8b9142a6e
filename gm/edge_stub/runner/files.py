"""A pod's volumes as directories and files of this machine.

A node's root directory stands for its file system: hostPath volumes resolve under it. All other
volumes lie under the pod's own directory. ``readOnly`` is not enforced, as processes share the
machine's file system.

Files of Secrets, ConfigMaps and the downward API are links through ``..data`` to a directory of
this version, as a kubelet lays them out, so that a refresh changes all of them at once.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gm.edge_stub.runner.env import ConfigProblem, Source, Sources, expand
from gm.edge_stub.runner.facts import PodFacts
from gm.errors import GmError

__all__ = [
    "MountProblem",
    "is_refreshed",
    "make_volumes",
    "mount_paths",
    "mounted_volumes",
    "remove",
    "under",
    "volume_sources",
]

_DEFAULT_MODE = 0o644
_DATA = "..data"


class MountProblem(GmError):
    """A volume can not be had, now; the message is for the event ``FailedMount``."""


def under(root: Path, path: str) -> Path:
    """Where ``path`` of the node lies on this machine.

    Raises: MountProblem if links lead out of ``root``.
    """
    inside = posixpath.normpath("/" + path).lstrip("/")  # normpath keeps ".." from leading out
    joined = root / inside
    if not joined.resolve().is_relative_to(root.resolve()):
        raise MountProblem(f"{path} leads out of the node's root directory {root}")
    return joined


def mounted_volumes(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The pod's volumes that a container mounts; nobody waits for the others."""
    containers = (*(spec.get("initContainers") or ()), *spec["containers"])
    names = {mount["name"] for one in containers for mount in one.get("volumeMounts") or ()}
    return [volume for volume in spec.get("volumes") or () if volume["name"] in names]


def is_refreshed(volume: Mapping[str, Any]) -> bool:
    """Whether the files of ``volume`` follow something that may change."""
    return volume.get("hostPath") is None and volume.get("emptyDir") is None


def volume_sources(spec: Mapping[str, Any]) -> Iterator[Source]:
    """The Secrets and ConfigMaps that the pod's volumes are made from."""
    for volume in mounted_volumes(spec):
        projected = (volume.get("projected") or {}).get("sources") or ()
        for part in (volume, *projected):
            secret, config_map = part.get("secret"), part.get("configMap")
            if secret is not None:
                yield Source("Secret", secret.get("secretName") or secret.get("name", ""))
            if config_map is not None:
                yield Source("ConfigMap", config_map.get("name", ""))


def make_volumes(facts: PodFacts, root: Path, directory: Path, sources: Sources) -> dict[str, Path]:
    """Volume name to real path; what is missing and may be made is made.

    ``directory`` takes what lies under the pod's own directory. Called again, it brings the files
    in line with ``sources``.
    Raises: MountProblem for the first volume that can not be had.
    """
    paths: dict[str, Path] = {}
    for volume in mounted_volumes(facts.spec):
        name = volume["name"]
        try:
            paths[name] = _make(volume, facts, root, directory / name, sources)
        except (MountProblem, ConfigProblem, ValueError) as exc:
            raise MountProblem(f'MountVolume.SetUp failed for volume "{name}" : {exc}') from exc
        except OSError as exc:
            raise MountProblem(
                f'MountVolume.SetUp failed for volume "{name}" : {exc.filename}: {exc.strerror}'
            ) from exc
    return paths


def _make(
    volume: Mapping[str, Any], facts: PodFacts, root: Path, directory: Path, sources: Sources
) -> Path:
    if volume.get("hostPath") is not None:
        return _host_path(root, volume["hostPath"])
    files: dict[str, tuple[bytes, int]] = {}
    if volume.get("projected") is not None:
        projected = volume["projected"]
        default = projected.get("defaultMode", _DEFAULT_MODE)
        for part in projected.get("sources") or ():
            files |= _content(part, facts, sources, default)
    elif volume.get("emptyDir") is None:
        files = _content(volume, facts, sources, None)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if volume.get("emptyDir") is None:
        _publish(directory, files)
    return directory


def _content(
    part: Mapping[str, Any], facts: PodFacts, sources: Sources, mode: int | None
) -> dict[str, tuple[bytes, int]]:
    """Files of a secret, configMap or downwardAPI, with their modes."""
    if part.get("serviceAccountToken") is not None:
        return {}  # a worker is no client of the API: it gets no credentials for it
    for kind, field in (("Secret", "secret"), ("ConfigMap", "configMap")):
        if part.get(field) is not None:
            return _keys(kind, part[field], sources, facts.namespace, mode)
    if part.get("downwardAPI") is not None:
        return _downward(part["downwardAPI"], facts, mode)
    kinds = ", ".join(sorted(set(part) - {"name"})) or "no source"
    raise MountProblem(
        f"the gm runner does not support {kinds}: it has hostPath, emptyDir, secret, configMap, "
        "downwardAPI and projected"
    )


def _keys(
    kind: str, part: Mapping[str, Any], sources: Sources, namespace: str, mode: int | None
) -> dict[str, tuple[bytes, int]]:
    name = part.get("secretName") or part.get("name", "")
    data = sources[Source(kind, name)]
    optional = bool(part.get("optional"))
    if data is None:
        if optional:
            return {}
        raise MountProblem(f'{kind.lower()} "{name}" not found')
    mode = part.get("defaultMode", _DEFAULT_MODE) if mode is None else mode
    if not part.get("items"):
        return {key: (value, mode) for key, value in data.items()}
    files = {}
    for item in part["items"]:
        if item["key"] in data:
            files[item["path"]] = (data[item["key"]], item.get("mode", mode))
        elif not optional:
            raise MountProblem(f"references non-existent {kind.lower()} key: {item['key']}")
    return files


def _downward(
    part: Mapping[str, Any], facts: PodFacts, mode: int | None
) -> dict[str, tuple[bytes, int]]:
    default = part.get("defaultMode", _DEFAULT_MODE) if mode is None else mode
    files = {}
    for item in part.get("items") or ():
        if item.get("fieldRef"):
            text = facts.field(item["fieldRef"].get("fieldPath", ""))
        else:
            text = facts.resource(item.get("resourceFieldRef") or {}, {})
        files[item["path"]] = (text.encode(), item.get("mode", default))
    return files


def _publish(directory: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Make ``files`` what is seen in ``directory``, all at the same moment."""
    data = directory / _DATA
    old = data.resolve() if data.is_symlink() else None
    if old is not None and _published(old) == {
        name: (content, mode & 0o777) for name, (content, mode) in files.items()
    }:
        return
    new = Path(tempfile.mkdtemp(prefix="..", dir=directory))
    new.chmod(0o755)
    for relative, (content, mode) in files.items():
        path = under(new, relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        path.chmod(mode & 0o777)
    _link(data, new.name)
    wanted = {entry.name for entry in new.iterdir()}
    for name in wanted:
        if not (directory / name).is_symlink():
            _link(directory / name, f"{_DATA}/{name}")
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()
    if old is not None:
        remove(old)


def _link(path: Path, target: str) -> None:
    """Make ``path`` a link to ``target``, in one step."""
    temporary = path.with_name("..new_link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def _published(directory: Path) -> dict[str, tuple[bytes, int]]:
    """The files in ``directory`` with their modes."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in directory.rglob("*")
        if path.is_file()
    }


_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def _host_path(root: Path, source: Mapping[str, Any]) -> Path:
    path, kind = under(root, source["path"]), source.get("type") or ""
    if kind == "FileOrCreate" and not path.exists():
        path.touch(0o644)
    elif kind in ("", "DirectoryOrCreate") and not path.exists():
        # An untyped path that is missing becomes a directory, as container runtimes make it.
        path.mkdir(0o755, parents=True)
    if kind in _CHECKS:
        is_kind, word = _CHECKS[kind]
        if not path.exists() or not is_kind(path.stat().st_mode):
            raise MountProblem(
                f"hostPath type check failed: {source['path']} is not a {word} "
                f"(on this machine: {path})"
            )
    return path


def mount_paths(
    container: Mapping[str, Any],
    volumes: Mapping[str, Path],
    env: Mapping[str, str],
    *,
    copies: Path,
) -> dict[str, str]:
    """mountPath to real path for each of the container's mounts, with subPath applied.

    What a subPath chooses of a Secret and the like does not follow its object any more: it is
    copied to ``copies``.
    Raises: MountProblem for a mount of no volume or a subPath that leads out of its volume.
    """
    mounts: dict[str, str] = {}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount["name"] not in volumes:
            raise MountProblem(f'no volume "{mount["name"]}" for mount {mount["mountPath"]}')
        path = volumes[mount["name"]]
        inside = mount.get("subPath") or expand(mount.get("subPathExpr") or "", env)
        if inside:
            is_published = (path / _DATA).is_symlink()
            path = under(path, inside)
            if not path.exists():
                path.mkdir(0o755, parents=True)  # as a kubelet does
            if is_published:
                path = _copy(path, copies / str(index))
        mounts[mount["mountPath"]] = str(path)
    return mounts


def _copy(path: Path, copy: Path) -> Path:
    copy.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, copy)
    else:
        shutil.copy(path, copy)
    return copy


def remove(directory: Path) -> None:
    """Delete a pod's directory; directories that a process closed to us are opened first.

    What can not be deleted stays behind: the next start of the runner tries again.
    """
    for parent, names, _ in os.walk(directory):
        for name in names:
            path = Path(parent, name)
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(directory, ignore_errors=True)
