"""Random sequences of requests to both API servers: the same answers, the same watches.

Hypothesis makes the sequences and shrinks one that is answered differently to the few requests
that matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gm.api.meta import Json, ResourceType
from gm.api.resources import (
    CONFIG_MAPS,
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
)
from gm.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from tests.cluster import servers
from tests.devcluster.scrubbing import Scrubber

WORKER: Json = {
    "model": {"name": "m"},
    "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
}
TRAINER: Json = {"dataset": {"name": "d"}, "template": WORKER["template"]}
SPECS: dict[str, Json] = {
    "pods": {"spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]}},
    "configmaps": {"data": {"a": "b"}},
    "services": {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}},
    "datasets": {"spec": {"url": "/data/x", "format": "txt", "nodeName": "e"}},
    "federatedlearningjobs": {"spec": {"aggregationWorker": WORKER, "trainingWorkers": [TRAINER]}},
}
KINDS = {r.plural: r for r in (PODS, CONFIG_MAPS, SERVICES, DATASETS, FEDERATED_LEARNING_JOBS)}

# Merge patches, which also serve as the differences between one update and the next.
METADATA: list[Json] = [
    {"metadata": {"labels": {"sel": "y"}}},
    {"metadata": {"labels": {"sel": "n", "other": "1"}}},
    {"metadata": {"labels": None}},
    {"metadata": {"labels": {}}},
    {"metadata": {"annotations": {"a": ""}}},
    {"metadata": {"finalizers": ["x.io/f"]}},
    {"metadata": {"finalizers": ["x.io/f", "y.io/g"]}},
    {"metadata": {"finalizers": []}},
    {"metadata": {"generation": 9}},
    {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
    {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}},
    {"metadata": {"labels": {"a b": "c"}}},
    {"metadata": {"labels": {"a": 1}}},
    {"metadata": {"name": "other"}},
    {"metadata": {"namespace": "other"}},
    {"metadata": {"uid": "u"}},
    {"metadata": None},
    {"bogus": 1},
    {"kind": None},
    {},
]
CHANGES: dict[str, list[Json]] = {
    "pods": [
        {"spec": {"containers": [{"name": "c", "image": "j"}]}},
        {"spec": {"containers": [{"name": "c"}]}},
        {"spec": {"containers": []}},
        {"spec": {"activeDeadlineSeconds": 5}},
        {"spec": {"activeDeadlineSeconds": 9}},
        {"spec": {"activeDeadlineSeconds": 0}},
        {"spec": {"nodeName": "n"}},
        {"spec": {"hostNetwork": "yes"}},
        {"spec": {"tolerations": [{"operator": "Exists"}]}},
        {"spec": {"bogus": 1}},
        {"status": {"phase": "Running"}},
        {"status": {"phase": "Failed", "reason": "R", "podIP": "10.0.0.1"}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"podIP": 1}},
    ],
    "configmaps": [
        {"data": {"a": "c"}},
        {"data": {"a": None, "b": "c"}},
        {"data": {"a": 1}},
        {"data": None},
        {"data": {"b c": "d"}},
        {"binaryData": {"z": "YQ=="}},
        {"binaryData": {"a": "?"}},
        {"immutable": True},
        {"immutable": False},
    ],
    "services": [
        {"spec": {"ports": [{"port": 81}]}},
        {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}},
        {"spec": {"ports": [{"port": 0}]}},
        {"spec": {"ports": None}},
        {"spec": {"type": "NodePort"}},
        {"spec": {"type": "ClusterIP"}},
        {"spec": {"clusterIP": "None"}},
        {"spec": {"selector": None}},
        {"spec": {"selector": {"b": "c"}}},
        {"spec": {"sessionAffinity": "ClientIP"}},
        {"spec": {"externalIPs": ["192.0.2.7"]}},
        {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}},
    ],
    "datasets": [
        {"spec": {"url": "s3://b/k"}},
        {"spec": {"url": 1}},
        {"spec": {"url": None}},
        {"spec": {"nodeName": None}},
        {"spec": {"bogus": {"a": 1}}},
        {"spec": None},
        {"status": {"numberOfSamples": 3}},
        {"status": {"numberOfSamples": "3"}},
        {"status": None},
    ],
    "federatedlearningjobs": [
        {"spec": {"trainingWorkers": []}},
        {"spec": {"trainingWorkers": [TRAINER, TRAINER]}},
        {"spec": {"trainingWorkers": [{"dataset": {}}]}},
        {"spec": {"trainingWorkers": None}},
        {"spec": {"minParticipants": 0}},
        {"spec": {"minParticipants": 2.0}},
        {"spec": {"minParticipants": 1.5}},
        {"spec": {"runPolicy": {}}},
        {"spec": {"runPolicy": {"cleanPodPolicy": "Foo"}}},
        {"spec": {"runPolicy": {"suspend": True, "backoffLimit": None}}},
        {"spec": {"aggregationWorker": {"template": {"spec": {"unheard": {"of": [1, None]}}}}}},
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        {"status": {"active": "x"}},
    ],
}
POINTERS: list[Json] = [
    {"op": "add", "path": "/metadata/labels", "value": {"sel": "y"}},
    {"op": "add", "path": "/metadata/labels/x", "value": "1"},
    {"op": "remove", "path": "/metadata/labels/x"},
    {"op": "replace", "path": "/metadata/annotations", "value": {"b": "c"}},
    {"op": "test", "path": "/metadata/labels/sel", "value": "y"},
    {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
    {"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"},
    {"op": "add", "path": "/spec", "value": {}},
    {"op": "remove", "path": "/spec/nothing/there"},
    {"op": "remove", "path": "/status"},
    {"op": "add", "path": "/metadata/finalizers/-", "value": "z.io/h"},
    {"op": "frob", "path": "/spec"},
    {"op": "add", "path": "spec"},
]


@dataclass(frozen=True)
class Request:
    """One request, before it is known what is there."""

    verb: str
    plural: str
    name: str = "a"
    changes: tuple[Json, ...] = ()
    version: str = ""  # of an update: "", "current", "old" or a text
    subresource: str = ""
    content_type: str = ""
    query: Mapping[str, str] = field(default_factory=dict)


PLURALS = st.sampled_from(sorted(KINDS))
NAMES = st.sampled_from(["a", "b"])


def changes_of(plural: str) -> st.SearchStrategy[Json]:
    """A change that may be made to objects of a kind, or refused."""
    return st.sampled_from(CHANGES[plural]) | st.sampled_from(METADATA)


def is_spared(request: Request) -> bool:
    """Whether a request is answered differently on purpose; see docs/devcluster.md."""
    if KINDS[request.plural].group and request.subresource == "status":
        # it changes nothing but what the real server keeps about the owners of fields
        return any("metadata" in change for change in request.changes)
    if request.plural != "services":
        return False
    if request.verb == "update":  # it may create
        return request.subresource == "status" or METADATA[9] in request.changes
    # no answer ever comes to one without a name
    return request.verb == "create" and {"metadata": None} in request.changes


@st.composite
def any_requests(draw: st.DrawFn) -> Request:
    """Any request for an object of ours, or for all of a kind."""
    plural, name = draw(PLURALS), draw(NAMES)
    verb = draw(
        st.sampled_from(["create", "create", "update", "patch", "patch", "patch", "delete", "list"])
    )
    changes = draw(st.lists(changes_of(plural), max_size=2))
    options = st.sampled_from(
        [
            {},
            {},
            {},
            {"fieldValidation": "Strict"},
            {"fieldValidation": "Ignore"},
            {"dryRun": "All"},
        ]
    )
    if verb == "create":
        return Request(verb, plural, name, tuple(changes), query=draw(options))
    if verb == "update":
        version = draw(st.sampled_from(["", "current", "current", "old", "x"]))
        part = draw(st.sampled_from(["", "", "status"]))
        return Request(verb, plural, name, tuple(changes), version, part, query=draw(options))
    if verb == "patch":
        kind = draw(st.sampled_from([MERGE_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, JSON_PATCH]))
        if kind == JSON_PATCH:
            changes = draw(st.lists(st.sampled_from(POINTERS), max_size=2))
        part = draw(st.sampled_from(["", "", "status"]))
        return Request(
            verb, plural, name, tuple(changes), "", part, content_type=kind, query=draw(options)
        )
    if verb == "delete":
        body: Json = draw(
            st.sampled_from(
                [
                    {},
                    {},
                    {"gracePeriodSeconds": 0},
                    {"gracePeriodSeconds": 5},
                    {"gracePeriodSeconds": -1},
                    {"propagationPolicy": "Background"},
                    {"propagationPolicy": "Foo"},
                    {"preconditions": {"uid": "u"}},
                    {"preconditions": {"resourceVersion": "1"}},
                    {"dryRun": ["All"]},
                    {"dryRun": ["Foo"]},
                ]
            )
        )
        return Request(verb, plural, name, (body,))
    query = draw(
        st.sampled_from(
            [
                {},
                {"labelSelector": "sel=y"},
                {"labelSelector": "sel notin (y),!x"},
                {"labelSelector": "sel in y"},
                {"fieldSelector": "metadata.name=a"},
                {"fieldSelector": "metadata.name!=a,metadata.namespace=b"},
                {"fieldSelector": "status.phase=Running"},
                {"limit": "1"},
                {"limit": "-1"},
            ]
        )
    )
    return Request(verb, plural, query=query)


def requests() -> st.SearchStrategy[Request]:
    """Any request whose answers are to be equal."""
    return any_requests().filter(lambda request: not is_spared(request))


class Side:
    """One of the servers, and what has been seen of it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.scrub = Scrubber({namespace: "NS"})
        self.begun: dict[str, str] = {}
        self.versions: dict[tuple[str, str], list[str]] = {}

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, kind: str) -> AsyncIterator[Side]:
        """A server with a fresh namespace."""
        async with await Client.connect(kubeconfig=servers.server(kind)["kubeconfig"]) as client:
            namespace = f"t-{secrets.token_hex(5)}"
            await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            side = cls(client, namespace)
            for plural, resource in KINDS.items():
                listed = await client.list(resource, namespace=namespace)
                side.begun[plural] = listed.resource_version
            yield side

    async def answer(self, request: Request) -> Json:
        """Status and body of an answer."""
        resource = KINDS[request.plural]
        seen = self.versions.setdefault((request.plural, request.name), [])
        method, path, body = _http(request, resource, self.namespace, seen)
        answer = await self.client.raw(
            method,
            path,
            query=request.query,
            body=None if body is None else msgspec.json.encode(body),
            content_type=request.content_type or "application/json",
        )
        decoded = msgspec.json.decode(answer.body)
        version = decoded["metadata"].get("resourceVersion")
        if answer.status < 300 and version and request.verb != "list":
            seen.append(version)
        if answer.status == 415:  # docs/devcluster.md: server-side apply is not served
            decoded["message"] = decoded["message"].removesuffix(", application/apply-patch+yaml")
        if causes := (decoded.get("details") or {}).get("causes"):
            # the real server names what is wrong in no order, and some of it twice
            decoded["message"] = decoded["message"].partition(" is invalid: ")[0]
            unique = {msgspec.json.encode(cause): cause for cause in causes}
            decoded["details"]["causes"] = [unique[key] for key in sorted(unique)]
        warning = answer.headers.get("Warning", "") if answer.status < 300 else ""
        return {"status": answer.status, "warning": warning, "body": self.scrub(decoded)}

    async def watched(self, plural: str, selector: str) -> list[Json]:
        """Everything that has happened to a kind, as a watch tells it."""
        resource = KINDS[plural]
        events: list[Json] = []
        stream = self.client.watch(
            resource,
            namespace=self.namespace,
            label_selector=selector,
            resource_version=self.begun[plural],
            timeout_seconds=20,
            read_deadline_seconds=25,
        )
        async with contextlib.aclosing(stream):
            async for event in stream:
                obj = msgspec.json.decode(event.object)
                if obj["metadata"].get("name") == "the-last":
                    return events
                if event.type != "BOOKMARK":
                    events.append({"type": event.type, "object": self.scrub(obj)})
        raise AssertionError(f"the watch of {plural} ended early: {events}")

    async def finish(self) -> dict[str, Any]:
        """What all watches tell, up to one more object that is made here."""
        told: dict[str, Any] = {}
        for plural, resource in KINDS.items():
            last = _object(resource, "the-last", [METADATA[0]])
            await self.client.create(resource, self.namespace, last)
            for selector in ("", "sel=y"):
                told[f"{plural} {selector}"] = await self.watched(plural, selector)
        return told


def _http(
    request: Request, resource: ResourceType, namespace: str, seen: list[str]
) -> tuple[str, str, Any]:
    """Method, path and body."""
    path = resource.path(namespace, request.name, request.subresource)
    if request.verb == "list":
        return "GET", resource.path(namespace), None
    if request.verb == "create":
        return "POST", resource.path(namespace), _object(resource, request.name, request.changes)
    if request.verb == "update":
        body = _object(resource, request.name, request.changes)
        version = {"current": seen[-1:], "old": seen[:1], "": []}.get(request.version, ["x"])
        if version and isinstance(body.get("metadata"), dict):
            body["metadata"]["resourceVersion"] = version[0]
        return "PUT", path, body
    if request.verb == "delete":
        return "DELETE", path, request.changes[0]
    if request.content_type == JSON_PATCH:
        return "PATCH", path, list(request.changes)
    body = {}
    for change in request.changes:
        body = merged(body, change, keep_null=True)
    return "PATCH", path, body


def merged(target: Any, change: Any, *, keep_null: bool = False) -> Any:
    """``target`` with a merge patch applied; or two merge patches as one."""
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None and not keep_null:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value, keep_null=keep_null)
    return result


def _object(resource: ResourceType, name: str, changes: Any) -> Json:
    obj: Json = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        **SPECS[resource.plural],
    }
    for change in changes:
        obj = merged(obj, change, keep_null=True)
    return obj


async def compare(sequence: list[Request]) -> None:
    """Send a sequence to both servers; AssertionError at the first difference."""
    async with Side.connected("embedded") as ours, Side.connected("real") as theirs:
        for request in sequence:
            got, wanted = await ours.answer(request), await theirs.answer(request)
            assert got == wanted, request
        got, wanted = await ours.finish(), await theirs.finish()
        assert got == wanted


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all sequences, where there is a real server."""
    servers.server_or_skip("real")
    with asyncio.Runner() as found:
        yield found


@settings(
    max_examples=30,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(requests(), min_size=5, max_size=25))
def test_both_servers_answer_and_tell_the_same(
    runner: asyncio.Runner, sequence: list[Request]
) -> None:
    """Answers in full, then watches of all kinds, with and without a selector."""
    runner.run(compare(sequence))
