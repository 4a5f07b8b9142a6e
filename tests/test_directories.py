"""A directory belongs to one process; what is somebody else's is left alone."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from gm.directories import DirectoryClaim, DirectoryInUse
from gm.errors import ConfigError


def claim(path: Path, *relatives: str) -> DirectoryClaim:
    """A claim as the tests make it."""
    return DirectoryClaim(path, marker=".mine", option="--dir", relatives=relatives)


def test_a_second_claim_names_the_owner_until_the_first_ends(tmp_path: Path) -> None:
    """The message says who has it and what to do; closing gives it back."""
    with (
        contextlib.closing(claim(tmp_path / "d")),
        pytest.raises(DirectoryInUse, match=rf"in use by process {os.getpid()}.*--dir"),
    ):
        claim(tmp_path / "d")
    claim(tmp_path / "d").close()


def test_a_directory_with_other_things_is_refused_and_untouched(tmp_path: Path) -> None:
    """No marker is left in a directory that is not ours."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="was not made by gm"):
        claim(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_relative_may_share_its_directory(tmp_path: Path) -> None:
    """The marker of a program that works with this one is enough."""
    (tmp_path / ".theirs").write_text("")
    claim(tmp_path, ".theirs").close()


def test_a_path_that_can_not_be_made_names_reason_and_flag(tmp_path: Path) -> None:
    """A file in the way is said plainly."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--dir"):
        claim(tmp_path / "file" / "d")
