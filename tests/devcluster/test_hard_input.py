"""Much, large, slow and hostile input: the right answers, and nobody else feels it.

What a single request may hold is asked of both servers; load is put on one of ours alone, in this
process, so that its memory can be seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from gm.api.meta import Json
from gm.api.resources import CONFIG_MAPS, DATASETS, FEDERATED_LEARNING_JOBS
from gm.kube import JSON_PATCH, MERGE_PATCH
from tests.cluster.cluster import Cluster
from tests.devcluster.core import WIDGETS, Http, crd, serving, widget

MIB = 1024 * 1024
CONFIG_PATH = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def config(name: str, **data: str) -> Json:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def dataset(name: str, url: str = "/x") -> Json:
    """A Dataset."""
    spec = {"url": url, "format": "txt", "nodeName": "e"}
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": name},
        "spec": spec,
    }


def nested(depth: int) -> bytes:
    """A job with a list in a list in a list."""
    lists = b"[" * depth + b"]" * depth
    return (
        b'{"apiVersion":"sedna.io/v1alpha1","kind":"FederatedLearningJob","metadata":{"name":"j"},'
        b'"spec":{"trainingWorkers":[],"aggregationWorker":{"model":{"name":"m"},"template":'
        b'{"spec":{"containers":[],"x":%s}}}}}' % lists
    )


def bomb() -> bytes:
    """YAML that is a few hundred bytes and would be hundreds of millions of objects."""
    levels = b"".join(
        b"  k%d: &%c [%s]\n" % (n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(8)
    )
    return b"apiVersion: v1\nkind: ConfigMap\nz:\n  a: &a [lol,lol,lol,lol,lol]\n" + levels


CONFIGS = CONFIG_MAPS.path("%s")
SETS = DATASETS.path("%s")
JOBS = FEDERATED_LEARNING_JOBS.path("%s")
COPY = [{"op": "copy", "from": "/spec/url", "path": f"/spec/u{n}"} for n in range(5)]
TESTS = [{"op": "test", "path": "/kind", "value": "Dataset"}] * 10_001

# method, path (of a namespace), body, content type, status, part of the message
Input = tuple[str, str, bytes, str, int, str]


def encoded(obj: Any) -> bytes:
    """JSON."""
    return msgspec.json.encode(obj)


INPUTS: dict[str, Input] = {
    "900 KiB": ("POST", CONFIGS, encoded(config("a", k="x" * 900 * 1024)), "", 201, ""),
    "more than a MiB of data": (
        *("POST", CONFIGS, encoded(config("a", k="x" * (MIB + 1))), ""),
        *(422, 'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes'),
    ),
    "1.4 MB": ("POST", SETS, encoded(dataset("a", "/" + "x" * 1_400_000)), "", 201, ""),
    "2 MB": (
        *("POST", SETS, encoded(dataset("a", "/" + "x" * 2_000_000)), ""),
        *(500, "etcdserver: request is too large"),
    ),
    "4 MB": (
        *("POST", CONFIGS, encoded(config("a", k="x" * 4_000_000)), ""),
        *(413, "Request entity too large: limit is 3145728"),
    ),
    "a patch of 4 MB": (
        *("PATCH", f"{SETS}/d", encoded({"spec": {"url": "x" * 4_000_000}}), MERGE_PATCH),
        *(413, "Request entity too large: limit is 3145728"),
    ),
    "a patch that makes it too large": (
        *("PATCH", f"{SETS}/d", encoded({"spec": {"format": "x" * 800_000}}), MERGE_PATCH),
        *(500, "etcdserver: request is too large"),
    ),
    "a patch of too many operations": (
        *("PATCH", f"{SETS}/d", encoded(TESTS), JSON_PATCH),
        *(413, "The allowed maximum operations in a JSON patch is 10000, got 10001"),
    ),
    "a patch that copies too much": (
        *("PATCH", f"{SETS}/d", encoded(COPY), JSON_PATCH),
        *(422, "the server rejected our request due to an error in our request"),
    ),
    "annotations of 300 KB": (
        "POST",
        CONFIGS,
        encoded({**config("a"), "metadata": {"name": "a", "annotations": {"k": "x" * 300_000}}}),
        *("", 422, "metadata.annotations: Too long: may not be more than 262144 bytes"),
    ),
    "nested 150 deep": ("POST", JOBS, nested(150), "", 201, ""),
    "nested 100,000 deep": ("POST", JOBS, nested(100_000), "", 400, "exceeded max depth"),
    "a patch nested 20,000 deep": (
        *("PATCH", f"{SETS}/d", b'{"a":' * 20_000 + b"1" + b"}" * 20_000, MERGE_PATCH),
        *(400, "exceeded max depth"),
    ),
    "an integer of 5,000 digits": (
        "POST",
        SETS,
        encoded({**dataset("a"), "spec": {"url": "N"}}).replace(b'"N"', b"9" * 5000),
        *("", 400, "cannot unmarshal number 9999"),
    ),
    "yaml that explodes": ("POST", CONFIGS, bomb(), "application/yaml", 400, "excessive aliasing"),
    "yaml of half a MiB": (
        "POST",
        CONFIGS,
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: half}\ndata:\n"
        + b"".join(b"  k%d: some value\n" % n for n in range(25_000)),
        *("application/yaml", 201, ""),
    ),
    "binary": ("POST", CONFIGS, bytes(range(256)) * 40, "", 400, "json parse error"),
    "binary yaml": ("POST", CONFIGS, bytes(range(256)) * 40, "application/yaml", 400, "yaml: "),
    "a form": (
        *("POST", CONFIGS, b"a=b", "application/x-www-form-urlencoded"),
        *(415, "accepted media types include: application/json"),
    ),
}


@pytest.mark.parametrize("name", INPUTS)
async def test_both_servers_answer_hard_input_alike(cluster: Cluster, name: str) -> None:
    """In time, with the same status, and about the same words."""
    method, path, body, content_type, status, message = INPUTS[name]
    async with cluster.client() as client:
        existing = dataset("d", "/" + "x" * 900_000)
        await client.create(DATASETS, cluster.namespace, existing)
        async with asyncio.timeout(10):
            answer = await client.raw(
                method,
                path.replace("%s", cluster.namespace),
                body=body,
                content_type=content_type or "application/json",
            )
    decoded = msgspec.json.decode(answer.body)
    assert answer.status == status, decoded.get("message", "")[:300]
    assert message in decoded.get("message", "")


# -- load -----------------------------------------------------------------------------------


@contextlib.contextmanager
def many_files() -> Any:
    """As many open files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory() -> float:
    """MiB of this process."""
    return float(psutil.Process().memory_info().rss) / MIB


class Pulse:
    """Another client, who asks for one small object all the time."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.slowest = 0.0
        self._answered = asyncio.Event()

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncIterator[Pulse]:
        """While the body runs, and until one that asked while it ran was answered."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._beat())
            yield self
            await self._answered.wait()
            task.cancel()

    async def _beat(self) -> None:
        while True:
            began = time.monotonic()
            assert (await self._http("GET", f"{WIDGETS}/other")).status == 200
            self.slowest = max(self.slowest, time.monotonic() - began)
            self._answered.set()
            await asyncio.sleep(0.01)


async def fill(http: Http, count: int, *, size: int = 0) -> None:
    """Create ConfigMaps, several at a time over connections that are kept."""
    context = ssl.create_default_context(cafile=str(http.server.ca_path))

    async def make(start: int) -> None:
        async with _Line(http, context) as line:
            for n in range(start, count, 8):
                obj = config(f"c{n:05}", k="x" * size)
                obj["metadata"]["labels"] = {"half": str(n % 2)}
                assert await line.post(CONFIG_PATH, encoded(obj)) == 201

    async with asyncio.TaskGroup() as group:
        for start in range(8):
            group.create_task(make(start))


class _Line:
    """One connection; a client that costs little, as the tests share a core with the server."""

    def __init__(self, http: Http, context: ssl.SSLContext) -> None:
        self._http, self._context = http, context

    async def __aenter__(self) -> _Line:
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._http.server.port, ssl=self._context
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()
        for _turn in range(3):
            await asyncio.sleep(0)

    def _send(self, method: str, path: str, body: bytes = b"") -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self._http.server.token}\r\n"
        )
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(f"{head}\r\n".encode() + body)

    async def post(self, path: str, body: bytes) -> int:
        """The status of the answer."""
        self._send("POST", path, body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        await self._reader.readexactly(length)
        return int(head.split()[1])

    async def watch(self, path: str) -> None:
        """Begin a watch."""
        self._send("GET", path)
        assert b" 200 " in await self._reader.readuntil(b"\r\n\r\n")

    async def event(self) -> Json:
        """The next event; each comes in a chunk of its own when changes are rare."""
        size = int(await self._reader.readline(), 16)
        chunk = await self._reader.readexactly(size + 2)
        event: Json = json.loads(chunk)
        return event


async def test_ten_thousand_objects(tmp_path: Path) -> None:
    """Lists, pages, selectors and watches of them; others are answered meanwhile."""
    async with serving(tmp_path) as http:
        await http("POST", WIDGETS, widget("other"))
        await fill(http, 10_000)
        before = memory()
        async with Pulse(http).beating() as pulse:
            whole = await http("GET", CONFIG_PATH)
            assert len(whole.json["items"]) == 10_000
            half = await http("GET", f"{CONFIG_PATH}?labelSelector=half%3D1")
            assert len(half.json["items"]) == 5_000
            names: list[str] = []
            token = ""
            while True:
                page = await http("GET", f"{CONFIG_PATH}?limit=2500&continue={token}")
                names += [item["metadata"]["name"] for item in page.json["items"]]
                if not (token := page.json["metadata"].get("continue", "")):
                    break
            assert names == sorted(names)
            assert len(names) == 10_000
            watched = await http("GET", f"{CONFIG_PATH}?watch=1&resourceVersion=0&timeoutSeconds=1")
            assert len(watched.body.splitlines()) == 10_000
        assert pulse.slowest < 2
        assert memory() - before < 150


async def test_a_thousand_watchers(tmp_path: Path) -> None:
    """Each gets the change; the one who makes it waits for nobody."""
    with many_files():
        async with serving(tmp_path) as http, contextlib.AsyncExitStack() as stack:
            await http("POST", WIDGETS, widget("other"))
            context = ssl.create_default_context(cafile=str(http.server.ca_path))
            before = memory()
            lines = []
            for _ in range(1000):
                line = await stack.enter_async_context(_Line(http, context))
                await line.watch(f"{WIDGETS}?watch=1&fieldSelector=metadata.name%3Dw")
                lines.append(line)
            began = time.monotonic()
            assert (await http("POST", WIDGETS, widget("w"))).status == 201
            assert time.monotonic() - began < 2
            events = await asyncio.gather(*(line.event() for line in lines))
            assert {(e["type"], e["object"]["metadata"]["name"]) for e in events} == {
                ("ADDED", "w")
            }
            # asyncio's TLS has a buffer of 256 KiB at each end of a connection
            assert memory() - before < 700


async def test_watchers_who_do_not_read_cost_nothing(tmp_path: Path) -> None:
    """Twenty who never read, fifty MiB of changes: nobody else waits, and nothing piles up."""
    async with serving(tmp_path) as http, contextlib.AsyncExitStack() as stack:
        await http("POST", WIDGETS, widget("other"))
        await http("POST", CONFIG_PATH, config("big"))
        context = ssl.create_default_context(cafile=str(http.server.ca_path))
        for _ in range(20):
            line = await stack.enter_async_context(_Line(http, context))
            await line.watch(f"{CONFIG_PATH}?watch=1")
        before = memory()
        async with Pulse(http).beating() as pulse:
            for n in range(100):
                change = {"data": {"k": f"{n}" + "x" * 512 * 1024}}
                answer = await http("PATCH", f"{CONFIG_PATH}/big", change, content_type=MERGE_PATCH)
                assert answer.status == 200
        assert pulse.slowest < 2
        assert memory() - before < 300  # a log of 32 MiB, as text and as objects


async def test_a_kind_that_goes_takes_nothing_else_along(tmp_path: Path) -> None:
    """Its objects, its watches; a kind of the same name and another shape may come after it."""
    async with serving(tmp_path) as http:
        await http("POST", WIDGETS, widget("other"))
        gears = crd("Gear")
        path = "/apis/example.com/v1/namespaces/default/gears"
        gear = {**widget("g"), "kind": "Gear"}
        async with Pulse(http).beating() as pulse:
            for size in ("integer", "string", "integer"):
                properties = gears["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
                properties["spec"]["properties"]["size"] = {"type": size}
                assert (await http("POST", CRDS, gears)).status == 201
                wrong = {**gear, "spec": {"size": 1 if size == "string" else "x"}}
                assert (await http("POST", path, wrong)).status == 422
                right = {**gear, "spec": {"size": "x" if size == "string" else 1}}
                assert (await http("POST", path, right)).status == 201
                async with http.watching(f"{path}?watch=1") as following:
                    assert (await following())["type"] == "ADDED"
                    assert (await http("DELETE", f"{CRDS}/gears.example.com")).status == 200
                    assert (await following())["type"] == "DELETED"
                await http.until(path, lambda answer: answer.status == 404)
        assert pulse.slowest < 2


async def test_a_kind_that_becomes_stricter_leaves_its_objects_readable(cluster: Cluster) -> None:
    """They can be read, watched and deleted, and made right, though they are wrong now."""
    group = f"{cluster.namespace}.example.com"
    definition = crd(group=group)
    path = f"/apis/{group}/v1/namespaces/{cluster.namespace}/widgets"
    wide = {**widget("w", 5), "apiVersion": f"{group}/v1"}
    async with cluster.client() as client:

        async def status(method: str, where: str, body: Any = None, kind: str = "") -> int:
            sent = None if body is None else encoded(body)
            content_type = kind or "application/json"
            return (await client.raw(method, where, body=sent, content_type=content_type)).status

        async def is_strict() -> bool:
            other = {**wide, "metadata": {"name": "x"}}
            return await status("POST", f"{path}?dryRun=All", other) == 422

        async def is_served() -> bool:
            return await status("GET", path) == 200

        assert await status("POST", CRDS, definition) == 201
        await cluster.wait_for(is_served)
        assert await status("POST", path, wide) == 201
        limit = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
        change = [{"op": "add", "path": limit, "value": 3}]
        assert await status("PATCH", f"{CRDS}/widgets.{group}", change, JSON_PATCH) == 200
        await cluster.wait_for(is_strict)
        assert await status("GET", f"{path}/w") == 200
        assert await status("PATCH", f"{path}/w", {"spec": {"size": 6}}, MERGE_PATCH) == 422
        assert await status("PATCH", f"{path}/w", {"spec": {"size": 2}}, MERGE_PATCH) == 200
        assert await status("DELETE", f"{path}/w") == 200
        assert await status("DELETE", f"{CRDS}/widgets.{group}") == 200
