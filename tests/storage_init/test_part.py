"""A file that is partly here."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from gm.storage_init.answer import Version
from gm.storage_init.part import Part, is_complete
from tests.storage_init.support import LAST_MODIFIED, MODIFIED_SECONDS

BODY = b"0123456789"
MD5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
VERSION = Version(etag='"v1"', last_modified=LAST_MODIFIED, size=10, md5=MD5)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where the file goes."""
    return tmp_path / "sub" / "f"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Where parts lie."""
    return tmp_path / "work"


def part_with(target: Path, work: Path, body: bytes, version: Version = VERSION) -> Part:
    """A part that holds ``body``."""
    part = Part(target, version, work)
    part.write(body)
    return part


def test_a_part_becomes_the_file(target: Path, work: Path) -> None:
    """At its place, with the server's time, and nothing left over."""
    part = part_with(target, work, BODY)
    assert (part.size, part.is_whole, part.is_intact, part.missing_bytes) == (10, True, True, 0)
    part.finish()
    part.close()
    assert target.read_bytes() == BODY
    assert target.stat().st_mtime == MODIFIED_SECONDS
    assert list(work.iterdir()) == []
    assert is_complete(target, VERSION)


def test_a_part_is_found_again(target: Path, work: Path) -> None:
    """With its checksum so far."""
    part_with(target, work, BODY[:4]).close()
    part = Part(target, VERSION, work)
    assert (part.size, part.is_whole, part.missing_bytes) == (4, False, 6)
    part.write(BODY[4:])
    assert part.is_intact
    part.close()
    assert part.path.read_bytes() == BODY


def test_parts_of_other_versions_are_thrown_away_and_of_other_files_kept(
    target: Path, work: Path
) -> None:
    """One part for each file."""
    old = part_with(target, work, BODY[:4])
    other = part_with(target.with_name("g"), work, BODY[:4])
    new = Part(target, Version(etag='"v2"', size=10), work)
    assert new.size == 0
    assert {path.name for path in work.iterdir()} == {other.path.name, new.path.name}
    for part in (old, other, new):
        part.close()


@pytest.mark.parametrize(
    "version",
    [Version(size=10), Version(etag='W/"v1"', size=10), Version(etag='"v1"')],
    ids=["no version", "weak", "no size"],
)
def test_what_can_not_be_told_apart_is_begun_anew(
    target: Path, work: Path, version: Version
) -> None:
    """It could be part of anything."""
    part_with(target, work, BODY[:4], version).close()
    part = Part(target, version, work)
    assert (part.size, part.is_whole) == (0, False)
    part.close()


def test_a_part_that_is_too_large_is_begun_anew(target: Path, work: Path) -> None:
    """It can not be of this version, whatever its name says."""
    part_with(target, work, BODY + b"x").close()
    part = Part(target, VERSION, work)
    assert part.size == 0
    part.close()


def test_damage_is_found_out(target: Path, work: Path) -> None:
    """And forgotten with the bytes."""
    part = part_with(target, work, BODY[::-1])
    found = [part.is_intact]
    part.reset()
    part.write(BODY)
    found.append(part.is_intact)
    part.close()
    assert found == [False, True]


def test_a_part_is_never_opened_through_a_link(target: Path, work: Path, tmp_path: Path) -> None:
    """Nor is what the link leads to changed."""
    part = Part(target, VERSION, work)
    part.close()
    part.delete()
    part.delete()  # gone is gone
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part.path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        Part(target, VERSION, work)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (VERSION, True),
        (Version(last_modified=LAST_MODIFIED, size=9), False),
        (Version(last_modified="Mon, 30 Nov 2026 04:18:14 GMT", size=10), False),
        (Version(etag='"v1"', size=10), False),
        (Version(last_modified=LAST_MODIFIED), False),
    ],
)
def test_a_file_is_complete_if_size_and_time_say_so(
    target: Path, version: Version, expected: bool
) -> None:
    """What a server does not tell can not agree."""
    target.parent.mkdir()
    target.write_bytes(BODY)
    os.utime(target, (MODIFIED_SECONDS, MODIFIED_SECONDS))
    assert is_complete(target, version) == expected


def test_only_a_file_is_complete(target: Path, tmp_path: Path) -> None:
    """Nothing, a directory, or a link to somewhere is not."""
    assert not is_complete(target, VERSION)
    assert not is_complete(tmp_path, VERSION)
    real = tmp_path / "real"
    real.write_bytes(BODY)
    os.utime(real, (MODIFIED_SECONDS, MODIFIED_SECONDS))
    target.parent.mkdir()
    target.symlink_to(real)
    assert not is_complete(target, VERSION)
