"""The aggregator against scripted trainers: who may take part, and with what."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from gm.examples.federated import protocol
from gm.examples.federated.aggregate import Aggregator
from gm.examples.federated.environment import AggregatorSettings, UserError
from gm.examples.federated.files import StoredModel, load_model, save_model
from gm.examples.federated.learner import Weights, initial_weights
from tests.examples.federation import free_port

INITIAL = initial_weights(features=64, hidden=64, classes=10, seed=0)


class ScriptedTrainer:
    """Says what the test says."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, message: protocol.FromTrainer) -> None:
        """Send a message."""
        await self.connection.send(protocol.encode(message))

    async def join(self, worker: str, *, job: str = "default/fl", dataset: str = "") -> None:
        """Introduce itself."""
        await self.say(protocol.Join(job=job, worker=worker, dataset=dataset or worker, samples=10))

    async def hear(self) -> Any:
        """The next message."""
        async with asyncio.timeout(20):
            return protocol.decode_from_aggregator(await self.connection.recv())

    async def refused(self) -> str:
        """The reason of the refusal that comes next."""
        message = await self.hear()
        assert isinstance(message, protocol.Refused)
        with pytest.raises(ConnectionClosed):
            await self.hear()
        return message.reason

    async def update(self, number: int, value: float, *, samples: int = 10) -> None:
        """Weights that are ``value`` everywhere."""
        weights = tuple(np.full_like(array, value) for array in INITIAL)
        await self.say(
            protocol.Update(round=number, samples=samples, weights=protocol.pack(weights))
        )


class Running:
    """An aggregator that runs, and its trainers."""

    def __init__(self, environ: dict[str, str], stack: contextlib.AsyncExitStack) -> None:
        self.settings = AggregatorSettings.read(environ)
        self.aggregator = Aggregator(self.settings)
        self._stack = stack

    async def trainer(self) -> ScriptedTrainer:
        """A new connection."""
        url = f"ws://127.0.0.1:{self.settings.port}/"
        connection = await self._stack.enter_async_context(
            connect(url, proxy=None, max_size=protocol.MAX_MESSAGE_BYTES)
        )
        return ScriptedTrainer(connection)

    async def joined(self, worker: str, **more: str) -> ScriptedTrainer:
        """A trainer that is welcome."""
        trainer = await self.trainer()
        await trainer.join(worker, **more)
        assert isinstance(await trainer.hear(), protocol.Welcome)
        return trainer


@contextlib.asynccontextmanager
async def running(tmp_path: Path, **changes: str) -> AsyncIterator[Running]:
    """An aggregator in this process that is stopped at the end if it still runs."""
    environ = {
        "JOB_NAME": "fl",
        "WORKER_NAME": "aggworker-abcde",
        "PARTICIPANTS_COUNT": "2",
        "MODEL_URL": str(tmp_path / "model.npz"),
        "ROUNDS": "2",
        "POD_IP": "127.0.0.1",
        "AGG_BIND_PORT": str(free_port()),
        **changes,
    }
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        started = Running(environ, stack)
        task = group.create_task(started.aggregator.run())
        try:
            async with asyncio.timeout(20):
                while True:
                    with contextlib.suppress(OSError):
                        _, writer = await asyncio.open_connection(
                            "127.0.0.1", started.settings.port
                        )
                        writer.close()
                        break
                    await asyncio.sleep(0.01)
            yield started
        finally:
            await stack.aclose()
            task.cancel()


def assert_everywhere(weights: Weights, value: float) -> None:
    """Each weight is ``value``."""
    for array in weights:
        np.testing.assert_allclose(array, value, rtol=1e-6)


async def test_updates_are_averaged_by_samples_and_the_final_model_is_handed_out(
    tmp_path: Path,
) -> None:
    """The whole conversation."""
    async with running(tmp_path) as started:
        a, b = await started.joined("a"), await started.joined("b")
        for number in (1, 2):
            for trainer, value, samples in ((a, 1, 10), (b, 5, 30)):
                train = await trainer.hear()
                assert isinstance(train, protocol.Train)
                assert train.round == number
                await trainer.update(number, value * number, samples=samples)
        for trainer in (a, b):
            final = await trainer.hear()
            assert isinstance(final, protocol.Final)
            assert_everywhere(protocol.unpack(final.weights), 8)
            await trainer.say(protocol.Acknowledge())
        stored = load_model(started.settings.model)
        assert stored is not None
        assert (stored.round, stored.identity) == (2, started.settings.identity)
        assert_everywhere(stored.weights, 8)


async def test_late_and_repeated_updates_change_nothing(tmp_path: Path) -> None:
    """A trainer that sends its update again after a cut is counted once."""
    async with running(tmp_path, ROUNDS="1") as started:
        a, b = await started.joined("a"), await started.joined("b")
        for trainer in (a, b):
            await trainer.hear()
        await a.update(7, 100)  # of another round
        await a.update(1, 3)
        await a.update(1, 1)
        await b.update(1, 3)
        final = await b.hear()
        assert_everywhere(protocol.unpack(final.weights), 2)


async def test_trainer_of_another_job_is_refused(tmp_path: Path) -> None:
    """A NodePort may have changed hands."""
    async with running(tmp_path) as started:
        trainer = await started.trainer()
        await trainer.join("a", job="default/other")
        assert await trainer.refused() == "this is the aggregator of job default/fl"


async def test_more_trainers_than_participants_are_refused_while_those_are_here(
    tmp_path: Path,
) -> None:
    """Once one of them is gone, the newcomer has its place."""
    async with running(tmp_path) as started:
        await started.joined("a")
        b = await started.joined("b")
        late = await started.trainer()
        await late.join("c")
        assert "all 2 participants are here already" in await late.refused()
        await b.connection.close()
        async with asyncio.timeout(20):
            while started.aggregator._progress.participants["b"].connection is not None:
                await asyncio.sleep(0.01)
        await started.joined("c", dataset="b")
        assert set(started.aggregator._progress.participants) == {"a", "c"}


async def test_newer_connection_of_a_trainer_replaces_the_older(tmp_path: Path) -> None:
    """As after a cut that only one side has noticed."""
    async with running(tmp_path) as started:
        old = await started.joined("a")
        new = await started.joined("a")
        with pytest.raises(ConnectionClosed):
            await old.hear()
        await started.joined("b")
        assert isinstance(await new.hear(), protocol.Train)


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ({"weights": protocol.pack(INITIAL[:2])}, "another shape"),
        ({"weights": protocol.pack(tuple(np.full_like(a, np.inf) for a in INITIAL))}, "not finite"),
        ({"samples": 0}, "no samples"),
    ],
)
async def test_update_that_would_spoil_the_model_is_refused(
    tmp_path: Path, update: dict[str, Any], reason: str
) -> None:
    """The trainer is told why; the others go on."""
    async with running(tmp_path) as started:
        bad, _ = await started.joined("a"), await started.joined("b")
        await bad.hear()
        good: dict[str, Any] = {"round": 1, "samples": 1, "weights": protocol.pack(INITIAL)}
        await bad.say(protocol.Update(**{**good, **update}))
        assert reason in await bad.refused()


@pytest.mark.parametrize("frame", [b"junk", "text", protocol.encode(protocol.Acknowledge())])
async def test_stranger_at_the_port_is_refused(tmp_path: Path, frame: str | bytes) -> None:
    """Whatever it says first."""
    async with running(tmp_path) as started:
        stranger = await started.trainer()
        await stranger.connection.send(frame)
        assert await stranger.refused()


async def test_acknowledgement_before_the_end_is_refused(tmp_path: Path) -> None:
    """Only a final model can be acknowledged."""
    async with running(tmp_path) as started:
        trainer = await started.joined("a")
        await trainer.say(protocol.Acknowledge())
        assert "unexpected Acknowledge" in await trainer.refused()


async def test_checkpoint_of_another_job_or_a_damaged_one_is_not_resumed(tmp_path: Path) -> None:
    """Training starts afresh; what another job left at MODEL_URL stays until the end."""
    save_model(tmp_path / "model.npz", StoredModel(INITIAL, 5, "another job"))
    async with running(tmp_path, PARTICIPANTS_COUNT="1") as started:
        trainer = await started.joined("a")
        assert (await trainer.hear()).round == 1
        checkpoint = started.aggregator._checkpoint
    checkpoint.write_bytes(b"junk")
    async with running(tmp_path, PARTICIPANTS_COUNT="1") as started:
        trainer = await started.joined("a")
        assert (await trainer.hear()).round == 1


async def test_training_starts_from_a_pretrained_model(tmp_path: Path) -> None:
    """It is given by PRETRAINED_MODEL_URL."""
    path = tmp_path / "pretrained.npz"
    ones = tuple(np.ones_like(array) for array in INITIAL)
    save_model(path, StoredModel(ones, 3, "x"))
    async with running(tmp_path, PARTICIPANTS_COUNT="1", PRETRAINED_MODEL_URL=str(path)) as started:
        trainer = await started.joined("a")
        assert_everywhere(protocol.unpack((await trainer.hear()).weights), 1)


async def test_unusable_pretrained_model_is_a_clear_error(tmp_path: Path) -> None:
    """Missing, or of another shape."""
    path = tmp_path / "pretrained.npz"
    environ = {
        "JOB_NAME": "fl",
        "WORKER_NAME": "w",
        "PARTICIPANTS_COUNT": "1",
        "MODEL_URL": str(tmp_path / "model.npz"),
        "PRETRAINED_MODEL_URL": str(path),
    }
    with pytest.raises(UserError, match="can not be read"):
        Aggregator(AggregatorSettings.read(environ))
    save_model(path, StoredModel(INITIAL[:2], 3, "x"))
    with pytest.raises(UserError, match="has other layers"):
        Aggregator(AggregatorSettings.read(environ))
