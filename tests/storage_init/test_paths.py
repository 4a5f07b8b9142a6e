"""From keys to paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.storage_init.paths import WORK_DIRECTORY, inside, shown

ROOT = Path("/downloads/bucket")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a", "a"),
        ("a/b", "a/b"),
        ("/a//b/", "a/b"),
        ("./a/.", "a"),
        ("", ""),
        ("..a/b..", "..a/b.."),
    ],
)
def test_a_name_is_a_path_below(name: str, path: str) -> None:
    """Empty and dot parts count for nothing, also a slash at the beginning."""
    assert inside(ROOT, name) == ROOT / path


@pytest.mark.parametrize(
    "name",
    ["..", "a/../b", "../x", "a\0b", f"{WORK_DIRECTORY}/x", f"a/{WORK_DIRECTORY}", "x" * 256],
)
def test_a_name_that_can_be_no_path_below_is_refused(name: str) -> None:
    """With the reason."""
    with pytest.raises(ValueError, match="name"):
        inside(ROOT, name)


@given(st.text(st.sampled_from("ab./\0\\~$ é"), max_size=20))
def test_no_name_leads_out(name: str) -> None:
    """Whatever it is: below, or refused."""
    try:
        path = inside(ROOT, name)
    except ValueError:
        return
    assert path.is_relative_to(ROOT)
    assert ".." not in path.parts


@given(st.text())
def test_a_name_in_a_log_is_one_line(name: str) -> None:
    """Whatever the key: no second line, no escape sequence, and it can be encoded."""
    text = shown(name)
    assert len(text.splitlines()) <= 1
    assert "\x1b" not in text
    text.encode()
