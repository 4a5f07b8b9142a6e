"""From errors of libraries and the system to what a person can act on.

The libraries' own texts are never shown: many hold the URL, with what is secret in it.
"""

from __future__ import annotations

import errno
import os
import ssl
from pathlib import Path

import aiohttp

from gm.errors import DownloadFailed, NoSpace
from gm.storage_init.backoff import Transient

__all__ = ["NETWORK_ERRORS", "network_failure", "write_failure"]

NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, ConnectionError, ssl.SSLError)
"""To be caught before OSError, which some of them are."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def network_failure(name: str, error: Exception, *, place: str = "") -> Transient | DownloadFailed:
    """What one of `NETWORK_ERRORS` means; ``place`` is how far it was: `` at 1 of 2 B``."""
    match error:
        case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
            return DownloadFailed(
                name,
                "the server's certificate is not trusted",
                "give its CA as a file in SSL_CERT_FILE, or use an address that it is made for",
            )
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return Transient(
                "no TLS connection came about", "check whether the server speaks https on this port"
            )
        case aiohttp.ClientConnectorDNSError():
            return Transient(
                "the host's name can not be resolved", "check the host and this node's DNS"
            )
        case aiohttp.ClientConnectorError():
            reason = _reason(error)
            return Transient("no connection came about" + (f" ({reason})" if reason else ""))
        case TimeoutError():
            return Transient(f"no data came in time{place}")
        case aiohttp.TooManyRedirects():
            return DownloadFailed(name, "the server redirects without end", "mend the server")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return DownloadFailed(
                name, "the url, or what it redirects to, can not be read", "mend the url"
            )
        case aiohttp.ClientPayloadError() | aiohttp.ServerConnectionError() | OSError():
            return Transient(f"the connection was cut{place}")
        case _:
            return Transient(
                f"the answer is not proper HTTP{place}", "check that the url leads to a web server"
            )


def write_failure(name: str, target: Path, error: OSError) -> DownloadFailed:
    """What it means that ``target`` can not be written."""
    if error.errno in _NO_ROOM:
        return NoSpace(
            name,
            f"{target.parent} is full ({_reason(error)})",
            "give the node or the volume more room",
        )
    advice = "check the volume that is mounted there"
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        advice = f"the volume must be writable for user {os.geteuid()}"
    elif error.errno in {errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY}:
        advice = "a file and a directory of one name can not both be there: rename one"
    return DownloadFailed(name, f"{target} can not be written ({_reason(error)})", advice)


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if number and number > 0 else ""
