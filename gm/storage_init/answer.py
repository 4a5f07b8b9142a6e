"""What a server's answer to a GET means for a file that is partly here. No I/O."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

__all__ = ["Continue", "Refused", "Restart", "Start", "TryLater", "Version", "judge"]

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)\Z")
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]*"\Z')
_MD5 = re.compile(r'"?([0-9a-f]{32})"?\Z')
_TRY_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNHASHED = ("x-amz-server-side-encryption-customer-algorithm",)


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Which content a server speaks of: what may be joined, and what must be started over.

    ``size`` is in bytes, None when the server does not say; ``md5`` is that of the content where
    S3 promises it.
    """

    etag: str = ""
    last_modified: str = ""
    size: int | None = None
    md5: str = ""

    @property
    def condition(self) -> str:
        """The value of If-Range; empty if parts of this version can not be told from others."""
        return self.etag if _STRONG_ETAG.match(self.etag) else self.last_modified

    @property
    def identity(self) -> str:
        """A name for the version, fit for a file's."""
        text = "\n".join((self.etag, self.last_modified, str(self.size)))
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]

    @property
    def modified_seconds(self) -> int | None:
        """Last-Modified as seconds since 1970; None without a readable one."""
        moment = _http_date(self.last_modified)
        return int(moment.timestamp()) if moment and moment > _EPOCH else None


class Start(msgspec.Struct, frozen=True):
    """The whole content of ``version`` follows."""

    version: Version


class Continue(msgspec.Struct, frozen=True):
    """What is missing follows."""


class Restart(msgspec.Struct, frozen=True):
    """What is here is of no use: ask for the whole."""

    problem: str


class TryLater(msgspec.Struct, frozen=True):
    """Not now; ``after_seconds`` is the server's wish, 0 without one."""

    problem: str
    after_seconds: float = 0


class Refused(msgspec.Struct, frozen=True):
    """The same request can only fail again."""

    problem: str
    advice: str


def judge(
    status: int,
    headers: Mapping[str, str],
    *,
    offset: int = 0,
    version: Version | None = None,
    is_s3: bool = False,
    now: datetime | None = None,
) -> Start | Continue | Restart | TryLater | Refused:
    """What the answer means if ``offset`` bytes of ``version`` are here and the rest was asked for.

    ``headers`` must find names in lower case.
    """
    if status == 200:
        return Start(_version(headers, is_s3=is_s3))
    if status == 206 and offset and version is not None:
        return _continued(headers, offset, version)
    if status == 416 and offset:
        return Restart("the server has no such part of it")
    if status in _TRY_LATER or (status >= 500 and status not in {501, 505}):
        return TryLater(f"the server answered {status}", _retry_after(headers, now))
    return Refused(f"the server answered {status}", _advice(status, is_s3=is_s3))


def _version(headers: Mapping[str, str], *, is_s3: bool) -> Version:
    length = headers.get("content-length", "")
    # `Transfer-Encoding` makes any length void
    known = length.isascii() and length.isdecimal() and "transfer-encoding" not in headers
    etag = headers.get("etag", "").strip()
    return Version(
        etag=etag,
        last_modified=headers.get("last-modified", "").strip(),
        size=int(length) if known else None,
        md5=_md5(etag, headers) if is_s3 else "",
    )


def _md5(etag: str, headers: Mapping[str, str]) -> str:
    """The content's MD5, if the ETag is it: not for several parts, nor with a key of KMS's."""
    match = _MD5.match(etag)
    encrypted = headers.get("x-amz-server-side-encryption", "").startswith("aws:kms")
    if match is None or encrypted or any(name in headers for name in _UNHASHED):
        return ""
    return match[1]


def _continued(headers: Mapping[str, str], offset: int, version: Version) -> Continue | Restart:
    match = _CONTENT_RANGE.match(headers.get("content-range", "").strip())
    if match is None or int(match[1]) != offset:
        return Restart("the server sent another part than was asked for")
    # Less than was asked for is fine: the rest is asked for again
    size = version.size
    if size is None or int(match[2]) >= size or match[3] not in {"*", str(size)}:
        return Restart("its size has changed meanwhile")
    # A server that does not know If-Range sends the rest of what it has now
    for name, known in (("etag", version.etag), ("last-modified", version.last_modified)):
        told = headers.get(name, "").strip()
        if told and known and told != known:
            return Restart("it has changed meanwhile")
    return Continue()


def _retry_after(headers: Mapping[str, str], now: datetime | None) -> float:
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    moment = _http_date(text)
    return max(0, (moment - (now or datetime.now(UTC))).total_seconds()) if moment else 0


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _advice(status: int, *, is_s3: bool) -> str:
    if status in {401, 403}:
        if is_s3:
            return (
                "check the Secret that credentialName names (keys, endpoint), what its user may "
                "read, and this node's clock"
            )
        return "the server wants other credentials, or the link has expired"
    if status in {404, 410}:
        return "check the url of the Dataset or Model: nothing is there"
    if status in {301, 307, 308, 400} and is_s3:
        return "check the store's endpoint, and its region (AWS_REGION)"
    return "check that the url is one of a file that can be read with GET"
