"""Keep what a real kubelet makes of the table of small pods in tests/golden/kubelet.json.

``GM_KUBELET_CLUSTER=PROGRAM python -m scripts.golden_kubelet``, as root, from the repository's
root; docs/testing.md says what PROGRAM is. The pods are those of
tests/edge_stub/runner/pod_table.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from gm.api.meta import Json
from tests.cluster import servers
from tests.edge_stub.runner.pod_grounds import kubelet_ground
from tests.edge_stub.runner.pod_observing import observe_all
from tests.edge_stub.runner.pod_table import CASES

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "kubelet.json"


async def _record(paths: Mapping[str, str]) -> Json:
    async with kubelet_ground(paths) as ground:
        seen = await observe_all(ground, CASES, None)
    lacking = {name: pod["missing"] for name, pod in seen.items() if "missing" in pod}
    if lacking:
        raise SystemExit(f"these pods did not do what the table says: {lacking}")
    return {"kubelet": ground.version, "pods": seen}


def main() -> None:
    """Start the cluster, run all pods, write the file."""
    servers.begin_run()
    try:
        recorded = asyncio.run(_record(servers.server("kubelet")))
    finally:
        servers.end_run()
    TARGET.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
