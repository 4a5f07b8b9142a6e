"""The client: what it sends, what it makes of answers, and real servers' word for both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gm.api.meta import ObjectKey, PartialObject, ResourceType
from gm.api.resources import CONFIG_MAPS, DATASETS, NODES, PODS
from gm.errors import (
    AlreadyExists,
    ApiError,
    ApiUnreachable,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ResourceExpired,
    TooManyRequests,
    Unauthorized,
)
from gm.kube import JSON_PATCH, STRATEGIC_MERGE_PATCH, Client
from tests.cluster.cluster import Cluster
from tests.fakes.kube_api import FakeKubeApi, status

KEY = ObjectKey("ns", "one")
WATCH = {"timeout_seconds": 5, "read_deadline_seconds": 8.0}


@pytest.fixture
async def client(api: FakeKubeApi) -> AsyncIterator[Client]:
    """A client of the scripted API server."""
    async with await Client.connect(master=api.url) as connected:
        yield connected


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name}, "data": data}


def listed(*names: str, version: str = "7", **metadata: str) -> dict[str, Any]:
    """A page of a list."""
    return {
        "metadata": {"resourceVersion": version, **metadata},
        "items": [{"metadata": {"name": name, "namespace": "ns"}} for name in names],
    }


# what is sent


async def test_every_verb_is_sent_as_the_api_wants_it(api: FakeKubeApi, client: Client) -> None:
    """Method, path, content type and body of each request."""
    api.handler = lambda request: {}
    await client.get(PODS, KEY)
    await client.create(PODS, "ns", {"metadata": {"name": "one"}})
    await client.replace(DATASETS, KEY, b"{}", subresource="status")
    await client.patch(DATASETS, KEY, {"status": {}}, subresource="status")
    await client.patch(PODS, KEY, [{"op": "test"}], content_type=JSON_PATCH)
    await client.delete(PODS, KEY, uid="u", grace_period_seconds=0, propagation_policy="Background")
    sent = [(r.method, r.path, r.headers.get("Content-Type"), r.body) for r in api.requests]
    pods, datasets = "/api/v1/namespaces/ns/pods", "/apis/sedna.io/v1alpha1/namespaces/ns/datasets"
    merge, patch = "application/merge-patch+json", "application/json-patch+json"
    assert sent[:5] == [
        ("GET", f"{pods}/one", None, b""),
        ("POST", pods, "application/json", b'{"metadata":{"name":"one"}}'),
        ("PUT", f"{datasets}/one/status", "application/json", b"{}"),
        ("PATCH", f"{datasets}/one/status", merge, b'{"status":{}}'),
        ("PATCH", f"{pods}/one", patch, b'[{"op":"test"}]'),
    ]
    assert sent[5][:2] == ("DELETE", f"{pods}/one")
    assert json.loads(sent[5][3]) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }
    assert {r.headers["User-Agent"] for r in api.requests} == {"gm"}


async def test_selectors_reach_the_server_encoded_P1_086(api: FakeKubeApi, client: Client) -> None:
    """Also with the characters that selectors are made of."""
    api.answers = [listed()]
    await client.list(
        PODS, namespace="ns", label_selector="a in (b,c),!d", field_selector="spec.nodeName=n"
    )
    assert api.requests[0].query == {
        "labelSelector": "a in (b,c),!d",
        "fieldSelector": "spec.nodeName=n",
        "limit": "500",
    }


async def test_a_server_below_a_path_is_reached_there(api: FakeKubeApi) -> None:
    """Proxies serve clusters below a prefix."""
    api.handler = lambda request: {}
    async with await Client.connect(master=f"{api.url}/k8s/clusters/c-1/") as client:
        await client.get(NODES, ObjectKey("", "n"))
    assert api.requests[0].path == "/k8s/clusters/c-1/api/v1/nodes/n"


# lists


async def test_a_list_is_read_in_pages_P1_086(api: FakeKubeApi, client: Client) -> None:
    """Each page is asked for with the token of the one before; the version is the last one's."""
    api.answers = [
        listed("a", "b", version="7", **{"continue": "next+1"}),
        listed("c", version="7", **{"continue": "next2"}),
        listed("d", version="7"),
    ]
    result = await client.list(PODS, limit=2, resource_version="5")
    names = [msgspec.json.decode(raw)["metadata"]["name"] for raw in result.items]
    assert (names, result.resource_version) == (["a", "b", "c", "d"], "7")
    queries = [r.query for r in api.requests]
    assert queries == [
        {"limit": "2", "resourceVersion": "5"},
        {"limit": "2", "continue": "next+1"},
        {"limit": "2", "continue": "next2"},
    ]


async def test_a_list_that_expires_between_pages_starts_over(
    api: FakeKubeApi, client: Client
) -> None:
    """Nothing of the first attempt is in the result."""
    api.answers = [
        listed("old", version="7", **{"continue": "x"}),
        (410, status(410, "Expired", "the provided continue parameter is too old")),
        listed("new", version="9"),
    ]
    result = await client.list(PODS)
    assert result.resource_version == "9"
    assert len(result.items) == 1
    assert "continue" not in api.requests[2].query


async def test_a_list_that_always_expires_is_an_error(api: FakeKubeApi, client: Client) -> None:
    """After three starts, not never."""
    api.answers = [
        listed("old", **{"continue": "x"}),
        (410, status(410, "Expired")),
    ] * 3
    with pytest.raises(ResourceExpired):
        await client.list(PODS)
    assert len(api.requests) == 6


async def test_a_list_of_an_expired_version_is_not_begun_again(
    api: FakeKubeApi, client: Client
) -> None:
    """It could only fail again."""
    api.answers = [(410, status(410, "Expired"))]
    with pytest.raises(ResourceExpired):
        await client.list(PODS, resource_version="1")


async def test_an_empty_list_of_null_is_empty(api: FakeKubeApi, client: Client) -> None:
    """Go encodes an empty slice as null."""
    api.answers = [{"metadata": {"resourceVersion": "3"}, "items": None}]
    assert (await client.list(PODS)).items == []


# errors


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", ResourceExpired),
        (415, "UnsupportedMediaType", BadRequest),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ApiError),
    ],
)
async def test_each_status_has_its_error(
    api: FakeKubeApi, client: Client, code: int, reason: str, kind: type[ApiError]
) -> None:
    """Errors name verb, resource and object, and what the server said."""
    api.answers = [(code, status(code, reason, "because of that"))]
    with pytest.raises(kind) as caught:
        await client.get(DATASETS, KEY)
    assert type(caught.value) is kind
    assert str(caught.value) == (
        f"get datasets.sedna.io ns/one failed: {code} {reason}: because of that"
    )


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "7"}, {}, 7),
        ({}, {"retryAfterSeconds": 3}, 3),
        ({}, {}, 1),
        ({"Retry-After": "soon"}, {}, 1),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, {}, 1),
    ],
)
async def test_the_servers_wish_for_patience_is_handed_on_P1_080(
    api: FakeKubeApi,
    client: Client,
    headers: dict[str, str],
    details: dict[str, int],
    seconds: float,
) -> None:
    """From the header, else from the Status, else a second."""
    body = status(429, "TooManyRequests", "later", **details)
    api.answers = [web.json_response(body, status=429, headers=headers)]
    with pytest.raises(TooManyRequests) as caught:
        await client.get(PODS, KEY)
    assert caught.value.retry_after_seconds == seconds


async def test_a_server_that_warms_up_asks_for_patience_P1_080(
    api: FakeKubeApi, client: Client
) -> None:
    """503 with Retry-After is the same wish."""
    api.answers = [web.Response(status=503, text="not yet", headers={"Retry-After": "2"})]
    with pytest.raises(TooManyRequests) as caught:
        await client.get(PODS, KEY)
    assert caught.value.retry_after_seconds == 2


async def test_an_answer_that_is_no_status_is_quoted_shortly(
    api: FakeKubeApi, client: Client
) -> None:
    """Proxies answer in HTML."""
    api.answers = [web.Response(status=502, text="<html>\n bad   gateway" + "x" * 10_000)]
    with pytest.raises(ApiError, match="502 Unknown: <html> bad gatewayx") as caught:
        await client.get(PODS, KEY)
    assert len(str(caught.value)) < 600


async def test_an_answer_that_is_no_json_counts_as_none(api: FakeKubeApi, client: Client) -> None:
    """A captive portal says 200 to everything."""
    api.answers = [web.Response(text="<html>welcome</html>")]
    with pytest.raises(ApiUnreachable, match=r"list pods failed: the answer is not Kubernetes"):
        await client.list(PODS)


async def test_nobody_listening_is_unreachable() -> None:
    """The error names request and server."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with await Client.connect(master=url) as client:
            with pytest.raises(ApiUnreachable, match=f"get pods ns/one failed: no answer .*{url}"):
                await client.get(PODS, KEY)


async def test_a_create_names_its_object_in_errors(api: FakeKubeApi, client: Client) -> None:
    """Whatever form the body has."""
    api.handler = lambda request: (409, status(409, "AlreadyExists"))
    for body, name in [
        ({"metadata": {"name": "one"}}, "ns/one"),
        (b'{"metadata":{"generateName":"one-"}}', r"ns/one-\*"),
        (b"no json", r"ns/\?"),
    ]:
        with pytest.raises(AlreadyExists, match=f"create pods {name} failed"):
            await client.create(PODS, "ns", body)  # type: ignore[arg-type]


# watches


async def test_a_watch_gives_events_until_the_server_ends_it(
    api: FakeKubeApi, client: Client
) -> None:
    """It asks for bookmarks and an end in time."""
    api.answers = [None]
    opened: list[bool] = []
    events = client.watch(
        PODS,
        namespace="ns",
        resource_version="5",
        timeout_seconds=5,
        read_deadline_seconds=8,
        on_open=lambda: opened.append(True),
    )
    async with asyncio.TaskGroup() as group:
        seen = group.create_task(_collect(events))
        stream = await api.next_watch()
        await stream.send("ADDED", {"metadata": {"name": "a"}})
        await stream.send("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
        stream.end()
    assert [event.type for event in seen.result()] == ["ADDED", "BOOKMARK"]
    assert opened == [True]
    assert api.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "5",
    }


async def _collect(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


async def test_a_line_of_many_mebibytes_arrives_whole(api: FakeKubeApi, client: Client) -> None:
    """No limit on the length of a line, and half lines wait for their rest."""
    api.answers = [None]
    events = client.watch(PODS, resource_version="5", **WATCH)  # type: ignore[arg-type]
    big = "x" * (24 * 2**20)
    async with asyncio.TaskGroup() as group:
        seen = group.create_task(_collect(events))
        stream = await api.next_watch()
        line = json.dumps({"type": "ADDED", "object": {"data": big}}).encode()
        await stream.send_bytes(line[:1000])
        await stream.send_bytes(line[1000:] + b'\n\n{"type":"ADDED",')
        await stream.send_bytes(b'"object":{}}')
        stream.end()
    first, second = seen.result()
    assert msgspec.json.decode(first.object) == {"data": big}
    assert second.type == "ADDED"


async def test_an_expired_version_by_http_status_P0_010(api: FakeKubeApi, client: Client) -> None:
    """The first form of 410."""
    api.answers = [(410, status(410, "Expired", "too old resource version"))]
    with pytest.raises(ResourceExpired):
        await _collect(client.watch(PODS, resource_version="1", **WATCH))  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
async def test_an_expired_version_by_an_error_event_P0_010(
    api: FakeKubeApi, client: Client, reason: str
) -> None:
    """The second form of 410: inside a stream that began with 200."""
    api.answers = [None]
    async with asyncio.TaskGroup() as group:
        watch = client.watch(PODS, resource_version="1", **WATCH)  # type: ignore[arg-type]
        task = group.create_task(_expect_expired(watch))
        stream = await api.next_watch()
        await stream.send("ERROR", status(410, reason, "too old resource version: 1 (9)"))
        assert await task == f"watch pods failed: 410 {reason}: too old resource version: 1 (9)"
        stream.end()


async def _expect_expired(events: AsyncIterator[Any]) -> str:
    with pytest.raises(ResourceExpired) as caught:
        await _collect(events)
    return str(caught.value)


async def test_other_errors_in_a_stream_are_errors(api: FakeKubeApi, client: Client) -> None:
    """No event is made of a Status."""
    api.answers = [None]
    async with asyncio.TaskGroup() as group:
        watch = client.watch(PODS, resource_version="1", **WATCH)  # type: ignore[arg-type]
        task = group.create_task(_expect(watch, TooManyRequests))
        stream = await api.next_watch()
        await stream.send("ERROR", status(429, "TooManyRequests", "", retryAfterSeconds=4))
        error = await task
        stream.end()
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_seconds == 4


async def _expect(events: AsyncIterator[Any], kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as caught:
        await _collect(events)
    return caught.value


async def test_a_silent_watch_is_given_up_P0_011(api: FakeKubeApi, client: Client) -> None:
    """The server accepts, then sends nothing and never closes."""
    api.answers = [None]
    with pytest.raises(ApiUnreachable, match="watch pods failed: no answer from"):
        await _collect(
            client.watch(PODS, resource_version="1", timeout_seconds=1, read_deadline_seconds=0.2)
        )
    (await api.next_watch()).end()


async def test_a_cut_connection_ends_the_watch_P0_011(api: FakeKubeApi, client: Client) -> None:
    """What came before is kept, half an event is not."""
    api.answers = [None]
    seen: list[str] = []
    async with asyncio.TaskGroup() as group:

        async def follow() -> None:
            async for event in client.watch(PODS, resource_version="1", **WATCH):  # type: ignore[arg-type]
                seen.append(event.type)
                got_one.set()

        async def follow_to_the_end() -> None:
            with pytest.raises(ApiUnreachable):
                await follow()

        got_one = asyncio.Event()
        group.create_task(follow_to_the_end())
        stream = await api.next_watch()
        await stream.send("ADDED", {})
        await got_one.wait()
        await stream.send_bytes(b'{"type":"MODI')
        stream.reset()
    assert seen == ["ADDED"]


async def test_leaving_a_watch_closes_its_connection(api: FakeKubeApi, client: Client) -> None:
    """Or each re-list would leave one behind."""
    api.answers = [None]
    watch = client.watch(PODS, resource_version="1", **WATCH)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(anext(watch))
        stream = await api.next_watch()
        await stream.send("ADDED", {})
        await reading
        await watch.aclose()
    assert client._transport._session.connector is not None
    assert not client._transport._session.connector._acquired
    stream.end()


# against API servers


async def test_an_object_lives_through_all_verbs(cluster: Cluster) -> None:
    """Create, read, replace, patch three ways, delete."""
    key = cluster.key("one")
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("one", a="1"))
        with pytest.raises(AlreadyExists, match=f"create configmaps {key} failed: 409"):
            await client.create(CONFIG_MAPS, cluster.namespace, config_map("one"))
        found = msgspec.json.decode(await client.get(CONFIG_MAPS, key))
        found["data"]["b"] = "2"
        await client.replace(CONFIG_MAPS, key, found)
        with pytest.raises(Conflict):
            await client.replace(CONFIG_MAPS, key, found)
        await client.patch(CONFIG_MAPS, key, {"data": {"a": None}})
        await client.patch(
            CONFIG_MAPS,
            key,
            [{"op": "add", "path": "/data/c", "value": "3"}],
            content_type=JSON_PATCH,
        )
        changed = await client.patch(
            CONFIG_MAPS, key, {"data": {"d": "4"}}, content_type=STRATEGIC_MERGE_PATCH
        )
        assert msgspec.json.decode(changed)["data"] == {"b": "2", "c": "3", "d": "4"}
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAPS, key, uid="00000000-0000-0000-0000-000000000000")
        await client.delete(CONFIG_MAPS, key, uid=found["metadata"]["uid"])
        with pytest.raises(NotFound, match=f"get configmaps {key} failed: 404 NotFound"):
            await client.get(CONFIG_MAPS, key)


async def test_lists_are_paged_and_selected_P1_086(cluster: Cluster) -> None:
    """By label, by field, page by page, as one list."""
    async with cluster.client() as client:
        for n in range(5):
            body = config_map(f"n{n}")
            body["metadata"]["labels"] = {"parity": "odd" if n % 2 else "even"}
            await client.create(CONFIG_MAPS, cluster.namespace, body)

        async def names(**selection: Any) -> list[str]:
            result = await client.list(CONFIG_MAPS, namespace=cluster.namespace, **selection)
            assert result.resource_version
            objects = [msgspec.json.decode(raw, type=PartialObject) for raw in result.items]
            return [obj.metadata.name for obj in objects if obj.metadata.name[0] == "n"]

        assert await names(limit=2) == ["n0", "n1", "n2", "n3", "n4"]
        assert await names(limit=2, label_selector="parity=even") == ["n0", "n2", "n4"]
        assert await names(label_selector="parity notin (even)") == ["n1", "n3"]
        assert await names(field_selector="metadata.name=n3") == ["n3"]
        pages = client.pages(CONFIG_MAPS, namespace=cluster.namespace, limit=2)
        assert max([len(page.items) async for page in pages]) == 2


async def test_a_watch_follows_changes_from_a_list_on(cluster: Cluster) -> None:
    """Nothing between list and watch is lost, and its end is regular."""
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("a"))
        start = await client.list(CONFIG_MAPS, namespace=cluster.namespace)
        await client.patch(CONFIG_MAPS, cluster.key("a"), {"data": {"x": "1"}})
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("b"))
        await client.delete(CONFIG_MAPS, cluster.key("a"))
        events = client.watch(
            CONFIG_MAPS,
            namespace=cluster.namespace,
            resource_version=start.resource_version,
            timeout_seconds=1,
            read_deadline_seconds=20,
        )
        seen = [
            (event.type, msgspec.json.decode(event.object, type=PartialObject).metadata.name)
            async for event in events
            if event.type != "BOOKMARK"
        ]
    assert seen == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


async def test_a_version_from_before_all_memory_has_expired_P0_010(
    cluster: Cluster, widgets: ResourceType
) -> None:
    """The server knows nothing of the kind's history before it was installed."""
    async with cluster.client() as client:
        watch = client.watch(
            widgets, resource_version="1", timeout_seconds=5, read_deadline_seconds=20
        )
        with pytest.raises(ResourceExpired):
            await _collect(watch)


async def test_status_and_annotations_of_a_custom_resource_are_patched_P1_076(
    cluster: Cluster, widgets: ResourceType
) -> None:
    """A status where there was none, an annotation, and an append guarded by the version."""
    key = cluster.key("one")
    async with cluster.client() as client:
        await client.create(widgets, cluster.namespace, widget(widgets, "one"))
        await client.patch(widgets, key, {"status": {"parts": ["a"]}}, subresource="status")
        patched = await client.patch(widgets, key, {"metadata": {"annotations": {"x": "y"}}})
        meta = msgspec.json.decode(patched)["metadata"]
        assert meta["annotations"] == {"x": "y"}
        append = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
            {"op": "add", "path": "/status/parts/-", "value": "b"},
        ]
        appended = await client.patch(
            widgets, key, append, subresource="status", content_type=JSON_PATCH
        )
        assert msgspec.json.decode(appended)["status"] == {"parts": ["a", "b"]}
        stale = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"parts": []}}
        with pytest.raises(Conflict):
            await client.patch(widgets, key, stale, subresource="status")
        with pytest.raises(Invalid):  # the failed test of a JSON patch
            await client.patch(widgets, key, append, subresource="status", content_type=JSON_PATCH)
        with pytest.raises(BadRequest, match="415"):
            await client.patch(widgets, key, {}, content_type=STRATEGIC_MERGE_PATCH)


async def test_a_refusal_of_validation_names_the_field(cluster: Cluster) -> None:
    """What the server says about the object reaches the user."""
    async with cluster.client() as client:
        with pytest.raises(Invalid, match=r"metadata\.name"):
            await client.create(CONFIG_MAPS, cluster.namespace, config_map("Not Allowed"))


async def test_a_kind_that_is_not_installed_is_not_found(cluster: Cluster) -> None:
    """As for an object."""
    missing = ResourceType(group="no.example", version="v1", kind="Thing", plural="things")
    async with cluster.client() as client:
        with pytest.raises(NotFound, match=r"list things.no.example failed: 404"):
            await client.list(missing)


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_a_user_without_rights_is_told_which_are_missing(cluster: Cluster) -> None:
    """Verb and resource."""
    async with cluster.client(cluster.limited_kubeconfig) as client:
        with pytest.raises(Forbidden, match=r"list pods failed: 403 Forbidden.*cannot list"):
            await client.list(PODS)


async def test_a_wrong_token_is_unauthorized(cluster: Cluster, tmp_path: Any) -> None:
    """After one attempt to renew it."""
    config = cluster.read_kubeconfig()
    config["users"][0]["user"] = {"token": "wrong"}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    async with cluster.client(str(path)) as client:
        with pytest.raises(Unauthorized):
            await client.list(PODS)


async def test_many_requests_at_once_use_many_connections(cluster: Cluster) -> None:
    """No client-side throttle stands before the server's own."""
    async with cluster.client() as client:
        await client.create(CONFIG_MAPS, cluster.namespace, config_map("a"))

        async def read() -> None:
            for _ in range(5):
                with contextlib.suppress(TooManyRequests):
                    await client.get(CONFIG_MAPS, cluster.key("a"))

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(read())


def widget(resource: ResourceType, name: str) -> dict[str, Any]:
    """An object of the tests' own kind."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
    }
