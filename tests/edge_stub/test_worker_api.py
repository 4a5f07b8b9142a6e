"""The worker API's answers, byte for byte those that a Go LC gave."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gm.edge_stub.worker_api import WorkerReport, report_content
from gm.errors import ConfigError
from tests.edge_stub.conftest import StartEdge
from tests.fakes.gm import FakeGM

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden/lc-frames.json").read_text()
)
POSTS = [entry for entry in RECORDED if "worker_post" in entry]
FRAMES = {
    entry["content_decoded"]: entry["raw"]
    for entry in RECORDED
    if "content_decoded" in entry and "numberOfSamples" not in entry["content_decoded"]
}
NOWHERE = "ws://127.0.0.1:1/"


async def send(port: int, name: str, body: bytes, **headers: str) -> tuple[int, str]:
    """Status and body of the answer to a post."""
    url = f"http://127.0.0.1:{port}/sedna/workers/{name}/info"
    async with (
        aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as http,
        http.post(url, data=io.BytesIO(body), headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_recorded_posts_get_the_recorded_answers_and_frames(start_edge: StartEdge) -> None:
    """What a worker posts goes up as the Go LC sent it, in the same order."""
    async with FakeGM() as gm, start_edge(gm.url) as edge:
        session = await gm.session()
        await session.wait_received(1)
        for entry in POSTS:
            count = len(session.reports())
            status, body = await send(
                edge.port, entry["worker_post"]["name"], json.dumps(entry["worker_post"]).encode()
            )
            assert [status, body] == entry["answer"]
            # One by one: of one worker's reports only the newest would wait.
            await session.wait_reports(count + 1)
    frames = [frame for frame in session.received if "header" in frame]
    decoded = [base64.b64decode(frame["content"]).decode() for frame in frames]
    assert decoded == list(FRAMES)
    assert frames == [json.loads(raw) for raw in FRAMES.values()]


async def test_other_name_in_the_body_gets_the_recorded_400(start_edge: StartEdge) -> None:
    """Path and body have to agree."""
    expected = next(e["worker_post_mismatch"] for e in RECORDED if "worker_post_mismatch" in e)
    async with start_edge(NOWHERE) as edge:
        assert list(await send(edge.port, "other", b'{"name":"x"}')) == expected


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[1]", b'{"name":1}', b"\xff", b"[" * 100_000])
async def test_bad_json_gets_the_recorded_400(start_edge: StartEdge, body: bytes) -> None:
    """Whatever it is."""
    expected = next(e["worker_post_bad"] for e in RECORDED if "worker_post_bad" in e)
    async with start_edge(NOWHERE) as edge:
        assert list(await send(edge.port, "x", body)) == expected


async def test_content_type_does_not_matter(start_edge: StartEdge) -> None:
    """The Go LC insists on application/json; nobody is better off for it."""
    body = b'{"name":"x","namespace":"default","ownerName":"fl","ownerKind":"federatedlearningjob"}'
    async with start_edge(NOWHERE) as edge:
        assert (await send(edge.port, "x", body))[0] == 200
        assert (await send(edge.port, "x", body, **{"Content-Type": "text/plain"}))[0] == 200
        assert (await send(edge.port, "x", body, **{"Content-Type": "application/json"}))[0] == 200


async def test_owner_that_can_not_exist_is_refused(start_edge: StartEdge) -> None:
    """GM could do nothing with it either."""
    body = b'{"name":"x","namespace":"","ownerName":"A B","ownerKind":"federatedlearningjob"}'
    async with start_edge(NOWHERE) as edge:
        status, text = await send(edge.port, "x", body)
    assert status == 400
    assert "name no object" in text


async def test_oversized_report_is_refused(start_edge: StartEdge) -> None:
    """A worker can not fill the node's disk with one post."""
    body = json.dumps({"name": "x", "ownerInfo": {"a": "x" * 1_100_000}}).encode()
    async with start_edge(NOWHERE) as edge:
        assert (await send(edge.port, "x", body))[0] == 413


async def test_full_disk_is_said_to_the_worker(start_edge: StartEdge) -> None:
    """It will try again, and so will we."""
    body = b'{"name":"x","namespace":"default","ownerName":"fl","ownerKind":"federatedlearningjob"}'
    async with start_edge(NOWHERE) as edge:
        await edge.store.run(lambda database: database.execute("pragma query_only=on"))
        status, text = await send(edge.port, "x", body)
        await edge.store.run(lambda database: database.execute("pragma query_only=off"))
        assert status == 500
        assert "readonly" in text
        assert (await send(edge.port, "x", body))[0] == 200


async def test_address_that_is_not_here_is_a_clear_error(start_edge: StartEdge) -> None:
    """192.0.2.0/24 is nobody's."""
    with pytest.raises(ExceptionGroup) as caught:
        async with start_edge(NOWHERE, listen="192.0.2.1:9100"):
            pass
    assert caught.group_contains(ConfigError, match="--listen 192.0.2.1:9100: ")


def test_empty_results_go_up_as_null() -> None:
    """As Go's nil slice does."""
    report = WorkerReport(
        kind="inference", status="running", results=[], owner_info={"b": 1, "a": 2}
    )
    assert report_content(report) == (
        b'{"phase":"inference","status":"running",'
        b'"output":{"models":null,"ownerInfo":{"a":2,"b":1}}}'
    )
