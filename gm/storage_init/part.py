"""A file that is partly here: what is on disk of one version, and how it becomes the file."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import threading
from pathlib import Path

from gm.storage_init.answer import Version

__all__ = ["Part", "is_complete"]

_BLOCK_BYTES = 1 << 20


def is_complete(target: Path, version: Version) -> bool:
    """Whether ``target`` is that version already: size and time of modification agree.

    Whoever made ``target`` with `Part.finish` set its time to the server's Last-Modified. Without
    one, nothing tells two versions of one size apart, and the answer is no.
    """
    try:
        found = target.lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size == version.size
        and version.modified_seconds is not None
        and int(found.st_mtime) == version.modified_seconds
    )


class Part:
    """The bytes of one ``version`` of ``target`` that are here. Every method blocks.

    They lie in ``work``, a directory of the same file system, under a name made of target and
    version: a later run finds them again, and never joins two versions.
    """

    def __init__(self, target: Path, version: Version, work: Path) -> None:
        """Open what an earlier attempt left, or begin.

        Raises: OSError.
        """
        self.target, self.version = target, version
        self._lock = threading.Lock()  # a cancelled download closes while a thread still writes
        work.mkdir(parents=True, exist_ok=True)
        of_target = hashlib.sha256(os.fsencode(target)).hexdigest()[:24]
        self._path = work / f"{of_target}-{version.identity}.part"
        for other in work.glob(f"{of_target}-*.part"):
            if other != self._path:
                other.unlink(missing_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.size = os.fstat(descriptor).st_size
        if not version.condition or self.size > (version.size or 0):
            self.reset()
        elif version.md5:
            while block := self._file.read(_BLOCK_BYTES):
                self._md5.update(block)
        self._file.seek(self.size)

    @property
    def path(self) -> Path:
        """Where the bytes are until `finish`."""
        return self._path

    @property
    def is_whole(self) -> bool:
        """True if nothing is missing; never without a size to compare with."""
        return self.size == self.version.size

    @property
    def missing_bytes(self) -> int:
        """How much room the rest needs; 0 if nobody knows."""
        return max(0, (self.version.size or 0) - self.size)

    @property
    def free_bytes(self) -> int:
        """Room on the volume."""
        return shutil.disk_usage(self._path.parent).free

    @property
    def is_intact(self) -> bool:
        """False if the content is not what the server's checksum says."""
        return not self.version.md5 or self.version.md5 == self._md5.hexdigest()

    def write(self, data: bytes) -> None:
        """Append ``data``.

        Raises: OSError.
        """
        view = memoryview(data)
        with self._lock:
            while view:
                written = self._file.write(view)  # may be less, just before the disk is full
                if self.version.md5:
                    self._md5.update(view[:written])
                self.size += written
                view = view[written:]

    def reset(self) -> None:
        """Forget all bytes."""
        self._file.truncate(0)
        self._file.seek(0)
        self.size, self._md5 = 0, hashlib.md5(usedforsecurity=False)

    def finish(self) -> None:
        """Become the file, in one step.

        No fsync: after a power cut the init container runs again, and a file whose data were lost
        has not the size that the server tells.

        Raises: OSError, also when a directory is in the way.
        """
        self.target.parent.mkdir(parents=True, exist_ok=True)
        seconds = self.version.modified_seconds
        if seconds is not None:
            os.utime(self._path, (seconds, seconds))
        os.replace(self._path, self.target)

    def close(self) -> None:
        """Let go of the file; what is here stays for the next attempt."""
        with self._lock:
            self._file.close()

    def delete(self) -> None:
        """Give the room back."""
        self._path.unlink(missing_ok=True)
