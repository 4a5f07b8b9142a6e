"""Archives: unpacked beside themselves, and never beyond."""

from __future__ import annotations

import bz2
import io
import os
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gm.errors import DownloadFailed, NoSpace
from gm.storage_init import archive
from gm.storage_init.files import RemoteFile
from tests.storage_init.support import tree

Members = dict[str, bytes]
NOISE = random.Random(1).randbytes(2_000_000)


def tar(members: Members, mode: str = "w:gz") -> bytes:
    """A tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as file:  # type: ignore[call-overload]
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            file.addfile(info, io.BytesIO(body))
    return buffer.getvalue()


def zipped(members: Members) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, body in members.items():
            file.writestr(name, body)
    return buffer.getvalue()


def unpack(
    directory: Path,
    name: str,
    content: bytes,
    is_taken: Callable[[Path], bool] = lambda _: False,
) -> None:
    """Unpack ``content`` as if it were the download ``directory/name``."""
    work = directory.parent / "work"
    work.mkdir(exist_ok=True)
    directory.mkdir(exist_ok=True)
    part = work / "x.part"
    part.write_bytes(content)
    file = RemoteFile(
        name="http://h/" + name,
        origin=1,
        target=directory / name,
        work=work,
        link=lambda: "",
        unpack=True,
        is_taken=is_taken,
    )
    try:
        archive.unpack(part, file)
    finally:
        assert list(work.iterdir()) == [part]  # nothing is left over


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((f"a{end}", True) for end in (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tbz2", ".ZIP")),
        *((name, False) for name in ("a.gz", "a.csv", "zip", "a.npz", "a.pth")),
    ],
)
def test_names_tell_what_is_an_archive(name: str, is_one: bool) -> None:
    """The kinds that Sedna unpacks, and no others that happen to be zips inside."""
    assert archive.is_archive(name) == is_one


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("m.zip", zipped),
        ("m.tar", lambda members: tar(members, "w")),
        ("m.tar.gz", tar),
        ("m.tgz", tar),
        ("m.tar.bz2", lambda members: tar(members, "w:bz2")),
        ("m.tar.xz", lambda members: tar(members, "w:xz")),
    ],
)
def test_members_lie_beside_the_archive(
    tmp_path: Path, name: str, make: Callable[[Members], bytes]
) -> None:
    """With their directories; what is there of the same name is replaced."""
    (tmp_path / "d" / "deep").mkdir(parents=True)
    (tmp_path / "d" / "deep" / "b").write_bytes(b"old")
    unpack(tmp_path / "d", name, make({"a": b"1", "deep/b": b"2", "./c": b"3"}))
    assert tree(tmp_path / "d") == {"a": b"1", "deep/b": b"2", "c": b"3"}


def test_links_inside_and_empty_directories_are_kept(tmp_path: Path) -> None:
    """Models come with a link to the newest version."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name in ("v1", "empty"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            file.addfile(info)
        info = tarfile.TarInfo("v1/m")
        info.size = 1
        file.addfile(info, io.BytesIO(b"1"))
        info = tarfile.TarInfo("latest")
        info.type, info.linkname = tarfile.SYMTYPE, "v1"
        file.addfile(info)
    unpack(tmp_path / "d", "m.tar", buffer.getvalue())
    assert (tmp_path / "d/latest/m").read_bytes() == b"1"
    assert (tmp_path / "d/latest").is_symlink()
    assert (tmp_path / "d/empty").is_dir()


@pytest.mark.parametrize("make", [tar, zipped])
@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_a_member_that_leads_out_is_refused(
    tmp_path: Path, make: Callable[[Members], bytes], name: str
) -> None:
    """Nothing of such an archive is taken."""
    kind = "m.zip" if make is zipped else "m.tgz"
    with pytest.raises(DownloadFailed, match="of one member"):
        unpack(tmp_path / "d", kind, make({"good": b"1", name: b"2"}))
    assert tree(tmp_path / "d") == {}
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("kind", "target"),
    [(tarfile.SYMTYPE, "/etc"), (tarfile.SYMTYPE, "../.."), (tarfile.CHRTYPE, "")],
)
def test_a_link_that_leads_out_or_a_device_is_refused(
    tmp_path: Path, kind: bytes, target: str
) -> None:
    """A later member could be written through it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = kind, target
        file.addfile(info)
    with pytest.raises(DownloadFailed, match="'link' would lie, or lead, out of the directory"):
        unpack(tmp_path / "d", "m.tar", buffer.getvalue())
    assert tree(tmp_path / "d") == {}


def test_rights_are_tamed(tmp_path: Path) -> None:
    """No set-user-id."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        info = tarfile.TarInfo("tool")
        info.mode = 0o4777
        file.addfile(info)
    unpack(tmp_path / "d", "m.tar", buffer.getvalue())
    assert stat.S_IMODE((tmp_path / "d/tool").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.tar.gz", b"<html>please log in</html>"),
        ("m.zip", b"<html>please log in</html>"),
        ("m.tgz", tar({"a": bytes(range(256)) * 999})[:-60]),
        ("m.zip", zipped({"a": b"x" * 9999})[:-30]),
        ("m.tar.bz2", bz2.compress(tar({"a": b"1"}, "w"))[:-20] + b"\0" * 20),
        ("m.tar.xz", tar({"a": os.urandom(9999)}, "w:xz")[:5000]),
        ("m.tbz2", bz2.compress(tar({"a": NOISE}, "w"))[:1_000_000] + b"\0" * 1_000_000),
    ],
    ids=[
        "page as tar",
        "page as zip",
        "short gz",
        "short zip",
        "bad bz2",
        "short xz",
        "bz2 that turns bad",
    ],
)
def test_what_is_no_whole_archive_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    """Often a login page."""
    with pytest.raises(DownloadFailed, match="it is no whole archive of the kind that its name"):
        unpack(tmp_path / "d", name, content)
    assert tree(tmp_path / "d") == {}


def test_a_volume_that_fails_is_not_taken_for_a_bad_archive(tmp_path: Path) -> None:
    """A file is where the archive has a directory."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").write_bytes(b"")
    with pytest.raises(OSError, match="exists"):
        unpack(tmp_path / "d", "m.zip", zipped({"a/b": b"1"}))


def test_an_old_python_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 3.11.4 tarfile has no filter."""
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(DownloadFailed, match=r"use Python 3\.11\.4 or newer"):
        unpack(tmp_path / "d", "m.tar", tar({"a": b"1"}, "w"))


def test_an_encrypted_archive_is_told(tmp_path: Path) -> None:
    """There is nobody to ask for the password."""
    content = bytearray(zipped({"a": b"1"}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DownloadFailed, match="it is encrypted"):
        unpack(tmp_path / "d", "m.zip", bytes(content))


def test_another_download_is_never_replaced(tmp_path: Path) -> None:
    """Nor the archive itself."""
    taken = tmp_path / "d" / "train.csv"
    for name in ("train.csv", "m.zip"):
        with pytest.raises(DownloadFailed, match="would replace the download"):
            unpack(tmp_path / "d", "m.zip", zipped({name: b"2"}), lambda path: path == taken)
        assert tree(tmp_path / "d") == {}


def test_an_archive_that_would_not_fit_is_told(tmp_path: Path) -> None:
    """It says its size first."""
    info = tarfile.TarInfo("bomb")
    info.size = 1 << 60
    with pytest.raises(NoSpace, match=r"unpacking it takes 1.0 EiB, but .* has room for"):
        unpack(tmp_path / "d", "m.tar", info.tobuf(tarfile.GNU_FORMAT))
