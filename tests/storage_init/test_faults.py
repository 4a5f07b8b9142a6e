"""From errors of libraries and the system to what a person can act on."""

from __future__ import annotations

import errno
import os
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from gm.errors import DownloadFailed, NoSpace
from gm.storage_init.backoff import Transient
from gm.storage_init.faults import NETWORK_ERRORS, network_failure, write_failure

TARGET = Path("/downloads/b/f")
KEY = ConnectionKey("h", 80, False, True, None, None, None)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_volume_is_one_error(number: int) -> None:
    """Disk, quota, limit."""
    failure = write_failure("s3://b/f", TARGET, OSError(number, "secret text"))
    assert isinstance(failure, NoSpace)
    assert str(failure) == (
        f"s3://b/f: /downloads/b is full ({os.strerror(number).lower()}); "
        "give the node or the volume more room"
    )


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EROFS, f"the volume must be writable for user {os.geteuid()}"),
        (errno.EACCES, f"the volume must be writable for user {os.geteuid()}"),
        (errno.EISDIR, "rename one"),
        (errno.ENOTDIR, "rename one"),
        (errno.EIO, "check the volume"),
    ],
)
def test_a_file_that_can_not_be_written_is_told(number: int, advice: str) -> None:
    """With what to do."""
    failure = write_failure("s3://b/f", TARGET, OSError(number, "secret text"))
    assert not isinstance(failure, NoSpace)
    assert advice in failure.advice
    assert "secret" not in str(failure)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (aiohttp.ServerDisconnectedError("secret"), "the connection was cut at 1 B"),
        (aiohttp.ClientOSError(104, "secret"), "the connection was cut at 1 B"),
        (ConnectionResetError(104, "secret"), "the connection was cut at 1 B"),
        (aiohttp.ServerTimeoutError("secret"), "no data came in time at 1 B"),
        (TimeoutError("secret"), "no data came in time at 1 B"),
        (
            aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "secret")),
            "the host's name can not be resolved",
        ),
        (
            aiohttp.ClientConnectorError(KEY, OSError(errno.EHOSTUNREACH, "secret")),
            "no connection came about (no route to host)",
        ),
        (aiohttp.ClientConnectorError(KEY, OSError("secret")), "no connection came about"),
        (ssl.SSLError(1, "secret"), "no TLS connection came about"),
        (aiohttp.ClientError("secret"), "the answer is not proper HTTP at 1 B"),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception, problem: str) -> None:
    """Without the libraries' texts: they may hold the URL."""
    assert isinstance(error, NETWORK_ERRORS)
    failure = network_failure("http://h/f", error, place=" at 1 B")
    assert isinstance(failure, Transient)
    assert failure.problem == problem
    assert "secret" not in failure.advice


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (aiohttp.InvalidURL("http://secret"), "the url, or what it redirects to, can not be read"),
        (ssl.SSLCertVerificationError(1, "secret"), "the server's certificate is not trusted"),
    ],
)
def test_what_can_not_pass_is_told(error: Exception, problem: str) -> None:
    """At once."""
    failure = network_failure("http://h/f", error)
    assert isinstance(failure, DownloadFailed)
    assert failure.problem == problem
    assert "secret" not in str(failure)
