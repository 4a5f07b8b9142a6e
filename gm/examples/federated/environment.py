"""The environment variables of a worker, and how a worker ends when something is wrong."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["AggregatorSettings", "Environment", "TrainerSettings", "UserError", "run_worker"]

logger = logging.getLogger(__name__)


class UserError(Exception):
    """Somebody has to mend something; the message is one line that says what and how."""


class Environment:
    """Typed reading of environment variables; raises `UserError` that names the variable."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        """The value of ``name``; without ``default`` it has to be there."""
        value = self._values.get(name, "").strip()
        if value:
            return value
        if default is None:
            raise UserError(f"{name} is not set; GM sets it in the pods of a FederatedLearningJob")
        return default

    def integer(
        self, name: str, default: int | None = None, *, low: int = 0, high: int = 10**9
    ) -> int:
        """The value of ``name`` as a whole number from ``low`` to ``high``."""
        text = self.text(name, None if default is None else str(default))
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise UserError(f"{name}={text!r}: want a whole number from {low} to {high}")
        return number

    def seconds(self, name: str, default: float) -> float:
        """The value of ``name`` as a duration, 0 to a day."""
        text = self.text(name, str(default))
        try:
            number = float(text)
        except ValueError:
            number = -1
        if not 0 <= number <= 86400:
            raise UserError(f"{name}={text!r}: want a number of seconds from 0 to 86400")
        return number

    def fraction(self, name: str, default: float) -> float:
        """The value of ``name`` as a number above 0 and below 10."""
        text = self.text(name, str(default))
        try:
            number = float(text)
        except ValueError:
            number = -1
        if not 0 < number < 10:
            raise UserError(f"{name}={text!r}: want a number above 0 and below 10")
        return number

    def path(self, name: str) -> Path:
        """The value of ``name`` as an absolute path."""
        text = self.text(name)
        if not text.startswith("/"):
            raise UserError(
                f"{name}={text!r}: this example reads and writes files on its node; give the "
                "resource a url that is a path, such as /data/digits/train.npz"
            )
        return Path(text)

    def require_websocket(self) -> None:
        """Refuse transmitters other than ``ws``."""
        transmitter = self.text("TRANSMITTER", "ws")
        if transmitter != "ws":
            raise UserError(
                f"TRANSMITTER={transmitter}: this example exchanges weights over a websocket only; "
                "use spec.transmitter.ws or leave spec.transmitter out"
            )


@dataclass(frozen=True, kw_only=True)
class AggregatorSettings:
    """What the aggregation worker is told."""

    job: str
    worker: str
    host: str
    port: int
    participants: int
    min_participants: int
    model: Path
    pretrained: Path | None
    rounds: int
    epochs: int
    batch: int
    rate: float
    hidden: int
    seed: int
    round_seconds: float
    absence_seconds: float
    completion_grace_seconds: float

    @property
    def identity(self) -> str:
        """What tells this job's files from another's; WORKER_NAME holds a hash of the job's uid."""
        return hashlib.sha256(f"{self.job}/{self.worker}".encode()).hexdigest()[:16]

    @classmethod
    def read(cls, values: Mapping[str, str]) -> AggregatorSettings:
        """From the environment; raises `UserError`."""
        env = Environment(values)
        env.require_websocket()
        participants = env.integer("PARTICIPANTS_COUNT", low=1, high=10_000)
        model = env.path("MODEL_URL")
        if env.text("MODEL_URL").endswith("/") or model.is_dir():
            model = model / "model.npz"
        return cls(
            job=f"{env.text('NAMESPACE', 'default')}/{env.text('JOB_NAME')}",
            worker=env.text("WORKER_NAME"),
            host=env.text("POD_IP", "0.0.0.0"),  # noqa: S104 - all of the pod's own addresses
            port=env.integer("AGG_BIND_PORT", 7363, low=1, high=65535),
            participants=participants,
            min_participants=env.integer(
                "MIN_PARTICIPANTS", participants, low=1, high=participants
            ),
            model=model,
            pretrained=(
                env.path("PRETRAINED_MODEL_URL") if env.text("PRETRAINED_MODEL_URL", "") else None
            ),
            rounds=env.integer("ROUNDS", 10, low=1, high=100_000),
            epochs=env.integer("EPOCHS", 4, low=1, high=10_000),
            batch=env.integer("BATCH_SIZE", 32, low=1, high=100_000),
            rate=env.fraction("LEARNING_RATE", 0.03),
            hidden=env.integer("HIDDEN_UNITS", 64, low=1, high=4096),
            seed=env.integer("SEED", 0),
            round_seconds=env.seconds("ROUND_SECONDS", 0),
            absence_seconds=env.seconds("ABSENCE_SECONDS", 30),
            completion_grace_seconds=env.seconds("COMPLETION_GRACE_SECONDS", 30),
        )


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """What a training worker is told."""

    namespace: str
    job_name: str
    worker: str
    dataset_name: str
    node: str
    aggregator_host: str
    aggregator_port: int
    dataset: Path
    heldout: Path
    model_url: str
    lc_server: str
    connect_seconds: float

    @property
    def job(self) -> str:
        """The job's namespace and name, as the aggregator knows it."""
        return f"{self.namespace}/{self.job_name}"

    @classmethod
    def read(cls, values: Mapping[str, str]) -> TrainerSettings:
        """From the environment; raises `UserError`."""
        env = Environment(values)
        env.require_websocket()
        dataset = env.path("TRAIN_DATASET_URL")
        if dataset.is_dir():  # a Dataset such as s3://bucket/edge1/, downloaded whole
            dataset = dataset / "train.npz"
        dataset_name = env.text("DATASET_NAME", dataset.stem)
        heldout = env.path("TEST_DATASET_URL") if env.text("TEST_DATASET_URL", "") else None
        return cls(
            namespace=env.text("NAMESPACE", "default"),
            job_name=env.text("JOB_NAME"),
            worker=env.text("WORKER_NAME"),
            dataset_name=dataset_name,
            node=env.text("NODE_NAME", dataset_name),
            aggregator_host=env.text("AGG_IP"),
            aggregator_port=env.integer("AGG_PORT", low=1, high=65535),
            dataset=dataset,
            heldout=heldout or dataset.with_name("heldout.npz"),
            model_url=env.text("MODEL_URL", ""),
            lc_server=env.text("LC_SERVER", ""),
            connect_seconds=env.seconds("CONNECT_SECONDS", 300),
        )


def run_worker(main: Callable[[Mapping[str, str]], Coroutine[Any, Any, None]]) -> int:
    """Run a worker to its end; returns its exit code: 1, with one line, after a `UserError`."""
    logging.basicConfig(
        stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S"
    )
    logging.getLogger("websockets.server").addFilter(_is_not_a_knock)
    # As process 1 of a container there is no default action for SIGTERM. Everything on disk is
    # replaced atomically, so leaving at once is safe.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    try:
        asyncio.run(main(os.environ))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BaseExceptionGroup as group:
        errors, others = group.split(UserError)
        if others is not None or errors is None:
            raise
        return _report(_leaf(errors))
    except UserError as exc:
        return _report(exc)
    return 0


def _is_not_a_knock(record: logging.LogRecord) -> bool:
    """Whether ``record`` is worth a line: anybody may knock at a port and go away again."""
    return record.getMessage() != "opening handshake failed" and record.levelno > logging.INFO


def _report(error: BaseException) -> int:
    sys.stderr.write(f"error: {error}\n")
    return 1


def _leaf(group: BaseExceptionGroup[UserError]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
