"""Counting samples: formats, odd files, and what is said about them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from gm.edge_stub.datasets import CanNotCount, DatasetCounter, count_samples, file_of
from gm.edge_stub.objects import DatasetSpec, Held
from gm.edge_stub.store import StoreError
from gm.messagelayer.message import WireKey
from tests.edge_stub.test_controller import until

D = Held(WireKey("dataset", "default", "d"), "u1")


@pytest.mark.parametrize(
    ("name", "text", "samples"),
    [
        ("a.txt", "one\ntwo\nthree\n", 3),
        ("a.txt", "one\n\n  \ntwo", 2),
        ("a.txt", "", 0),
        ("a.csv", "x,y\n1,2\n3,4\n", 2),
        ("a.csv", 'x,y\n"a\nb",2\n\n3,4', 2),
        ("a.csv", "x,y\n", 0),
        ("a.csv", "", 0),
    ],
)
def test_lines_and_rows_are_counted(tmp_path: Path, name: str, text: str, samples: int) -> None:
    """Blank ones and a csv's header are none."""
    (tmp_path / name).write_text(text)
    assert count_samples(tmp_path / name, "") == samples


def test_arrays_are_counted_without_reading_them(tmp_path: Path) -> None:
    """The labels tell; else all arrays have to agree."""
    np.savez(tmp_path / "a.npz", x=np.zeros((7, 3)), y=np.zeros(7), classes=np.arange(10))
    np.savez_compressed(tmp_path / "b.npz", left=np.zeros((4, 2)), right=np.zeros(4), one=1)
    np.savez(tmp_path / "c.npz", left=np.zeros(4), right=np.zeros(5))
    assert count_samples(tmp_path / "a.npz", "npz") == 7
    assert count_samples(tmp_path / "b.npz", "npz") == 4
    with pytest.raises(CanNotCount, match="differ in length"):
        count_samples(tmp_path / "c.npz", "npz")


def test_format_goes_before_the_files_name(tmp_path: Path) -> None:
    """It is what the author said."""
    (tmp_path / "a.csv").write_text("1\n2\n")
    assert count_samples(tmp_path / "a.csv", "TXT") == 2
    with pytest.raises(CanNotCount, match="format 'pb' is not counted; it can be one of txt, csv"):
        count_samples(tmp_path / "a.csv", "pb")


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    """And what to do about it."""
    with pytest.raises(CanNotCount, match="does not exist; put the file there or correct the url"):
        count_samples(tmp_path / "a.csv", "")
    with pytest.raises(CanNotCount, match="is a directory; the url has to name a file"):
        count_samples(tmp_path, "csv")
    for content in (b"", b"no zip", b"PK\x03\x04"):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(CanNotCount, match=r"is no valid npz file"):
            count_samples(tmp_path / "a.npz", "")
    with (tmp_path / "a.npz").open("wb") as file:
        np.savez(file, a=np.zeros(3))
    data = (tmp_path / "a.npz").read_bytes().replace(b"'shape': (3,)", b"'shape': 'x' ")
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(CanNotCount, match=r"is no valid npz file"):
        count_samples(tmp_path / "a.npz", "")


def test_urls_are_paths_below_the_nodes_root(tmp_path: Path) -> None:
    """No way leads out of it."""
    assert file_of("/data/d.csv", tmp_path) == tmp_path / "data/d.csv"
    assert file_of("/../../etc/passwd", tmp_path) == tmp_path / "etc/passwd"
    assert file_of("//data//d.csv", tmp_path) == tmp_path / "data/d.csv"
    assert file_of("/data/d.csv", Path("/")) == Path("/data/d.csv")
    for url in ("s3://bucket/d.csv", "HTTP://host/d.csv"):
        with pytest.raises(CanNotCount, match="is no file of this node"):
            file_of(url, tmp_path)
    with pytest.raises(CanNotCount, match="want an absolute path"):
        file_of("data/d.csv", tmp_path)


class Reports:
    """Takes reports, or refuses them as a full disk does."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.refusals = 0

    async def __call__(self, key: WireKey, content: bytes) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the disk is full")
        self.taken.append(content)


async def test_new_url_or_incarnation_is_counted_anew_and_the_same_is_not(tmp_path: Path) -> None:
    """A file that is only touched is read again, but not reported."""
    (tmp_path / "a.txt").write_text("1\n")
    (tmp_path / "b.txt").write_text("1\n2\n")
    reports = Reports()
    reports.refusals = 2
    counter = DatasetCounter(tmp_path, reports, interval_seconds=0.01)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(counter.run())
        counter.put(D, DatasetSpec("/a.txt", "txt"))
        await until(lambda: len(reports.taken) == 1)  # after two refusals
        counter.put(D, DatasetSpec("/a.txt", "txt"))
        counter.put(D, DatasetSpec("/b.txt", "txt"))
        await until(lambda: len(reports.taken) == 2)
        counter.put(Held(D.key, "u2"), DatasetSpec("/b.txt", "txt"))
        await until(lambda: len(reports.taken) == 3)
        counter.remove(D.key)
        (tmp_path / "b.txt").write_text("")
        counter.put(Held(WireKey("dataset", "default", "e"), "u"), DatasetSpec("/a.txt", "txt"))
        await until(lambda: len(reports.taken) == 4)
        task.cancel()
    assert reports.taken == [
        b'{"numberOfSamples":1}',
        b'{"numberOfSamples":2}',
        b'{"numberOfSamples":2}',
        b'{"numberOfSamples":1}',
    ]
