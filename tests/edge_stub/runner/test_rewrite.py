"""Mount paths become real paths, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.edge_stub.runner.rewrite import Rewriter, rewrite_loopback

ROOT = "/srv/node-edge1"
MOUNTS = {"/data": f"{ROOT}/a", "/data/deep/": f"{ROOT}/b/", "/home/data/a/b/": f"{ROOT}/a/b"}
rewrite = Rewriter(MOUNTS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "{r}/a"),
        ("/data/", "{r}/a/"),
        ("/data/x/y", "{r}/a/x/y"),
        ("/home/data/a/b/file.npz", "{r}/a/b/file.npz"),
        ("/data/deep/x", "{r}/b/x"),
        ("/data/deep", "{r}/b"),
        ("/data/deeper", "{r}/a/deeper"),
        ("--data=/data/x", "--data={r}/a/x"),
        ("/data:/data/deep:/other", "{r}/a:{r}/b:/other"),
        ("a,/data;/data/x b", "a,{r}/a;{r}/a/x b"),
        ("cp /data/x /data/y", "cp {r}/a/x {r}/a/y"),
        ("cat </data/x >/data/y 2>>/data/z", "cat <{r}/a/x >{r}/a/y 2>>{r}/a/z"),
        ("(ls /data)|cat&ls /data&", "(ls {r}/a)|cat&ls {r}/a&"),
        ("[ -e /data/deep ]&&(/data/run)", "[ -e {r}/b ]&&({r}/a/run)"),
        ("cd /data\nls\t/data\n", "cd {r}/a\nls\t{r}/a\n"),
        ("""{"in": "/data/x", 'out': '/data'}""", """{{"in": "{r}/a/x", 'out': '{r}/a'}}"""),
        ("/home/data/a/b/x;/home/data/a/b/y", "{r}/a/b/x;{r}/a/b/y"),
    ],
)
def test_a_mount_path_is_found_at_the_start_or_after_a_separator(text: str, expected: str) -> None:
    """Each place where a path can begin; the longest mount wins."""
    assert rewrite(text) == expected.format(r=ROOT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data",
        "/database",
        "/data2/x",
        "/data-old",
        "/data.tar",
        "/mnt/data",
        "/mnt/data/x",
        "x/data",
        "s3://bucket/data/x",
        "http://host/data",
        "http://host:80/data",
        "file:///data/x",
        "./data",
        "~/data",
        "$HOME/data",
        "/home/data",
        "/home/data/a/bc",
        "/DATA",
    ],
)
def test_longer_paths_and_urls_stay_as_they_are(text: str) -> None:
    """What merely contains a mount path is no mount path."""
    assert rewrite(text) == text


def test_a_mount_at_the_root_is_left_alone() -> None:
    """It would match every path; a runtime refuses it, too."""
    assert Rewriter({"/": "/elsewhere"})("/data /x") == "/data /x"
    assert Rewriter({})("/data") == "/data"


def test_a_volume_that_is_the_root_directory_itself() -> None:
    """A real path of ``/`` keeps its slash."""
    assert Rewriter({"/host": "/"})("/host") == "/"


def test_one_pass_never_rewrites_what_it_wrote() -> None:
    """Two mounts that swap each other's places do not chase each other."""
    swap = Rewriter({"/a": "/b", "/b": "/a"})
    assert swap("/a/x:/b/x") == "/b/x:/a/x"


def test_characters_with_a_meaning_in_patterns_are_plain() -> None:
    """A mount path is text, not a pattern; a real path is no template."""
    odd = Rewriter({"/a.b+(c)": r"/real/\1"})
    assert odd("/a.b+(c)/x /aXb+(c)") == r"/real/\1/x /aXb+(c)"


def test_all_gives_each_text() -> None:
    """Command lines are lists."""
    assert rewrite.all(["cat", "/data/x"]) == ["cat", f"{ROOT}/a/x"]


names = st.text("abcd.-_", min_size=1, max_size=6)
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
mounts = st.dictionaries(paths, paths.map(lambda path: f"/zz/root{path}"), max_size=5)
texts = st.lists(
    st.one_of(paths, st.sampled_from(["=", ",", ";", ":", " ", "'", '"', "s3:/", "x", "\n"])),
    max_size=12,
).map("".join)


@given(mounts, texts)
def test_rewriting_twice_is_rewriting_once(table: dict[str, str], text: str) -> None:
    """Real paths lie below no mount path, so a second pass finds nothing."""
    rewriter = Rewriter(table)
    once = rewriter(text)
    assert rewriter(once) == once


@given(mounts, texts)
def test_a_trailing_slash_of_a_mount_path_counts_for_nothing(
    table: dict[str, str], text: str
) -> None:
    """``/data/`` and ``/data`` are one mount."""
    slashed = {f"{path}/": f"{real}/" for path, real in table.items()}
    assert Rewriter(slashed)(text) == Rewriter(table)(text)


@given(mounts, names, paths)
def test_never_inside_a_url(table: dict[str, str], host: str, path: str) -> None:
    """A path that follows a host is somebody else's path."""
    url = f"http://{host}{path}"
    assert Rewriter(table)(url) == url


@given(mounts, paths, names)
def test_never_inside_a_longer_path(table: dict[str, str], path: str, before: str) -> None:
    """``/mnt/data`` is not ``/data``, unless ``/mnt`` is a mount of its own."""
    longer = f"/1{before}{path}"
    assert Rewriter(table)(longer) == longer


@given(mounts, texts)
def test_what_changes_is_exactly_what_the_rule_says(table: dict[str, str], text: str) -> None:
    """The same answer as a plain walk over the text, character by character."""
    edges = "=,;: \n'\""
    longest_first = sorted(table, key=lambda path: -len(path))
    expected, at = "", 0
    while at < len(text):
        hit = None
        if at == 0 or text[at - 1] in edges:
            for path in longest_first:
                end = at + len(path)
                if text.startswith(path, at) and (end == len(text) or text[end] in "/" + edges):
                    hit = path
                    break
        expected += text[at] if hit is None else table[hit]
        at += 1 if hit is None else len(hit)
    assert Rewriter(table)(text) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:9100", "http://127.5.5.5:9100"),
        ("http://localhost", "http://127.5.5.5"),
        ("http://127.0.0.1:9100/x?y=1", "http://127.5.5.5:9100/x?y=1"),
        ("https://[::1]:9100/", "https://127.5.5.5:9100/"),
        ("http://me:pw@localhost:1/", "http://me:pw@127.5.5.5:1/"),
        ("http://gm.example:9100", "http://gm.example:9100"),
        ("http://10.0.0.1:9100", "http://10.0.0.1:9100"),
        ("localhost:9100", "localhost:9100"),
        ("http://localhost:notaport", "http://localhost:notaport"),
        ("", ""),
    ],
)
def test_a_loopback_host_becomes_the_nodes_address(url: str, expected: str) -> None:
    """On a real node localhost is that node; other hosts stay."""
    assert rewrite_loopback(url, "127.5.5.5") == expected
