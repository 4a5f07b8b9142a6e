"""A Local Controller as far as workers see it: takes reports, can be slow, deaf or refusing."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

ANSWER = '{\n "Status": 200,\n "Message": "OK"\n}'


class FakeLC:
    """Keeps every report in ``posts``; ``hold(status)`` makes such reports wait for `release`."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.refusals = 0
        self.url = ""
        self._held = ""
        self._release = asyncio.Event()
        self._news = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeLC:
        app = web.Application()
        app.router.add_post("/sedna/workers/{name}/info", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        self.release()
        await self._runner.cleanup()

    def hold(self, status: str) -> None:
        """Answer reports with ``status`` only after `release`."""
        self._held = status
        self._release.clear()

    def release(self) -> None:
        """Answer what is held."""
        self._held = ""
        self._release.set()

    async def wait_for(self, count: int = 1, **fields: Any) -> None:
        """Return once ``count`` reports with these fields (``round`` is currentRound) came."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.matching(**fields)) >= count)

    def matching(self, **fields: Any) -> list[dict[str, Any]]:
        """The reports with these fields."""

        def field(post: dict[str, Any], name: str) -> Any:
            return post["ownerInfo"]["currentRound"] if name == "round" else post[name]

        return [p for p in self.posts if all(field(p, k) == v for k, v in fields.items())]

    async def _take(self, request: web.Request) -> web.Response:
        post = await request.json()
        if self.refusals:
            self.refusals -= 1
            return web.Response(status=500, text="not now")
        async with self._news:
            self.posts.append(post)
            self.paths.append(request.path)
            self._news.notify_all()
        if post["status"] == self._held:
            await self._release.wait()
        return web.Response(text=ANSWER, content_type="application/json")
