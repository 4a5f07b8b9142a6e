"""docs/devcluster.md: what it says of HTTP, of bodies and of patches is so."""

from __future__ import annotations

import platform

import aiohttp
import pytest

from tests.devcluster.core import Http, pod

CORE = "/api/v1/namespaces/default"
MAPS = f"{CORE}/configmaps"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


def body(data: str) -> bytes:
    """A ConfigMap with these fields after its name."""
    return b'{"metadata":{"name":"c"},%b}' % data.encode()


async def test_upgrades_are_ignored(http: Http) -> None:
    """The answer is a stream of lines."""
    await http("POST", MAPS, body('"data":{}'))
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    watched = await http("GET", f"{MAPS}?watch=1&timeoutSeconds=1", headers=headers)
    assert (watched.status, [event["type"] for event in watched.events]) == (200, ["ADDED"])


@pytest.mark.parametrize("path", ["/metrics", "/logs", "/logs/x", "/debug/pprof/"])
async def test_what_a_server_tells_of_itself_is_not_served(http: Http, path: str) -> None:
    """As any other path at which nothing is."""
    answer = await http("GET", path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_of_what_is_given_twice_the_last_counts(http: Http) -> None:
    """With a warning."""
    made = await http("POST", MAPS, body('"data":{"a":"1"},"data":{"b":"2"}'))
    assert made.json["data"] == {"b": "2"}
    assert made.headers["Warning"] == '299 - "duplicate field \\"data\\""'


async def test_a_strategic_patch_that_does_not_fit_is_shown_applied(http: Http) -> None:
    """The whole object, not the patch alone."""
    await http("POST", f"{CORE}/pods", pod("p", schedulerName="none"))
    change = {"metadata": {"labels": "x"}}
    answer = await http("PATCH", f"{CORE}/pods/p", change, content_type=STRATEGIC)
    assert answer.status == 422
    assert '\\"labels\\":\\"x\\"' in answer.json["message"]
    assert '\\"kind\\":\\"Pod\\"' in answer.json["message"]


async def test_bytes_are_texts(http: Http) -> None:
    """In base64."""
    answer = await http("POST", MAPS, body('"binaryData":{"a":[1]}'))
    assert (answer.status, "cannot unmarshal array" in answer.json["message"]) == (400, True)


async def test_a_label_that_is_wrong_is_named_once(http: Http) -> None:
    """Also in an update."""
    await http("POST", MAPS, body('"data":{}'))
    change = {"metadata": {"labels": {"a~b": "c"}}}
    answer = await http("PATCH", f"{MAPS}/c", change, content_type=MERGE)
    assert (answer.status, len(answer.json["details"]["causes"])) == (422, 1)


async def test_content_types_are_read_in_any_case(http: Http) -> None:
    """As media types are."""
    made = await http("POST", MAPS, body('"data":{}'), content_type="Application/JSON")
    change = await http("PATCH", f"{MAPS}/c", {}, content_type=MERGE.upper())
    assert (made.status, change.status) == (201, 200)


@pytest.mark.parametrize(("size", "status"), [(60_000, 200), (70_000, 400)])
async def test_headers_may_have_64_kib(http: Http, size: int, status: int) -> None:
    """So may URLs."""
    by_header = await http("GET", MAPS, headers={"X-Long": "x" * size})
    by_url = await http("GET", f"{MAPS}?x={'x' * size}")
    assert (by_header.status, by_url.status) == (status, status)


async def test_a_request_has_no_more_than_128_headers(http: Http) -> None:
    """Nor does it need them."""
    headers = {f"X-{n}": "x" for n in range(130)}
    assert (await http("GET", MAPS, headers=headers)).status == 400


async def test_methods_that_http_does_not_know_are_refused(http: Http) -> None:
    """Before anybody asks what they mean."""
    try:
        assert (await http("FOO", MAPS)).status == 400
    except aiohttp.ClientConnectionError:
        pytest.fail("there was no answer")


async def test_probes_and_the_version_say_what_there_is(http: Http) -> None:
    """No more checks than these two, and Python."""
    assert (await http("GET", "/healthz?verbose")).body == (
        b"[+]ping ok\n[+]etcd ok\nhealthz check passed\n"
    )
    version = (await http("GET", "/version")).json
    assert version["compiler"] == platform.python_implementation().lower()
    assert "emulationMajor" not in version
