"""Where the federated-learning example lies: its manifest and the data of its nodes."""

from __future__ import annotations

import asyncio
import sys
import sysconfig
from pathlib import Path

from gm.errors import ConfigError
from gm.examples.federated.prepare import missing_packages

__all__ = ["example_manifest", "write_example_data"]

_RELATIVE = Path("examples/federated-learning/job.yaml")


def example_manifest() -> Path:
    """The example's ``job.yaml``: in a checkout, or as the wheel installed it.

    Raises: ConfigError if it is in neither place.
    """
    checkout = Path(__file__).resolve().parents[2] / _RELATIVE
    installed = Path(sysconfig.get_path("data")) / "share/gm" / _RELATIVE
    for path in (checkout, installed):
        if path.is_file():
            return path
    raise ConfigError(f"the example's manifest is missing: neither {checkout} nor {installed}")


async def write_example_data(nodes: Path) -> None:
    """Write the example's data files below ``nodes``, one directory for each node.

    In a process of its own: scikit-learn is large, and this process lives on.

    Raises: ConfigError if the optional dependencies of the example are not installed, or the files
    can not be written.
    """
    if missing := missing_packages():
        raise ConfigError(
            f"the example needs {' and '.join(missing)}: pip install {' '.join(missing)}"
        )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gm.examples.federated.prepare", str(nodes)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise ConfigError(f"could not write the example's data to {nodes}: {lines[-1]}")
