"""Leads the pods of the table through their steps on some node, and tells what was seen.

While nothing is known yet (recording), a status counts when it has not changed for a while. Once
there is a recording, each step waits for what the recording has; whatever else is there at the
end of the patience is the difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import stat
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from gm.api.meta import Json, ObjectKey
from gm.api.resources import EVENTS, PODS
from gm.errors import NotFound
from gm.kube import Client
from tests.edge_stub.runner.pod_cases import (
    Answer,
    Case,
    Change,
    Create,
    Delete,
    HasEvent,
    HasFile,
    HasLog,
    Log,
    Make,
    Remove,
    Until,
    filled,
)

__all__ = ["Ground", "observe_all"]

_SETTLED_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_FILE_BYTES = 100
_CHANCE = (
    "resulted in unknown state",  # a probe that met a container that was just ending
    "timed out waiting for the condition",  # a busy machine: a kubelet's cache was not filled yet
)
"""What a kubelet's events say by chance."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where pods run: a namespace, a node, and a directory of it that both sides reach.

    ``path`` is what pods call ``directory``; ``own`` is where a runner has its files. ``server`` is
    an address of this process that the
    node reaches. ``version`` is the kubelet's. ``patience_seconds`` is for one step.
    """

    client: Client
    namespace: str
    node: str
    path: str
    directory: Path
    own: Path | None = None
    version: str = ""
    server: str
    patience_seconds: float


class _Missing(Exception):
    """What a step waited for did not come."""


async def observe_all(
    ground: Ground, cases: Sequence[Case], recorded: Mapping[str, Json] | None
) -> dict[str, Json]:
    """What is seen of each of ``cases``, all run at once; ``recorded`` None makes a recording."""
    async with (
        _Probed.serving(ground.server) as probed,
        _Watched.watching(ground) as watched,
        asyncio.TaskGroup() as group,
    ):
        tasks = {
            case.name: group.create_task(
                _Observation(ground, case, watched, probed, recorded).run()
            )
            for case in cases
        }
        await asyncio.wait(tasks.values())
    return {name: task.result() for name, task in tasks.items()}


class _Watched:
    """All versions of all pods of the namespace, in the order of their coming."""

    def __init__(self) -> None:
        self._versions: dict[str, list[tuple[str, Json]]] = {}
        self._changed = asyncio.Condition()

    @classmethod
    @contextlib.asynccontextmanager
    async def watching(cls, ground: Ground) -> AsyncIterator[_Watched]:
        self = cls()
        listed = await ground.client.list(PODS, namespace=ground.namespace)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._watch(ground, listed.resource_version))
            yield self
            task.cancel()

    async def _watch(self, ground: Ground, version: str) -> None:
        events = ground.client.watch(
            PODS,
            namespace=ground.namespace,
            resource_version=version,
            timeout_seconds=3000,
            read_deadline_seconds=3600,
        )
        async with contextlib.aclosing(events):
            async for event in events:
                if event.type != "BOOKMARK":
                    pod = msgspec.json.decode(event.object)
                    async with self._changed:
                        versions = self._versions.setdefault(pod["metadata"]["name"], [])
                        versions.append((event.type, pod))
                        self._changed.notify_all()

    def of(self, name: str) -> list[tuple[str, Json]]:
        """What was seen of a pod: kinds of event, and the pod."""
        return self._versions.get(name, [])

    async def more(self, name: str, than: int) -> None:
        """Return once more than so many versions were seen."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.of(name)) > than)


class _Probed:
    """An HTTP server that probes ask; by path, what it answers and who asked."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[str, int] = {}
        self.requests: dict[str, Json] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def serving(cls, address: str) -> AsyncIterator[_Probed]:
        self = cls()
        app = web.Application()
        app.router.add_get("/{name}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, address, 0).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        headers = {key: value for key, value in request.headers.items() if key != "Host"}
        self.requests[name] = {"query": request.query_string, "headers": headers}
        status = self.answers.get(name, 500)
        return web.Response(status=status, text="body", headers={"Location": "http://other/"})


class _Observation:
    """One pod and what is seen of it."""

    def __init__(
        self,
        ground: Ground,
        case: Case,
        watched: _Watched,
        probed: _Probed,
        recorded: Mapping[str, Json] | None,
    ) -> None:
        self._ground, self._case = ground, case
        self._watched, self._probed = watched, probed
        self._expected: Json | None = None if recorded is None else recorded.get(case.name, {})
        self._known = {
            "host": f"{ground.path}/{case.name}",
            "node": ground.node,
            "server": ground.server,
            "port": str(probed.port),
        }
        self._directory = ground.directory / case.name
        self._cursor = 0
        self._shown = _Shown(ground, case.name)
        self.seen: Json = {"statuses": {}}

    async def run(self) -> Json:
        """Create the pod, take all steps, look at what is left, remove the pod."""
        for make in self._case.files:
            self._make(make)
        for resource, body in self._case.objects:
            await self._ground.client.create(
                resource, self._ground.namespace, filled(body, self._known)
            )
        await self._ground.client.create(PODS, self._ground.namespace, self._case.pod(self._known))
        try:
            for step in self._case.steps:
                await self._take(step)
            await self._look_at_what_is_left()
        except _Missing as exc:
            self.seen["missing"] = str(exc)
        finally:
            with contextlib.suppress(NotFound):
                await self._ground.client.delete(PODS, self._key(), grace_period_seconds=0)
        return self.seen

    def _key(self, name: str = "") -> ObjectKey:
        return ObjectKey(self._ground.namespace, name or self._case.name)

    async def _take(self, step: Any) -> None:
        client, namespace = self._ground.client, self._ground.namespace
        match step:
            case Until(name=name, holds=holds):
                self.seen["statuses"][name] = await self._until(name, holds)
            case Delete(grace_seconds=grace):
                await client.delete(PODS, self._key(), grace_period_seconds=grace)
                self.seen["statuses"]["deleted"] = await self._until_deleted()
            case Make():
                self._make(step)
            case Remove(path=path):
                (self._directory / path).unlink()
            case HasFile(path=path):
                await self._until_true(lambda: (self._directory / path).exists(), f"file {path}")
            case HasLog(text=text, container=container):
                await self._until_log(text, container)
            case HasEvent(reason=reason):
                await self._until_event(reason)
            case Create(resource=resource, body=body):
                await client.create(resource, namespace, body)
            case Change(resource=resource, patch=patch, name=name):
                await client.patch(resource, self._key(name), patch)
            case Answer(status=status):
                self._probed.answers[self._case.name] = status

    def _make(self, make: Make) -> None:
        path = self._directory / make.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make.text)

    # Statuses

    async def _until(self, name: str, holds: Callable[[Json], bool]) -> Json:
        """The status of the first version from here on that holds and is as expected."""
        wanted = None if self._expected is None else self._expected["statuses"].get(name)
        best: Json | None = None
        looked = self._cursor
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._ground.patience_seconds):
                while True:
                    versions = self._watched.of(self._case.name)
                    for index in range(looked, len(versions)):
                        if holds(versions[index][1]):
                            best, self._cursor = self._shown.status(versions[index][1]), index
                            if best == wanted:
                                return best
                    looked = len(versions)
                    if self._expected is None and best is not None:
                        return await self._settled(holds)
                    await self._watched.more(self._case.name, looked)
        if best is None:
            versions = self._watched.of(self._case.name)
            raise _Missing(f"status {name}: {self._shown.status(versions[-1][1])}")
        return best

    async def _settled(self, holds: Callable[[Json], bool]) -> Json:
        """The status once it has not changed for a while."""
        while True:
            count = len(self._watched.of(self._case.name))
            try:
                async with asyncio.timeout(_SETTLED_SECONDS):
                    await self._watched.more(self._case.name, count)
            except TimeoutError:
                break
        versions = self._watched.of(self._case.name)
        for index in range(len(versions) - 1, self._cursor - 1, -1):
            if holds(versions[index][1]):
                self._cursor = index
                return self._shown.status(versions[index][1])
        raise AssertionError("the watch loses nothing")

    async def _until_deleted(self) -> Json:
        def last() -> Json | None:
            kind, pod = self._watched.of(self._case.name)[-1]
            return pod if kind == "DELETED" else None

        pod = await self._until_true(last, "the end of the pod")
        shown = self._shown.status(pod)
        # A kubelet's last status is a race between its writer and the removal of network and
        # containers: the address may be gone, and a removed container counts as a restart.
        for field in ("podIP", "podIPs"):
            shown.pop(field, None)
        for field in ("containerStatuses", "initContainerStatuses"):
            for status in shown.get(field, {}).values():
                del status["restartCount"]
        return shown

    # Other things

    async def _until_true(self, look: Callable[[], Any], what: str) -> Any:
        try:
            async with asyncio.timeout(self._ground.patience_seconds):
                while not (found := look()):
                    await asyncio.sleep(_LOOK_SECONDS)
                return found
        except TimeoutError:
            raise _Missing(what) from None

    async def _until_log(self, text: str, container: str) -> None:
        async def look() -> bool:
            return text in str((await self._log(Log(container)))["text"])

        await self._until_async(look, f"{text} in the log of {container}")

    async def _until_event(self, reason: str) -> None:
        async def look() -> bool:
            return any(event.split()[1].rstrip(":") == reason for event in await self._events())

        await self._until_async(look, f"event {reason}; there are {await self._events()}")

    async def _until_async(self, look: Callable[[], Any], what: str) -> None:
        try:
            async with asyncio.timeout(self._ground.patience_seconds):
                while not await look():
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise _Missing(what) from None

    async def _log(self, log: Log) -> Json:
        query = dict(log.query) | ({"container": log.container} if log.container else {})
        answer = await self._ground.client.raw(
            "GET", PODS.path(self._ground.namespace, self._case.name, "log"), query=query
        )
        text = answer.body.decode(errors="replace")
        if answer.status != 200:
            text = msgspec.json.decode(answer.body)["message"]
        return {"code": answer.status, "text": self._shown.text(text)}

    async def _logs(self) -> Json:
        return {log.name: await self._log(log) for log in self._case.logs}

    async def _events(self) -> list[str]:
        listed = await self._ground.client.list(
            EVENTS,
            namespace=self._ground.namespace,
            field_selector=f"involvedObject.name={self._case.name}",
        )
        events = [msgspec.json.decode(item) for item in listed.items]
        return sorted(
            {
                self._shown.text(f"{event['type']} {event['reason']}: {event['message']}")
                for event in events
                if not any(text in event["message"] for text in _CHANCE)
            }
        )

    async def _look_at_what_is_left(self) -> None:
        is_deleted = isinstance(self._case.steps[-1], Delete)
        if not is_deleted:
            self.seen["logs"] = await self._as_expected(self._logs, "logs")
        if self._case.name in self._probed.requests:
            self.seen["request"] = self._probed.requests[self._case.name]
            agent = self.seen["request"]["headers"]["User-Agent"]
            self.seen["request"]["headers"]["User-Agent"] = agent.partition("/")[0]
        self.seen["files"] = self._files()
        self.seen["events"] = await self._as_expected(self._events, "events")
        phases = [
            pod["status"]["phase"]
            for _, pod in self._watched.of(self._case.name)
            if (pod.get("status") or {}).get("phase")
        ]
        # a container that ends at once may or may not be seen running
        is_seen = any(s["phase"] == "Running" for s in self.seen["statuses"].values())
        if not is_seen:
            phases = [phase for phase in phases if phase != "Running"]
        self.seen["phases"] = [
            phase for n, phase in enumerate(phases) if n == 0 or phases[n - 1] != phase
        ]

    async def _as_expected(self, look: Callable[[], Any], place: str) -> Any:
        """What ``look`` gives, once it is what the recording has at ``place``."""
        if self._expected is None:
            await asyncio.sleep(_SETTLED_SECONDS)
            return await look()
        wanted = self._expected.get(place)
        found = await look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._ground.patience_seconds):
                while found != wanted:
                    await asyncio.sleep(_LOOK_SECONDS)
                    found = await look()
        return found

    def _files(self) -> Json:
        if not self._directory.is_dir():
            return {}
        return {
            str(path.relative_to(self._directory)): self._file(path)
            for path in sorted(self._directory.rglob("*"))
        }

    def _file(self, path: Path) -> str:
        """Mode, and what is in it if that is little."""
        status = path.lstat()
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        if path.is_dir():
            return f"{mode} directory"
        text = path.read_text() if status.st_size < _FILE_BYTES else f"{status.st_size} bytes"
        return f"{mode} {text}"


_IDENTITY = re.compile(r"[a-z0-9-]+://[0-9a-zA-Z/._-]+\Z|sha256:[0-9a-f]{64}\Z")
_TIMES = frozenset({"startedAt", "finishedAt"})
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")
_CAPACITY = re.compile(r"used: \d+, capacity: \d+")
_TOKEN = re.compile(r"kube-api-access-[a-z0-9]{5}\b")
_LONG = re.compile(r"((\d{9,10}\n?)\2{9,})")


def _counted(match: re.Match[str]) -> str:
    """What stands for a text that is repeated."""
    return f"<{len(match[1]) // len(match[2])} times {match[2]!r}>"


class _Shown:
    """Turns what is of one run only into what it is."""

    def __init__(self, ground: Ground, name: str) -> None:
        self._name = name
        self._known = {
            f"{ground.path}/{name}": "HOST",
            **({str(ground.own): "MACHINE"} if ground.own else {}),
            ground.namespace: "NS",
            ground.node: "NODE",
        }

    def text(self, text: str) -> str:
        """``text`` without names of this run."""
        for known in sorted(self._known, key=len, reverse=True):  # one may begin another
            text = text.replace(known, self._known[known])
        text = _CAPACITY.sub("capacity: N", text)
        text = _TOKEN.sub("kube-api-access-X", _STAMP.sub("STAMP", text))
        return _LONG.sub(_counted, text)

    def status(self, pod: Json) -> Json:
        """The pod's status."""
        status: Json = dict(pod.get("status") or {})
        self._known.setdefault(pod["metadata"]["uid"], "UID")
        for field, name in (("hostIP", "HOST_IP"), ("podIP", "POD_IP")):
            if status.get(field):
                self._known.setdefault(status[field], name)
        if "startTime" in status:
            status["startTime"] = "TIME"
        if "conditions" in status:
            status["conditions"] = [self._condition(c) for c in status["conditions"]]
        for field in ("containerStatuses", "initContainerStatuses"):
            if field in status:
                status[field] = {one.pop("name"): one for one in map(dict, status[field])}
        shown: Json = self._value("", status)
        return shown

    def _condition(self, condition: Json) -> str:
        """As one line; @ stands before the observedGeneration."""
        text = f"{condition['type']} {condition['status']}"
        if "observedGeneration" in condition:
            text += f" @{condition['observedGeneration']}"
        if "reason" in condition:
            text += f" {condition['reason']}"
        if "message" in condition:
            text += f": {condition['message']}"
        return self.text(text)

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: self._value(name, item) for name, item in value.items() if item is not None
            }
        if isinstance(value, list):
            return [self._value("", item) for item in value]
        if key in _TIMES:
            return "EPOCH" if value == "1970-01-01T00:00:00Z" else "TIME"
        if isinstance(value, str):
            return "ID" if _IDENTITY.match(value) else self.text(value)
        return value
