"""Files: what is read is checked, what is written is there wholly or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gm.examples.federated.environment import UserError
from gm.examples.federated.files import StoredModel, load_model, load_samples, save_model

X = np.arange(12).reshape(3, 4)
Y = np.array([0, 5, 9])


def test_npz_and_csv_give_the_same_samples(tmp_path: Path) -> None:
    """Brightness comes out from 0 to 1."""
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    lines = ["a,b,c,d,label", *(",".join(map(str, [*row, label])) for row, label in zip(X, Y))]  # noqa: B905
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n\n")
    npz = load_samples(tmp_path / "d.npz", variable="V")
    csv = load_samples(tmp_path / "d.csv", variable="V")
    np.testing.assert_array_equal(npz.x, csv.x)
    np.testing.assert_array_equal(npz.y, csv.y)
    assert npz.x.max() == pytest.approx(11 / 16)
    assert len(npz) == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "is damaged"),
        ({"x": X, "y": Y[:2]}, "has shapes"),
        ({"x": X[:0], "y": Y[:0]}, "has shapes"),
        ({"x": Y, "y": Y}, "has shapes"),
        ({"x": X * np.nan, "y": Y}, "not finite"),
        ({"x": X.astype(str), "y": Y}, "not finite numbers"),
        ({"x": X, "y": np.array([0, 1, 10])}, "labels other than 0 to 9"),
        ({"x": X, "y": np.array([0, 1, -1])}, "labels other than"),
        ({"x": X, "y": np.array([0, 1, 0.5])}, "labels other than"),
    ],
)
def test_unusable_dataset_is_refused_with_its_path(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    """And with the setting that named it."""
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(UserError, match=message) as caught:
        load_samples(tmp_path / "d.npz", variable="TRAIN_DATASET_URL")
    assert f"{tmp_path}/d.npz (TRAIN_DATASET_URL)" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.npz", b""),
        ("d.npz", b"PK\x03\x04junk"),
        ("d.csv", b"a,b\n1,x\n"),
        ("d.csv", b"a\n1,2\n3\n"),
        ("d.csv", b""),
    ],
)
def test_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """Never a traceback."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        load_samples(tmp_path / name, variable="V")


def test_objects_in_an_npz_are_not_unpickled(tmp_path: Path) -> None:
    """A dataset must not be able to run code."""
    np.savez(tmp_path / "d.npz", x=np.array([{"a": 1}], dtype=object), y=Y)
    with pytest.raises(UserError, match="damaged"):
        load_samples(tmp_path / "d.npz", variable="V")


def test_other_formats_and_directories_are_refused(tmp_path: Path) -> None:
    """With what can be read."""
    with pytest.raises(UserError, match=r"reads \.npz and \.csv files only"):
        load_samples(tmp_path / "d.txt", variable="V")
    (tmp_path / "d.npz").mkdir()
    with pytest.raises(UserError, match="can not be read: Is a directory"):
        load_samples(tmp_path / "d.npz", variable="V")


MODEL = StoredModel((np.ones((2, 3), np.float32), np.zeros(3, np.float32)), 7, "abc")


def test_model_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    """Weights, round and whose it is; directories are made."""
    path = tmp_path / "models/fl/model.npz"
    save_model(path, MODEL)
    loaded = load_model(path)
    assert loaded is not None
    assert (loaded.round, loaded.identity) == (7, "abc")
    for a, b in zip(loaded.weights, MODEL.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [p.name for p in path.parent.iterdir()] == ["model.npz"]


def test_model_that_can_not_be_read_is_none(tmp_path: Path) -> None:
    """Absent, empty, cut off, somebody else's: training starts without it."""
    path = tmp_path / "model.npz"
    assert load_model(path) is None
    save_model(path, MODEL)
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert load_model(path) is None
    np.savez(path, x=X)
    assert load_model(path) is None


def test_failed_write_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up in the middle: a clear error, and the file from before."""
    path = tmp_path / "model.npz"
    save_model(path, MODEL)
    before = path.read_bytes()

    def full(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(UserError, match="can not be written: No space left on device"):
        save_model(path, MODEL)
    assert path.read_bytes() == before
