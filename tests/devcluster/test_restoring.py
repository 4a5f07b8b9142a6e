"""A new life of the server: everything is as it was, and clients of the old one are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import signal
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import aiohttp
import pytest

from gm.devcluster.apiserver import ApiServerSettings, assemble, running
from gm.devcluster.gc import GarbageCollector
from gm.devcluster.statefile import Row, Saved, SavedObject, StateFile, StateFileError
from tests.devcluster.core import (
    WIDGET_CRD,
    Answer,
    Http,
    Plain,
    crd,
    node,
    plain,
    pod,
    settle,
    widget,
)

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SERVICES = "/api/v1/namespaces/default/services"


def _kept(old: Plain) -> Saved:
    """What a state file would hold of an API."""
    objects = [
        SavedObject(table.name, record.key, record.revision, record.copy())
        for table in sorted(old.store.tables(), key=lambda table: table.name)
        for record in table.records()
    ]
    return Saved(old.store.revision, objects)


def _again(old: Plain) -> Plain:
    """The next life of an API."""
    saved = _kept(old)
    settings = ApiServerSettings(directory=Path("unused"))
    return Plain(assemble(settings, saved._replace(revision=saved.revision + 1)))


def test_objects_come_back_as_they_were() -> None:
    """Version, uid and all; custom ones, too, and their kind is served."""
    old = plain()
    created = old.create("widgets.example.com", widget("w"))
    new = _again(old)
    assert new.get("widgets.example.com", "w") == created
    assert new.store.revision > old.store.revision
    assert new.names("namespaces") == old.names("namespaces")
    assert new.patch("widgets.example.com", "w", lambda w: {**w, "spec": {"size": 2}})


def test_what_services_hold_stays_theirs() -> None:
    """Neither address nor port is given out twice."""
    old = plain()
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30123}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}
    address = old.create("services", service)["spec"]["clusterIP"]
    new = _again(old)
    taken = {**service, "metadata": {"name": "b"}}
    with pytest.raises(Exception, match="provided port is already allocated"):
        new.create("services", taken)
    with pytest.raises(Exception, match="provided IP is already allocated"):
        new.create("services", {**taken, "spec": {"clusterIP": address, "ports": [{"port": 1}]}})


def test_of_two_crds_with_one_name_the_same_is_served_again() -> None:
    """Although the other comes first in order."""
    old = plain(widgets=False)
    second = crd("Widget", group="example.com")
    second["metadata"]["name"] = "awidgets.example.com"
    second["spec"]["names"]["plural"] = "awidgets"
    old.create(CRDS, WIDGET_CRD)
    refused = old.create(CRDS, second)["status"]["conditions"]
    assert {"NamesAccepted": "False"}.items() <= {c["type"]: c["status"] for c in refused}.items()
    new = _again(old)
    assert new.info("widgets.example.com").resource.kind == "Widget"
    with pytest.raises(LookupError):
        new.info("awidgets.example.com")


def test_controllers_go_on_with_what_they_find() -> None:
    """A dependent whose owner went just before the end is collected in the next life."""
    old = plain()
    owner = old.create("widgets.example.com", widget("owner"))
    reference = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    old.create("pods", pod("orphan", meta={"ownerReferences": [reference]}))
    old.create("nodes", node("n"))
    old.api.remove(old.info("widgets.example.com"), old.key("widgets.example.com", "owner"))
    new = _again(old)
    settle(new, GarbageCollector(new.api))
    assert new.names("pods") == []


async def test_another_life_keeps_everything(tmp_path: Path) -> None:
    """Over HTTP: objects, growing versions, 410 for watches and lists of the first life."""
    settings = ApiServerSettings(directory=tmp_path, state=tmp_path / "state")
    async with _http(settings) as http:
        await http("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGET_CRD)
        for name in ("a", "b", "c"):
            await http("POST", WIDGETS, widget(name))
        await http("DELETE", f"{WIDGETS}/c")
        listed = (await http("GET", f"{WIDGETS}?limit=1")).json
        before = (await http("GET", WIDGETS)).json
    async with _http(settings) as http:
        after = (await http("GET", WIDGETS)).json
        assert after["items"] == before["items"]
        assert [item["metadata"]["name"] for item in after["items"]] == ["a", "b"]
        version = before["metadata"]["resourceVersion"]
        assert int(after["metadata"]["resourceVersion"]) > int(version)
        watched = await http("GET", f"{WIDGETS}?watch=1&resourceVersion={version}")
        assert watched.events[0]["object"]["code"] == 410
        token = listed["metadata"]["continue"]
        assert (await http("GET", f"{WIDGETS}?limit=1&continue={token}")).status == 410
        made = (await http("POST", WIDGETS, widget("d"))).json
        assert int(made["metadata"]["resourceVersion"]) > int(version)
        current = after["metadata"]["resourceVersion"]
        path = f"{WIDGETS}?watch=1&resourceVersion={current}"
        async with http.watching(path) as next_event:
            assert (await next_event())["object"]["metadata"]["name"] == "d"


async def test_versions_grow_although_the_clock_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over a life in which nothing was written."""
    settings = ApiServerSettings(directory=tmp_path, state=tmp_path / "state")
    versions = []
    for now in (10**12, 5, 5):
        monkeypatch.setattr("gm.devcluster.apiserver.first_revision", lambda now=now: now)
        async with _http(settings) as http:
            listed = (await http("GET", "/api/v1/pods")).json
            versions.append(int(listed["metadata"]["resourceVersion"]))
            if len(versions) > 1:
                path = f"/api/v1/pods?watch=1&resourceVersion={versions[-2]}"
                assert (await http("GET", path)).events[0]["object"]["code"] == 410
    assert versions[0] < versions[1] < versions[2]


async def test_a_disk_that_fails_ends_the_server_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is not told that something was made which is not kept."""
    settings = ApiServerSettings(directory=tmp_path, state=tmp_path / "state")

    def fail(_self: object, _rows: object, _revision: int) -> None:
        raise StateFileError("can not write objects.db: disk full")

    answers = []

    async def life() -> None:
        async with _http(settings) as http:
            monkeypatch.setattr("gm.devcluster.statefile.StateFile.write", fail)
            answers.append(await http("POST", "/api/v1/namespaces/default/pods", pod("p")))

    with pytest.raises(ExceptionGroup) as caught:
        await life()
    assert answers == []
    assert caught.group_contains(StateFileError, match="disk full")


async def test_nothing_is_told_before_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer to who wrote, to who reads or is refused, and no watch event."""
    settings = ApiServerSettings(directory=tmp_path, state=tmp_path / "state")
    gate, begun, write = threading.Event(), threading.Event(), StateFile.write

    def slow(self: StateFile, rows: Iterable[Row], revision: int) -> None:
        begun.set()
        gate.wait()
        write(self, rows, revision)

    pods = "/api/v1/namespaces/default/pods"
    async with _http(settings) as http, http.watching(f"{pods}?watch=1") as next_event:
        monkeypatch.setattr(StateFile, "write", slow)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(http("POST", pods, pod("p")))]
            await asyncio.to_thread(begun.wait)
            tasks += [
                group.create_task(http("POST", pods, pod("p"))),
                group.create_task(http("GET", f"{pods}/p")),
                group.create_task(http("GET", pods)),
                group.create_task(http("DELETE", f"{pods}/p?dryRun=All")),
            ]
            shown = group.create_task(next_event())
            try:
                done, _ = await asyncio.wait([*tasks, shown], timeout=0.5)
                assert not done
            finally:
                gate.set()
    assert [task.result().status for task in tasks] == [201, 409, 200, 200, 200]
    assert shown.result()["object"]["metadata"]["name"] == "p"


@contextlib.asynccontextmanager
async def _http(settings: ApiServerSettings) -> AsyncIterator[Http]:
    async with running(directory=settings.directory, settings=settings) as server:
        context = ssl.create_default_context(cafile=str(server.ca_path))
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Http(server, session)


# -- kill -9 ------------------------------------------------------------------------------------


class _Process:
    """``gm apiserver --state`` as a process of its own; killed at the end, if not before."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.url = self.token = ""
        self._process: asyncio.subprocess.Process | None = None

    async def __aexit__(self, *exc: object) -> None:
        await self.kill()

    async def __aenter__(self) -> _Process:
        """Return when it answers."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gm", "apiserver", "--port", "0", "--log-level", "warning"),
            *("--state", str(self._directory)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        text = Path(line.strip().removeprefix("export KUBECONFIG=")).read_text()
        found = [re.search(pattern, text) for pattern in (r"server: (\S+)", r"token: (\S+)")]
        self.url, self.token = (match.group(1) for match in found if match)
        return self

    async def kill(self) -> None:
        """kill -9, and wait for its end."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    def session(self) -> aiohttp.ClientSession:
        """A client of this life."""
        context = ssl.create_default_context(cafile=str(self._directory / "ca.crt"))
        return aiohttp.ClientSession(
            self.url,
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            headers={"Authorization": f"Bearer {self.token}"},
        )


MAPS = "/api/v1/namespaces/default/configmaps"


class _Writer:
    """Writes one ConfigMap after another; knows what was acknowledged and what may be."""

    def __init__(self, number: int, rng: random.Random) -> None:
        self._number, self._rng = number, rng
        self.known: dict[str, str | None] = {}  # name -> value that was acknowledged, None: deleted
        self.doubtful: dict[str, str | None] = {}  # asked for, not answered
        self.newest = 0

    async def write(self, session: aiohttp.ClientSession, life: int) -> None:
        """Until the server is gone."""
        count = 0
        while True:
            count += 1
            name, value = f"w{self._number}-{self._rng.randrange(20)}", f"{life}-{count}"
            exists = self.known.get(name) is not None
            deletes = exists and self._rng.random() < 0.2
            self.doubtful = {name: None if deletes else value}
            try:
                answer = await self._ask(session, name, value, exists=exists, deletes=deletes)
            except (aiohttp.ClientError, OSError):
                return
            assert answer.status in (200, 201), answer.body
            self.known[name] = None if deletes else value
            if not deletes:
                self.newest = int(answer.json["metadata"]["resourceVersion"])
            self.doubtful = {}

    @staticmethod
    async def _ask(
        session: aiohttp.ClientSession, name: str, value: str, *, exists: bool, deletes: bool
    ) -> Answer:
        if deletes:
            request = session.delete(f"{MAPS}/{name}")
        elif exists:
            merge = {"Content-Type": "application/merge-patch+json"}
            body = json.dumps({"data": {"value": value}})
            request = session.patch(f"{MAPS}/{name}", data=body, headers=merge)
        else:
            made = {"metadata": {"name": name}, "data": {"value": value}}
            request = session.post(MAPS, json=made)
        async with request as response:
            return Answer(response.status, response.headers, await response.read())

    def check(self, found: dict[str, str]) -> None:
        """What is there is what was acknowledged, or what was asked for last."""
        for name, value in self.known.items():
            there = found.get(name)
            assert there == value or (name in self.doubtful and there == self.doubtful[name]), name
        for name, value in found.items():
            if name.startswith(f"w{self._number}-"):
                self.known.setdefault(name, None)
                assert value in (self.known[name], self.doubtful.get(name)), name
        self.known = {n: found.get(n) for n in {*self.known, *self.doubtful}}


async def _watch(session: aiohttp.ClientSession, seen: dict[str, int]) -> None:
    """Note the newest version of each object that was shown, until the server is gone."""
    with contextlib.suppress(aiohttp.ClientError, OSError):
        async with session.get(f"{MAPS}?watch=1") as response:
            async for line in response.content:
                event = json.loads(line)
                meta = event["object"]["metadata"]
                seen[meta["name"]] = int(meta["resourceVersion"])


@pytest.mark.timeout(240)
async def test_kill_9_amid_writes_loses_nothing_that_was_acknowledged_or_shown(
    tmp_path: Path,
) -> None:
    """Three lives; after each every object is as it was acknowledged, versions only grow."""
    rng = random.Random(9)
    writers = [_Writer(number, rng) for number in range(8)]
    shown: dict[str, int] = {}
    acknowledged = 0
    for life in range(3):
        async with _Process(tmp_path / "state") as process, process.session() as session:
            listed = await (await session.get(MAPS)).json()
            found = {i["metadata"]["name"]: i["data"]["value"] for i in listed["items"]}
            version = int(listed["metadata"]["resourceVersion"])
            assert version > max(writer.newest for writer in writers)
            assert version > max(shown.values(), default=0)
            for writer in writers:
                writer.check(found)
            for item in listed["items"]:
                meta = item["metadata"]
                assert int(meta["resourceVersion"]) >= shown.get(meta["name"], 0)
            async with asyncio.TaskGroup() as group:
                group.create_task(_watch(session, shown))
                tasks = [group.create_task(w.write(session, life)) for w in writers]
                while sum(len(w.known) for w in writers) < 40 * (life + 1):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(rng.random() / 10)
                await process.kill()
                await asyncio.wait(tasks)
        acknowledged += sum(len(w.known) for w in writers)
    assert acknowledged > 100
