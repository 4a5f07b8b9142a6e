"""Breaks everything between the API server and 200 edge nodes, and counts what is wrong then.

    python benchmarks/chaos_edges.py                  # 10,000 operations, some minutes
    python benchmarks/chaos_edges.py --seed 7 --operations 1000 --nodes 40
    python benchmarks/chaos_edges.py --kubeconfig FILE   # another API server than the embedded one

Half of the nodes speak v1, a quarter v2 as scripted agents, a quarter is the edge stub's own agent
with its database. Each reaches GM through a proxy of its own, and GM reaches the API server through
one. Operations come at random: objects are created, edited, moved, deleted and made again under the
same name; connections break or go half-open; nodes lose what they hold or restart; GM is killed
with -9; the API server is cut off. Then all is mended, and what each node holds is compared with
what the API server says it should (never with GM's memory). Exit code 0: nothing is missing, stale
or left behind, and no v1 node was ever sent an object over another one of the same name.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import logging
import random
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop
import yaml
from chaos_nodes import AgentNode, Link, Node, V1Node, make_nodes, relaying
from chaos_objects import Thing, expected, things
from killed_gm import KilledGm

from gm.api.meta import Json, ObjectKey
from gm.api.resources import DATASETS, JOINT_INFERENCE_SERVICES, NAMESPACES
from gm.errors import AlreadyExists
from gm.kube.client import Client
from gm.local.directory import StateDirectory
from gm.local.supervisor import supervising
from gm.local.system import gm_program, install_crds

WORKERS = 6  # hands that do the operations, each with objects of its own
# What happens, and how often among a hundred; kills of GM and cuts of its API are extra.
WEIGHTS = {
    "edit": 33,
    "move": 14,
    "delete": 14,
    "recreate": 9,
    "create": 12,
    "flap": 11,
    "half-open": 4,
    "reinstall": 1,
    "restart": 2,
}
OPERATIONS_PER_KILL = 700
OPERATIONS_PER_CUT = 500
_READY_SECONDS = 60.0
_SETTLE_SECONDS = 120.0
_CALM_SECONDS = 3.0
_TOTAL_SECONDS = 900.0


def say(line: str) -> None:
    """Print at once."""
    print(line, flush=True)


class Chaos:
    """The operations, and what they are done to."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        nodes: list[Node],
        gm: KilledGm,
        api: Link,
        arguments: argparse.Namespace,
    ) -> None:
        self._client, self._namespace, self._nodes = client, namespace, nodes
        self._gm, self._api = gm, api
        self._arguments = arguments
        self.counts: collections.Counter[str] = collections.Counter()
        self._things = things(len(nodes))
        self._gm_lock, self._api_lock = asyncio.Lock(), asyncio.Lock()
        self._versions = 0

    async def run(self) -> None:
        """All operations; GM runs, and every link is whole, when it returns."""
        rng = random.Random(self._arguments.seed)
        total = self._arguments.operations
        kills = max(2, total // OPERATIONS_PER_KILL)
        cuts = max(2, total // OPERATIONS_PER_CUT)
        todo = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=max(0, total - kills - cuts))
        todo += ["kill GM"] * kills + ["cut API"] * cuts
        rng.shuffle(todo)
        async with asyncio.TaskGroup() as self._group:
            for number in range(WORKERS):
                share, mine = todo[number::WORKERS], self._things[number::WORKERS]
                hand = random.Random(self._arguments.seed * WORKERS + number)
                self._group.create_task(self._work(share, mine, hand))

    async def _work(self, todo: list[str], mine: list[Thing], rng: random.Random) -> None:
        began, pause = time.monotonic(), self._arguments.seconds / max(1, len(todo))
        for done, name in enumerate(todo):
            await self._do(name, mine, rng)
            self.counts[name] += 1
            ahead = began + done * pause - time.monotonic()
            await asyncio.sleep(max(0.0, ahead))

    async def _do(self, name: str, mine: list[Thing], rng: random.Random) -> None:
        node = rng.choice(self._nodes)
        match name:
            case "flap":
                node.link.cut()
            case "half-open":
                self._group.create_task(self._hole(node.link, rng.uniform(1, 8), rng.random()))
            case "reinstall":
                await node.reinstall()
            case "restart":
                await node.restart()
            case "kill GM":
                self._group.create_task(self._kill(rng.random() < 0.8, rng.uniform(0, 2)))
            case "cut API":
                self._group.create_task(self._cut_api(rng.uniform(0.2, 4), rng.random()))
            case _:
                await self._change(name, rng.choice(mine), node.name, rng)

    async def _hole(self, link: Link, seconds: float, kind: float) -> None:
        if link.is_black_hole:
            return
        link.is_black_hole = True
        await asyncio.sleep(seconds)
        if kind < 0.5:  # what was on its way is lost; otherwise it comes late
            link.cut()
        link.is_black_hole = False

    async def _kill(self, waits: bool, seconds: float) -> None:
        async with self._gm_lock:
            if waits:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_READY_SECONDS):
                        await self._gm.ready.wait()
            await asyncio.sleep(seconds)
            await self._gm.kill()
            await self._gm.start()

    async def _cut_api(self, seconds: float, kind: float) -> None:
        async with self._api_lock:
            if kind < 0.4:
                self._api.cut()  # and GM may come back at once
            elif kind < 0.7:
                self._api.is_black_hole = True
                await asyncio.sleep(seconds)
                self._api.cut()
                self._api.is_black_hole = False
            else:
                target, self._api.target = self._api.target, 1  # refused
                self._api.cut()
                await asyncio.sleep(seconds)
                self._api.target = target

    # Changes of objects.

    async def _change(self, name: str, thing: Thing, node: str, rng: random.Random) -> None:
        if not thing.exists:
            await self._create(thing, node, rng)
            return
        key = ObjectKey(self._namespace, thing.name)
        match name:
            case "delete":
                await self._delete(thing, key)
            case "recreate" | "create":
                await self._delete(thing, key)
                if rng.random() < 0.3:
                    await asyncio.sleep(rng.uniform(0, 0.5))
                await self._create(thing, node, rng)
            case "move" if thing.kind is DATASETS:
                await self._client.patch(thing.kind, key, {"spec": {"nodeName": node}})
            case "move" if thing.kind is JOINT_INFERENCE_SERVICES:
                spec = {"edgeWorker": {"template": {"spec": {"nodeName": node}}}}
                await self._client.patch(thing.kind, key, {"spec": spec})
            case _:
                await self._edit(thing, key, rng)

    async def _edit(self, thing: Thing, key: ObjectKey, rng: random.Random) -> None:
        for _ in range(rng.choice((1, 1, 1, 4))):
            self._versions += 1
            change: Json = {"metadata": {"labels": {"version": str(self._versions)}}}
            if thing.kind is DATASETS and rng.random() < 0.3:
                change["spec"] = {"url": f"/data/{rng.randrange(100)}.csv"}
            await self._client.patch(thing.kind, key, change)

    async def _create(self, thing: Thing, node: str, rng: random.Random) -> None:
        body = {
            "apiVersion": thing.kind.api_version,
            "kind": thing.kind.kind,
            "metadata": {"name": thing.name, "namespace": self._namespace},
            "spec": thing.body(node, rng),
        }
        await self._client.create(thing.kind, self._namespace, body)
        thing.exists = True

    async def _delete(self, thing: Thing, key: ObjectKey) -> None:
        await self._client.delete(thing.kind, key)
        thing.exists = False


class Verdict(msgspec.Struct):
    """What is wrong on the nodes, one line each."""

    missing: list[str] = []
    stale: list[str] = []
    left_behind: list[str] = []
    held: int = 0

    @property
    def faults(self) -> list[str]:
        """All of it."""
        return self.missing + self.stale + self.left_behind


async def judge(client: Client, namespace: str, nodes: list[Node]) -> Verdict:
    """Compare each node with the API server."""
    verdict = Verdict()
    wanted = await expected(client, namespace)
    for node in nodes:
        held, want = await node.holdings(), wanted.get(node.name, {})
        who = f"{node.name} ({node.wire})"
        verdict.held += len(held)
        verdict.missing += [f"{who} lacks {key}" for key in want.keys() - held.keys()]
        verdict.left_behind += [f"{who} still has {key}" for key in held.keys() - want.keys()]
        for key in held.keys() & want.keys():
            if held[key] != want[key]:
                what = "uid" if held[key].uid != want[key].uid else "version"
                verdict.stale += [f"{who} has another {what} of {key}"]
    return verdict


async def settle(client: Client, namespace: str, nodes: list[Node]) -> tuple[Verdict, float]:
    """The verdict once nothing is wrong, and a while later still, or time is up; and when.

    A v1 node that connects late may be given an object anew, by a delete and an insert half a
    second apart: what is wrong between the two looks is given until the end of the time, too.
    """
    began = time.monotonic()
    while True:
        verdict = await judge(client, namespace, nodes)
        seconds = time.monotonic() - began
        if not verdict.faults:
            await asyncio.sleep(_CALM_SECONDS)
            verdict = await judge(client, namespace, nodes)
            if not verdict.faults:
                return verdict, seconds
            say(f"not calm yet: {verdict.faults[0]}")
        if seconds > _SETTLE_SECONDS:
            return verdict, seconds
        await asyncio.sleep(1)


def gm_config(path: Path, kubeconfig: Path, namespace: str, proxy_port: int) -> tuple[Path, int]:
    """GM's configuration, with a kubeconfig that leads through the proxy; and its port."""
    content = yaml.safe_load(kubeconfig.read_text())
    for entry in content["clusters"]:
        cluster = entry["cluster"]
        parts = urlsplit(cluster["server"])
        if parts.scheme == "https":
            cluster.setdefault("tls-server-name", parts.hostname)
        cluster["server"] = f"{parts.scheme}://127.0.0.1:{proxy_port}"
    for kept in (*content["clusters"], *content["users"]):
        for entry in (kept.get("cluster") or {}), (kept.get("user") or {}):
            for field in entry.keys() & {
                "certificate-authority",
                "client-certificate",
                "client-key",
                "tokenFile",
            }:
                entry[field] = str((kubeconfig.parent / entry[field]).absolute())
    through = path / "kubeconfig-proxy"
    through.touch(mode=0o600)
    through.write_text(yaml.safe_dump(content))
    port = free_port()
    settings = {
        "kubeConfig": str(through),
        "namespace": namespace,
        "stateNamespace": namespace,
        "websocket": {
            "address": "127.0.0.1",
            "port": port,
            "pingIntervalSeconds": 2,
            "pingTimeoutSeconds": 2,
        },
        "health": {"address": "127.0.0.1", "port": free_port()},
        "log": {"format": "human"},
    }
    config = path / "gm.yaml"
    config.write_text(yaml.safe_dump(settings))
    return config, port


def free_port() -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def api_server(path: Path, kubeconfig: Path | None) -> AsyncIterator[Path]:
    """The embedded API server, unless there is another; gives its kubeconfig."""
    if kubeconfig is not None:
        yield kubeconfig
        return
    with StateDirectory(path, fresh=True) as directory:
        async with supervising(pid_file=directory.pids, say=say) as supervisor:
            where = ("--address", "127.0.0.1", "--port", str(free_port()))
            words = ("apiserver", *where, "--dir", str(directory.path))
            await supervisor.start(gm_program(directory, "apiserver", *words))
            yield directory.kubeconfig


async def run(arguments: argparse.Namespace, path: Path) -> int:
    """The whole run; returns the exit code."""
    namespace = f"chaos-{arguments.seed}-{int(time.time())}"
    async with contextlib.AsyncExitStack() as stack:
        kubeconfig = await stack.enter_async_context(
            api_server(path / "state", arguments.kubeconfig)
        )
        await install_crds(kubeconfig)
        client = await stack.enter_async_context(await Client.connect(kubeconfig=str(kubeconfig)))
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        server = urlsplit(client.server)
        api = Link(server.port or 443, server.hostname or "127.0.0.1")
        await stack.enter_async_context(api.running())
        config, port = gm_config(path, kubeconfig, namespace, api.port)
        links = [Link(port) for _ in range(arguments.nodes)]
        await stack.enter_async_context(relaying(links))
        nodes = make_nodes(links, path / "nodes", arguments.seed)
        log = path / "gm.log"
        gm = KilledGm(config, log)
        await gm.start()
        chaos = Chaos(client, namespace, nodes, gm, api, arguments)
        async with asyncio.TaskGroup() as group:
            lives = [group.create_task(node.run()) for node in nodes]
            began = time.monotonic()
            await chaos.run()
            chaos_seconds = time.monotonic() - began
            async with asyncio.timeout(_READY_SECONDS):
                await gm.ready.wait()
            verdict, settled_seconds = await settle(client, namespace, nodes)
            faults = list(verdict.faults)
            if (code := await gm.stop()) != 0:
                faults.append(f"GM's exit code after SIGTERM was {code}: {gm.last_word}")
            for life in lives:
                life.cancel()
        if arguments.kubeconfig is not None:
            await client.delete(NAMESPACES, ObjectKey("", namespace))
    if (bugs := log.read_text().count("Traceback")) > 0:
        faults.append(f"GM's log has {bugs} tracebacks")
    for node in nodes:
        if isinstance(node, V1Node):
            faults += [f"{node.name} was sent {key} over another one" for key in node.overwritten]
    report(chaos, nodes, verdict)
    say(f"{chaos_seconds:.0f} s of chaos, in step {settled_seconds:.0f} s after it")
    for fault in faults[:50]:
        say(f"FAILED: {fault}")
    say(f"seed {arguments.seed}: {f'FAILED, {len(faults)} faults' if faults else 'ok'}")
    return 1 if faults else 0


def report(chaos: Chaos, nodes: list[Node], verdict: Verdict) -> None:
    """Print the counts."""
    say(f"operations: {chaos.counts.total()}")
    for name, number in sorted(chaos.counts.items()):
        say(f"    {number:6}  {name}")
    for wire in sorted({node.wire for node in nodes}):
        those = [node for node in nodes if node.wire == wire]
        connects, frames = sum(n.connects for n in those), sum(n.frames for n in those)
        what = "starts" if isinstance(those[0], AgentNode) else "connections"
        say(f"{wire}: {len(those)} nodes, {connects} {what}, {frames} frames")
    say(
        f"objects held: {verdict.held}; missing: {len(verdict.missing)}, stale:"
        f" {len(verdict.stale)}, left behind: {len(verdict.left_behind)}"
    )


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=150, help="over which they are spread")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kubeconfig", type=Path, help="an API server to use; not production")
    parser.add_argument("--dir", type=Path, help="keep logs here; else only after a failure")
    arguments = parser.parse_args()
    base = arguments.dir or Path(tempfile.mkdtemp(prefix="gm-chaos-"))
    base.mkdir(parents=True, exist_ok=True)
    say(f"seed {arguments.seed}; logs in {base}")
    logging.getLogger("gm").setLevel(logging.CRITICAL)  # edges lose their connection all the time
    code = 1

    async def bounded() -> int:
        async with asyncio.timeout(_TOTAL_SECONDS):
            return await run(arguments, base)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(bounded())
    finally:
        if code == 0 and arguments.dir is None:
            shutil.rmtree(base)
    return code


if __name__ == "__main__":
    sys.exit(main())
