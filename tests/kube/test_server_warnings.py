"""What API servers warn of: how it is read, and who hears it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from aiohttp import web

from gm.api.meta import ObjectKey
from gm.api.resources import CONFIG_MAPS, FEDERATED_LEARNING_JOBS, PODS
from gm.errors import AlreadyExists
from gm.kube import Client
from gm.kube.server_warnings import WarningLog, is_about_version, read_warnings
from tests.cluster.cluster import Cluster
from tests.fakes.kube_api import FakeKubeApi, status

KEY = ObjectKey("ns", "one")


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        ([], ()),
        (['299 - "a"', '299 - "b"', '299 - "a"'], ("a", "b")),
        (['299 - "unknown field \\"spec.x\\\\y\\""'], ('unknown field "spec.x\\y"',)),
        (
            ['299 - "a, b", 299 host:1 "c" "Sun, 06 Nov 1994 08:49:37 GMT" , 299 - "d"'],
            ("a, b", "c", "d"),
        ),
        (['110 cache "stale", 299 - "fresh"'], ("fresh",)),
        (['299 - "good", bad'], ("good",)),
        (['299 - "open', "299", "", '299 - ""', "nonsense"], ()),
        (['299 - "two\tlines \x1b[31m \udcff"'], ("two lines [31m \ufffd",)),
    ],
)
def test_headers_are_read_as_the_rfc_says(headers: list[str], texts: tuple[str, ...]) -> None:
    """Several in one header or many, escaped quotes, dates; what is broken is left out."""
    assert read_warnings(headers) == texts


def test_a_hostile_header_costs_linear_time() -> None:
    """No nested repetition to run wild in."""
    assert read_warnings(['299 - "' + "\\a" * 100_000]) == ()


def test_only_a_deprecated_version_is_about_the_version() -> None:
    """What the template says is not."""
    assert is_about_version("v1 Pod is deprecated in v1.99+, unavailable in v2", PODS)
    assert is_about_version(
        "sedna.io/v1alpha1 FederatedLearningJob is deprecated", FEDERATED_LEARNING_JOBS
    )
    assert not is_about_version("spec.nodeSelector[beta.kubernetes.io/os]: deprecated", PODS)


def warning_answer(*texts: str, code: int = 200, body: Any = None) -> web.Response:
    """An answer with these warnings."""
    response = web.json_response({} if body is None else body, status=code)
    for text in texts:
        response.headers.add("Warning", f'299 - "{text}"')
    return response


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Requests and texts of the warnings in the log."""
    return [
        (vars(r)["request"], vars(r)["warning"])
        for r in caplog.records
        if r.levelno == logging.WARNING and r.getMessage() == "the API server warns"
    ]


async def test_who_creates_hears_of_it_also_of_a_refusal(
    api: FakeKubeApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Each text once; nothing is logged beside it."""
    heard: list[str] = []
    api.handler = lambda _: warning_answer("a", "b")
    await client.create(PODS, "ns", {"metadata": {"name": "one"}}, on_warning=heard.append)
    failure = status(409, "AlreadyExists")
    api.handler = lambda _: warning_answer("c", code=409, body=failure)
    with pytest.raises(AlreadyExists):
        await client.create(PODS, "ns", {"metadata": {"name": "one"}}, on_warning=heard.append)
    assert (heard, logged(caplog)) == (["a", "b", "c"], [])


async def test_what_nobody_hears_is_logged_once(
    api: FakeKubeApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Of all writes of a kind; reads are left alone."""
    api.handler = lambda _: warning_answer("old field")
    await client.get(PODS, KEY)
    assert logged(caplog) == []
    for _ in range(2):
        await client.patch(PODS, KEY, {})
        await client.replace(PODS, KEY, {})
        await client.create(PODS, "ns", {"metadata": {"name": "one"}})
        await client.delete(PODS, KEY)
    await client.patch(CONFIG_MAPS, KEY, {})
    assert logged(caplog) == [
        ("patch pods ns/one", "old field"),
        ("patch configmaps ns/one", "old field"),
    ]


async def test_a_deprecated_version_is_logged_once_and_told_nobody(
    api: FakeKubeApi, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Each job would hear it otherwise."""
    heard: list[str] = []
    text = "v1 Pod is deprecated in v1.99+"
    api.handler = lambda _: warning_answer(text, "hostPath: old")
    for name in ("one", "two"):
        await client.create(PODS, "ns", {"metadata": {"name": name}}, on_warning=heard.append)
    assert (heard, logged(caplog)) == (["hostPath: old"] * 2, [("create pods ns/one", text)])


def test_the_log_remembers_no_more_than_the_newest(caplog: pytest.LogCaptureFixture) -> None:
    """A server that says something else each time does not fill the memory."""
    log = WarningLog()
    for number in range(1000):
        log.tell("create pods a", PODS, str(number))
    assert len(log._told) == 256
    log.tell("create pods a", PODS, "999")
    log.tell("create pods a", PODS, "0")
    assert [text for _, text in logged(caplog)] == [*map(str, range(1000)), "0"]


async def test_an_unknown_field_is_warned_of(cluster: Cluster) -> None:
    """As Kubernetes does by default; the object is made without the field."""
    container = {"name": "c", "image": "i", "imagee": 1}
    body = {
        "metadata": {"name": "one"},
        "spec": {"nodename": "edge2", "containers": [container], "restartPolicy": "Never"},
    }
    heard: list[str] = []
    async with cluster.client() as client:
        await client.create(PODS, cluster.namespace, body, on_warning=heard.append)
        assert sorted(heard) == [
            'unknown field "spec.containers[0].imagee"',
            'unknown field "spec.nodename"',
        ]
        heard.clear()
        del container["imagee"], body["spec"]["nodename"]  # type: ignore[attr-defined]
        body["metadata"] = {"name": "two"}
        await client.create(PODS, cluster.namespace, body, on_warning=heard.append)
    assert heard == []
