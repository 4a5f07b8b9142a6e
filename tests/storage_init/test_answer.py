"""What an answer means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gm.storage_init.answer import Continue, Refused, Restart, Start, TryLater, Version, judge
from tests.storage_init.support import LAST_MODIFIED, MODIFIED_SECONDS

MD5 = "0123456789abcdef0123456789abcdef"
VERSION = Version(etag='"v1"', last_modified=LAST_MODIFIED, size=10)


def test_200_is_the_whole_of_a_version() -> None:
    """With all that tells it apart."""
    headers = {"etag": '"v1"', "last-modified": LAST_MODIFIED, "content-length": "10"}
    assert judge(200, headers) == Start(VERSION)
    assert judge(200, headers, offset=5, version=VERSION) == Start(VERSION)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-length": "-1"},
        {"content-length": "x"},
        {"content-length": "5", "transfer-encoding": "chunked"},
    ],
)
def test_a_size_that_is_not_told_is_not_known(headers: dict[str, str]) -> None:
    """A chunked body ends when it says so."""
    assert judge(200, headers) == Start(Version())


@pytest.mark.parametrize(
    ("etag", "extra", "md5"),
    [
        (f'"{MD5}"', {}, MD5),
        (MD5, {}, MD5),
        (f'"{MD5}-2"', {}, ""),
        ('"v1"', {}, ""),
        (f'"{MD5}"', {"x-amz-server-side-encryption": "AES256"}, MD5),
        (f'"{MD5}"', {"x-amz-server-side-encryption": "aws:kms"}, ""),
        (f'"{MD5}"', {"x-amz-server-side-encryption": "aws:kms:dsse"}, ""),
        (f'"{MD5}"', {"x-amz-server-side-encryption-customer-algorithm": "AES256"}, ""),
    ],
)
def test_an_etag_is_a_checksum_only_where_s3_promises_it(
    etag: str, extra: dict[str, str], md5: str
) -> None:
    """Not of several parts, not with keys of KMS or the customer, never over plain http."""
    verdict = judge(200, {"etag": etag, **extra}, is_s3=True)
    assert isinstance(verdict, Start)
    assert verdict.version.md5 == md5
    plain = judge(200, {"etag": etag, **extra})
    assert isinstance(plain, Start)
    assert plain.version.md5 == ""


@pytest.mark.parametrize(
    ("content_range", "extra"),
    [
        ("bytes 5-9/10", {}),
        ("bytes 5-9/*", {}),
        ("bytes 5-7/10", {}),
        ("bytes 5-9/10", {"etag": '"v1"', "last-modified": LAST_MODIFIED}),
    ],
)
def test_206_continues_the_same_version(content_range: str, extra: dict[str, str]) -> None:
    """Also with less than was asked for."""
    headers = {"content-range": content_range, **extra}
    assert judge(206, headers, offset=5, version=VERSION) == Continue()


@pytest.mark.parametrize(
    ("content_range", "extra"),
    [
        ("", {}),
        ("bytes 4-9/10", {}),
        ("bytes 5-9/11", {}),
        ("bytes 5-10/*", {}),
        ("items 5-9/10", {}),
        ("bytes 5-9/10", {"etag": '"v2"'}),
        ("bytes 5-9/10", {"last-modified": "Mon, 30 Nov 2026 04:18:14 GMT"}),
    ],
)
def test_206_of_anything_else_means_to_start_over(
    content_range: str, extra: dict[str, str]
) -> None:
    """Versions are never mixed."""
    headers = {"content-range": content_range, **extra}
    assert isinstance(judge(206, headers, offset=5, version=VERSION), Restart)


def test_206_without_being_asked_for_is_refused() -> None:
    """Part of a file is no file."""
    assert isinstance(judge(206, {"content-range": "bytes 0-4/10"}), Refused)


def test_416_means_to_start_over_once() -> None:
    """Without a range it makes no sense."""
    assert isinstance(judge(416, {}, offset=5, version=VERSION), Restart)
    assert isinstance(judge(416, {}), Refused)


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("7", 7),
        ("Mon, 30 Nov 2026 04:18:23 GMT", 10),
        ("Mon, 30 Nov 2026 04:18:23 -0000", 10),
        ("Mon, 30 Nov 2026 04:18:03 GMT", 0),
        ("soon", 0),
        ("", 0),
    ],
)
def test_a_server_that_asks_for_patience_says_how_long(wish: str, seconds: float) -> None:
    """Seconds or a date."""
    now = datetime(2026, 11, 30, 4, 18, 13, tzinfo=UTC)
    verdict = judge(503, {"retry-after": wish}, now=now)
    assert verdict == TryLater("the server answered 503", seconds)


@pytest.mark.parametrize("status", [403, 404, 301, 418])
def test_advice_fits_the_kind_of_server(status: int) -> None:
    """A store has credentials and a region; a web server has links."""
    store, web = judge(status, {}, is_s3=True), judge(status, {})
    assert isinstance(store, Refused)
    assert isinstance(web, Refused)
    assert (store.advice != web.advice) == (status in {403, 301})


@pytest.mark.parametrize(
    ("etag", "last_modified", "condition"),
    [
        ('"v1"', LAST_MODIFIED, '"v1"'),
        ('W/"v1"', LAST_MODIFIED, LAST_MODIFIED),
        ("v1", LAST_MODIFIED, LAST_MODIFIED),
        ('W/"v1"', "", ""),
        ("", "", ""),
    ],
)
def test_only_strong_versions_are_a_condition(
    etag: str, last_modified: str, condition: str
) -> None:
    """RFC 9110: If-Range takes a strong ETag or a date."""
    assert Version(etag=etag, last_modified=last_modified).condition == condition


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (LAST_MODIFIED, MODIFIED_SECONDS),
        (LAST_MODIFIED.replace("GMT", "-0000"), MODIFIED_SECONDS),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_that_tells_nothing_is_none(text: str, seconds: int | None) -> None:
    """The epoch is what servers say that do not know."""
    assert Version(last_modified=text).modified_seconds == seconds


def test_versions_have_names_of_their_own() -> None:
    """Whatever the ETag holds."""
    versions = [
        VERSION,
        Version(etag='"v1"', last_modified=LAST_MODIFIED, size=11),
        Version(etag='"v2"', last_modified=LAST_MODIFIED, size=10),
        Version(etag='"/../\udce9"', size=10),
        Version(),
    ]
    names = {version.identity for version in versions}
    assert len(names) == len(versions)
    assert all(name.isalnum() for name in names)
