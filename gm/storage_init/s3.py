"""S3-compatible stores: what lies below a URL, and links to fetch it with.

The client only lists and signs; the bytes come over plain HTTP like all others, so cuts, resuming
and checks are the same code for both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from gm.api.urls import redacted
from gm.errors import ConfigError, DownloadFailed
from gm.storage_init.answer import Refused, TryLater, judge
from gm.storage_init.backoff import Transient
from gm.storage_init.progress import Progress
from gm.storage_init.settings import Settings
from gm.storage_init.transfer import persistent

__all__ = ["LOOKUPS", "PAGE_KEYS", "Bucket", "Found", "Store"]

PAGE_KEYS = 1000
"""Objects that are listed at a time: the most that S3 gives."""

LOOKUPS = 16
"""Questions that a store is asked at a time."""

_LINK_SECONDS = 3600
"""How long a link is good for; each attempt gets a new one."""

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}\Z")
_BUSY = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"})

T = TypeVar("T")


class Found(msgspec.Struct, frozen=True):
    """An object: its key, and its name below the prefix that it was found by."""

    key: str
    name: str


class Store:
    """The store that the settings name; the client is loaded at the first use."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self._settings, self._progress = settings, progress
        self._client: Any = None
        self._loading = asyncio.Lock()
        # threads of its own: a store that hangs must not keep others from writing to disk
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="s3")

    def close(self) -> None:
        """Let go of the threads; what they do now, they end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def bucket(self, name: str) -> Bucket:
        """The bucket ``name``, whether or not it exists.

        Raises: ConfigError if the S3 client is not installed or can not be set up.
        """
        async with self._loading:
            if self._client is None:
                loop = asyncio.get_running_loop()
                self._client = await loop.run_in_executor(self._threads, _client, self._settings)
        return Bucket(self, self._client, name)

    async def call(self, name: str, function: Callable[[], T]) -> T:
        """What ``function`` returns, in a thread and with retries; ``name`` is for messages.

        Raises: DownloadFailed.
        """

        async def attempt() -> T:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, _translated, name, function)

        return await persistent(name, attempt, settings=self._settings, say=self._progress.say)


class Bucket:
    """One bucket."""

    def __init__(self, store: Store, client: Any, name: str) -> None:
        self._store, self._client, self.name = store, client, name

    def url(self, key: str) -> str:
        """``key`` as a URL for messages."""
        return redacted(f"s3://{self.name}/{key}")

    def link(self, key: str) -> str:
        """A URL that fetches ``key`` by a plain GET, signed if there are credentials."""
        link: str = self._client.generate_presigned_url(
            "get_object",
            Params={"Bucket": self.name, "Key": key},
            ExpiresIn=_LINK_SECONDS,
        )
        return link

    async def has_object(self, key: str) -> bool:
        """Whether ``key`` is an object; False if there are objects below ``key/`` instead.

        Raises: DownloadFailed if neither is there, or nobody may know.
        """
        status = await self._store.call(self.url(key), lambda: self._head(key))
        if status == 200:
            return True
        # HEAD has no body: only the list tells why, and whether ``key`` is a directory
        page = await self._store.call(self.url(key), lambda: self._list(f"{key}/", "", limit=1))
        if page.get("Contents"):
            return False
        if status == 404:
            raise self._absent(key)
        return True  # may be listed but not looked at: the GET will say why

    async def below(self, prefix: str) -> AsyncIterator[Found]:
        """All objects below ``prefix`` (empty, or with a slash at the end), page by page.

        Raises: DownloadFailed if there are none.
        """
        token, is_empty = "", True
        while True:
            page = await self._store.call(self.url(prefix), lambda: self._list(prefix, token))  # noqa: B023
            for entry in page.get("Contents", ()):
                is_empty = False
                yield Found(entry["Key"], entry["Key"].removeprefix(prefix))
            token = page.get("NextContinuationToken", "")
            if not page.get("IsTruncated") or not token:
                break
        if is_empty:
            raise self._absent(prefix)

    def _absent(self, key: str) -> DownloadFailed:
        return DownloadFailed(
            self.url(key),
            "there is no such object, and none below it",
            "check the url of the Dataset or Model, and that something was uploaded there",
            status=404,
        )

    def _head(self, key: str) -> int:
        """200, 403 or 404. Blocks."""
        from botocore.exceptions import ClientError

        try:
            self._client.head_object(Bucket=self.name, Key=key)
        except ClientError as exc:
            status = _status(exc)
            if status in {403, 404}:
                return status
            raise
        return 200

    def _list(self, prefix: str, token: str, *, limit: int = 0) -> dict[str, Any]:
        """One page. Blocks."""
        more = {"ContinuationToken": token} if token else {}
        page: dict[str, Any] = self._client.list_objects_v2(
            Bucket=self.name, Prefix=prefix, MaxKeys=limit or PAGE_KEYS, **more
        )
        return page


def _translated(name: str, call: Callable[[], T]) -> T:
    """``call()``, with the client's errors as ours: their texts may hold keys.

    Raises: Transient, DownloadFailed.
    """
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        return call()
    except exceptions.ClientError as exc:
        failure: Exception = _refusal(name, exc)
    except exceptions.SSLError:
        failure = DownloadFailed(
            name,
            "no trusted TLS connection to the store came about",
            "give its CA as a file in SSL_CERT_FILE, and check the endpoint's scheme "
            "(annotation s3-usehttps of the Secret)",
        )
    except exceptions.ParamValidationError:
        failure = DownloadFailed(name, "this is no valid bucket or key", "mend the url")
    except (ResponseParserError, ValueError):  # ValueError: a size that is no number
        failure = Transient(
            "what answers there is no S3 store",
            "check the store's endpoint (annotation s3-endpoint of the Secret): a console, for "
            "instance, has another port",
        )
    except (exceptions.ConnectionError, exceptions.HTTPClientError):
        failure = Transient(
            "the store can not be reached",
            "check the store's endpoint (annotation s3-endpoint of the Secret) and this node's "
            "network",
        )
    except exceptions.BotoCoreError as exc:
        failure = DownloadFailed(
            name,
            f"the S3 client refuses the request ({type(exc).__name__})",
            "check the url, the store's endpoint and its region (AWS_REGION)",
        )
    raise failure


def _refusal(name: str, error: Any) -> Transient | DownloadFailed:
    """What a failure that the store answered means."""
    status, code = _status(error), error.response.get("Error", {}).get("Code", "")
    suffix = f" ({code})" if _CODE.match(code) else ""
    match judge(status, {}, is_s3=True):
        case TryLater(problem=problem):
            return Transient(problem + suffix)
        case Refused(problem=problem) if code in _BUSY:
            return Transient(problem + suffix)
        case Refused(problem=problem, advice=advice):
            return DownloadFailed(name, problem + suffix, advice, status=status)
    return Transient(f"the server answered {status} in a way that makes no sense")


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _client(settings: Settings) -> Any:
    """An S3 client. Blocks: it loads some megabytes of descriptions.

    Raises: ConfigError.
    """
    try:
        import botocore.session
        from botocore import UNSIGNED
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise ConfigError("s3:// URLs need botocore: pip install botocore") from None
    config = Config(
        signature_version="s3v4" if settings.access_key else UNSIGNED,
        # A store of one's own has no DNS name for each bucket. For AWS "auto" would make links
        # to the global host, which sends elsewhere for most regions.
        s3={"addressing_style": "path" if settings.endpoint_url else "virtual"},
        max_pool_connections=LOOKUPS,
        retries={"total_max_attempts": 1},  # `persistent` repeats, and says so
        connect_timeout=settings.connect_timeout_seconds,
        read_timeout=settings.read_timeout_seconds,
        # else links ask for checksums by a header that would have to be signed
        response_checksum_validation="when_required",
        request_checksum_calculation="when_required",
    )
    try:
        return botocore.session.Session().create_client(
            "s3",
            region_name=settings.region,
            endpoint_url=settings.endpoint_url or None,
            aws_access_key_id=settings.access_key or None,
            aws_secret_access_key=settings.secret_key or None,
            verify=settings.ca_file or None,
            config=config,
        )
    except (BotoCoreError, ValueError) as exc:
        raise ConfigError(
            f"S3_ENDPOINT_URL: the S3 client can not use {settings.endpoint_url!r} "
            f"({type(exc).__name__}); allowed is http(s)://HOST[:PORT]"
        ) from None
