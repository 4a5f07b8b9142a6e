"""The run: pairs become files, files are brought a few at a time, and failures are told."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gm.errors import DownloadFailed, NoSpace
from gm.storage_init.files import RemoteFile
from gm.storage_init.pairs import Pair
from gm.storage_init.paths import WORK_DIRECTORY
from gm.storage_init.progress import Progress
from gm.storage_init.s3 import Store
from gm.storage_init.settings import Settings
from gm.storage_init.sources import Sources
from gm.storage_init.transfer import Transfer, open_transfer

__all__ = ["Summary", "initialize", "run"]

_QUEUED_FILES = 64


class Summary(msgspec.Struct, frozen=True):
    """What a run came to."""

    downloaded: int
    present: int
    received_bytes: int


async def run(
    pairs: Sequence[Pair], settings: Settings, stopping: asyncio.Event, say: Callable[[str], None]
) -> bool:
    """`initialize`, unless ``stopping`` is set first: then what is here stays, and False is the
    answer.

    Raises: ExceptionGroup of DownloadFailed; ConfigError.
    """
    async with asyncio.TaskGroup() as group:
        work = group.create_task(initialize(pairs, settings, say), name="storage-init")
        stop = group.create_task(stopping.wait(), name="storage-init-stop")
        work.add_done_callback(lambda _: stop.cancel())
        stop.add_done_callback(lambda _: work.cancel())
    return not work.cancelled()


async def initialize(
    pairs: Sequence[Pair], settings: Settings, say: Callable[[str], None]
) -> Summary:
    """Bring all that ``pairs`` name; files that are there already are left as they are.

    A failure does not keep the other files from coming: whoever runs it again has less to do.

    Raises: ExceptionGroup of DownloadFailed, one for each file that failed (the first
    ``settings.max_failures``); ConfigError.
    """
    progress = Progress(say, interval_seconds=settings.progress_seconds)
    async with open_transfer(settings, progress) as transfer, asyncio.TaskGroup() as group:
        reporter = group.create_task(progress.run(), name="storage-init-progress")
        job = _Job(settings, progress, transfer)
        await job.run(pairs)
        reporter.cancel()
    say(str(progress))
    if job.failures:
        raise ExceptionGroup("downloads failed", job.failures)
    await asyncio.to_thread(_tidy, pairs)
    return Summary(progress.downloaded, progress.present, progress.received_bytes)


class _Job:
    """The files of one run: found by one task, brought by several."""

    def __init__(self, settings: Settings, progress: Progress, transfer: Transfer) -> None:
        self.failures: list[DownloadFailed] = []
        self._settings, self._progress, self._transfer = settings, progress, transfer
        self._store = Store(settings, progress)
        self._origins: dict[str, int] = {}  # target -> where it comes from
        self._queue: asyncio.Queue[RemoteFile | None] = asyncio.Queue(_QUEUED_FILES)
        self._over = asyncio.Event()

    async def run(self, pairs: Sequence[Pair]) -> None:
        """Bring all files of ``pairs``; what failed is in ``failures``."""
        with contextlib.closing(self._store):
            async with asyncio.TaskGroup() as group:
                for number in range(self._settings.parallel):
                    group.create_task(self._work(), name=f"storage-init-{number}")
                await self._find(pairs)
                for _ in range(self._settings.parallel):
                    await self._queue.put(None)

    async def _find(self, pairs: Sequence[Pair]) -> None:
        sources = Sources(self._store, self._transfer, self._progress, is_taken=self._is_taken)
        for pair in pairs:
            if self._over.is_set():
                return
            kind = "files listed in " if pair.is_index else ""
            self._progress.say(f"{kind}{pair.name} -> {pair.directory}")
            async with contextlib.aclosing(sources.files(pair)) as files:
                async for found in files:
                    if self._over.is_set():
                        return
                    await self._take(found)

    async def _take(self, found: RemoteFile | DownloadFailed) -> None:
        if isinstance(found, DownloadFailed):
            self._failed(found)
        elif self._claim(found):
            self._progress.found += 1
            await self._queue.put(found)

    async def _work(self) -> None:
        while (file := await self._queue.get()) is not None:
            if self._over.is_set():
                continue  # the finder must not wait for room in the queue
            try:
                is_new = await self._transfer.fetch(file)
            except DownloadFailed as exc:
                self._failed(exc)
                continue
            if is_new:
                self._progress.downloaded += 1
            else:
                self._progress.present += 1

    def _claim(self, file: RemoteFile) -> bool:
        """Whether ``file`` is to be brought: two pairs may overlap, but not clash."""
        target = str(file.target)
        if target not in self._origins:
            self._origins[target] = file.origin
            return True
        if self._origins[target] != file.origin:
            self._failed(
                DownloadFailed(
                    file.name,
                    f"another url of this pod becomes {target} too",
                    "give one of the two another name",
                )
            )
        return False

    def _is_taken(self, path: Path) -> bool:
        return str(path) in self._origins

    def _failed(self, failure: DownloadFailed) -> None:
        if self._over.is_set():
            return
        self.failures.append(failure)
        self._progress.failed += 1
        # when the volume is full, or all fail alike, going on helps nobody
        if isinstance(failure, NoSpace) or len(self.failures) >= self._settings.max_failures:
            self._over.set()


def _tidy(pairs: Sequence[Pair]) -> None:
    """Remove what only unfinished downloads need. Blocks."""
    for pair in pairs:
        shutil.rmtree(pair.directory / WORK_DIRECTORY, ignore_errors=True)
