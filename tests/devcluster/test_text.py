"""Text that is none, and names that can not be: what both servers make of them."""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from gm.api.meta import Json
from gm.api.resources import CONFIG_MAPS
from gm.devcluster.apiserver import ApiServerSettings, running
from gm.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client, Response
from tests.cluster.cluster import Cluster

# In a request's body: what is stored
TEXTS: dict[bytes, str] = {
    rb"x\ud800y": "x\ufffdy",
    rb"\uDC00": "\ufffd",
    rb"\uD800\u0041": "\ufffdA",
    rb"\ud83d\ude00": "\U0001f600",
    rb"\ude00\ud83d\ud83d\ude00": "\ufffd\ufffd\U0001f600",
    rb"\\ud800": r"\ud800",
    rb"\\\ud800": "\\\ufffd",
    b"\xed\xa0\x80": "\ufffd" * 3,
    b"\xff\xe2\x82z": "\ufffd" * 3 + "z",
}


def _config_map(name: bytes, value: bytes) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%b"},"data":{"a":"%b"}}' % (
        name,
        value,
    )


async def _send(
    client: Client, method: str, path: str, body: bytes | None = None, kind: str = ""
) -> Response:
    return await client.raw(method, path, body=body, content_type=kind or "application/json")


def _data(response: Response) -> Json:
    assert response.status in (200, 201), response.body
    data: Json = msgspec.json.decode(response.body)["data"]
    return data


async def test_what_is_no_text_is_stored_as_replacement_characters(cluster: Cluster) -> None:
    """Halves of surrogate pairs and stray bytes, in new objects and in all kinds of patches."""
    path = CONFIG_MAPS.path(cluster.namespace)
    async with cluster.client() as client:
        for number, (sent, stored) in enumerate(TEXTS.items()):
            name = b"c%d" % number
            created = await _send(client, "POST", path, _config_map(name, sent))
            assert _data(created) == {"a": stored}
            mine = f"{path}/{name.decode()}"
            for kind in (MERGE_PATCH, STRATEGIC_MERGE_PATCH):
                patch = b'{"data":{"a":"1%b"}}' % sent
                assert _data(await _send(client, "PATCH", mine, patch, kind)) == {"a": "1" + stored}
            patch = b'[{"op":"add","path":"/data/a","value":"2%b"}]' % sent
            patched = await _send(client, "PATCH", mine, patch, JSON_PATCH)
            assert _data(patched) == {"a": "2" + stored}
        listed = await client.list(CONFIG_MAPS, namespace=cluster.namespace)
        assert len(listed.items) >= len(TEXTS)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (_config_map(rb"n\ud800", b""), "", 422),
        (_config_map(b"n", b"").replace(b"ConfigMap", rb"C\ud800"), "", 400),
        (_config_map(b"n", b"").replace(b'"a"', rb'"a\ud800"'), "", 422),
        (b"\xef\xbb\xbf" + _config_map(b"n", b""), "", 400),
        (_config_map(b"n", b"").decode().encode("utf-16"), "", 400),
        (_config_map(b"n", rb"\ud800"), "application/yaml", 400),
        (_config_map(b"n", rb"\ud83d\ude00"), "application/yaml", 400),
        (_config_map(b"n", b"\xff"), "application/yaml", 400),
    ],
)
async def test_text_that_can_not_be_is_refused_and_no_failure(
    cluster: Cluster, body: bytes, kind: str, status: int
) -> None:
    """In names, kinds and keys as in YAML, which knows no halves of characters."""
    async with cluster.client() as client:
        answer = await _send(client, "POST", CONFIG_MAPS.path(cluster.namespace), body, kind)
    assert answer.status == status
    assert msgspec.json.decode(answer.body)["code"] == status


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("%2e%2e", "\"..\": may not be '..'"),
        ("%2e", "\".\": may not be '.'"),
        ("a%25b", "\"a%b\": may not contain '%'"),
    ],
)
async def test_names_that_can_be_no_part_of_a_path_are_refused(
    cluster: Cluster, method: str, name: str, why: str
) -> None:
    """Before anybody looks whether there is such an object."""
    async with cluster.client() as client:
        for path in (CONFIG_MAPS.path(cluster.namespace), "/api/v1/namespaces"):
            answer = await _send(client, method, f"{path}/{name}")
            assert answer.status == 400
            assert msgspec.json.decode(answer.body)["message"] == f"Name parameter invalid: {why}"


@pytest.mark.parametrize("namespace", ["%2e%2e", "a%25b", "%ff"])
async def test_a_namespace_that_can_not_be_holds_nothing(cluster: Cluster, namespace: str) -> None:
    """As the real server has it."""
    async with cluster.client() as client:
        answer = await _send(client, "GET", f"/api/v1/namespaces/{namespace}/configmaps")
        assert (answer.status, msgspec.json.decode(answer.body)["items"]) == (200, [])
        answer = await _send(client, "GET", "/api/v1/namespaces/a%2fb/configmaps")
        assert answer.status == 404


async def test_what_is_no_text_does_not_end_a_server_that_keeps_its_state(
    tmp_path: pathlib.Path,
) -> None:
    """It is on disk, readable, and there again after a restart."""
    path = CONFIG_MAPS.path("default")
    settings = ApiServerSettings(directory=tmp_path, state=tmp_path / "state")
    for is_first in (True, False):
        async with (
            running(directory=tmp_path, settings=settings) as server,
            await Client.connect(kubeconfig=str(server.kubeconfig)) as client,
        ):
            if is_first:
                created = await _send(client, "POST", path, _config_map(b"c", rb"\ud800"))
                assert created.status == 201
            assert _data(await _send(client, "GET", f"{path}/c")) == {"a": "\ufffd"}
