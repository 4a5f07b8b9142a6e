"""State directories: owned by one system, emptied only if ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gm.errors import ConfigError
from gm.local.directory import StateDirectory, free_directory


def test_a_directory_in_use_is_refused_and_names_its_owner(tmp_path: Path) -> None:
    """The second system is told who has it and what to do."""
    with StateDirectory(tmp_path / "d"):
        with pytest.raises(ConfigError, match=rf"in use by process {os.getpid()}.*--dir"):
            StateDirectory(tmp_path / "d")
        with free_directory(tmp_path / "d") as other:
            assert other.path.name == "d-2"


def test_fresh_removes_what_an_earlier_system_left(tmp_path: Path) -> None:
    """Files and directories of the last run are gone, links are not followed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    with StateDirectory(tmp_path / "d") as first:
        (first.nodes / "edge1").mkdir()
        (first.path / "link").symlink_to(outside)
    with StateDirectory(tmp_path / "d", fresh=True) as second:
        assert list(second.nodes.iterdir()) == []
        assert not (second.path / "link").exists()
    assert (outside / "kept").exists()


def test_a_directory_that_holds_other_things_is_never_emptied(tmp_path: Path) -> None:
    """A user's own directory is refused with its files untouched."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="was not made by gm"):
        StateDirectory(tmp_path, fresh=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_an_impossible_path_is_said_clearly(tmp_path: Path) -> None:
    """A file in the way gives the reason and the flag."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--dir"):
        StateDirectory(tmp_path / "file" / "d")
