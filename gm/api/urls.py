"""Where data and models lie: what a ``url`` field means for the pod that uses it.

A host path is mounted from its node; everything else is downloaded by an init container. Sedna's
places in the container are kept: ``/home/data/<path>`` and ``/downloads/<host>/<path>``.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import msgspec

from gm.errors import InvalidSpec

__all__ = [
    "DATA_PATH_PREFIX",
    "DOWNLOAD_PREFIX",
    "HostPath",
    "Remote",
    "StorageUrl",
    "parse_url",
    "redacted",
    "url_problem",
]

DATA_PATH_PREFIX = "/home/data"
DOWNLOAD_PREFIX = "/downloads"
REMOTE_SCHEMES = ("s3", "http", "https")

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_HOST = re.compile(r"^([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?\Z")
_ALLOWED = "an absolute path such as /data/train.txt, s3://bucket/key, http://... or https://..."
_ADVICE = {
    "file": "write the path alone, such as /data/train.txt",
    "pvc": "mount the claim in the pod template instead, or use a host path or s3://",
}


class HostPath(msgspec.Struct, frozen=True):
    """A file or directory of the node that the worker runs on.

    ``path`` is normal (``/a/b/file``, no slash at the end); ``directory`` (``/a/b/``) is what is
    mounted: the directory of the file, or, if the URL ends with a slash, the path itself.
    """

    path: str
    directory: str

    @property
    def mount_path(self) -> str:
        """Where ``directory`` is mounted: ``/home/data/a/b/``."""
        return DATA_PATH_PREFIX + self.directory

    @property
    def container_path(self) -> str:
        """What the worker is told: ``/home/data/a/b/file``."""
        return DATA_PATH_PREFIX + self.path


class Remote(msgspec.Struct, frozen=True):
    """A file or prefix that is downloaded: ``scheme`` is ``s3``, ``http`` or ``https``.

    ``url`` is as the user wrote it; ``host`` the bucket or host with port; ``path`` decoded and
    normal (``/a/b/file`` or empty), without the query.
    """

    url: str
    scheme: str
    host: str
    path: str

    @property
    def is_s3(self) -> bool:
        """True if S3 credentials are of use."""
        return self.scheme == "s3"

    @property
    def download_directory(self) -> str:
        """Second argument of the storage initializer: ``/downloads/<host>/a/b/``."""
        return self.container_path.rpartition("/")[0] + "/"

    @property
    def container_path(self) -> str:
        """What the worker is told: ``/downloads/<host>/a/b/file``."""
        return f"{DOWNLOAD_PREFIX}/{self.host}{self.path}"


StorageUrl = HostPath | Remote


def parse_url(url: str, *, field: str = "url") -> StorageUrl:
    """What ``url`` means.

    Raises: InvalidSpec that names ``field`` and says what is allowed.
    """
    try:
        return _parse(url)
    except ValueError as exc:
        raise InvalidSpec(f"{field}: {exc}") from None


def url_problem(url: str) -> str | None:
    """What is wrong with ``url``, or None."""
    try:
        _parse(url)
    except ValueError as exc:
        return str(exc)
    return None


_UNESCAPED_PASSWORD = re.compile(r"//[^/@:?]*:(?!\d{1,5}(?:[/?#]|$)).*@")


def redacted(url: str) -> str:
    """``url`` without what may be secret (user, password, query), shortened: for messages."""
    # A password that nobody escaped may hold "/" and "?": whatever follows a colon that starts no
    # port is one, up to the last "@".
    head = _UNESCAPED_PASSWORD.sub("//...@", url)
    head, _, _ = head.partition("?")
    head = re.sub(r"//[^/@]*@", "//...@", head)
    head = _CONTROL.sub("?", head)
    return head if len(head) <= 200 else head[:197] + "..."


def _parse(url: str) -> StorageUrl:
    """Raises: ValueError with the reason."""
    if not url:
        raise ValueError(f"is empty; allowed is {_ALLOWED}")
    quoted = repr(redacted(url))
    if _CONTROL.search(url):
        raise ValueError(f"{quoted} holds a control character")
    match = _SCHEME.match(url)
    if match is None:
        return _host_path(url, quoted)
    scheme = match[1].lower()
    if scheme not in REMOTE_SCHEMES:
        advice = _ADVICE.get(scheme, f"allowed is {_ALLOWED}")
        raise ValueError(f"{quoted}: {scheme}: is not supported; {advice}")
    return _remote(url, scheme, url[match.end() :], quoted)


def _host_path(url: str, quoted: str) -> HostPath:
    if not url.startswith("/"):
        raise ValueError(f"{quoted} is not absolute; allowed is {_ALLOWED}")
    path = _normal(url, quoted)
    if not path:
        raise ValueError(f"{quoted} is the whole file system; name a directory or file below it")
    directory = f"{path}/" if url.endswith("/") else path[: path.rindex("/") + 1]
    # The container runtime's mount syntax takes no colon.
    if ":" in directory:
        raise ValueError(f"{quoted} has a colon in its directory, which can not be mounted")
    return HostPath(path, directory)


def _remote(url: str, scheme: str, rest: str, quoted: str) -> Remote:
    if not rest.startswith("//"):
        raise ValueError(f"{quoted} lacks // after {scheme}:")
    authority, slash, path = re.split(r"[?#]", rest[2:], maxsplit=1)[0].partition("/")
    host = authority.rpartition("@")[2]
    if not host:
        missing = "bucket" if scheme == "s3" else "host"
        raise ValueError(f"{quoted} names no {missing}")
    match = _HOST.match(host)
    # A host of dots would, as a directory, leave /downloads.
    if match is None or set(host) == {"."} or int(match[2] or 0) > 65535:
        raise ValueError(f"{quoted} has no valid host")
    if _BAD_ESCAPE.search(path):
        raise ValueError(f"{quoted} has a % without two hexadecimal digits; write %25 for a %")
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"{quoted} has escapes that are not UTF-8") from None
    if _CONTROL.search(decoded):
        raise ValueError(f"{quoted} holds a control character")
    return Remote(url=url, scheme=scheme, host=host, path=_normal(slash + decoded, quoted))


def _normal(path: str, quoted: str) -> str:
    """``path`` without empty and ``.`` parts and without a slash at the end."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    # Joined to a prefix, such a path could leave it.
    if ".." in parts:
        raise ValueError(f"{quoted} must not contain '..'")
    return "".join(f"/{part}" for part in parts)
