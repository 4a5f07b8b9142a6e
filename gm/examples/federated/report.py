"""Reports to the Local Controller: in order, bounded, and never in the way of training."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import random
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit

from gm.examples.federated.environment import TrainerSettings, UserError

__all__ = ["Reporter"]

logger = logging.getLogger(__name__)

ATTEMPTS = 3
TIMEOUT_SECONDS = 5
MAX_WAITING = 64


class Reporter:
    """Posts one report after another from `run`; `report` only puts it in line."""

    def __init__(self, settings: TrainerSettings, *, samples: int) -> None:
        self._settings, self._samples = settings, samples
        url = urlsplit(settings.lc_server)
        if settings.lc_server and (url.scheme not in ("http", "https") or not url.hostname):
            raise UserError(f"LC_SERVER={settings.lc_server!r}: want http://HOST:PORT")
        self._url = url
        self._waiting: deque[tuple[int, str, dict[str, float]]] = deque(maxlen=MAX_WAITING)
        self._news, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._once: dict[str, float] = {}

    def once(self, metrics: Mapping[str, float]) -> None:
        """Let the next report that gets through carry ``metrics`` too."""
        self._once.update(metrics)

    def report(self, number: int, status: str, metrics: Mapping[str, float]) -> None:
        """Queue what holds after round ``number``; beyond 64 that wait the oldest is dropped."""
        if self._settings.lc_server:
            self._waiting.append((number, status, dict(metrics)))
            self._idle.clear()
            self._news.set()

    async def run(self) -> None:
        """Post what is queued, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._post(*self._waiting.popleft())
            self._idle.set()

    async def wait_idle(self, *, timeout_seconds: float) -> None:
        """Return when nothing waits any more, or after the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()

    async def _post(self, number: int, status: str, metrics: dict[str, float]) -> None:
        once = dict(self._once)
        body = self._body(number, status, {**metrics, **once})
        for attempt in range(1, ATTEMPTS + 1):
            problem = await asyncio.to_thread(self._send, body)
            if not problem:
                self._once = {k: v for k, v in self._once.items() if once.get(k) != v}
                return
            logger.info(
                "the LC at %s did not take the report of round %d (%d of %d): %s",
                *(self._settings.lc_server, number, attempt, ATTEMPTS, problem),
            )
            await asyncio.sleep(random.uniform(0, 0.25 * 2**attempt))  # noqa: S311 - jitter

    def _body(self, number: int, status: str, metrics: Mapping[str, float]) -> bytes:
        settings = self._settings
        now = datetime.now().astimezone()
        return json.dumps(
            {
                "name": settings.worker,
                "namespace": settings.namespace,
                "ownerName": settings.job_name,
                "ownerKind": "federatedlearningjob",
                "kind": "train",
                "status": status,
                "results": [
                    {
                        "format": "npz",
                        "url": settings.model_url,
                        "metrics": {name: round(value, 4) for name, value in metrics.items()},
                    }
                ],
                "ownerInfo": {
                    "currentRound": number,
                    "sampleCount": self._samples,
                    "updateTime": now.strftime("%Y-%m-%d %H:%M:%S"),
                },
            }
        ).encode()

    def _send(self, body: bytes) -> str:
        """Post ``body``; returns what went wrong, or nothing."""
        connect = (
            http.client.HTTPSConnection
            if self._url.scheme == "https"
            else http.client.HTTPConnection
        )
        path = f"{self._url.path.rstrip('/')}/sedna/workers/{quote(self._settings.worker)}/info"
        link = connect(self._url.hostname or "", self._url.port, timeout=TIMEOUT_SECONDS)
        try:
            link.request("POST", path, body, {"Content-Type": "application/json"})
            answer = link.getresponse()
            text = answer.read(1000).decode(errors="replace")
            return "" if answer.status == 200 else f"{answer.status} {text}".strip()
        except (OSError, http.client.HTTPException) as exc:
            return str(exc) or type(exc).__name__
        finally:
            link.close()
