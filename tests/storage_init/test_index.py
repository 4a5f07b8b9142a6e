"""Files that list what to download."""

from __future__ import annotations

from pathlib import Path

import pytest

from gm.storage_init.index import MAX_INDEX_BYTES, read_index


def write(tmp_path: Path, text: str | bytes) -> Path:
    """An index."""
    path = tmp_path / "index.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_first_line_is_the_base_of_the_others(tmp_path: Path) -> None:
    """Comments, empty lines and repetitions count for nothing; Windows may have written it."""
    text = (
        "\ufeff# made by hand\r\n\r\ns3://bucket/base/\r\n a/1.jpg \r\nb 2.jpg\r\na/1.jpg\r\n#x\r\n"
    )
    index = read_index(write(tmp_path, text))
    assert index.base is not None
    assert (index.base.host, index.base.path) == ("bucket", "/base")
    assert index.names == ["a/1.jpg", "b 2.jpg"]


def test_obs_is_another_name_of_s3(tmp_path: Path) -> None:
    """As in Sedna."""
    index = read_index(write(tmp_path, "obs://bucket/base\nx"))
    assert index.base is not None
    assert index.base.is_s3


@pytest.mark.parametrize("text", ["", "# nothing\n", "s3://bucket/base\n", "/data/images\na\nb\n"])
def test_an_index_may_list_nothing_to_download(tmp_path: Path, text: str) -> None:
    """Files on the node are mounted, not downloaded."""
    index = read_index(write(tmp_path, text))
    assert (index.base, index.names) == (None, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ftp://h/x\na\n", "its first line: 'ftp://h/x': ftp: is not supported"),
        ("1,2,3\n4,5,6\n", "its first line: '1,2,3' is not absolute"),
        (b"\x89PNG\r\n\xff\xfe", "not UTF-8 text"),
    ],
)
def test_what_is_no_index_is_told(tmp_path: Path, content: str | bytes, message: str) -> None:
    """With the reason."""
    with pytest.raises(ValueError, match="is") as caught:
        read_index(write(tmp_path, content))
    assert message in str(caught.value)


def test_an_index_is_of_bounded_size(tmp_path: Path) -> None:
    """It is held in memory."""
    path = write(tmp_path, "s3://b\n")
    with path.open("r+b") as file:
        file.truncate(MAX_INDEX_BYTES + 1)
    with pytest.raises(ValueError, match="larger than 64 MiB"):
        read_index(path)
