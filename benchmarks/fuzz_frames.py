"""Throw damaged frames of both wires at a running server: it must live on and serve.

    python benchmarks/fuzz_frames.py --frames 100000 --seed 1

Good frames, randomly damaged on three levels (JSON or MessagePack, payload bytes, websocket frame),
over real connections. Ends with the counts and exit code 0 if nothing but malformed frames was
counted, no connection failed by a bug, and a healthy node is served as before.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import logging
import random
import sys
from collections import Counter

import msgspec
from websockets.frames import Opcode

from gm.config import WebsocketConfig
from gm.messagelayer import Desired, Hub, Server, Timing, WireKey, v2

NODE = "fuzzed"
KEY = WireKey("dataset", "default", "d")
VALUES = (None, True, -1, 2**63, 1.5, "", "x" * 300, "dataset", "../..", [], {}, [[]], {"a": {}})
ATTACKERS = 8
FRAMES_PER_CONNECTION = 90  # more than 100 malformed ones a minute end it


class Bugs(logging.Handler):
    """Counts what must not happen."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message and its traceback."""
        self.found.append(logging.Formatter().format(record))


class Fuzzer:
    """Makes frames; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def frame(self, wire: str) -> bytes:
        """The bytes of one websocket frame, damaged on a random level."""
        (level,) = self.chance.choices(("value", "payload", "noise", "frame"), (400, 350, 246, 4))
        payload = self._payload(wire, damage=level == "value")
        if level == "payload":
            payload = self._damaged(payload)
        if level == "noise":
            payload = self.chance.randbytes(self.chance.randrange(200))
        opcode = Opcode.TEXT if wire == "v1" else Opcode.BINARY
        if self.chance.random() < 0.003:
            opcode = self.chance.choice(list(Opcode))
        fin = 0x80 if self.chance.random() > 0.001 else 0
        frame = client_frame(fin | opcode, payload)
        return self._damaged(frame) if level == "frame" else frame

    def _payload(self, wire: str, *, damage: bool) -> bytes:
        value = self._v1() if wire == "v1" else self._v2()
        if damage:
            value = self._changed(value)
        if wire == "v1":
            return json.dumps(value, default=str).encode()
        return msgspec.msgpack.encode(value)

    def _v1(self) -> object:
        content = json.dumps({"numberOfSamples": self.chance.randrange(100)}).encode()
        header = {
            "namespace": "default",
            "resourceKind": self.chance.choice(("Dataset", "model", "federatedlearningjob")),
            "resourceName": "d",
            "operation": "status",
        }
        return {"header": header, "content": base64.b64encode(content).decode()}

    def _v2(self) -> object:
        name = (KEY.kind, KEY.namespace, KEY.name)
        return msgspec.to_builtins(
            self.chance.choice(
                (
                    v2.Hello("fuzz", (v2.Holding(*name, "u", "h"),)),
                    v2.Ack(*name, "u", "1"),
                    v2.Refused(*name, "u", "1", "no"),
                    v2.ReportFrame(*name, 1, b"{}", "u"),
                    v2.Error("what"),
                )
            ),
            builtin_types=(bytes,),
        )

    def _changed(self, value: object) -> object:
        """``value`` with something somewhere in it replaced or missing."""
        if isinstance(value, dict) and value and self.chance.random() < 0.8:
            key = self.chance.choice(list(value))
            changed = dict(value)
            if self.chance.random() < 0.2:
                del changed[key]
            else:
                changed[key] = self._changed(changed[key])
            return changed
        return self.chance.choice(VALUES)

    def _damaged(self, data: bytes) -> bytes:
        damaged = bytearray(data)
        for _ in range(self.chance.randint(1, 4)):
            if damaged:
                damaged[self.chance.randrange(len(damaged))] = self.chance.randrange(256)
        return bytes(damaged[: self.chance.randint(0, len(damaged))] or damaged)


def client_frame(first: int, payload: bytes) -> bytes:
    """A masked frame, whether or not the rules allow it; zeros leave the payload as it is."""
    size = len(payload)
    head = bytes((first, 0x80 | size)) if size < 126 else bytes((first, 0xFE)) + size.to_bytes(2)
    return head + bytes(4) + payload


async def dial(
    port: int, wire: str, node: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A raw websocket connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    subprotocol = "Sec-WebSocket-Protocol: gm.v2\r\n" if wire == "v2" else ""
    writer.write(
        f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}\r\n"
        f"Sec-WebSocket-Version: 13\r\nNode-Name: {node}\r\n{subprotocol}\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head, head
    return reader, writer


async def attack(hub: Hub, port: int, number: int, options: argparse.Namespace) -> Counter[str]:
    """Send frames over as many connections as it takes, until the server has had enough."""
    fuzzer, outcomes = Fuzzer(options.seed * 1000 + number), Counter[str]()
    while hub.counters["frames_in"] < options.frames:
        wire = fuzzer.chance.choice(("v1", "v2"))
        reader, writer = await dial(port, wire, f"{NODE}-{number}")
        outcomes["connections"] += 1
        if wire == "v2":
            writer.write(client_frame(0x80 | Opcode.BINARY, v2.encode_v2(v2.Hello())))
        for sent in range(FRAMES_PER_CONNECTION):
            writer.write(fuzzer.frame(wire))
            outcomes["sent"] += 1
            if sent % 10 == 0:
                await asyncio.sleep(0.001)  # let the server have its say
            if writer.transport.is_closing() or reader.at_eof():
                break
        writer.write(client_frame(0x80 | Opcode.PING, b"still there?"))
        try:
            async with asyncio.timeout(5):
                await reader.readuntil(b"still there?")
            outcomes["session kept"] += 1
        except TimeoutError:
            outcomes["waits for the rest of a frame"] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            outcomes["session closed"] += 1
        writer.transport.abort()
    return outcomes


async def healthy(port: int) -> None:
    """A node that keeps to the rules is served."""
    reader, writer = await dial(port, "v1", NODE)
    async with asyncio.timeout(10):
        await reader.readuntil(b'"operation":"insert"')
    writer.transport.abort()


async def run(options: argparse.Namespace) -> int:
    """Fuzz; gives the exit code."""
    bugs = Bugs()
    logging.basicConfig(level=logging.CRITICAL)
    logging.getLogger().addHandler(bugs)
    logging.getLogger("gm").setLevel(logging.ERROR)
    hub = Hub()
    hub.expect(["dataset"])
    hub.complete("dataset")
    for node in (NODE, *(f"{NODE}-{number}" for number in range(ATTACKERS))):
        hub.put(node, Desired(KEY, "u", "1", b'{"kind":"Dataset"}'))
    settings = WebsocketConfig(address="127.0.0.1", port=0, connections_per_second=10_000)
    server = Server(hub, settings, timing=Timing(close_seconds=1))
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.run())
        reports = group.create_task(drain(hub))
        await server.wait_ready()
        try:
            async with asyncio.TaskGroup() as attackers:
                attacks = [
                    attackers.create_task(attack(hub, server.port, number, options))
                    for number in range(ATTACKERS)
                ]
            await healthy(server.port)
        finally:
            serving.cancel()
            reports.cancel()
    malformed = {k: n for k, n in sorted(hub.counters.items()) if k.startswith("frames_malformed_")}
    outcomes = sum((attack.result() for attack in attacks), Counter[str]())
    print(f"seed {options.seed}: {dict(outcomes)}")
    print(f"frames taken for messages: {hub.counters['frames_in']}, malformed: {malformed}")
    print(f"of unknown types: {hub.counters['frames_unknown']}, ", end="")
    print(f"reports: {hub.counters['reports']}")
    print(f"bugs: {len(bugs.found)}")
    for bug in bugs.found[:5]:
        print(bug)
    return 1 if bugs.found else 0


async def drain(hub: Hub) -> None:
    """Take reports, as upstream does."""
    while True:
        hub.acknowledge(await hub.next_report())


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
