"""From pairs to files: what each URL consists of."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path
from urllib.parse import quote

from gm.api.urls import HostPath, Remote, redacted
from gm.errors import DownloadFailed
from gm.storage_init.faults import write_failure
from gm.storage_init.files import RemoteFile
from gm.storage_init.index import Index, read_index
from gm.storage_init.pairs import Pair
from gm.storage_init.paths import WORK_DIRECTORY, inside, shown
from gm.storage_init.progress import Progress
from gm.storage_init.s3 import LOOKUPS, Bucket, Store
from gm.storage_init.transfer import Transfer

__all__ = ["Sources"]


class Sources:
    """Finds files. What a URL stands for may fail in part: failures are yielded like files."""

    def __init__(
        self,
        store: Store,
        transfer: Transfer,
        progress: Progress,
        *,
        is_taken: Callable[[Path], bool],
    ) -> None:
        self._store, self._transfer, self._progress = store, transfer, progress
        self._is_taken = is_taken

    async def files(self, pair: Pair) -> AsyncGenerator[RemoteFile | DownloadFailed, None]:
        """The files of ``pair``."""
        try:
            async for file in self._of_index(pair) if pair.is_index else self._of_remote(pair):
                yield file
        except DownloadFailed as exc:
            yield exc

    async def _of_remote(self, pair: Pair) -> AsyncIterator[RemoteFile | DownloadFailed]:
        remote = pair.location
        assert isinstance(remote, Remote)
        last = remote.path.rpartition("/")[2]
        ends_with_slash = remote.url.partition("?")[0].partition("#")[0].endswith("/")
        if not remote.is_s3:
            if not last or ends_with_slash:
                raise DownloadFailed(
                    pair.name,
                    "it names no file",
                    "name one file, or an archive: http has no directories that could be listed",
                )
            yield self._http_file(remote.url, pair.directory / last, pair.directory)
            return
        bucket, key = await self._store.bucket(remote.host), remote.path[1:]
        if key and not ends_with_slash and await bucket.has_object(key):
            yield self._object(bucket, key, pair.directory / last, pair.directory, unpack=True)
            return
        # as the worker is told: /downloads/<bucket>/<path>, for a whole bucket /downloads/<bucket>
        root = pair.directory / (last or remote.host)
        async for file in self._below(bucket, f"{key}/" if key else "", root, pair.directory):
            yield file

    async def _below(
        self, bucket: Bucket, prefix: str, root: Path, directory: Path
    ) -> AsyncIterator[RemoteFile | DownloadFailed]:
        async for found in bucket.below(prefix):
            try:
                target = inside(root, found.name)
            except ValueError as exc:
                yield _bad_name(bucket.url(found.key), exc)
                continue
            if found.key.endswith("/"):  # how consoles make an empty directory
                failure = await asyncio.to_thread(_make_directory, bucket.url(found.key), target)
                if failure is not None:
                    yield failure
            else:
                yield self._object(bucket, found.key, target, directory)

    async def _of_index(self, pair: Pair) -> AsyncIterator[RemoteFile | DownloadFailed]:
        index = await self._read(pair)
        if index.base is None:
            self._progress.say(f"{pair.name}: the index lists nothing to download")
            return
        if not index.base.is_s3:
            for name in index.names:
                yield self._relative(index.base, name, pair.directory)
            return
        bucket, base = await self._store.bucket(index.base.host), index.base.path[1:]
        for batch in _batches(index.names, LOOKUPS):
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._look_up(bucket, base, name, pair.directory))
                    for name in batch
                ]
            for found in [task.result() for task in tasks]:
                if isinstance(found, str):
                    name = found.strip("/")
                    root = inside(pair.directory, name)
                    prefix = f"{_joined(base, name)}/"
                    async for file in self._below(bucket, prefix, root, pair.directory):
                        yield file
                else:
                    yield found

    async def _look_up(
        self, bucket: Bucket, base: str, name: str, directory: Path
    ) -> RemoteFile | DownloadFailed | str:
        """The object ``name``, or ``name`` itself if it is a directory."""
        key = _joined(base, name)
        try:
            target = inside(directory, name)
            if name.endswith("/") or not await bucket.has_object(key):
                return name
        except ValueError as exc:
            return _bad_name(bucket.url(key), exc)
        except DownloadFailed as exc:
            return exc
        return self._object(bucket, key, target, directory)

    def _relative(self, base: Remote, name: str, directory: Path) -> RemoteFile | DownloadFailed:
        path, mark, query = base.url.partition("#")[0].partition("?")
        url = f"{path.rstrip('/')}/{quote(name)}{mark}{query}"
        try:
            return self._http_file(url, inside(directory, name), directory, unpack=False)
        except ValueError as exc:
            return _bad_name(redacted(url), exc)

    async def _read(self, pair: Pair) -> Index:
        """The index that ``pair`` names.

        Raises: DownloadFailed.
        """
        location = pair.location
        if isinstance(location, HostPath):
            path = Path(location.path)
        else:
            path = pair.directory / WORK_DIRECTORY / "index"
            if location.is_s3:
                bucket = await self._store.bucket(location.host)
                file = self._object(bucket, location.path[1:], path, pair.directory)
            else:
                file = self._http_file(location.url, path, pair.directory, unpack=False)
            await self._transfer.fetch(file)
        try:
            return await asyncio.to_thread(read_index, path)
        except ValueError as exc:
            raise DownloadFailed(
                pair.name, str(exc), "an index is text: a base URL, then a name on each line"
            ) from None
        except OSError as exc:
            problem = f"it can not be read ({(exc.strerror or '').lower()})"
            raise DownloadFailed(pair.name, problem, "check the path and its volume") from None

    def _object(
        self, bucket: Bucket, key: str, target: Path, directory: Path, *, unpack: bool = False
    ) -> RemoteFile:
        return RemoteFile(
            name=bucket.url(key),
            origin=hash((bucket.name, key)),
            target=target,
            work=directory / WORK_DIRECTORY,
            link=partial(bucket.link, key),
            is_s3=True,
            unpack=unpack,
            is_taken=self._is_taken,
        )

    def _http_file(
        self, url: str, target: Path, directory: Path, *, unpack: bool = True
    ) -> RemoteFile:
        return RemoteFile(
            name=redacted(url),
            origin=hash(url),
            target=target,
            work=directory / WORK_DIRECTORY,
            link=lambda: url,
            unpack=unpack,
            is_taken=self._is_taken,
        )


def _joined(base: str, name: str) -> str:
    return f"{base}/{name}" if base else name


def _bad_name(name: str, error: ValueError) -> DownloadFailed:
    return DownloadFailed(shown(name), f"{error}", "rename it in the store")


def _make_directory(name: str, path: Path) -> DownloadFailed | None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        return write_failure(name, path, exc)
    return None


def _batches(names: Iterable[str], size: int) -> Iterable[list[str]]:
    iterator = iter(names)
    return iter(lambda: list(itertools.islice(iterator, size)), [])
