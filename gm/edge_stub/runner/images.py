"""What a container executes: its own command, or what the image table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gm.errors import GmError

__all__ = ["ImageTable", "UnknownImage"]


class UnknownImage(GmError):
    """The runner never pulls, and nobody told it what this image runs."""


class ImageTable:
    """Image name to argv. ``busybox`` is found as ``docker.io/library/busybox:latest`` too."""

    def __init__(self, images: Mapping[str, Sequence[str]]) -> None:
        self._images = {_full_name(name): tuple(argv) for name, argv in images.items()}

    def command_line(self, container: Mapping[str, Any]) -> list[str]:
        """``command`` and ``args`` as Kubernetes combines them with the image's own.

        ``command`` replaces the image's argv; ``args`` alone are added to it.
        Raises: UnknownImage if there is no ``command`` and the table does not know the image.
        """
        command, args = container.get("command") or [], container.get("args") or []
        if command:
            return [*command, *args]
        image = container.get("image") or ""
        try:
            return [*self._images[_full_name(image)], *args]
        except KeyError:
            raise UnknownImage(
                f'Container image "{image}" is not present with pull policy of Never: the gm '
                "runner runs local processes and pulls nothing; give the container a `command`, "
                f"or start the node with --image '{image}=PROGRAM ARG...'"
            ) from None


def _full_name(image: str) -> str:
    """``image`` with its registry and tag filled in, as container runtimes do."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif "." not in first and ":" not in first and first != "localhost":
        image = f"docker.io/{image}"
    if "@" not in image and ":" not in image.rpartition("/")[2]:
        image += ":latest"
    return image
