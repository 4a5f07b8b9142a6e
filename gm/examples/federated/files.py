"""Datasets and models on the node's disk: checked when read, replaced atomically when written."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gm.examples.federated.environment import UserError
from gm.examples.federated.learner import Samples, Weights

__all__ = ["CLASSES", "PIXEL_MAX", "StoredModel", "load_model", "load_samples", "save_model"]

CLASSES = 10
PIXEL_MAX = 16
"""Brightness of the bundled digits goes from 0 to this."""

PREPARE = "python -m gm.examples.federated.prepare DIR"


def load_samples(path: Path, *, variable: str) -> Samples:
    """The samples in ``path`` (.npz with x and y, or .csv with the label in the last column).

    ``variable`` is the setting that named the file. Raises `UserError` with what to do.
    """
    where = f"{path} ({variable})"
    readers = {".npz": _read_npz, ".csv": _read_csv}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"dataset {where}: this example reads .npz and .csv files only")
    try:
        x, y = reader(path)
    except FileNotFoundError:
        raise UserError(
            f"dataset {where} does not exist on this node; write it with `{PREPARE}` or correct "
            "the url of the Dataset"
        ) from None
    except OSError as exc:
        raise UserError(f"dataset {where} can not be read: {exc.strerror or exc}") from None
    except (ValueError, KeyError, IndexError, zipfile.BadZipFile, EOFError) as exc:
        raise UserError(
            f"dataset {where} is damaged: {exc}; write it again with `{PREPARE}`"
        ) from None
    return _checked(x, y, where)


def _read_npz(path: Path) -> tuple[Any, Any]:
    # Opened here: numpy leaves a file open that turns out to be no archive.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return arrays["x"], arrays["y"]


def _read_csv(path: Path) -> tuple[Any, Any]:
    with path.open(encoding="utf-8") as file:
        next(file, None)  # the header
        rows = [[float(cell) for cell in line.split(",")] for line in file if line.strip()]
    table = np.array(rows)
    return table[:, :-1], table[:, -1]


def _checked(x: Any, y: Any, where: str) -> Samples:
    if x.ndim != 2 or y.shape != (len(x),) or len(x) == 0:
        raise UserError(f"dataset {where} has shapes {x.shape} and {y.shape}; want rows and labels")
    if x.dtype.kind not in "fiu" or y.dtype.kind not in "fiu" or not np.isfinite(x).all():
        raise UserError(f"dataset {where} holds values that are not finite numbers")
    if y.min() < 0 or y.max() >= CLASSES or (y != y.astype(np.int64)).any():
        raise UserError(f"dataset {where} holds labels other than 0 to {CLASSES - 1}")
    return Samples((x / PIXEL_MAX).astype(np.float32), y.astype(np.int64))


@dataclass(frozen=True)
class StoredModel:
    """Weights on disk; ``identity`` is that of the job that wrote them after ``round`` rounds."""

    weights: Weights
    round: int
    identity: str


def save_model(path: Path, model: StoredModel) -> None:
    """Write ``model`` to ``path`` so that a reader, or a crash, sees the old file or the new one.

    Raises `UserError` when the disk refuses.
    """
    arrays: dict[str, Any] = {f"w{index}": array for index, array in enumerate(model.weights)}
    arrays["about"] = np.array(json.dumps({"round": model.round, "identity": model.identity}))
    # The name is the same after a restart, so a crash leaves at most one of them, for a while.
    temporary = path.with_name(f".{path.name}.{model.identity}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as exc:
        raise UserError(
            f"model {path} (MODEL_URL) can not be written: {exc.strerror or exc}"
        ) from None


def load_model(path: Path) -> StoredModel | None:
    """The model in ``path``, or None if there is none that can be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            names = sorted(name for name in arrays.files if name != "about")
            weights = tuple(np.asarray(arrays[name], np.float32) for name in names)
        return StoredModel(weights, int(about["round"]), str(about["identity"]))
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError):
        return None
