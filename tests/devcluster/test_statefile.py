"""The state file: what is written is read again, and nobody else's file is touched."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gm.api.meta import ObjectKey
from gm.devcluster.statefile import FILE_NAME, Row, SavedObject, StateFile, StateFileError
from gm.errors import ConfigError

KEY = ObjectKey("ns", "a")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """The last state of each object, without those that were deleted, in order."""
    file = StateFile(tmp_path / "new")
    assert file.load() == (0, [])
    file.write([Row("pods", ObjectKey("ns", "b"), 1, b'{"n":1}'), Row("pods", KEY, 2, b"{}")], 2)
    file.write([Row("pods", ObjectKey("ns", "b"), 3, None), Row("pods", KEY, 4, b'{"n":2}')], 4)
    file.write([Row("nodes", ObjectKey("", "n"), 5, b'{"n":3}')], 5)
    file.close()
    file = StateFile(tmp_path / "new")
    assert file.load() == (
        5,
        [
            SavedObject("nodes", ObjectKey("", "n"), 5, {"n": 3}),
            SavedObject("pods", KEY, 4, {"n": 2}),
        ],
    )
    file.close()


def test_the_newest_version_is_kept_although_its_object_is_gone(tmp_path: Path) -> None:
    """And it never falls."""
    file = StateFile(tmp_path)
    file.write([Row("pods", KEY, 7, b"{}")], 7)
    file.write([Row("pods", KEY, 8, None)], 8)
    file.write([], 3)
    assert file.load() == (8, [])
    file.close()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    """Secrets lie in it, and in the log beside it."""
    file = StateFile(tmp_path / "new")
    file.write([Row("secrets", KEY, 1, b"{}")], 1)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert modes[FILE_NAME] == modes[f"{FILE_NAME}-wal"] == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    file.close()


def test_every_commit_is_forced_to_disk(tmp_path: Path) -> None:
    """Write-ahead log, synchronous FULL (2)."""
    file = StateFile(tmp_path)
    ask = file._database.execute
    assert ask("PRAGMA synchronous").fetchone() == (2,)
    assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    """In this process and in another; a killed owner holds it no more."""
    script = (
        "import sys, pathlib, gm.devcluster.statefile as s; f = s.StateFile(pathlib.Path("
        "sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        with pytest.raises(ConfigError, match=r"objects\.db is in use by another .*--state"):
            StateFile(tmp_path)
        owner.kill()
        owner.wait()
    file = StateFile(tmp_path)
    with pytest.raises(ConfigError, match="is in use by another"):
        StateFile(tmp_path)
    file.close()


def _other_database(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE music (title TEXT)")
    database.commit()
    database.close()


@pytest.mark.parametrize("size", [1, 99, 4096, 20_000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, size: int) -> None:
    """With a clear message."""
    content = b"a letter to my aunt. " * 1000
    (tmp_path / FILE_NAME).write_bytes(content[:size])
    with pytest.raises(ConfigError, match=r"objects\.db is no state file of gm; name another"):
        StateFile(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content[:size]


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """Byte for byte."""
    _other_database(tmp_path / FILE_NAME)
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(ConfigError, match="is no state file of gm"):
        StateFile(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """Rather than misread."""
    StateFile(tmp_path).close()
    database = sqlite3.connect(tmp_path / FILE_NAME)
    database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(ConfigError, match="has format 9, this gm reads 1"):
        StateFile(tmp_path)


def test_a_damaged_file_is_told_as_that(tmp_path: Path) -> None:
    """Pages that were overwritten, and a body that is no JSON."""
    file = StateFile(tmp_path / "pages")
    file.write([Row("pods", ObjectKey("", f"{n}"), n, b"x" * 3000) for n in range(100)], 100)
    file.close()
    with (tmp_path / "pages" / FILE_NAME).open("r+b") as raw:
        raw.seek(8192)
        raw.write(os.urandom(40_000))
    with pytest.raises(ConfigError, match=r"objects\.db is damaged \(.*put a copy"):
        StateFile(tmp_path / "pages")
    file = StateFile(tmp_path / "body")
    file.write([Row("pods", KEY, 1, b"[1")], 1)
    with pytest.raises(ConfigError, match="is damaged"):
        file.load()
    file.close()


def test_a_truncated_file_is_told_as_that(tmp_path: Path) -> None:
    """Half of it is missing."""
    file = StateFile(tmp_path)
    file.write([Row("pods", ObjectKey("", f"{n}"), n, b"x" * 3000) for n in range(100)], 100)
    file.close()
    path = tmp_path / FILE_NAME
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(ConfigError, match="is damaged"):
        StateFile(tmp_path)


def test_a_directory_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    """With the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"can not use .*objects\.db: .* name another directory"):
        StateFile(tmp_path / "file")
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        StateFile(tmp_path)


def test_a_write_that_fails_writes_nothing(tmp_path: Path) -> None:
    """All rows of a commit or none; the error says which file."""
    file = StateFile(tmp_path)
    file._database.execute("PRAGMA max_page_count = 20")
    body = b'"%b"' % (b"x" * 3000)
    rows = [Row("pods", ObjectKey("", f"{n}"), n, b'{"a":%b}' % body) for n in range(100)]
    with pytest.raises(StateFileError, match=r"can not write .*objects\.db: .*full"):
        file.write(rows, 100)
    assert file.load() == (0, [])
    file.write(rows[:1], 1)
    assert len(file.load().objects) == 1
    file.close()


def test_a_file_cut_before_its_tables_were_made_is_new(tmp_path: Path) -> None:
    """A crash at the very first start leaves an empty file."""
    (tmp_path / FILE_NAME).write_bytes(b"")
    file = StateFile(tmp_path)
    assert file.load() == (0, [])
    file.close()
