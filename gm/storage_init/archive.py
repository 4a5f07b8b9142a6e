"""Archives are unpacked beside themselves, as Sedna's initializer does."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from gm.errors import DownloadFailed, NoSpace
from gm.storage_init.files import RemoteFile
from gm.storage_init.paths import inside, shown
from gm.storage_init.progress import size_text

__all__ = ["is_archive", "unpack"]

_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    NotImplementedError,  # zipfile: a compression that it does not know
)
_ENCRYPTED = 0x1


def is_archive(name: str) -> bool:
    """Whether a file of this name is unpacked."""
    return name.lower().endswith((*_TAR, ".zip"))


def unpack(path: Path, file: RemoteFile) -> None:
    """Unpack ``path``, the content of ``file``, into the directory of its target.

    Done in the work directory first, so that what is seen there is whole. Blocks.

    Raises: DownloadFailed if it is no archive, or if something in it would lie elsewhere or in
    the place of another download; NoSpace; OSError.
    """
    scratch = path.with_suffix(".unpacked")
    _remove(scratch)
    scratch.mkdir()
    try:
        if file.target.name.lower().endswith(".zip"):
            _unzip(path, scratch, file)
        else:
            _untar(path, scratch, file)
        for source in _leaves(scratch):
            _move(source, inside(file.target.parent, str(source.relative_to(scratch))), file)
    except _BROKEN:
        raise _broken(file) from None
    except OSError as exc:
        if exc.errno is None:  # bz2's way to say that the data are wrong
            raise _broken(file) from None
        raise
    except ValueError as exc:
        raise _failure(file, f"of one member, {exc}", "make the archive again") from None
    finally:
        _remove(scratch)


def _unzip(path: Path, into: Path, file: RemoteFile) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_room(file, into, sum(member.file_size for member in members))
        for member in members:
            if member.flag_bits & _ENCRYPTED:
                raise _failure(file, "it is encrypted", "upload it without a password")
            _check(member.filename)
            archive.extract(member, into)


def _untar(path: Path, into: Path, file: RemoteFile) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise _failure(
            file, "this Python can not unpack tar safely", "use Python 3.11.4 or newer in the image"
        )
    with tarfile.open(path) as archive:
        for member in archive:
            _check(member.name)
            _check_room(file, into, member.size)
            try:
                # refuses links and names that lead out, devices, and rights of others
                archive.extract(member, into, filter="data")
            except tarfile.FilterError:
                raise ValueError(
                    f"{shown(member.name)!r} would lie, or lead, out of the directory"
                ) from None


def _check(name: str) -> None:
    if name.startswith("/"):
        raise ValueError(f"{shown(name)!r} would lie out of the directory")
    try:
        inside(Path(), name)
    except ValueError as exc:
        raise ValueError(f"{shown(name)!r}: {exc}") from None


def _check_room(file: RemoteFile, into: Path, size: int) -> None:
    free = shutil.disk_usage(into).free
    if size > free:
        raise NoSpace(
            file.name,
            f"unpacking it takes {size_text(size)}, but {file.target.parent} has room for "
            f"{size_text(free)}",
            "give the node or the volume more room",
        )


def _leaves(directory: Path) -> Iterator[Path]:
    """Files, links and empty directories; links are not followed."""
    for root, directories, files in os.walk(directory):
        links = [name for name in directories if (Path(root) / name).is_symlink()]
        for name in (*files, *links):
            yield Path(root) / name
        if not directories and not files and Path(root) != directory:
            yield Path(root)


def _move(source: Path, destination: Path, file: RemoteFile) -> None:
    if destination == file.target or file.is_taken(destination):
        raise _failure(
            file,
            f"{shown(source.name)!r} in it would replace the download {destination}",
            "put one of the two elsewhere",
        )
    if stat.S_ISDIR(source.lstat().st_mode):
        destination.mkdir(parents=True, exist_ok=True)
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, destination)


def _broken(file: RemoteFile) -> DownloadFailed:
    return _failure(
        file,
        "it can not be unpacked: it is no whole archive of the kind that its name says",
        "upload it again, or give it another name: archives are unpacked by their names",
    )


def _failure(file: RemoteFile, problem: str, advice: str) -> DownloadFailed:
    return DownloadFailed(file.name, problem, advice)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
