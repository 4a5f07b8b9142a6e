"""Sends the requests of ``golden`` to a server and collects its answers."""

from __future__ import annotations

import asyncio
import itertools
import string
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import yaml

from gm.api.meta import Json
from gm.kube import Client, Response
from tests.devcluster.golden import STEPS, Step
from tests.devcluster.scrubbing import Scrubber

__all__ = ["ask"]


_AT_ONCE = 20  # a real server turns away who sends it hundreds


async def ask(client: Client, namespace: str) -> dict[str, Json]:
    """The answers to all steps by name, scrubbed; ``namespace`` exists and is empty."""
    names = {"ns": namespace, "group": f"g-{namespace}.example.com", "future": "9" * 16}
    scrub = Scrubber({names["group"]: "GROUP", namespace: "NS"})
    answers: dict[str, Json] = {}
    for together in _batches():
        responses = await asyncio.gather(*(_send(client, step, names) for step in together))
        for step, response in zip(together, responses, strict=True):
            body = _decoded(step, response)
            for name, path in step.saves.items():
                names[name] = _find(body, path)
            answers[step.name] = {
                "status": response.status,
                "type": response.headers.get("Content-Type", ""),
                "warning": scrub(response.headers.get("Warning", "")),
                "body": step.pick(scrub(body)) if isinstance(body, dict) else scrub(body),
            }
            if step.serves:
                await _wait_served(client, _fill(step.serves, names))
    return answers


def _batches() -> list[list[Step]]:
    """Steps that may be sent at once, in order: a few neighbours that change and save nothing."""

    def is_harmless(step: Step) -> bool:
        return (step.method == "GET" or "dryRun" in step.query) and not step.saves

    batches: list[list[Step]] = []
    for together, steps in itertools.groupby(STEPS, key=is_harmless):
        waiting = [*steps]
        size = _AT_ONCE if together else 1
        batches += [waiting[n : n + size] for n in range(0, len(waiting), size)]
    return batches


async def _wait_served(client: Client, path: str) -> None:
    async with asyncio.timeout(30):
        while (await client.raw("GET", path)).status != 200:
            await asyncio.sleep(0.05)


def _fill(text: str, names: Mapping[str, str]) -> str:
    return string.Template(text).safe_substitute(names)


async def _send(client: Client, step: Step, names: Mapping[str, str]) -> Response:
    body: bytes | None = None
    if step.body is not None:
        raw = step.body if isinstance(step.body, bytes) else msgspec.json.encode(step.body)
        body = _fill(raw.decode(), names).encode()
    query = urlencode({key: _fill(value, names) for key, value in step.query.items()})
    path = quote(_fill(step.path, names))
    return await client.raw(
        step.method,
        f"{path}?{query}" if query else path,  # the client leaves out what is empty
        body=body,
        content_type=step.content_type,
        accept=step.accept,
    )


def _decoded(step: Step, response: Response) -> Any:
    kind = response.headers.get("Content-Type", "")
    try:
        if "watch" in step.query:
            events = [msgspec.json.decode(line) for line in response.body.splitlines()]
            return [event for event in events if not _is_passing_bookmark(event)]
        if kind.startswith("application/yaml"):
            return yaml.load(response.body, yaml.BaseLoader)
        return msgspec.json.decode(response.body)
    except msgspec.DecodeError:
        return response.body.decode(errors="replace")


def _is_passing_bookmark(event: Any) -> bool:
    """A bookmark that ends no beginning: a server sends such ones when it likes, or never."""
    if not isinstance(event, dict) or event.get("type") != "BOOKMARK":
        return False
    return "k8s.io/initial-events-end" not in event["object"]["metadata"].get("annotations", {})


def _find(body: Any, path: str) -> str:
    for part in path.split("."):
        body = body[part]
    found: str = body
    return found
