"""Counts the samples of the node's datasets, again when a file has changed."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import csv
import logging
import os
import re
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO

import msgspec

from gm.edge_stub.objects import DatasetSpec, Held
from gm.edge_stub.store import StoreError
from gm.messagelayer.message import WireKey

__all__ = ["CanNotCount", "DatasetCounter", "count_samples", "file_of"]

logger = logging.getLogger(__name__)

FORMATS = ("txt", "csv", "npz")
_LABELS = ("y.npy", "labels.npy", "label.npy", "target.npy")
_MAX_NPY_HEADER = 64 * 1024


class CanNotCount(Exception):
    """Why a dataset has no number of samples, and what to do about it."""


def file_of(url: str, root: Path) -> Path:
    """The file that stands for ``url`` on a node whose file system is ``root``.

    Raises: CanNotCount when the URL is no path.
    """
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", url):
        raise CanNotCount(f"{url} is no file of this node; its samples are not counted")
    if not url.startswith("/"):
        raise CanNotCount(f"url {url!r}: want an absolute path such as /data/digits/train.csv")
    # As on the node itself, .. at the top stays at the top.
    return root / os.path.normpath("/" + url.lstrip("/")).lstrip("/")


def count_samples(path: Path, format: str) -> int:  # noqa: A002 - the field's name
    """Samples in ``path``: lines of a txt, rows of a csv after its header, entries of an npz.

    Raises: CanNotCount.
    """
    kind = (format or path.suffix.lstrip(".")).lower()
    if kind not in FORMATS:
        raise CanNotCount(f"format {kind!r} is not counted; it can be one of {', '.join(FORMATS)}")
    try:
        return {"txt": _count_txt, "csv": _count_csv, "npz": _count_npz}[kind](path)
    except FileNotFoundError:
        raise CanNotCount(f"{path} does not exist; put the file there or correct the url") from None
    except IsADirectoryError:
        raise CanNotCount(f"{path} is a directory; the url has to name a file") from None
    except OSError as exc:
        raise CanNotCount(f"{path} can not be read: {exc.strerror or exc}") from None
    except (ValueError, KeyError, SyntaxError, EOFError, zipfile.BadZipFile, csv.Error) as exc:
        raise CanNotCount(f"{path} is no valid {kind} file: {exc}") from None


def _count_txt(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _count_csv(path: Path) -> int:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = sum(1 for row in csv.reader(file) if any(cell.strip() for cell in row))
    return max(0, rows - 1)


def _count_npz(path: Path) -> int:
    """From the arrays' headers alone: neither numpy nor the samples are loaded."""
    with zipfile.ZipFile(path) as archive:
        lengths = {}
        for name in archive.namelist():
            with archive.open(name) as member:
                shape = _npy_shape(member)
                if shape:
                    lengths[name] = shape[0]
    for name in _LABELS:
        if name in lengths:
            return lengths[name]
    if len(set(lengths.values())) != 1:
        raise ValueError("its arrays differ in length; one called y or labels would tell")
    return next(iter(lengths.values()))


def _npy_shape(file: IO[bytes]) -> tuple[int, ...]:
    magic = file.read(8)
    if magic[:6] != b"\x93NUMPY":
        raise ValueError("it holds something that is no array")
    size = int.from_bytes(file.read(2 if magic[6] == 1 else 4), "little")
    if size > _MAX_NPY_HEADER:
        raise ValueError("an array's header is too long")
    shape = ast.literal_eval(file.read(size).decode("latin-1"))["shape"]
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError("an array has no shape")
    return shape


class _Counted(msgspec.Struct):
    """What is known about one Dataset."""

    uid: str
    spec: DatasetSpec
    signature: tuple[int, int, int] | None = None
    reported: int | None = None
    problem: str = ""


Report = Callable[[WireKey, bytes], Awaitable[None]]
"""Sends a status up."""


class DatasetCounter:
    """Looks at the files of the node's Datasets and reports each count that is new."""

    def __init__(self, root: Path, report: Report, *, interval_seconds: float) -> None:
        self._root, self._report, self._interval = root, report, interval_seconds
        self._datasets: dict[WireKey, _Counted] = {}
        self._news = asyncio.Event()

    def put(self, held: Held, spec: DatasetSpec) -> None:
        """Count this Dataset from now on; the same one with the same spec is not counted anew."""
        known = self._datasets.get(held.key)
        if known is None or (known.uid, known.spec) != (held.uid, spec):
            self._datasets[held.key] = _Counted(held.uid, spec)
            self._news.set()

    def remove(self, key: WireKey) -> None:
        """Forget this Dataset."""
        self._datasets.pop(key, None)

    async def run(self) -> None:
        """Look at all files now and then, and at once when a Dataset comes; until cancelled."""
        while True:
            self._news.clear()
            for key, counted in list(self._datasets.items()):
                await self._look_at(key, counted)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._news.wait()

    async def _look_at(self, key: WireKey, counted: _Counted) -> None:
        try:
            number = await asyncio.to_thread(self._count_if_changed, counted)
        except CanNotCount as exc:
            # Said once, tried for ever: the file may still come.
            if str(exc) != counted.problem:
                logger.warning(
                    "samples can not be counted", extra={"object": str(key), "cause": str(exc)}
                )
                counted.problem = str(exc)
            return
        counted.problem = ""
        # The Dataset may have been deleted, or replaced, meanwhile.
        if number is None or number == counted.reported or self._datasets.get(key) is not counted:
            return
        try:
            await self._report(key, msgspec.json.encode({"numberOfSamples": number}))
        except StoreError as exc:
            logger.error("a count can not be kept", extra={"object": str(key), "cause": str(exc)})
            counted.signature = None  # again next time
            return
        counted.reported = number
        logger.info("samples counted", extra={"object": str(key), "samples": number})

    def _count_if_changed(self, counted: _Counted) -> int | None:
        """The number of samples, None if the file is what it was at the last count."""
        path = file_of(counted.spec.url, self._root)
        try:
            before = _signature(path)
        except OSError:
            counted.signature = None
            return count_samples(path, counted.spec.format)  # says what is wrong
        if before == counted.signature:
            return None
        number = count_samples(path, counted.spec.format)
        counted.signature = before
        return number


def _signature(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
