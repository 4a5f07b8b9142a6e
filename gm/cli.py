"""The command ``gm``: entry points and the only place that configures logging."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gm import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gm", description=__doc__)
    parser.add_argument("--version", action="version", version=f"gm {__version__}")
    parser.parse_args(argv)
    parser.print_help()
    return 0
