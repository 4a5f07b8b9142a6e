"""What a url field means for the pod that uses it."""

from __future__ import annotations

import posixpath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.api.urls import (
    DATA_PATH_PREFIX,
    DOWNLOAD_PREFIX,
    HostPath,
    Remote,
    parse_url,
    redacted,
    url_problem,
)
from gm.errors import InvalidSpec


@pytest.mark.parametrize(
    ("url", "directory", "mount_path", "container_path"),
    [
        ("/a/b/file", "/a/b/", "/home/data/a/b/", "/home/data/a/b/file"),
        ("/a/b/", "/a/b/", "/home/data/a/b/", "/home/data/a/b"),
        ("/a/b", "/a/", "/home/data/a/", "/home/data/a/b"),
        ("//a/./b//c", "/a/b/", "/home/data/a/b/", "/home/data/a/b/c"),
        ("/train.txt", "/", "/home/data/", "/home/data/train.txt"),
        ("/a/50%/x?y#z", "/a/50%/", "/home/data/a/50%/", "/home/data/a/50%/x?y#z"),
        ("/a/b:c", "/a/", "/home/data/a/", "/home/data/a/b:c"),
    ],
)
def test_a_host_path_is_mounted_by_its_directory_P2_091(
    url: str, directory: str, mount_path: str, container_path: str
) -> None:
    """File, directory and trailing slash; nothing in a path is special."""
    parsed = parse_url(url)
    assert isinstance(parsed, HostPath)
    assert parsed.directory == directory
    assert parsed.mount_path == mount_path
    assert parsed.container_path == container_path


@pytest.mark.parametrize(
    ("url", "scheme", "download_directory", "container_path"),
    [
        ("s3://bucket/m/m1/", "s3", "/downloads/bucket/m/", "/downloads/bucket/m/m1"),
        ("S3://bucket/k", "s3", "/downloads/bucket/", "/downloads/bucket/k"),
        ("s3://bucket", "s3", "/downloads/", "/downloads/bucket"),
        (
            "https://data.example.com/sets/edge2/train.csv?rev=3",
            "https",
            "/downloads/data.example.com/sets/edge2/",
            "/downloads/data.example.com/sets/edge2/train.csv",
        ),
        ("HTTP://h:8080/pre.tgz", "http", "/downloads/h:8080/", "/downloads/h:8080/pre.tgz"),
        ("http://u:p@h/a%20b", "http", "/downloads/h/", "/downloads/h/a b"),
        ("http://[::1]:80/x", "http", "/downloads/[::1]:80/", "/downloads/[::1]:80/x"),
        ("http://h?x=/y", "http", "/downloads/", "/downloads/h"),
    ],
)
def test_a_remote_url_is_downloaded_to_its_place_P2_091(
    url: str, scheme: str, download_directory: str, container_path: str
) -> None:
    """The query stays in the URL and out of the path; the scheme may be upper case."""
    parsed = parse_url(url)
    assert isinstance(parsed, Remote)
    assert (parsed.url, parsed.scheme, parsed.is_s3) == (url, scheme, scheme == "s3")
    assert parsed.download_directory == download_directory
    assert parsed.container_path == container_path


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "is empty; allowed is an absolute path such as /data/train.txt, s3://bucket/key,"),
        ("/", "'/' is the whole file system; name a directory or file below it"),
        ("data/x", "'data/x' is not absolute; allowed is"),
        (" /a", "' /a' is not absolute"),
        ("/a/../b", "'/a/../b' must not contain '..'"),
        ("/a:b/c", "'/a:b/c' has a colon in its directory, which can not be mounted"),
        ("/a\n", "'/a?' holds a control character"),
        ("s3://b/%zz", "'s3://b/%zz' has a % without two hexadecimal digits; write %25 for a %"),
        ("s3://b/%ff", "'s3://b/%ff' has escapes that are not UTF-8"),
        ("s3://b/%00", "'s3://b/%00' holds a control character"),
        ("s3://b/%2e%2e/x", "'s3://b/%2e%2e/x' must not contain '..'"),
        ("s3://../x", "'s3://../x' has no valid host"),
        ("s3:///x", "'s3:///x' names no bucket"),
        ("http:///x", "'http:///x' names no host"),
        ("http:x", "'http:x' lacks // after http:"),
        ("http://a b/", "'http://a b/' has no valid host"),
        ("http://h:99999/", "'http://h:99999/' has no valid host"),
        ("http://h:/", "'http://h:/' has no valid host"),
        ("pvc://claim/path", "pvc: is not supported; mount the claim in the pod template instead"),
        ("file:///a", "file: is not supported; write the path alone, such as /data/train.txt"),
        ("gs://b/x", "gs: is not supported; allowed is an absolute path"),
        ("C:\\data", "c: is not supported"),
    ],
)
def test_what_can_not_be_used_is_refused_with_advice_P0_024_P2_091(url: str, told: str) -> None:
    """The message names the field, shows the URL and says what to write instead."""
    with pytest.raises(InvalidSpec) as caught:
        parse_url(url, field="spec.url")
    assert caught.value.reason == "InvalidSpec"
    assert caught.value.message.startswith("spec.url: ")
    assert told in caught.value.message
    assert url_problem(url) == caught.value.message.removeprefix("spec.url: ")


def test_a_sound_url_has_no_problem() -> None:
    """The counterpart of the refusals."""
    assert url_problem("s3://bucket/key") is None


def test_messages_show_no_password_and_no_signature() -> None:
    """Presigned URLs and user:password@ are secrets; conditions and events are not."""
    assert redacted("https://u:p@h/x?X-Amz-Signature=s3cr3t") == "https://...@h/x"
    assert redacted("http://u:pa/ss@h/f") == "http://...@h/f"
    assert redacted("http://u:p?q@h/f?k=v") == "http://...@h/f"
    assert redacted("http://h:8080/a@b/f") == "http://h:8080/a@b/f"
    told = url_problem("https://me:s3cr3t@h:99999/x?sig=s3cr3t")
    assert told is not None
    assert "s3cr3t" not in told
    assert len(redacted("/" + "x" * 1000)) == 200


SEGMENT = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/:"), min_size=1
)
SEGMENTS = st.lists(SEGMENT.filter(lambda s: s not in {".", ".."}), min_size=1, max_size=5)


@given(SEGMENTS, st.booleans())
def test_every_host_path_comes_back_under_the_prefix(segments: list[str], slash: bool) -> None:
    """What the worker is told lies in what is mounted, for any characters in names."""
    path = "/" + "/".join(segments)
    parsed = parse_url(path + "/" * slash)
    assert isinstance(parsed, HostPath)
    assert parsed.path == path
    assert parsed.container_path == DATA_PATH_PREFIX + path
    assert f"{parsed.container_path}/".startswith(parsed.mount_path)
    assert parsed.mount_path == DATA_PATH_PREFIX + parsed.directory


@given(st.sampled_from(["s3", "http", "https", "S3"]), SEGMENTS)
def test_every_remote_path_survives_escaping(scheme: str, segments: list[str]) -> None:
    """The worker is told the decoded path; it lies in the directory downloaded to."""
    path = "/" + "/".join(segments)
    parsed = parse_url(f"{scheme}://bucket{quote(path)}?query=/..")
    assert isinstance(parsed, Remote)
    assert parsed.path == path
    assert parsed.container_path.startswith(parsed.download_directory)


@given(st.text())
@pytest.mark.parametrize("start", ["", "/", "s3://", "http://", "https://h/", "s3://b/", "pvc://"])
def test_any_text_is_parsed_or_refused_and_never_leaves_its_prefix(start: str, text: str) -> None:
    """No text makes it raise anything else, and no path climbs out of where it belongs."""
    try:
        parsed = parse_url(start + text)
    except InvalidSpec:
        return
    prefix = DATA_PATH_PREFIX if isinstance(parsed, HostPath) else DOWNLOAD_PREFIX
    assert posixpath.normpath(parsed.container_path) == parsed.container_path
    assert parsed.container_path.startswith(f"{prefix}/")
