"""Bodies of requests in, bodies of answers out."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from aiohttp import web

from gm.devcluster.negotiate import Form
from gm.devcluster.status import StatusError

__all__ = [
    "MAX_BODY_BYTES",
    "add_warnings",
    "answer",
    "encode_status",
    "raw_answer",
    "read_body",
]

MAX_BODY_BYTES = 3 * 1024 * 1024
_NO_CACHE = {"Cache-Control": "no-cache, private"}


async def read_body(request: web.BaseRequest) -> bytes:
    """The request's body. Raises: StatusError (413, 417)."""
    limit = f"Request entity too large: limit is {MAX_BODY_BYTES}"
    await _encourage(request)
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_any():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise StatusError(413, "RequestEntityTooLarge", limit, {})
        parts.append(part)
    return b"".join(parts)


async def _encourage(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to send its body: curl does so before a large one."""
    expected = request.headers.get("Expect", "")
    if expected.lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer has not begun
    elif expected:
        raise StatusError(417, "", f"Expect: {expected} is nothing that can be done")


def encode_status(error: StatusError) -> web.Response:
    """The answer to a request that failed."""
    response = answer(error.body(), error.code)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry is not None:
        response.headers["Retry-After"] = str(retry)
    return response


def add_warnings(response: web.StreamResponse, *texts: str) -> None:
    """Give an answer that has not begun yet a ``Warning`` header for each text."""
    for text in filter(None, texts):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')


def raw_answer(
    body: bytes, status: int = 200, content_type: str = "application/json"
) -> web.Response:
    """An answer whose body is encoded already."""
    return web.Response(
        body=body, status=status, headers={"Content-Type": content_type, **_NO_CACHE}
    )


class _Dumper(yaml.SafeDumper):
    """YAML without anchors: equal parts are written out each time."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never."""
        return True


def answer(obj: Any, status: int = 200, *, form: Form | None = None) -> web.Response:
    """An answer in JSON, or in YAML if the form says so."""
    if form is not None and form.is_yaml:
        text = yaml.dump(obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
        return raw_answer(text.encode(), status, "application/yaml")
    return raw_answer(msgspec.json.encode(obj), status)
