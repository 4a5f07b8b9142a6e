"""The example as a whole: real processes, real sockets, real training."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from gm.examples.federated.files import load_model, load_samples
from gm.examples.federated.learner import accuracy
from gm.examples.federated.prepare import DATASET_URL, HELDOUT_URL
from tests.examples.federation import Federation, federation, free_port
from tests.fakes.lc import FakeLC

STOP, GO = signal.SIGSTOP, signal.SIGCONT


@pytest.fixture
async def lc() -> AsyncIterator[FakeLC]:
    """A Local Controller that takes everything."""
    async with FakeLC() as fake:
        yield fake


def federated_accuracy(running: Federation) -> float:
    """Of the model file, on the held-out samples."""
    model = load_model(running.model)
    assert model is not None
    path = Path(f"{running.nodes}/edge1{HELDOUT_URL}")
    return accuracy(model.weights, load_samples(path, variable="test"))


def metrics(lc: FakeLC) -> dict[str, float]:
    """All metrics, merged by key in the order they came, as a Model's status has them."""
    merged: dict[str, float] = {}
    for post in lc.posts:
        merged.update(post["results"][0]["metrics"])
    return merged


async def test_two_uneven_edges_learn_together_what_neither_learns_alone(
    tmp_path: Path, lc: FakeLC
) -> None:
    """Federated accuracy is high, each alone clearly lower, and the model file agrees."""
    async with federation(tmp_path, lc_server=lc.url, rounds=10) as running:
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
        final = metrics(lc)
        assert final["accuracy"] >= 0.93
        assert final["accuracy_alone_edge1"] <= final["accuracy"] - 0.1
        assert final["accuracy_alone_edge2"] <= final["accuracy"] - 0.1
        assert federated_accuracy(running) == pytest.approx(final["accuracy"], abs=1e-3)
        assert [p.name for p in running.model.parent.iterdir()] == ["model.npz"]


async def test_each_trainer_reports_each_round_once_and_in_order(
    tmp_path: Path, lc: FakeLC
) -> None:
    """Reports have the contract's form: running for each round, completed after the last."""
    async with federation(tmp_path, lc_server=lc.url) as running:
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
    for node in ("edge1", "edge2"):
        posts = lc.matching(name=f"trainworker-{node}")
        assert [(p["ownerInfo"]["currentRound"], p["status"]) for p in posts] == [
            (1, "running"),
            (2, "running"),
            (3, "running"),
            (4, "completed"),
        ]
        assert sum(f"accuracy_alone_{node}" in p["results"][0]["metrics"] for p in posts) == 1
        assert posts[0]["ownerName"] == "fl"
        assert posts[0]["ownerKind"] == "federatedlearningjob"
        assert posts[0]["kind"] == "train"
        assert posts[0]["namespace"] == "default"
        assert posts[0]["ownerInfo"]["sampleCount"] > 600
        assert posts[0]["results"][0]["url"] == "/models/fl/model.npz"
    assert set(lc.paths) == {f"/sedna/workers/trainworker-edge{n}/info" for n in (1, 2)}


async def test_shuffled_labels_on_one_edge_make_the_federation_worse(
    tmp_path: Path, lc: FakeLC
) -> None:
    """What is reported is really learned from the files."""
    async with federation(tmp_path, lc_server=lc.url, rounds=10) as running:
        path = Path(f"{tmp_path}/edge2{DATASET_URL}")
        with np.load(path) as arrays:
            x, y = arrays["x"], arrays["y"]
        np.savez(path, x=x, y=np.random.default_rng(1).permutation(y))
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
        assert metrics(lc)["accuracy"] < 0.85
        assert federated_accuracy(running) < 0.85


AUDIT = """
import os, sys
_log = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def _hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        os.write(_log, os.fsencode(arguments[0]) + b"\\n")
sys.addaudithook(_hook)
"""


async def test_workers_open_no_data_outside_their_nodes_root(tmp_path: Path, lc: FakeLC) -> None:
    """Each process is audited from its start; what lies under the test's directory is data."""
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit/sitecustomize.py").write_text(AUDIT)
    nodes = tmp_path / "nodes"

    def audited(name: str) -> dict[str, str]:
        return {"PYTHONPATH": str(tmp_path / "audit"), "OPENED": str(tmp_path / f"{name}.opened")}

    async with federation(nodes, lc_server=lc.url) as running:
        running.aggregator = running.new_aggregator(**audited("cloud"))
        running.trainers = [running.new_trainer(n, **audited(n)) for n in ("edge1", "edge2")]
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
    for node, files in {
        "cloud": {"/models/fl/model.npz"},
        "edge1": {DATASET_URL, HELDOUT_URL},
        "edge2": {DATASET_URL, HELDOUT_URL},
    }.items():
        opened = {Path(line) for line in (tmp_path / f"{node}.opened").read_text().splitlines()}
        data = {path for path in opened if path.is_relative_to(nodes) or path.suffix == ".npz"}
        assert all(path.is_relative_to(nodes / node) for path in data)
        assert {Path(f"{nodes}/{node}{file}") for file in files} <= data


@pytest.mark.parametrize("round_number", [2, 4])
async def test_trainer_killed_in_a_round_rejoins_it(
    tmp_path: Path, lc: FakeLC, round_number: int
) -> None:
    """The other trainer is stopped meanwhile, so that the round (also the last) can't end."""
    async with federation(tmp_path, lc_server=lc.url) as running:
        running.aggregator = running.new_aggregator(ROUND_SECONDS="0.5")
        victim, other = running.trainers
        await running.start()
        await running.aggregator.wait_line(rf"round {round_number - 1}/4")
        other.signal(STOP)
        await victim.wait_line(rf"round {round_number - 1}: accuracy")
        await victim.kill()
        await running.aggregator.wait_line("trainworker-edge1 is gone")
        await victim.start()
        await victim.wait_line("joined with", count=2)
        other.signal(GO)
        assert await running.exit_codes() == [0, 0, 0]
        assert lc.matching(name="trainworker-edge1", status="completed", round=4)


@pytest.mark.parametrize("round_number", [1, 2, 4])
async def test_aggregator_killed_in_a_round_goes_on_where_it_was(
    tmp_path: Path, lc: FakeLC, round_number: int
) -> None:
    """Rounds before are not repeated, and the trainers find it again by themselves."""
    async with federation(tmp_path, lc_server=lc.url) as running:
        running.aggregator = running.new_aggregator(ROUND_SECONDS="0.5")
        other = running.trainers[1]
        await running.start()
        if round_number > 1:
            await running.aggregator.wait_line(rf"round {round_number - 1}/4")
        else:
            await running.aggregator.wait_line(r"joined with \d+", count=2)
        other.signal(STOP)
        await running.aggregator.kill()
        await running.aggregator.start()
        await running.aggregator.wait_line("trainworker-edge1 joined", count=2)
        other.signal(GO)
        assert await running.exit_codes() == [0, 0, 0]
        rounds = [p["ownerInfo"]["currentRound"] for p in lc.matching(name="trainworker-edge1")]
        assert rounds == [1, 2, 3, 4]
        averaged = [line for line in running.aggregator.lines if "averaged" in line]
        assert len(averaged) in (4, 5)  # 5: killed after averaging, before that was on disk


async def test_aggregator_killed_before_anybody_joined_starts_afresh(
    tmp_path: Path, lc: FakeLC
) -> None:
    """An empty start is no special case."""
    async with federation(tmp_path, lc_server=lc.url) as running:
        await running.aggregator.start()
        await running.aggregator.wait_line("listening")
        await running.aggregator.kill()
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]


async def test_aggregator_killed_between_saving_and_handing_out_hands_out_again(
    tmp_path: Path, lc: FakeLC
) -> None:
    """Trainers hold back their acknowledgement until their last report is taken."""
    lc.hold("completed")
    async with federation(tmp_path, lc_server=lc.url) as running:
        await running.start()
        await running.aggregator.wait_line("final model is saved")
        await lc.wait_for(2, status="completed")
        await running.aggregator.kill()
        await running.aggregator.start()
        await running.aggregator.wait_line("handing it out")
        lc.release()
        assert await running.exit_codes() == [0, 0, 0]
        assert sum("averaged" in line for line in running.aggregator.lines) == 4


async def test_trainer_killed_with_the_final_model_in_hand_ends_well_when_restarted(
    tmp_path: Path, lc: FakeLC
) -> None:
    """The aggregator waits for its acknowledgement; the other trainer has left by then."""
    async with federation(tmp_path, lc_server=lc.url) as running:
        victim, other = running.trainers
        lc.hold("completed")
        await running.start()
        await lc.wait_for(1, name="trainworker-edge1", status="completed")
        await victim.kill()
        lc.release()
        assert await other.exit_code() == 0
        await victim.start()
        assert await running.exit_codes() == [0, 0, 0]


async def test_trainers_that_nobody_waits_for_any_more_leave_by_themselves(
    tmp_path: Path, lc: FakeLC
) -> None:
    """Who has the final model ends well, though the aggregator's grace was too short for it."""
    lc.hold("completed")
    async with federation(tmp_path, lc_server=lc.url) as running:
        running.aggregator = running.new_aggregator(COMPLETION_GRACE_SECONDS="0.5")
        await running.start()
        assert await running.aggregator.exit_code() == 0
        lc.release()
        assert await running.exit_codes() == [0, 0, 0]


async def test_aggregator_started_after_all_is_done_leaves_at_once(
    tmp_path: Path, lc: FakeLC
) -> None:
    """The model file itself says whose it is; another job at the same path trains anew."""
    async with federation(tmp_path, lc_server=lc.url) as running:
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
        before = running.model.read_bytes()
        await running.aggregator.start()
        assert await running.aggregator.exit_code() == 0
        assert "already" in running.aggregator.lines[-1]
        assert running.model.read_bytes() == before

        running.aggregator = running.new_aggregator(WORKER_NAME="aggworker-other", SEED="5")
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
        assert running.model.read_bytes() != before


async def test_training_goes_on_with_the_minimum_once_others_are_away_for_long(
    tmp_path: Path, lc: FakeLC
) -> None:
    """Three are expected, two come, two suffice."""
    async with federation(tmp_path, lc_server=lc.url, participants=3, rounds=2) as running:
        running.aggregator = running.new_aggregator(
            MIN_PARTICIPANTS="2", ABSENCE_SECONDS="0.4", COMPLETION_GRACE_SECONDS="0.5"
        )
        running.trainers = running.trainers[:2]
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
        assert "averaged 2 updates" in "".join(running.aggregator.lines)


async def test_absent_lc_does_not_hold_up_training(tmp_path: Path) -> None:
    """Nobody listens at LC_SERVER: it is said, and the job ends well."""
    lc_server = f"http://127.0.0.1:{free_port()}"
    async with federation(tmp_path, lc_server=lc_server) as running:
        await running.start()
        assert await running.exit_codes() == [0, 0, 0]
        assert any("did not take the report" in line for line in running.trainers[0].lines)


async def test_missing_dataset_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    """No traceback, the path, the setting, the remedy, and a non-zero exit code."""
    async with federation(tmp_path, lc_server="") as running:
        trainer = running.new_trainer("edge1", TRAIN_DATASET_URL="/nowhere/train.npz")
        await trainer.start()
        assert await trainer.exit_code() == 1
        assert trainer.lines == [
            "error: dataset /nowhere/train.npz (TRAIN_DATASET_URL) does not exist on this node; "
            "write it with `python -m gm.examples.federated.prepare DIR` or correct the url of "
            "the Dataset"
        ]


async def test_unreachable_aggregator_fails_after_a_while_with_its_address(tmp_path: Path) -> None:
    """The line names address, cause and settings."""
    async with federation(tmp_path, lc_server="") as running:
        trainer = running.new_trainer("edge1", CONNECT_SECONDS="0.3")
        await trainer.start()
        assert await trainer.exit_code() == 1
        last = trainer.lines[-1]
        assert last.startswith(
            f"error: no connection to the aggregator at 127.0.0.1:{running.port}"
        )
        assert "AGG_IP" in last
        assert "Connection refused" in last


async def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    """The aggregator names address and settings."""
    async with federation(tmp_path, lc_server="") as running:
        with socket.create_server(("127.0.0.1", running.port)):
            await running.aggregator.start()
            assert await running.aggregator.exit_code() == 1
        assert running.aggregator.lines == [
            f"error: 127.0.0.1:{running.port} (POD_IP, AGG_BIND_PORT) is in use; stop the other "
            "process or give this worker another address"
        ]


async def test_other_transmitters_are_refused(tmp_path: Path) -> None:
    """By both workers."""
    async with federation(tmp_path, lc_server="") as running:
        for child in (
            running.new_aggregator(TRANSMITTER="s3"),
            running.new_trainer("edge1", TRANSMITTER="s3"),
        ):
            await child.start()
            assert await child.exit_code() == 1
            assert child.lines[0].startswith("error: TRANSMITTER=s3: this example exchanges")


async def test_sigterm_ends_a_worker_at_once(tmp_path: Path) -> None:
    """As when a pod is deleted."""
    async with federation(tmp_path, lc_server="") as running:
        await running.aggregator.start()
        await running.aggregator.wait_line("listening")
        running.aggregator.signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await running.aggregator.exit_code() == 143
