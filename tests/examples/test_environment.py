"""The environment of a worker: what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gm.examples.federated.environment import AggregatorSettings, TrainerSettings, UserError

AGGREGATOR = {
    "JOB_NAME": "fl",
    "NAMESPACE": "ns",
    "WORKER_NAME": "aggworker-abcde",
    "PARTICIPANTS_COUNT": "2",
    "MODEL_URL": "/home/data/models/fl/model.npz",
}
TRAINER = {
    "JOB_NAME": "fl",
    "NAMESPACE": "ns",
    "WORKER_NAME": "trainworker-abcde",
    "AGG_IP": "10.0.0.1",
    "AGG_PORT": "30001",
    "TRAIN_DATASET_URL": "/home/data/data/digits/train.npz",
    "DATASET_NAME": "digits-edge1",
}


def test_defaults_of_the_aggregator() -> None:
    """As the contract has them."""
    settings = AggregatorSettings.read(AGGREGATOR)
    assert (settings.host, settings.port) == ("0.0.0.0", 7363)
    assert settings.job == "ns/fl"
    assert settings.min_participants == 2
    assert settings.completion_grace_seconds == 30
    assert settings.model == Path("/home/data/models/fl/model.npz")
    assert settings.pretrained is None


def test_defaults_of_the_trainer() -> None:
    """The held-out file lies beside the dataset; the node is known by its dataset."""
    settings = TrainerSettings.read(TRAINER)
    assert settings.heldout == Path("/home/data/data/digits/heldout.npz")
    assert settings.node == "digits-edge1"
    assert settings.job == "ns/fl"
    settings = TrainerSettings.read({**TRAINER, "NODE_NAME": "edge1", "TEST_DATASET_URL": "/t.csv"})
    assert (settings.node, settings.heldout) == ("edge1", Path("/t.csv"))


def test_model_url_may_be_a_directory(tmp_path: Path) -> None:
    """The model has a name there."""
    for url in (f"{tmp_path}/new/", f"{tmp_path}"):
        settings = AggregatorSettings.read({**AGGREGATOR, "MODEL_URL": url})
        assert settings.model == Path(url) / "model.npz"


def test_dataset_may_be_a_directory(tmp_path: Path) -> None:
    """As an init container leaves it: both files have their names there."""
    settings = TrainerSettings.read({**TRAINER, "TRAIN_DATASET_URL": f"{tmp_path}"})
    assert settings.dataset == tmp_path / "train.npz"
    assert settings.heldout == tmp_path / "heldout.npz"


def test_identity_tells_jobs_and_incarnations_apart() -> None:
    """WORKER_NAME holds a hash of the job's uid."""
    identities = {
        AggregatorSettings.read({**AGGREGATOR, **change}).identity
        for change in ({}, {"JOB_NAME": "b"}, {"NAMESPACE": "b"}, {"WORKER_NAME": "aggworker-b"})
    }
    assert len(identities) == 4


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PARTICIPANTS_COUNT", "", "PARTICIPANTS_COUNT is not set"),
        ("PARTICIPANTS_COUNT", "0", "PARTICIPANTS_COUNT='0': want a whole number from 1 to"),
        ("PARTICIPANTS_COUNT", "two", "want a whole number"),
        ("MIN_PARTICIPANTS", "3", "MIN_PARTICIPANTS='3': want a whole number from 1 to 2"),
        ("AGG_BIND_PORT", "70000", "want a whole number from 1 to 65535"),
        ("ROUND_SECONDS", "soon", "ROUND_SECONDS='soon': want a number of seconds"),
        ("ROUND_SECONDS", "nan", "want a number of seconds"),
        ("LEARNING_RATE", "0", "LEARNING_RATE='0': want a number above 0"),
        ("LEARNING_RATE", "x", "want a number above 0"),
        ("MODEL_URL", "s3://bucket/model", "give the resource a url that is a path"),
        ("TRANSMITTER", "s3", "over a websocket only"),
    ],
)
def test_bad_value_is_refused_with_its_name(name: str, value: str, message: str) -> None:
    """And with what is allowed."""
    with pytest.raises(UserError) as caught:
        AggregatorSettings.read({**AGGREGATOR, name: value})
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["AGG_IP", "AGG_PORT", "TRAIN_DATASET_URL", "WORKER_NAME"])
def test_trainer_needs_what_gm_sets(name: str) -> None:
    """Run by hand without it, it says who sets it."""
    with pytest.raises(UserError, match=f"{name} is not set; GM sets it"):
        TrainerSettings.read({k: v for k, v in TRAINER.items() if k != name})
