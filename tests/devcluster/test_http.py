"""HTTP as clients of all kinds speak it, byte by byte, to both servers."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from urllib.parse import urlsplit

import pytest

from tests.cluster.cluster import Cluster

CREATE = "POST /api/v1/namespaces/NS/configmaps?dryRun=All HTTP/1.1"
READ = "GET /api/v1/namespaces/NS HTTP/1.1"
BODY = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}'
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (5, BODY[:5], len(BODY) - 5, BODY[5:])
ZIPPED = gzip.compress(BODY)


class Line:
    """A connection on which bytes are sent and read as they are."""

    def __init__(self, cluster: Cluster) -> None:
        config = cluster.read_kubeconfig()
        url = urlsplit(config["clusters"][0]["cluster"]["server"])
        self._host, self._port = url.hostname or "", url.port or 0
        self._token: str = config["users"][0]["user"]["token"]
        self._namespace = cluster.namespace

    async def __aenter__(self) -> Line:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()
        for _turn in range(3):  # the socket is closed by callbacks of the loop's next rounds
            await asyncio.sleep(0)

    def head(self, first: str, *headers: str) -> bytes:
        """The head of a request."""
        lines = [
            first.replace("NS", self._namespace),
            f"Host: {self._host}",
            f"Authorization: Bearer {self._token}",
            *(["Content-Type: application/json"] if first.startswith("POST") else []),
            *headers,
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def status(self) -> int:
        """The status of the next answer, whose head is read."""
        async with asyncio.timeout(20):
            self._last = await self._reader.readuntil(b"\r\n\r\n")
        return int(self._last.split()[1])

    async def body(self) -> bytes:
        """The body of the answer whose head was read last."""
        lines = self._last.lower().split(b"\r\n")
        length = next(int(x.split(b":")[1]) for x in lines if x.startswith(b"content-length:"))
        async with asyncio.timeout(20):
            return await self._reader.readexactly(length)


REQUESTS: dict[str, tuple[str, tuple[str, ...], bytes, int]] = {
    "a body with its length": (CREATE, (LENGTH,), BODY, 201),
    "a body in chunks": (CREATE, ("Transfer-Encoding: chunked",), CHUNKED, 201),
    "no body": (CREATE, ("Content-Length: 0",), b"", 400),
    "a compressed body, which nobody unpacks": (
        *(CREATE, ("Content-Encoding: gzip", f"Content-Length: {len(ZIPPED)}"), ZIPPED, 400),
    ),
    "a plain body that says it is compressed": (
        *(CREATE, ("Content-Encoding: deflate", LENGTH), BODY, 201),
    ),
    "an encoding that nobody knows": (CREATE, ("Content-Encoding: foo", LENGTH), BODY, 201),
    "a header of 20 KB": (READ, (f"X-Long: {'x' * 20_000}",), b"", 200),
    "a selector of 20 KB": (
        f"GET /api/v1/namespaces/NS/pods?labelSelector=a+in+({',v' * 10_000}) HTTP/1.1",
        *((), b"", 200),
    ),
    "HTTP/1.0": (READ.replace("1.1", "1.0"), (), b"", 200),
    "an absolute address": ("GET https://localhost/version HTTP/1.1", (), b"", 200),
    "a length that is none": (CREATE, ("Content-Length: x",), b"", 400),
    "two lengths": (CREATE, ("Content-Length: 3", "Content-Length: 4"), b"abcd", 400),
    "an expectation that nobody knows": (CREATE, ("Expect: foo", LENGTH), BODY, 417),
    "an upgrade that is ignored": (READ, ("Connection: Upgrade", "Upgrade: h2c"), b"", 200),
    "a body where none is wanted": (READ, ("Content-Length: 3",), b"abc", 200),
}


@pytest.mark.parametrize("case", REQUESTS)
async def test_both_servers_answer_a_request_alike(cluster: Cluster, case: str) -> None:
    """With the same status."""
    first, headers, body, expected = REQUESTS[case]
    async with Line(cluster) as line:
        line.send(line.head(first, *headers) + body)
        assert await line.status() == expected


async def test_a_client_that_asks_first_is_told_to_send_its_body(cluster: Cluster) -> None:
    """100 before the body, which curl waits for before large ones; then the answer."""
    async with Line(cluster) as line:
        line.send(line.head(CREATE, LENGTH, "Expect: 100-continue"))
        assert await line.status() == 100
        line.send(BODY)
        assert await line.status() == 201
        assert b'"ConfigMap"' in await line.body()


async def test_requests_may_follow_each_other_without_waiting(cluster: Cluster) -> None:
    """Each is answered, in their order."""
    missing = line_of("/api/v1/namespaces/NS/pods/absent")
    async with Line(cluster) as line:
        line.send(line.head(READ) + line.head(missing) + line.head(CREATE, LENGTH) + BODY)
        for expected in (200, 404, 201):
            assert await line.status() == expected
            await line.body()


def line_of(path: str) -> str:
    """The first line of a read."""
    return f"GET {path} HTTP/1.1"
