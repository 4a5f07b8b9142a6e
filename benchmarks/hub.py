"""What the message layer costs: many nodes, one server process, load from this one, loopback.

    python benchmarks/hub.py                 # everything, a few minutes
    python benchmarks/hub.py --nodes 500 --idle 1000 --seconds 3

For each of wire v1, wire v2 and, beside them, a bare `websockets` server that sends the same bytes:
how long it takes until all nodes have connected and hold their desired state, how late updates
arrive, and what a node, a connect and an update cost in memory and CPU time of the server process.
Each node holds five objects of 1 KiB, one of its own and four that all nodes share. The v1 record
lies in a store that answers after 5 ms, about what a small API server needs.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import os
import random
import resource
import secrets
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import Opcode

from gm.config import WebsocketConfig
from gm.messagelayer import Desired, Hub, Server, ShardConflict, ShardedRecord, WireKey, v2

SHARED = 4
PADDING = b"x" * 900
OBJECTS = SHARED + 1
KINDS = ("v2", "v1", "bare")
TARGETS = {
    "kib_per_node": 16.0,
    "cpu_ms_per_update": 0.15,
    "p99_ms": 50.0,
    "sync_v2": 1.5,
    "sync_v1": 3.0,
}


def desired(name: str, version: int) -> Desired:
    """An object of about 1 KiB that says when it was made."""
    content = (
        b'{"kind":"Dataset","metadata":{"name":"%s","namespace":"default","uid":"uid-%s"},'
        b'"spec":{"t": %d,"padding":"%s"}}'
        % (name.encode(), name.encode(), time.monotonic_ns(), PADDING)
    )
    key = WireKey("dataset", "default", name)
    return Desired(key, f"uid-{name}", str(version), content)


def sent_at(content: bytes) -> int:
    """When an object was made."""
    start = content.index(b'"t": ') + 5
    return int(content[start : content.index(b",", start)])


# The server process.


class SlowStore:
    """Shards in memory, as far away as an API server."""

    def __init__(self) -> None:
        self.shards: dict[int, tuple[bytes, str]] = {}
        self.operations = 0

    async def read(self, shard: int) -> tuple[bytes, str]:
        """See :class:`gm.messagelayer.ShardStore`."""
        self.operations += 1
        await asyncio.sleep(0.005)
        return self.shards.get(shard, (b"", ""))

    async def write(self, shard: int, content: bytes, version: str) -> str:
        """See :class:`gm.messagelayer.ShardStore`."""
        self.operations += 1
        await asyncio.sleep(0.005)
        if self.shards.get(shard, (b"", ""))[1] != version:
            raise ShardConflict
        self.shards[shard] = content, secrets.token_hex(4)
        return self.shards[shard][1]


class GmTarget:
    """Hub and server as GM runs them."""

    def __init__(self) -> None:
        self.store = SlowStore()
        self.hub = Hub(record=ShardedRecord(self.store))
        self.hub.expect(["dataset"])

    async def start(self, group: asyncio.TaskGroup) -> int:
        """Listen; gives the port."""
        settings = WebsocketConfig(
            address="127.0.0.1", port=0, connections_per_second=100_000, max_nodes=19_000
        )
        server = Server(self.hub, settings)
        group.create_task(server.run())
        await server.wait_ready()
        return server.port

    def prepare(self, nodes: int) -> None:
        """Want five objects on each node."""
        shared = [desired(f"shared{number}", 0) for number in range(SHARED)]
        for number in range(nodes):
            for each in shared:
                self.hub.put(f"n{number}", each)
            self.hub.put(f"n{number}", desired(f"own{number}", 0))
        self.hub.complete("dataset")

    def update(self, number: int, version: int) -> None:
        """Make a new version of a node's own object."""
        self.hub.put(f"n{number}", desired(f"own{number}", version))

    def counters(self) -> dict[str, int]:
        """What else is worth knowing."""
        return {**self.hub.counters, "record_operations": self.store.operations}


class BareTarget:
    """The library's own server; it sends the frames that a v2 session would, and knows no more."""

    def __init__(self) -> None:
        self.connections: dict[str, ServerConnection] = {}
        self.payloads: dict[str, list[bytes]] = {}
        self.group: asyncio.TaskGroup | None = None

    async def start(self, group: asyncio.TaskGroup) -> int:
        """Listen; gives the port."""
        self.group = group
        server = await serve(
            self.handle, "127.0.0.1", 0, compression=None, max_size=2**23, backlog=4096
        )
        return server.sockets[0].getsockname()[1]

    async def handle(self, connection: ServerConnection) -> None:
        """Send a node what it shall hold."""
        assert connection.request is not None
        node = connection.request.headers["Node-Name"]
        self.connections[node] = connection
        for payload in self.payloads.get(node, ()):
            await connection.send(payload)
        async for _ in connection:
            pass

    def prepare(self, nodes: int) -> None:
        """Want five objects on each node."""
        shared = [self.payload(desired(f"shared{number}", 0)) for number in range(SHARED)]
        for number in range(nodes):
            self.payloads[f"n{number}"] = [*shared, self.payload(desired(f"own{number}", 0))]

    def update(self, number: int, version: int) -> None:
        """Make a new version of a node's own object."""
        assert self.group is not None
        payload = self.payload(desired(f"own{number}", version))
        self.group.create_task(self.connections[f"n{number}"].send(payload))

    def payload(self, version: Desired) -> bytes:
        """What a v2 session would send."""
        key = version.key
        return v2.encode_v2(
            v2.Put(key.kind, key.namespace, key.name, version.uid, version.digest, version.content)
        )

    def counters(self) -> dict[str, int]:
        """What else is worth knowing."""
        return {}


def stats() -> dict[str, float]:
    """Memory and CPU time of this process; that of the collection for it is left out."""
    cpu = time.process_time()
    gc.collect()
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    rss_kib = pages * resource.getpagesize() / 1024
    return {"rss_kib": rss_kib, "cpu": cpu, "cpu_from_here": time.process_time()}


async def send_updates(target: GmTarget | BareTarget, nodes: int, rate: int, count: int) -> None:
    """One update per node and round, in random order, evenly spread over time."""
    order: list[int] = []
    began = asyncio.get_running_loop().time()
    for number in range(count):
        if not order:
            order = random.sample(range(nodes), nodes)
        target.update(order.pop(), number + 1)
        ahead = began + number / rate - asyncio.get_running_loop().time()
        if ahead > 0.002:
            await asyncio.sleep(ahead)
        elif number % 10 == 0:
            await asyncio.sleep(0)


async def serve_commands(kind: str) -> None:
    """The server process: commands come as JSON lines on stdin, answers go to stdout."""
    loop = asyncio.get_running_loop()
    target: GmTarget | BareTarget = BareTarget() if kind == "bare" else GmTarget()
    async with asyncio.TaskGroup() as group:
        print(json.dumps({"port": await target.start(group)}), flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            match command["do"]:
                case "prepare":
                    target.prepare(command["nodes"])
                case "updates":
                    await send_updates(target, command["nodes"], command["rate"], command["count"])
            print(json.dumps({**stats(), **target.counters()}), flush=True)
        os._exit(0)


# The load process.


class Node(asyncio.Protocol):
    """A websocket client that does just enough: answers pings, acknowledges, counts."""

    def __init__(self, name: str, wire: str, took: Callable[[Node, bytes], None]) -> None:
        self.name, self.wire, self._took = name, wire, took
        self._buffer = b""
        self._is_open = False
        self.objects = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Shake hands."""
        self.transport = transport = cast(asyncio.Transport, transport)
        subprotocol = "Sec-WebSocket-Protocol: gm.v2\r\n" if self.wire == "v2" else ""
        transport.write(
            f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(b'0123456789abcdef').decode()}\r\n"
            f"Sec-WebSocket-Version: 13\r\nNode-Name: {self.name}\r\n{subprotocol}\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Take frames."""
        self._buffer += data
        self._answers: list[bytes] = []
        if not self._is_open:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            assert b" 101 " in head.splitlines()[0], head
            self._is_open, self._buffer = True, rest
            if self.wire == "v2":
                self.send(Opcode.BINARY, v2.encode_v2(v2.Hello("bench", ())))
        while (frame := self._frame()) is not None:
            opcode, payload = frame
            if opcode == Opcode.PING:
                self.send(Opcode.PONG, payload)
            elif opcode in (Opcode.TEXT, Opcode.BINARY):
                self._took(self, payload)
        if self._answers:
            self.transport.write(b"".join(self._answers))

    def _frame(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        length, start = buffer[1], 2
        if length == 126:
            length, start = struct.unpack_from(">H", buffer, 2)[0], 4
        if len(buffer) < start + length:
            return None
        self._buffer = buffer[start + length :]
        return buffer[0] & 0x0F, buffer[start : start + length]

    def send(self, opcode: Opcode, payload: bytes) -> None:
        """A frame, masked with zeros, which leaves it as it is; goes out with others."""
        size = len(payload)
        head = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
        self._answers.append(bytes([0x80 | opcode]) + head + b"\0\0\0\0" + payload)


class Fleet:
    """All nodes of one run."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.nodes: list[Node] = []
        self.latencies: list[float] = []
        self.synced = 0
        self.news = asyncio.Event()

    def took(self, node: Node, payload: bytes) -> None:
        """Count what came, and acknowledge it where the wire has a word for that."""
        content = b""
        if self.wire == "v1":
            content = base64.b64decode(json.loads(payload)["content"])
        else:
            message = v2.decode_from_gm(payload)
            if not isinstance(message, v2.Put):
                return
            content = message.content
            if self.wire == "v2":
                ack = v2.Ack(
                    message.kind, message.namespace, message.name, message.uid, message.digest
                )
                node.send(Opcode.BINARY, v2.encode_v2(ack))
        node.objects += 1
        if node.objects > OBJECTS:
            self.latencies.append((time.monotonic_ns() - sent_at(content)) / 1e6)
        self.synced += node.objects == OBJECTS
        self.news.set()

    async def connect(self, port: int, count: int, *, at_once: int = 400) -> None:
        """Dial ``count`` nodes."""
        loop = asyncio.get_running_loop()
        gate = asyncio.Semaphore(at_once)

        async def dial(number: int) -> None:
            async with gate:
                _, node = await loop.create_connection(
                    lambda: Node(f"n{number}", self.wire, self.took), "127.0.0.1", port
                )
                self.nodes.append(node)

        async with asyncio.TaskGroup() as group:
            for number in range(len(self.nodes), count):
                group.create_task(dial(number))

    async def wait(self, condition: Callable[[], bool], seconds: float) -> None:
        """Return when ``condition`` holds."""
        async with asyncio.timeout(seconds):
            while not condition():
                self.news.clear()
                await self.news.wait()

    def close(self) -> None:
        """Hang up."""
        for node in self.nodes:
            node.transport.abort()


class Target:
    """The server process, seen from here."""

    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port: int = self._read()["port"]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    async def do(self, **command: Any) -> dict[str, Any]:
        """Run a command there; gives the statistics after it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return await asyncio.get_running_loop().run_in_executor(None, self._read)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


async def measure(kind: str, options: argparse.Namespace) -> dict[str, float]:
    """All figures of one kind of server."""
    result: dict[str, float] = {}
    target = Target(kind)
    fleet = Fleet(kind)
    try:
        empty = await target.do(do="stats")
        prepared = await target.do(do="prepare", nodes=options.nodes)
        began = time.monotonic()
        await fleet.connect(target.port, options.nodes)
        await fleet.wait(lambda: fleet.synced == options.nodes, 300)
        result["sync_seconds"] = time.monotonic() - began
        await asyncio.sleep(1)
        synced = await target.do(do="stats")
        result["cpu_ms_per_connect"] = (
            (synced["cpu"] - prepared["cpu_from_here"]) * 1e3 / options.nodes
        )
        result["kib_per_node"] = (synced["rss_kib"] - empty["rss_kib"]) / options.nodes
        result["record_operations"] = synced.get("record_operations", 0)

        count = options.rate * options.seconds
        if kind == "v1":
            count = min(count, options.nodes)  # one update per object: they are paced
        after = await target.do(do="updates", nodes=options.nodes, rate=options.rate, count=count)
        await fleet.wait(lambda: len(fleet.latencies) >= count, 60)
        result["cpu_ms_per_update"] = (after["cpu"] - synced["cpu_from_here"]) * 1e3 / count
        latencies = sorted(fleet.latencies)
        result["p50_ms"] = latencies[len(latencies) // 2]
        result["p99_ms"] = latencies[int(len(latencies) * 0.99)]
        result["lost"] = count - len(latencies)
    finally:
        fleet.close()
        target.close()
    return result


async def measure_idle(kind: str, options: argparse.Namespace) -> dict[str, float]:
    """What nodes cost that hold nothing and of which nothing is wanted."""
    target = Target(kind)
    fleet = Fleet(kind)
    try:
        await target.do(do="prepare", nodes=0)
        empty = await target.do(do="stats")
        await fleet.connect(target.port, options.idle)
        await asyncio.sleep(3)
        before = await target.do(do="stats")
        await asyncio.sleep(options.idle_seconds)
        after = await target.do(do="stats")
        cpu = (after["cpu"] - before["cpu_from_here"]) / options.idle_seconds
        return {
            "kib_per_idle_node": (before["rss_kib"] - empty["rss_kib"]) / options.idle,
            "idle_cpu_percent": cpu * 100,
        }
    finally:
        fleet.close()
        target.close()


async def run(options: argparse.Namespace) -> bool:
    """Measure and print; whether all targets are met."""
    results: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        results[kind] = await measure(kind, options) | await measure_idle(kind, options)
        print(f"{kind}: done", file=sys.stderr, flush=True)
    names = list(results["v2"])
    print(
        f"{options.nodes} nodes, {OBJECTS} objects each, {options.rate} updates/s,"
        f" {options.idle} idle nodes"
    )
    print(f"{'':22}" + "".join(f"{kind:>12}" for kind in KINDS))
    for name in names:
        print(f"{name:22}" + "".join(f"{results[kind][name]:12.2f}" for kind in KINDS))
    bare = results["bare"]["sync_seconds"]
    ok = True
    for kind in ("v2", "v1"):
        checks = {
            **{name: (results[kind][name], TARGETS[name]) for name in TARGETS if name in names},
            "sync / bare": (results[kind]["sync_seconds"] / bare, TARGETS[f"sync_{kind}"]),
            "lost": (results[kind]["lost"], 0),
        }
        for name, (value, most) in checks.items():
            ok &= value <= most
            verdict = "ok" if value <= most else "MISSED"
            print(f"{kind} {name}: {value:.2f}, target at most {most:g}: {verdict}")
    return ok


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--idle-seconds", type=int, default=25)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if options.serve:
            runner.run(serve_commands(options.serve))
        else:
            sys.exit(0 if runner.run(run(options)) else 1)


if __name__ == "__main__":
    main()
