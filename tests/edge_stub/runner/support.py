"""Helpers of the runner's tests."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

from gm.edge_stub.runner.container import MARKER
from gm.edge_stub.runner.facts import PodFacts

__all__ = ["facts", "is_alive", "loopback", "marked_pids", "pids_in", "pod", "wait_dead"]


def loopback() -> str:
    """A loopback address that no other test is likely to use."""
    return f"127.{random.randint(64, 254)}.{random.randint(0, 254)}.{random.randint(2, 60)}"


def pod(name: str = "p", *, namespace: str = "ns", **spec: Any) -> dict[str, Any]:
    """A pod as the API has it."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"app": "a", "b": 'q"'},
            "annotations": {"note": "hello"},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def facts(**spec: Any) -> PodFacts:
    """Facts of such a pod."""
    return PodFacts(
        pod=pod(**spec),
        node="edge1",
        host_ip="127.1.1.11",
        pod_ip="127.1.1.64",
        allocatable={"cpu": "4", "memory": "8Gi"},
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def marked_pids(prefix: str) -> list[int]:
    """Processes of containers whose marker begins with ``prefix``; zombies do not count."""
    wanted = f"{MARKER}={prefix}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


async def pids_in(path: Path, count: int) -> list[int]:
    """The process ids that a script writes to ``path``, once there are ``count``."""
    async with asyncio.timeout(30):
        while True:
            pids = path.read_text().split() if path.exists() else []
            if len(pids) >= count:
                return [int(pid) for pid in pids]
            await asyncio.sleep(0.01)


async def wait_dead(*pids: int) -> None:
    """Return once none of ``pids`` runs."""
    async with asyncio.timeout(30):
        while any(is_alive(pid) for pid in pids):
            await asyncio.sleep(0.01)
