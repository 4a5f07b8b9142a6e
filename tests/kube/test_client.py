"""The client: what it sends, and what it makes of answers."""

from __future__ import annotations

import json
import socket
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gm.api.meta import ObjectKey
from gm.api.resources import DATASETS, NODES, PODS
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
from gm.kube import JSON_PATCH, Client
from tests.fakes.kube_api import FakeKubeApi, status

KEY = ObjectKey("ns", "one")


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
