"""GM as ``gm run`` runs it, in a process of its own that tells what it asked of the API server.

Started by the benchmarks as ``python measured_gm.py CONFIG``. For each line on standard input it
prints one line of JSON on standard output: requests by verb and resource, CPU seconds and memory.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import os
import re
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from gm import config, logs
from gm.controllers.manager import Manager
from gm.kube.client import Client
from gm.local.lifeline import die_with

_VERBS = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_PATH = re.compile(
    r"^/(?:api|apis/(?P<group>[^/]+))/[^/?]+(?:/namespaces/[^/?]+(?=/))?"
    r"/(?P<plural>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<subresource>[^/?]+))?(?:\?(?P<query>.*))?$"
)


def request_name(method: str, target: str, status: int = 200) -> str:
    """``patch federatedlearningjobs/status`` for a request; with the status if it was refused."""
    match = _PATH.match(target)
    if match is None:
        return f"{_VERBS.get(method, method)} {target}"
    verb = _VERBS.get(method, method)
    if method == "GET" and not match["name"]:
        verb = "watch" if "watch=true" in (match["query"] or "") else "list"
    name = "/".join(filter(None, (match["plural"], match["subresource"])))
    return f"{verb} {name}" + (f" ({status})" if status >= 400 else "")


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def _serve(settings: config.Config) -> None:
    requests: Counter[str] = Counter()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def count(method: str, target: str, status: int) -> None:
        requests[request_name(method, target, status)] += 1

    async def connect(**options: Any) -> Client:
        return await Client.connect(**options, observe=count)

    def answer() -> None:
        asked = os.read(0, 4096)
        if not asked:  # the benchmark has gone, or is done with us
            loop.remove_reader(0)
            stopping.set()
        for _ in range(asked.count(b"\n")):
            usage = resource.getrusage(resource.RUSAGE_SELF)
            told = {
                "requests": requests,
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
                "resident_mib": _resident_mib(),
                "peak_mib": usage.ru_maxrss / 1024,
            }
            print(json.dumps(told), flush=True)

    manager = Manager(settings, connect=connect)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(stopping))
        await manager.wait_ready()
        print("ready", flush=True)
        loop.add_reader(0, answer)


def main() -> None:
    """``measured_gm.py CONFIG PARENT_PID``."""
    die_with(int(sys.argv[2]))
    settings, _ = config.load(sys.argv[1], os.environ)
    logs.configure(format="human", level=settings.log.level)
    import uvloop

    profile = os.environ.get("GM_BENCH_PROFILE")  # a file for cProfile's numbers
    profiler = cProfile.Profile() if profile else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if profiler is not None:
            profiler.enable()
        runner.run(_serve(settings))
    if profiler is not None:
        profiler.disable()
        profiler.dump_stats(str(profile))


if __name__ == "__main__":
    main()
