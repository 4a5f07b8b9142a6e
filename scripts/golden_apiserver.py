"""Keep a real kube-apiserver's answers in tests/golden/apiserver.json.

``KUBEBUILDER_ASSETS=DIR python -m scripts.golden_apiserver``, from the repository's root. The
requests are those of tests/devcluster/golden.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from pathlib import Path

from gm.api.resources import NAMESPACES
from gm.kube import Client
from tests.cluster import servers
from tests.devcluster.asking import ask

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "apiserver.json"


async def _record(kubeconfig: str) -> dict[str, object]:
    namespace = f"t-{secrets.token_hex(5)}"
    async with await Client.connect(kubeconfig=kubeconfig) as client:
        await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        version = json.loads((await client.raw("GET", "/version")).body)["gitVersion"]
        return {"server": version, "answers": await ask(client, namespace)}


def main() -> None:
    """Start the server, ask it everything, write the file."""
    servers.begin_run()
    try:
        recorded = asyncio.run(_record(servers.server("real")["kubeconfig"]))
    finally:
        servers.end_run()
    TARGET.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
