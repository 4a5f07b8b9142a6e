"""Downloads with as many attempts as make sense, over connections that they share."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import aiohttp

from gm import __version__
from gm.errors import ConfigError, DownloadFailed
from gm.storage_init.backoff import Backoff, Transient
from gm.storage_init.download import BUFFER_BYTES, Download
from gm.storage_init.files import RemoteFile
from gm.storage_init.progress import Progress
from gm.storage_init.settings import Settings

__all__ = ["Transfer", "open_transfer", "persistent"]

T = TypeVar("T")


@contextlib.asynccontextmanager
async def open_transfer(settings: Settings, progress: Progress) -> AsyncIterator[Transfer]:
    """A `Transfer` with connections of its own.

    Raises: ConfigError if the CA file can not be read.
    """
    timeout = aiohttp.ClientTimeout(
        total=None,
        sock_connect=settings.connect_timeout_seconds,
        sock_read=settings.read_timeout_seconds,
    )
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_tls(settings.ca_file), limit=0),
        timeout=timeout,
        # sizes and checksums are those of the bytes as stored
        auto_decompress=False,
        headers={"Accept-Encoding": "identity", "User-Agent": f"gm-storage-init/{__version__}"},
        # a signed link must stay as it is, also where a redirect leads to it
        requote_redirect_url=False,
        trust_env=True,
        read_bufsize=BUFFER_BYTES,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield Transfer(session, settings, progress)


class Transfer:
    """Fetches files."""

    def __init__(
        self, session: aiohttp.ClientSession, settings: Settings, progress: Progress
    ) -> None:
        self._session, self._settings, self._progress = session, settings, progress

    async def fetch(self, file: RemoteFile) -> bool:
        """Bring ``file``; True if it had to be downloaded, False if it was there already.

        Raises: DownloadFailed, NoSpace. On cancellation what is here stays for a later run.
        """
        download = Download(self._session, file, self._progress)
        try:
            return await persistent(
                file.name,
                download.attempt,
                settings=self._settings,
                say=self._progress.say,
                size=lambda: download.size,
            )
        finally:
            download.close()


async def persistent(
    name: str,
    attempt: Callable[[], Awaitable[T]],
    *,
    settings: Settings,
    say: Callable[[str], None],
    size: Callable[[], int] = lambda: 0,
) -> T:
    """What ``attempt`` returns, in the end; ``size`` tells how far it has come.

    Raises: DownloadFailed when attempts without progress have used up their number.
    """
    backoff = Backoff(settings)
    while True:
        try:
            return await attempt()
        except Transient as exc:
            failure = exc
        wait = backoff.failed(size=size(), after_seconds=failure.after_seconds)
        if wait is None:
            problem = f"{failure.problem}, after {backoff.failures} attempts without progress"
            raise DownloadFailed(name, problem, failure.advice)
        say(f"{name}: {failure.problem}; trying again in {wait:.1f} s")
        await asyncio.sleep(wait)


def _tls(ca_file: str) -> ssl.SSLContext | bool:
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise ConfigError(
            f"AWS_CA_BUNDLE or SSL_CERT_FILE: {ca_file} is no readable file of PEM certificates"
        ) from None
