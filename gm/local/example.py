"""Where the federated-learning example lies: its manifest and the data of its nodes."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from gm.errors import ConfigError

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


def write_example_data(nodes: Path) -> None:
    """Write the example's data files below ``nodes``, one directory for each node.

    Raises: ConfigError if the optional dependencies of the example are not installed.
    """
    from gm.examples.federated.prepare import missing_packages, prepare

    if missing := missing_packages():
        raise ConfigError(f"the example needs {' and '.join(missing)}: pip install 'gm[examples]'")
    prepare(nodes)
