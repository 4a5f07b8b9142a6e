"""One file: what is cut is continued, what can not be is started over."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import aiohttp
import yarl

from gm.errors import DownloadFailed, NoSpace
from gm.storage_init import archive
from gm.storage_init.answer import Continue, Refused, Restart, Start, TryLater, Version, judge
from gm.storage_init.backoff import Transient
from gm.storage_init.faults import NETWORK_ERRORS, network_failure, write_failure
from gm.storage_init.files import RemoteFile
from gm.storage_init.part import Part, is_complete
from gm.storage_init.progress import Progress, size_text

__all__ = ["BUFFER_BYTES", "Download"]

BUFFER_BYTES = 1 << 18
"""Each connection holds about twice as much; a cut loses what of it is not written yet."""

_S3_CODE = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")
_S3_ERROR_BYTES = 4096


class Download:
    """The attempts at one file, and what they have brought so far."""

    def __init__(
        self, session: aiohttp.ClientSession, file: RemoteFile, progress: Progress
    ) -> None:
        self._session, self._file, self._progress = session, file, progress
        self._part: Part | None = None

    @property
    def size(self) -> int:
        """Bytes that are here."""
        return self._part.size if self._part else 0

    def close(self) -> None:
        """End; what is here is kept for a later run."""
        if self._part is not None:
            self._part.close()
            self._part = None

    async def attempt(self) -> bool:
        """One attempt; False if the file was complete before.

        Raises: Transient, DownloadFailed, NoSpace. On cancellation what is here is kept.
        """
        try:
            part = await self._receive()
            if part is not None:
                await self._finish(part)
        except NETWORK_ERRORS as exc:
            # `from None`: the texts of these may hold the URL
            raise network_failure(self._file.name, exc, place=self._place()) from None
        except OSError as exc:
            failure = write_failure(self._file.name, self._file.target, exc)
            if isinstance(failure, NoSpace):
                self._forget()  # a full volume hurts the whole node
            raise failure from None
        return part is not None

    async def _receive(self) -> Part | None:
        """All bytes of the file; None if it is there already."""
        while True:
            part = self._part if self._part and _can_continue(self._part) else None
            async with self._get(part) as (response, verdict):
                if isinstance(verdict, Continue):
                    assert part is not None
                    return await self._copy(response, part)
                if await asyncio.to_thread(is_complete, self._file.target, verdict.version):
                    return None
                asked_for_all = part is None
                part = await self._open(verdict.version)
                if asked_for_all and part.is_whole:
                    return part
                if asked_for_all and part.size:
                    continue  # an earlier run left some of this very version: ask for the rest
                await asyncio.to_thread(part.reset)
                return await self._copy(response, part)

    @contextlib.asynccontextmanager
    async def _get(
        self, part: Part | None
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, Start | Continue]]:
        """The answer to a GET of all, or of what ``part`` lacks, if it is one with content."""
        headers = {}
        if part is not None:
            headers = {"Range": f"bytes={part.size}-", "If-Range": part.version.condition}
        link = self._file.link()
        # What is quoted goes out as it is: another form of it could break a signature
        url = yarl.URL(link, encoded=link.isascii() and " " not in link)
        async with self._session.get(url, headers=headers) as response:
            verdict = judge(
                response.status,
                response.headers,
                offset=part.size if part else 0,
                version=part.version if part else None,
                is_s3=self._file.is_s3,
            )
            match verdict:
                case Restart():
                    self._forget()
                    raise Transient(verdict.problem)
                case TryLater():
                    problem = verdict.problem + await self._code(response)
                    raise Transient(problem, after_seconds=verdict.after_seconds)
                case Refused():
                    problem = verdict.problem + await self._code(response)
                    raise DownloadFailed(
                        self._file.name, problem, verdict.advice, status=response.status
                    )
                case _:
                    yield response, verdict

    async def _code(self, response: aiohttp.ClientResponse) -> str:
        """The error code of an S3 store, such as `` (NoSuchKey)``."""
        if not self._file.is_s3:
            return ""
        match = _S3_CODE.search(await response.content.read(_S3_ERROR_BYTES))
        return f" ({match[1].decode()})" if match else ""

    async def _open(self, version: Version) -> Part:
        """The part of ``version``, with what an earlier attempt left of it."""
        self.close()
        self._part = await asyncio.to_thread(Part, self._file.target, version, self._file.work)
        return self._part

    async def _copy(self, response: aiohttp.ClientResponse, part: Part) -> Part:
        missing, free = part.missing_bytes, part.free_bytes
        if missing > free:
            self._forget()
            raise NoSpace(
                self._file.name,
                f"{size_text(missing)} are to come, but {self._file.target.parent} has room for "
                f"{size_text(free)}",
                "give the node or the volume more room",
            )
        async for block in response.content.iter_chunked(BUFFER_BYTES):
            # in a thread: a slow disk must not hold up the other files
            await asyncio.to_thread(part.write, block)
            self._progress.received_bytes += len(block)
        if part.version.size is not None and not part.is_whole:
            raise Transient(f"the answer ended{self._place()}")
        return part

    async def _finish(self, part: Part) -> None:
        if not part.is_intact:
            self._forget()
            raise Transient(
                "its content does not have the checksum that the store tells (ETag)",
                "it may be damaged in the store: upload it again",
            )
        if self._file.unpack and archive.is_archive(self._file.target.name):
            self._progress.say(f"{self._file.name}: unpacking")
            # before the archive has its name: once that is there, all is done
            await asyncio.to_thread(archive.unpack, part.path, self._file)
        await asyncio.to_thread(part.finish)
        self.close()

    def _forget(self) -> None:
        if self._part is not None:
            self._part.delete()
            self.close()

    def _place(self) -> str:
        if self._part is None:
            return ""
        total = self._part.version.size
        return f" at {size_text(self.size)}" + ("" if total is None else f" of {size_text(total)}")


def _can_continue(part: Part) -> bool:
    """Whether a server can be asked for the rest without mixing versions."""
    return bool(part.size and part.version.size and part.version.condition)
