"""The training worker: learns from its node's data only, and sends weights, never data.

Survives kill -9 of itself and of the aggregator at any time. Run it as
``python -m gm.examples.federated.train``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import zlib
from collections.abc import Mapping

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from gm.examples.federated import protocol
from gm.examples.federated.environment import TrainerSettings, UserError, run_worker
from gm.examples.federated.files import load_samples
from gm.examples.federated.learner import Learner, Weights, accuracy
from gm.examples.federated.report import Reporter

__all__ = ["Trainer", "main"]

logger = logging.getLogger(__name__)

BACKOFF_FIRST_SECONDS = 0.25
BACKOFF_MAX_SECONDS = 5.0
FAREWELL_SECONDS = 5.0
"""How long it tries to acknowledge a final model that it has, before it leaves anyway."""
REPORT_SECONDS = 8.0
"""How long the last report may hold up the acknowledgement."""


class Refused(Exception):
    """The aggregator will not work with this trainer now."""


class Trainer:
    """One participant of a federation, from joining to the acknowledged final model."""

    def __init__(self, settings: TrainerSettings) -> None:
        self._settings = settings
        self._samples = load_samples(settings.dataset, variable="TRAIN_DATASET_URL")
        self._heldout = load_samples(settings.heldout, variable="TEST_DATASET_URL")
        self._reporter = Reporter(settings, samples=len(self._samples))
        self._seed = zlib.crc32(settings.dataset_name.encode())
        self._learner = Learner(epochs=1, batch=1, rate=1)
        self._initial: Weights = ()
        self._alone: asyncio.Task[None] | None = None
        self._reported = 0
        self._heard = 0.0
        self._finished_at: float | None = None
        self._last: tuple[protocol.Train, protocol.Update] | None = None

    async def run(self) -> None:
        """Take part until the final model is saved.

        Raises `UserError` when the aggregator could not be reached for CONNECT_SECONDS.
        """
        self._heard = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            reports = group.create_task(self._reporter.run(), name="reports")
            await self._take_part(group)
            await self._reporter.wait_idle(timeout_seconds=REPORT_SECONDS)
            reports.cancel()
            if self._alone is not None:
                self._alone.cancel()

    async def _take_part(self, group: asyncio.TaskGroup) -> None:
        failures = 0
        while True:
            heard = self._heard
            problem = await self._session(group)
            if problem is None:
                return
            failures = failures + 1 if self._heard == heard else 1
            if self._give_up(problem):
                return
            logger.info("%s; trying again", problem)
            longest = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2**failures)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - jitter

    def _give_up(self, problem: str) -> bool:
        """True if all is done but for the farewell; raises `UserError` after a long silence."""
        now = asyncio.get_running_loop().time()
        if self._finished_at is not None:
            return now - self._finished_at >= FAREWELL_SECONDS
        limit = self._settings.connect_seconds
        if now - self._heard >= limit:
            raise UserError(
                f"{problem} (AGG_IP, AGG_PORT), and so for {limit:g} s; "
                "is the aggregation worker of the job running?"
            )
        return False

    async def _session(self, group: asyncio.TaskGroup) -> str | None:
        """Work for one connection's life; returns why it ended, None when all is done."""
        settings = self._settings
        where = f"{settings.aggregator_host}:{settings.aggregator_port}"
        try:
            async with connect(
                f"ws://{_bracketed(settings.aggregator_host)}:{settings.aggregator_port}/",
                max_size=protocol.MAX_MESSAGE_BYTES,
                compression=None,
                proxy=None,
                open_timeout=10,
                close_timeout=5,
            ) as connection:
                return await self._converse(connection, group)
        except (OSError, TimeoutError, WebSocketException, protocol.ProtocolError) as exc:
            return f"no connection to the aggregator at {where}: {_describe(exc)}"
        except Refused as exc:
            return f"the aggregator at {where} refused: {exc}"

    async def _converse(self, connection: ClientConnection, group: asyncio.TaskGroup) -> str | None:
        settings = self._settings
        join = protocol.Join(
            job=settings.job,
            worker=settings.worker,
            dataset=settings.dataset_name,
            samples=len(self._samples),
        )
        await connection.send(protocol.encode(join))
        async for raw in connection:
            message = protocol.decode_from_aggregator(raw)
            if isinstance(message, protocol.Refused):
                raise Refused(message.reason)
            self._heard = asyncio.get_running_loop().time()
            match message:
                case protocol.Welcome():
                    self._welcome(message, group)
                case protocol.Train():
                    await connection.send(protocol.encode(await self._train(message)))
                case protocol.Final():
                    await self._finish(message)
                    await connection.send(protocol.encode(protocol.Acknowledge()))
        # Closed in order by the aggregator: after the final model that is its receipt.
        return None if self._finished_at is not None else "the aggregator closed the connection"

    def _welcome(self, message: protocol.Welcome, group: asyncio.TaskGroup) -> None:
        if self._initial:
            return
        self._initial = protocol.unpack(message.weights)
        features = self._initial[0].shape[0] if self._initial else 0
        for samples, path in (
            (self._samples, self._settings.dataset),
            (self._heldout, self._settings.heldout),
        ):
            if samples.x.shape[1] != features:
                raise UserError(
                    f"dataset {path} has {samples.x.shape[1]} values a sample, "
                    f"the job's model takes {features}"
                )
        self._learner = Learner(epochs=message.epochs, batch=message.batch, rate=message.rate)
        self._alone = group.create_task(self._learn_alone(message.rounds), name="alone")
        logger.info(
            "joined with %d samples; %d rounds of %d epochs",
            *(len(self._samples), message.rounds, message.epochs),
        )

    async def _learn_alone(self, rounds: int) -> None:
        """What this node would reach without the others: same learner, same number of epochs."""
        weights = self._initial
        for number in range(1, rounds + 1):
            weights = await asyncio.to_thread(self._learn, weights, number)
        reached = await asyncio.to_thread(accuracy, weights, self._heldout)
        self._reporter.once({f"accuracy_alone_{self._settings.node}": reached})
        logger.info("alone: accuracy %.3f on the held-out samples", reached)

    def _learn(self, weights: Weights, number: int) -> Weights:
        return self._learner.train(weights, self._samples, seed=(number, self._seed))

    async def _train(self, message: protocol.Train) -> protocol.Update:
        """The answer to ``message``; the one from before if this is the same question again."""
        if self._last is not None and self._last[0] == message:
            return self._last[1]
        weights = protocol.unpack(message.weights, like=self._initial)
        await self._evaluate(weights, message.round - 1, "running")
        trained = await asyncio.to_thread(self._learn, weights, message.round)
        update = protocol.Update(
            round=message.round, samples=len(self._samples), weights=protocol.pack(trained)
        )
        self._last = (message, update)
        return update

    async def _evaluate(self, weights: Weights, number: int, status: str) -> None:
        """Report how good the federated model is after round ``number``, once a round."""
        if number <= self._reported and status == "running":
            return
        self._reported = number
        reached = await asyncio.to_thread(accuracy, weights, self._heldout)
        logger.info("round %d: accuracy %.3f on the held-out samples", number, reached)
        self._reporter.report(number, status, {"accuracy": reached})

    async def _finish(self, message: protocol.Final) -> None:
        if self._finished_at is not None:
            return
        weights = protocol.unpack(message.weights, like=self._initial)
        if self._alone is not None:
            await self._alone
        await self._evaluate(weights, message.round, "completed")
        # The acknowledgement comes last: whoever has given it is not needed any more.
        await self._reporter.wait_idle(timeout_seconds=REPORT_SECONDS)
        self._finished_at = asyncio.get_running_loop().time()


def _describe(exc: Exception) -> str:
    if isinstance(exc, OSError) and exc.errno is not None and exc.errno > 0:
        return os.strerror(exc.errno)  # asyncio's own text repeats the address
    return str(exc) or type(exc).__name__


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def main(environ: Mapping[str, str]) -> None:
    """Run the training worker that ``environ`` describes."""
    await Trainer(TrainerSettings.read(environ)).run()


if __name__ == "__main__":
    sys.exit(run_worker(main))
