"""The log endpoint, over real TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from gm.edge_stub.runner.container import Exit
from gm.edge_stub.runner.kubelet_api import KubeletApi
from gm.edge_stub.runner.launch import log_path
from gm.edge_stub.runner.status import ContainerRecord
from gm.errors import ConfigError


class Served:
    """An endpoint with one pod ``ns/p`` and its container ``c``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = ContainerRecord(name="c", image="i")
        self.record.run(datetime.now(UTC), "id")
        self.log = log_path(directory / "pod", "c", 0)
        self.log.parent.mkdir(parents=True)
        self.log.write_text(
            "2026-01-02T03:04:05.000000000Z stdout F one\n"
            "2026-01-02T03:04:06.000000000Z stderr F two\n"
        )
        self.url = ""

    def api(self, *, port: int = 0, client_ca: Path | None = None) -> KubeletApi:
        """The endpoint, not listening yet."""
        return KubeletApi(
            node="edge1",
            address="127.0.0.1",
            port=port,
            directory=self.directory,
            find_log=lambda ns, pod, c: (self.record, self.directory / "pod") if c == "c" else None,
            has_pod=lambda ns, pod: (ns, pod) == ("ns", "p"),
            client_ca=client_ca,
            poll_seconds=0.005,
        )

    async def get(self, path: str = "containerLogs/ns/p/c", **query: str) -> tuple[int, str]:
        """Status and text of an answer."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/{path}", params=query, ssl=False) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A listening endpoint."""
    made = Served(tmp_path)
    async with made.api().serving() as port:
        made.url = f"https://127.0.0.1:{port}"
        yield made


async def test_logs_and_their_options(served: Served) -> None:
    """All that kubectl asks for."""
    assert await served.get() == (200, "one\ntwo\n")
    assert await served.get(tailLines="1") == (200, "two\n")
    assert await served.get(limitBytes="5") == (200, "one\nt")
    assert await served.get(sinceTime="2026-01-02T03:04:06Z") == (200, "two\n")
    stamped = (200, "2026-01-02T03:04:06.000000000Z two\n")
    assert await served.get(timestamps="true", tailLines="1") == stamped
    assert await served.get(sinceSeconds="1", follow="false") == (200, "")
    assert await served.get("healthz") == (200, "ok")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("containerLogs/ns/q/c", 404, 'pods "q" not found'),
        ("containerLogs/ns/p/d", 404, 'container "d" not found in pod "p"'),
        ("containerLogs/ns/p", 404, "Not Found"),
        ("exec/ns/p/c", 404, "Not Found"),
    ],
)
async def test_what_is_not_there(served: Served, path: str, status: int, text: str) -> None:
    """Named in the answer."""
    answer = await served.get(path)
    assert answer[0] == status
    assert text in answer[1]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"tailLines": "x"}, "invalid log options"),
        ({"tailLines": "-1"}, "must not be negative"),
        ({"sinceTime": "yesterday"}, "invalid log options"),
        ({"sinceTime": "2026-01-02T03:04:06"}, "wants a time zone"),
    ],
)
async def test_bad_options_are_refused(served: Served, query: dict[str, str], text: str) -> None:
    """400, and which."""
    answer = await served.get(**query)
    assert answer[0] == 400
    assert text in answer[1]


async def test_the_run_before_has_a_log_of_its_own(served: Served) -> None:
    """While there is one."""
    missing = 'previous terminated container "c" in pod "p" not found'
    assert await served.get(previous="true") == (400, missing)
    served.record.end(Exit(code=1, reason="Error", started_at=None, finished_at=None))
    assert await served.get(previous="true") == (400, missing), "it may be the last"
    assert await served.get() == (200, "one\ntwo\n")
    served.record.wait("CrashLoopBackOff")
    assert await served.get(previous="true") == (200, "one\ntwo\n")
    assert await served.get() == (200, "one\ntwo\n")
    served.record.run(datetime.now(UTC), "id")
    served.record.restarts = 1
    log_path(served.directory / "pod", "c", 1).write_text("T stdout F again\n")
    assert await served.get(previous="true") == (200, "one\ntwo\n")
    assert await served.get() == (200, "again\n")


async def test_a_container_that_never_ran_has_no_log(served: Served) -> None:
    """The reason why it waits is told."""
    served.log.unlink()
    assert await served.get() == (400, 'container "c" in pod "p" has no log')
    served.record.wait("ErrImageNeverPull")
    waiting = 'container "c" in pod "p" is waiting to start: ErrImageNeverPull'
    assert await served.get() == (400, waiting)


async def test_following_ends_with_the_container(served: Served) -> None:
    """What comes meanwhile is sent at once."""
    async with (
        asyncio.timeout(20),
        aiohttp.ClientSession() as session,
        session.get(
            f"{served.url}/containerLogs/ns/p/c", params={"follow": "true"}, ssl=False
        ) as answer,
    ):
        assert await answer.content.readexactly(8) == b"one\ntwo\n"
        with served.log.open("a") as file:
            file.write("T stdout F three\n")
        assert await answer.content.readline() == b"three\n"
        served.record.wait("CrashLoopBackOff")
        assert await answer.content.read() == b""


async def test_with_a_client_ca_only_its_certificates_are_let_in(tmp_path: Path) -> None:
    """As the API server's --kubelet-client-certificate."""
    first = Served(tmp_path / "one")
    async with first.api().serving():
        identity = tmp_path / "client.pem"  # a self-signed certificate is its own CA
        identity.write_bytes((tmp_path / "one" / "kubelet.pem").read_bytes())
    second = Served(tmp_path / "two")
    async with second.api(client_ca=identity).serving() as port:
        second.url = f"https://127.0.0.1:{port}"
        with pytest.raises(aiohttp.ClientError):
            await second.get()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(identity)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{second.url}/healthz", ssl=context) as answer,
        ):
            assert await answer.text() == "ok"


async def test_what_can_not_work_stops_the_start(tmp_path: Path, unused_tcp_port: int) -> None:
    """A port in use, and a CA that is none."""
    made = Served(tmp_path)
    async with made.api(port=unused_tcp_port).serving():
        with pytest.raises(ConfigError, match=f"can not listen on 127.0.0.1:{unused_tcp_port}"):
            async with made.api(port=unused_tcp_port).serving():
                pytest.fail("it listens twice")
    with pytest.raises(ConfigError, match="kubelet client CA"):
        async with made.api(client_ca=tmp_path / "none").serving():
            pytest.fail("there is no such CA")


async def test_the_key_is_nobody_elses_to_read(served: Served) -> None:
    """File mode 0600."""
    assert (served.directory / "kubelet.pem").stat().st_mode & 0o777 == 0o600
