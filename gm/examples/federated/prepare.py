"""Writes the example's data: scikit-learn's bundled handwritten digits, split unevenly over nodes.

``python -m gm.examples.federated.prepare DIR`` makes ``DIR/<node>``, a directory for each node
that stands for its file system (``gm edge --root``).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "DATASET_URL",
    "HELDOUT_URL",
    "MODEL_URL",
    "NODES",
    "main",
    "missing_packages",
    "prepare",
]

NODES = ("edge1", "edge2")
CLOUD = "cloud"
DATASET_URL = "/data/digits/train.npz"
"""Each edge's own samples, on its node, as `examples/federated-learning/job.yaml` has it."""
HELDOUT_URL = "/data/digits/heldout.npz"
"""Samples that nobody trains on; the same on each node, beside its dataset."""
MODEL_URL = "/models/fl-digits/model.npz"
"""Where the job of `examples/federated-learning/job.yaml` leaves its model, on node ``cloud``."""

HELDOUT_SHARE = 0.25
FOREIGN_SHARE = 0.02
"""Which part of the digits that are not its own an edge gets to see."""
SEED = 2026


def missing_packages() -> list[str]:
    """Packages of the extra ``examples`` that are not installed."""
    modules = {"numpy": "numpy", "sklearn": "scikit-learn"}
    return [name for module, name in modules.items() if importlib.util.find_spec(module) is None]


def prepare(directory: Path, *, nodes: Sequence[str] = NODES) -> dict[str, int]:
    """Write the roots of ``nodes`` and of ``cloud`` under ``directory``; gives samples by node.

    The same files each time. Files that are there are replaced, each of them atomically.
    """
    x, y = _digits()
    heldout, shares = _split(y, len(nodes))
    (directory / CLOUD).mkdir(parents=True, exist_ok=True)
    for node, share in zip(nodes, shares, strict=True):
        root = directory / node
        _write(root / DATASET_URL.lstrip("/"), x[share], y[share])
        _write(root / HELDOUT_URL.lstrip("/"), x[heldout], y[heldout])
    return {node: len(share) for node, share in zip(nodes, shares, strict=True)}


def _digits() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    import numpy as np
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return x.astype(np.uint8), y.astype(np.uint8)


def _split(y: NDArray[np.uint8], count: int) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """Indices of the held-out samples, and of each node's: most of its digits, few of the others.

    Every sample is in one of them only.
    """
    import numpy as np

    rng = np.random.default_rng(SEED)
    heldout: list[Any] = []
    shares: list[list[Any]] = [[] for _ in range(count)]
    for digit in range(10):
        order = rng.permutation(np.flatnonzero(y == digit))
        held = round(len(order) * HELDOUT_SHARE)
        few = max(1, round((len(order) - held) * FOREIGN_SHARE))
        heldout.append(order[:held])
        rest = order[held:]
        owner = digit * count // 10
        for node in range(count):
            if node != owner:
                shares[node].append(rest[:few])
                rest = rest[few:]
        shares[owner].append(rest)
    return (
        rng.permutation(np.concatenate(heldout)),
        [rng.permutation(np.concatenate(share)) for share in shares],
    )


def _write(path: Path, x: Any, y: Any) -> None:
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(file, x=x, y=y)
    temporary.replace(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m gm.examples.federated.prepare",
        description="Write the example's data, a directory for each node.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="where the nodes' roots go")
    parser.add_argument(
        "--node",
        action="append",
        metavar="NAME",
        help=f"an edge node (default: {', '.join(NODES)})",
    )
    arguments = parser.parse_args(argv)
    nodes = arguments.node or list(NODES)
    if len(set(nodes)) != len(nodes) or not all(n and "/" not in n and n != CLOUD for n in nodes):
        parser.error(f"--node: want different names of nodes, none of them {CLOUD}")
    if len(nodes) > 10:
        parser.error("--node: there are ten digits, so at most ten nodes")
    if missing := missing_packages():
        parser.error(f"{' and '.join(missing)} are needed: pip install {' '.join(missing)}")
    try:
        written = prepare(arguments.directory, nodes=nodes)
    except OSError as exc:
        sys.stderr.write(f"error: can not write {exc.filename}: {exc.strerror}\n")
        return 1
    for node, samples in written.items():
        root = arguments.directory / node
        sys.stdout.write(f"{root}: {samples} samples in {DATASET_URL}, held-out {HELDOUT_URL}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
