"""The arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from gm.api.urls import HostPath, Remote
from gm.errors import ConfigError
from gm.storage_init import parse_pairs


def test_pairs_are_a_url_and_a_directory() -> None:
    """Several; the same one twice counts once."""
    arguments = ["s3://b/k", "/downloads/b/", "http://h/f?x=1", "/downloads/h/"]
    pairs = parse_pairs(arguments * 2)
    assert [pair.name for pair in pairs] == ["s3://b/k", "http://h/f"]
    assert [pair.directory for pair in pairs] == [Path("/downloads/b"), Path("/downloads/h")]
    assert all(isinstance(pair.location, Remote) and not pair.is_index for pair in pairs)


@pytest.mark.parametrize(
    "arguments",
    [["s3://b/i", "@/d"], ["@s3://b/i", "/d"], ["@s3://b/i", "@/d"]],
)
def test_the_mark_means_an_index(arguments: list[str]) -> None:
    """Sedna writes it before the directory."""
    (pair,) = parse_pairs(arguments)
    assert (pair.is_index, pair.name, pair.directory) == (True, "s3://b/i", Path("/d"))


def test_the_mark_is_a_setting() -> None:
    """INDIRECT_URL_MARK."""
    (pair,) = parse_pairs(["s3://b/i", "%%/d"], mark="%%")
    assert pair.is_index


def test_an_index_may_lie_in_a_mounted_directory() -> None:
    """Sedna mounts a host path into the init container for it."""
    (pair,) = parse_pairs(["/home/data/sets/index.txt", "@/downloads/sets/"])
    assert isinstance(pair.location, HostPath)
    assert pair.name == "/home/data/sets/index.txt"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pairs of URL and DIR, but got 0 arguments"),
        (["s3://b/k"], "but got 1 arguments"),
        (["s3://b/k", "/d", "http://h/f"], "but got 3 arguments"),
        (["s3://b/k", "/d", "ftp://h/f", "/d"], "argument 3: 'ftp://h/f': ftp: is not supported"),
        (["http://u:hidden@h/../f?hidden", "/d"], "argument 1: 'http://...@h/../f' must not"),
        (["s3://b/k", ""], "argument 2: the directory is empty"),
        (["s3://b/k", "@"], "argument 2: the directory is empty"),
        (["/data/f", "/d"], "argument 1: /data/f is a path of this machine"),
    ],
)
def test_wrong_arguments_are_told(arguments: list[str], message: str) -> None:
    """Which one, and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        parse_pairs(arguments)
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)
