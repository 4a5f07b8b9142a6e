"""Nothing secret gets into logs, however much is logged."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path

import pytest

from gm.edge_stub.controller import LocalController
from gm.edge_stub.settings import EdgeSettings
from gm.messagelayer import Desired, WireKey
from tests.fakes.edge import Edge
from tests.messagelayer.support import key, open_hub, serving, until

SECRET = "AKIATEST123"
TOKEN = "the-token-of-edge1"


def with_credential(name: str) -> Desired:
    """A dataset whose copy carries a credential, as the LC of the node needs it."""
    annotation = {"sedna.io/credential": json.dumps({"ACCESS_KEY_ID": SECRET})}
    content = {
        "kind": "Dataset",
        "metadata": {"name": name, "namespace": "default", "uid": "u", "annotations": annotation},
        "spec": {"url": "s3://bucket/d", "nodeName": "edge1"},
    }
    return Desired(key(name), "u", "1", json.dumps(content).encode())


async def test_credentials_and_tokens_are_in_no_log_at_debug_P2_093(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Hub and edge stub, all loggers; also frames and objects that are refused."""
    caplog.set_level(logging.DEBUG)
    tokens, token = tmp_path / "tokens", tmp_path / "token"
    tokens.write_text(f"{TOKEN},edge1\n{TOKEN}-2,edge2\n")
    token.write_text(TOKEN)
    for file in (tokens, token):
        file.chmod(0o600)
    hub = open_hub()
    hub.put("edge1", with_credential("d"))
    hub.put("edge2", with_credential("d"))
    odd = Desired(WireKey("dataset", "default", "odd"), "u", "1", f'"{SECRET}"'.encode())
    hub.put("edge1", odd)
    async with serving(hub, auth="token", token_file=str(tokens)) as server:
        silent = logging.getLogger("test-client")  # the test's own end would log everything
        silent.setLevel(logging.CRITICAL)
        async with Edge.connected(
            server.port,
            "edge2",
            additional_headers={"Authorization": f"Bearer {TOKEN}-2"},
            logger=silent,
        ) as edge:
            await edge.wait_for(lambda: bool(edge.held))
            await edge.send(f'{{"header": "{SECRET}"}}')
            await edge.send(SECRET)
            await until(lambda: hub.counters["frames_in"] >= 3)
        controller = LocalController(
            EdgeSettings(
                node="edge1",
                gm=f"ws://127.0.0.1:{server.port}",
                root=tmp_path,
                state=tmp_path / "state",
                listen="127.0.0.1:0",
                token_file=token,
                shutdown_seconds=0.2,
            )
        )
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(stopping))
            await until(lambda: key("d") in controller.store.held)
            await until(lambda: bool((s := hub.status("edge1")) and s.quarantined))
            stopping.set()
    status = hub.status("edge1")
    assert status is not None
    told = [caplog.text, str(status.quarantined), str(hub.counters)]
    told += [str(vars(record)) for record in caplog.records]
    assert "connected to gm" in caplog.text
    for secret in (SECRET, base64.b64encode(SECRET.encode()).decode()[:12], TOKEN):
        assert not any(secret in text for text in told), secret
