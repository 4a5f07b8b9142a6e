"""Where data and models lie: what a ``url`` field means for the pod that uses it.

A host path is mounted from its node; everything else is downloaded by an init container. Sedna's
places in the container are kept: ``/home/data/<path>`` and ``/downloads/<host>/<path>``.
"""

from __future__ import annotations

import msgspec

from gm.errors import InvalidSpec

__all__ = [
    "DATA_PATH_PREFIX",
    "DOWNLOAD_PREFIX",
    "HostPath",
    "Remote",
    "StorageUrl",
    "parse_url",
]

DATA_PATH_PREFIX = "/home/data"
DOWNLOAD_PREFIX = "/downloads"


class HostPath(msgspec.Struct, frozen=True):
    """A file or directory of the node that the worker runs on.

    ``path`` is normal (``/a/b/file``, no slash at the end); ``directory`` (``/a/b/``) is what is
    mounted.
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
    raise InvalidSpec(f"{field}: {url} is not a path or URL")
