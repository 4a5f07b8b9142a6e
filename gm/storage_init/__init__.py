"""The storage initializer: brings what s3:// and http(s):// URLs name to a worker's volume."""

from __future__ import annotations

from gm.storage_init.initializer import Summary, initialize, run
from gm.storage_init.pairs import Pair, parse_pairs
from gm.storage_init.settings import Settings

__all__ = ["Pair", "Settings", "Summary", "initialize", "parse_pairs", "run"]
