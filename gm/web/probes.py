"""HTTP probes: is the process alive, and may it be relied on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web

from gm.errors import ConfigError

__all__ = ["serving_probes"]


@contextlib.asynccontextmanager
async def serving_probes(
    address: str, port: int, *, problems: Callable[[], Sequence[str]]
) -> AsyncIterator[int]:
    """Serve ``/healthz`` and ``/readyz`` as long as the body; gives the port (0 takes a free one).

    ``/healthz`` answers 200 while the event loop turns: a crash of any part ends the process, so
    there is no half-alive state to tell. ``/readyz`` answers 200, or 503 with one line for each of
    ``problems()``.

    Raises: ConfigError if the port can not be had.
    """

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        lines = problems()
        if lines:
            return web.Response(status=503, text="".join(f"{line}\n" for line in lines))
        return web.Response(text="ok\n")

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as exc:
            raise ConfigError(
                f"health.address/health.port: can not listen on {address}:{port}"
                f" ({exc.strerror or exc}); choose another port, for example with GM_HEALTH_PORT"
            ) from None
        yield runner.addresses[0][1]
    finally:
        with contextlib.suppress(asyncio.TimeoutError):
            await runner.cleanup()
