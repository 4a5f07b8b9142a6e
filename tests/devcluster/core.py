"""What tests of the embedded API server start from: an API without HTTP, and one with."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api, WriteOptions, Written
from gm.devcluster.apiserver import ApiServerSettings, RunningServer, assemble, running
from gm.devcluster.controller import Controller
from gm.devcluster.cursors import Feed
from gm.devcluster.info import ResourceInfo
from gm.devcluster.registry import Registry
from gm.devcluster.status import Cause, StatusError
from gm.devcluster.store import Record

__all__ = [
    "WIDGET_CRD",
    "Answer",
    "Http",
    "Plain",
    "crd",
    "lines",
    "mistakes",
    "node",
    "plain",
    "pod",
    "serving",
    "settle",
    "stored",
    "widget",
]


def lines(causes: Iterable[Cause]) -> list[str]:
    """What is wrong, a line for each field."""
    return [f"{cause.field}: {cause.message}" for cause in causes]


_REGISTRY = Registry()


def mistakes(plural: str, obj: Json, *, group: str = "", old: Json | None = None) -> list[str]:
    """What is wrong with an object, or with its change from ``old``."""
    info = _REGISTRY.lookup(group, "v1", plural)
    assert info is not None
    obj = copy.deepcopy(obj)
    meta = obj.setdefault("metadata", {})
    meta.setdefault("name", "x")
    if info.resource.namespaced:
        meta.setdefault("namespace", "default")
    try:
        if old is None:
            info.prepare_create(obj)
        else:
            info.prepare_update(obj, old)
    except StatusError as exc:
        return [f"{cause.field}: {cause.message}" for cause in exc.causes]
    return []


def stored(plural: str, obj: Json, *, group: str = "") -> Json:
    """An object as it is stored."""
    info = _REGISTRY.lookup(group, "v1", plural)
    assert info is not None
    obj = copy.deepcopy(obj)
    obj.setdefault("metadata", {}).update(name="x", namespace="default")
    info.prepare_create(obj)
    return obj


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def crd(kind: str = "Widget", *, group: str = "example.com", namespaced: bool = True) -> Json:
    """A CRD whose objects have ``spec.size`` (required), ``spec.color`` and a status."""
    plural = kind.lower() + "s"
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "color": {"type": "string", "default": "red"},
        },
    }
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": spec, "status": status},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


WIDGET_CRD = crd()


def widget(name: str, size: Any = 1, **meta: Any) -> Json:
    """A Widget."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **meta},
        "spec": {"size": size},
    }


def pod(name: str, *, meta: Json | None = None, **spec: Any) -> Json:
    """A Pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def node(name: str, *, ready: str = "True", labels: dict[str, str] | None = None) -> Json:
    """A Node; ``ready`` empty leaves the condition out."""
    status: Json = {"conditions": [{"type": "Ready", "status": ready}]} if ready else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": status,
    }


class Plain:
    """The API without HTTP, by plural names; ``default`` is the namespace unless one is given."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.store = api.store

    def info(self, plural: str) -> ResourceInfo:
        """A resource by plural, or ``plural.group``."""
        name, _, group = plural.partition(".")
        for info in self.api.registry.all():
            if (info.resource.plural, info.resource.group) == (name, group):
                return info
        raise LookupError(plural)

    def create(self, plural: str, obj: Json, *, namespace: str = "default", **options: Any) -> Json:
        """The object as it is stored."""
        return self.written(plural, obj, namespace=namespace, **options).record.object

    def written(
        self, plural: str, obj: Json, *, namespace: str = "default", **options: Any
    ) -> Written:
        """What a create gives."""
        info = self.info(plural)
        namespace = namespace if info.resource.namespaced else ""
        return self.api.create(info, namespace, msgspec_copy(obj), WriteOptions(**options))

    def key(self, plural: str, name: str, namespace: str = "default") -> ObjectKey:
        """The key of an object."""
        return ObjectKey(namespace if self.info(plural).resource.namespaced else "", name)

    def find(self, plural: str, name: str, *, namespace: str = "default") -> Record | None:
        """The record of an object, if it exists."""
        return self.api.table(self.info(plural)).get(self.key(plural, name, namespace))

    def get(self, plural: str, name: str, *, namespace: str = "default") -> Json:
        """An object that exists."""
        return self.api.get(self.info(plural), self.key(plural, name, namespace)).object

    def patch(
        self, plural: str, name: str, change: Callable[[Json], Json], *, subresource: str = ""
    ) -> Json:
        """The object after ``change``."""
        key = self.key(plural, name)
        written = self.api.patch(self.info(plural), key, change, subresource=subresource)
        return written.record.object

    def names(self, plural: str, *, namespace: str = "") -> list[str]:
        """The names of all objects."""
        return [r.key.name for r in self.api.table(self.info(plural)).records(namespace)]


def msgspec_copy(obj: Json) -> Json:
    """A deep copy, as a request would bring it."""
    copied: Json = json.loads(msgspec.json.encode(obj))
    return copied


def plain(tmp_path: Path = Path("unused"), *, widgets: bool = True) -> Plain:
    """An API without HTTP and without controllers, with the Widget CRD."""
    found = Plain(assemble(ApiServerSettings(directory=tmp_path)))
    if widgets:
        found.create("customresourcedefinitions.apiextensions.k8s.io", WIDGET_CRD)
    return found


class Settler:
    """Feeds controllers until nothing changes any more, in this thread, without a clock."""

    def __init__(self, api: Plain, *controllers: Controller[Any]) -> None:
        self._feeds = [(c, Feed(api.store, *c.kinds)) for c in controllers]

    def settle(self) -> None:
        """Reconcile everything that has changed since the last time."""
        for _ in range(100):
            quiet = True
            for controller, feed in self._feeds:
                changes = feed.take()
                quiet = quiet and not changes
                keys = dict.fromkeys(k for c in changes for k in controller.observe(c))
                for key in keys:
                    controller.reconcile(key)
            if quiet:
                return
        raise AssertionError("the controllers never come to rest")


def settle(api: Plain, *controllers: Controller[Any]) -> Settler:
    """A settler that has settled once."""
    settler = Settler(api, *controllers)
    settler.settle()
    return settler


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Json:
        """The body as JSON."""
        decoded: Json = json.loads(self.body)
        return decoded

    @property
    def events(self) -> list[Json]:
        """The body as watch events."""
        return [json.loads(line) for line in self.body.splitlines()]


class Http:
    """Requests to a running server."""

    def __init__(self, server: RunningServer, session: aiohttp.ClientSession) -> None:
        self.server, self.session = server, session

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request, answered completely."""
        sent = {"Authorization": f"Bearer {self.server.token}", **(headers or {})}
        if accept:
            sent["Accept"] = accept
        data: bytes | None = None
        if body is not None:
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
            sent["Content-Type"] = content_type
        async with self.session.request(
            method, self.server.url + path, data=data, headers=sent, allow_redirects=False
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    @contextlib.asynccontextmanager
    async def watching(self, path: str, accept: str = "") -> AsyncIterator[Callable[[], Any]]:
        """A watch that is open; gives a function that waits for the next event, None at the end."""
        headers = {"Authorization": f"Bearer {self.server.token}"}
        if accept:
            headers["Accept"] = accept
        async with self.session.get(self.server.url + path, headers=headers) as response:
            assert response.status == 200, await response.text()

            async def following() -> Json | None:
                async with asyncio.timeout(20):
                    line = await response.content.readline()
                decoded: Json | None = json.loads(line) if line else None
                return decoded

            yield following

    async def until(self, path: str, holds: Callable[[Answer], bool]) -> Answer:
        """The answer, asked for again until ``holds`` or 20 seconds are over."""
        async with asyncio.timeout(20):
            while not holds(answer := await self("GET", path)):
                await asyncio.sleep(0.01)
        return answer


@contextlib.asynccontextmanager
async def serving(directory: Path, **settings: Any) -> AsyncIterator[Http]:
    """A running server with the Widget CRD, and a client of it."""
    configured = ApiServerSettings(directory=directory, **settings)
    async with running(directory=directory, settings=configured) as server:
        context = ssl.create_default_context(cafile=str(server.ca_path))
        connector = aiohttp.TCPConnector(ssl=context, limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            http = Http(server, session)
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            assert (await http("POST", path, WIDGET_CRD)).status == 201
            yield http
