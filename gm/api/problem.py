"""One thing that is wrong with an object."""

from __future__ import annotations

import msgspec

__all__ = ["Problem"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong; ``str()`` gives ``field: message``."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"
