"""The aggregation worker: waits for the trainers, averages their weights, writes the model.

Survives kill -9 at any time: weights and round are saved beside MODEL_URL after each round, and
the model itself says which job it belongs to. Run it as
``python -m gm.examples.federated.aggregate``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from gm.examples.federated import protocol
from gm.examples.federated.environment import AggregatorSettings, UserError, run_worker
from gm.examples.federated.files import CLASSES, StoredModel, load_model, save_model
from gm.examples.federated.learner import Weights, average, initial_weights

__all__ = ["Aggregator", "main"]

logger = logging.getLogger(__name__)

FEATURES = 64
JOIN_SECONDS = 10
REMIND_SECONDS = 30
"""How often it says whom it is waiting for."""


@dataclass
class Participant:
    """A trainer that has joined; it keeps its place while it is away."""

    worker: str
    dataset: str
    connection: ServerConnection | None
    absent_since: float = 0
    update: tuple[int, Weights] | None = None
    acknowledged: bool = False


@dataclass(frozen=True)
class Assignment:
    """What every connected trainer should be doing; encoded once for all of them."""

    message: bytes
    round: int
    waiting: bool = False


@dataclass
class Progress:
    """Where the federation stands."""

    weights: Weights
    round: int
    final: bool = False
    participants: dict[str, Participant] = field(default_factory=dict)


class Aggregator:
    """One federation, from joining to the acknowledged final model."""

    def __init__(self, settings: AggregatorSettings) -> None:
        self._settings = settings
        self._checkpoint = settings.model.with_name(
            f".{settings.model.name}.{settings.identity}.checkpoint"
        )
        self._initial = self._first_weights()
        self._progress = Progress(self._initial, 0)
        self._changed = asyncio.Condition()
        self._assignment = Assignment(b"", 0, waiting=True)
        self._connections = 0
        self._started = 0.0

    async def run(self) -> None:
        """Serve until the model is saved and acknowledged, or the grace period is over.

        Raises `UserError`: port in use, disk not writable.
        """
        if not self._resume():
            return
        self._started = asyncio.get_running_loop().time()
        settings = self._settings
        try:
            server = await serve(
                self._handle,
                settings.host,
                settings.port,
                max_size=protocol.MAX_MESSAGE_BYTES,
                compression=None,
            )
        except OSError as exc:
            raise UserError(_why_not_listening(settings, exc)) from None
        async with server:
            logger.info(
                "listening on %s:%d for %d participants of job %s",
                *(settings.host, settings.port, settings.participants, settings.job),
            )
            if not self._progress.final:
                await self._train()
                await asyncio.to_thread(self._save, settings.model)
            await self._finish()
        # Last, since its absence beside a final model says that all is done.
        with contextlib.suppress(OSError):
            self._checkpoint.unlink(missing_ok=True)

    def _first_weights(self) -> Weights:
        settings = self._settings
        fresh = initial_weights(
            features=FEATURES, hidden=settings.hidden, classes=CLASSES, seed=settings.seed
        )
        if settings.pretrained is None:
            return fresh
        path = settings.pretrained
        stored = load_model(path / "model.npz" if path.is_dir() else path)
        if stored is None:
            raise UserError(f"pretrained model {path} (PRETRAINED_MODEL_URL) can not be read")
        if [a.shape for a in stored.weights] != [a.shape for a in fresh]:
            raise UserError(f"pretrained model {path} has other layers; see HIDDEN_UNITS")
        return stored.weights

    def _resume(self) -> bool:
        """Take over what an earlier run of this worker saved; False if nothing is left to do."""
        settings = self._settings
        saved = load_model(self._checkpoint)
        model = load_model(settings.model)
        if model is not None and model.identity == settings.identity:
            if saved is None:
                logger.info("the final model is at %s already", settings.model)
                return False
            logger.info("the final model is at %s; handing it out", settings.model)
            self._progress = Progress(model.weights, model.round, final=True)
            return True
        shapes = [array.shape for array in self._initial]
        if saved is not None and [array.shape for array in saved.weights] == shapes:
            self._progress = Progress(saved.weights, min(saved.round, settings.rounds))
            logger.info("resuming after round %d", self._progress.round)
        return True

    def _save(self, path: Path) -> None:
        progress = self._progress
        save_model(path, StoredModel(progress.weights, progress.round, self._settings.identity))

    # The course of the federation

    async def _train(self) -> None:
        settings, progress = self._settings, self._progress
        await asyncio.to_thread(self._save, self._checkpoint)
        await self._wait_for(self._all_joined, "participants")
        while progress.round < settings.rounds:
            began = asyncio.get_running_loop().time()
            number = progress.round + 1
            for participant in progress.participants.values():
                participant.update = None
            await self._assign(
                protocol.Train(round=number, weights=protocol.pack(progress.weights)), number
            )
            await self._wait_for(self._round_complete, f"updates of round {number}")
            updates = [
                progress.participants[worker].update for worker in sorted(progress.participants)
            ]
            progress.weights = average([update for update in updates if update is not None])
            progress.round = number
            await asyncio.to_thread(self._save, self._checkpoint)
            seconds = asyncio.get_running_loop().time() - began
            logger.info(
                "round %d/%d: averaged %d updates after %.2f s",
                *(number, settings.rounds, sum(u is not None for u in updates), seconds),
            )
            if number < settings.rounds:
                await asyncio.sleep(max(0, settings.round_seconds - seconds))

    async def _finish(self) -> None:
        """Hand the final model to every participant, for at most the grace period."""
        settings, progress = self._settings, self._progress
        progress.final = True
        final = protocol.Final(round=progress.round, weights=protocol.pack(progress.weights))
        await self._assign(final, progress.round)
        logger.info("the final model is saved at %s", settings.model)
        try:
            async with asyncio.timeout(settings.completion_grace_seconds):
                await self._wait_for(self._all_acknowledged, "acknowledgements of the final model")
            logger.info("every participant has the final model")
        except TimeoutError:
            logger.info("leaving after %g s of grace", settings.completion_grace_seconds)

    async def _assign(self, message: protocol.FromAggregator, number: int) -> None:
        async with self._changed:
            self._assignment = Assignment(protocol.encode(message), number)
            self._changed.notify_all()

    # Conditions

    def _all_joined(self) -> bool:
        present = [p for p in self._progress.participants.values() if p.connection is not None]
        return self._enough(len(present))

    def _round_complete(self) -> bool:
        participants = self._progress.participants.values()
        delivered = sum(p.update is not None for p in participants)
        late = any(p.connection is not None and p.update is None for p in participants)
        return delivered >= self._settings.participants or (not late and self._enough(delivered))

    def _enough(self, count: int) -> bool:
        """All of them, or the minimum while the others have been gone for long."""
        settings = self._settings
        if count >= settings.participants:
            return True
        now = asyncio.get_running_loop().time()
        gone = [p for p in self._progress.participants.values() if p.connection is None]
        since = max((p.absent_since for p in gone), default=self._started)
        return count >= settings.min_participants and now - since >= settings.absence_seconds

    def _all_acknowledged(self) -> bool:
        done = sum(p.acknowledged for p in self._progress.participants.values())
        return done >= self._settings.participants

    async def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        now = asyncio.get_running_loop().time
        reminded = now()
        async with self._changed:
            while not condition():
                # Also wakes up without news: absences become long by themselves.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._patience()):
                        await self._changed.wait()
                if now() - reminded >= REMIND_SECONDS:
                    logger.info("waiting for %s: %s", what, self._describe())
                    reminded = now()

    def _patience(self) -> float:
        if self._settings.min_participants < self._settings.participants:
            return max(0.1, min(REMIND_SECONDS, self._settings.absence_seconds / 4))
        return REMIND_SECONDS

    def _describe(self) -> str:
        participants = self._progress.participants.values()
        here = [f"{p.worker} ({p.dataset})" for p in participants if p.connection is not None]
        return f"connected are {', '.join(here) or 'none'} of {self._settings.participants}"

    # Connections

    async def _handle(self, connection: ServerConnection) -> None:
        self._connections += 1
        try:
            if self._connections > 4 * self._settings.participants + 16:
                await self._refuse(connection, "too many connections")
                return
            await self._serve_trainer(connection)
        except ConnectionClosed:
            logger.debug("a connection ended")
        except protocol.ProtocolError as exc:
            logger.info("refused a message from %s: %s", connection.remote_address, exc)
            with contextlib.suppress(ConnectionClosed):
                await self._refuse(connection, str(exc))
        finally:
            self._connections -= 1

    async def _refuse(self, connection: ServerConnection, reason: str) -> None:
        await connection.send(protocol.encode(protocol.Refused(reason)))
        await connection.close(1008, reason[:100])

    async def _serve_trainer(self, connection: ServerConnection) -> None:
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                join = protocol.decode_from_trainer(await connection.recv())
        except TimeoutError:
            raise protocol.ProtocolError("no join came") from None
        if not isinstance(join, protocol.Join):
            raise protocol.ProtocolError("the first message is no join")
        participant = await self._admit(join, connection)
        try:
            await connection.send(self._welcome())
            await self._converse(connection, participant)
        finally:
            await self._left(participant, connection)

    async def _converse(self, connection: ServerConnection, participant: Participant) -> None:
        problem: Exception | None = None
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(self._send_assignments(connection))
            try:
                await self._receive(connection, participant)
            # Kept for later: the group would wrap it.
            except (ConnectionClosed, protocol.ProtocolError) as exc:
                problem = exc
            sender.cancel()
        if problem is not None:
            raise problem

    def _welcome(self) -> bytes:
        settings = self._settings
        return protocol.encode(
            protocol.Welcome(
                rounds=settings.rounds,
                epochs=settings.epochs,
                batch=settings.batch,
                rate=settings.rate,
                weights=protocol.pack(self._initial),
            )
        )

    async def _admit(self, join: protocol.Join, connection: ServerConnection) -> Participant:
        """The participant's place: its own, a new one, or that of one who has been replaced."""
        if join.job != self._settings.job:
            raise protocol.ProtocolError(f"this is the aggregator of job {self._settings.job}")
        async with self._changed:
            participants = self._progress.participants
            participant = participants.get(join.worker)
            if participant is None:
                self._make_room(join)
                participant = participants[join.worker] = Participant(
                    join.worker, join.dataset, connection
                )
            elif participant.connection is not None:
                participant.connection.transport.abort()  # replaced by its newer self
            participant.connection, participant.dataset = connection, join.dataset
            logger.info("%s joined with %d samples of %s", join.worker, join.samples, join.dataset)
            self._changed.notify_all()
            return participant

    def _make_room(self, join: protocol.Join) -> None:
        participants = self._progress.participants
        if len(participants) < self._settings.participants:
            return
        gone = [p for p in participants.values() if p.connection is None]
        if not gone:
            raise protocol.ProtocolError(f"all {len(participants)} participants are here already")
        # A pod that was made again under another name comes with the same dataset.
        gone.sort(key=lambda p: (p.dataset != join.dataset, p.absent_since))
        del participants[gone[0].worker]

    async def _left(self, participant: Participant, connection: ServerConnection) -> None:
        async with self._changed:
            if participant.connection is connection:
                participant.connection = None
                participant.absent_since = asyncio.get_running_loop().time()
                if not participant.acknowledged:
                    logger.info("%s is gone; its place is kept", participant.worker)
                self._changed.notify_all()

    async def _send_assignments(self, connection: ServerConnection) -> None:
        sent: Assignment | None = None
        with contextlib.suppress(ConnectionClosed):  # whoever receives finds out too
            while True:
                sent = await self._next_assignment(after=sent)
                await connection.send(sent.message)

    async def _next_assignment(self, *, after: Assignment | None) -> Assignment:
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self._assignment.waiting and self._assignment is not after
            )
            return self._assignment

    async def _receive(self, connection: ServerConnection, participant: Participant) -> None:
        async for raw in connection:
            message = protocol.decode_from_trainer(raw)
            async with self._changed:
                match message:
                    case protocol.Update():
                        self._take_update(participant, message)
                    case protocol.Acknowledge() if self._progress.final:
                        participant.acknowledged = True
                    case _:
                        raise protocol.ProtocolError(f"unexpected {type(message).__name__}")
                self._changed.notify_all()
            if participant.acknowledged:
                await connection.close()

    def _take_update(self, participant: Participant, update: protocol.Update) -> None:
        weights = protocol.unpack(update.weights, like=self._initial)
        if update.samples < 1:
            raise protocol.ProtocolError("an update from no samples")
        # Late ones belong to a round that went on without them.
        if update.round == self._progress.round + 1 == self._assignment.round:
            participant.update = (update.samples, weights)


def _why_not_listening(settings: AggregatorSettings, exc: OSError) -> str:
    where = f"{settings.host}:{settings.port} (POD_IP, AGG_BIND_PORT)"
    if exc.errno == errno.EADDRINUSE:
        return f"{where} is in use; stop the other process or give this worker another address"
    if exc.errno == errno.EADDRNOTAVAIL:
        return f"{where} is no address of this machine; correct POD_IP"
    return f"can not listen on {where}: {exc.strerror or exc}"


async def main(environ: Mapping[str, str]) -> None:
    """Run the aggregation worker that ``environ`` describes."""
    await Aggregator(AggregatorSettings.read(environ)).run()


if __name__ == "__main__":
    sys.exit(run_worker(main))
