"""Learning and averaging: deterministic, weighted, and the same alone as in a federation of one."""

from __future__ import annotations

import numpy as np
import pytest

from gm.examples.federated.learner import Learner, Samples, accuracy, average, initial_weights


def blobs(seed: int = 0) -> Samples:
    """Two classes that are easy to tell apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 2
    x = rng.normal(0, 0.1, (200, 4)) + y[:, None]
    return Samples(x.astype(np.float32), y)


def start() -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], ...]:
    """Weights before the first round."""
    return initial_weights(features=4, hidden=8, classes=2, seed=1)


def test_training_learns_and_leaves_its_input_alone() -> None:
    """From guessing to knowing."""
    before = start()
    copies = [array.copy() for array in before]
    after = Learner(epochs=5, batch=16, rate=0.05).train(before, blobs(), seed=(1,))
    assert accuracy(after, blobs(7)) > 0.99
    for array, copy in zip(before, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_training_depends_on_nothing_but_its_arguments() -> None:
    """So that an update computed again after a crash is the same."""
    learner = Learner(epochs=1, batch=16, rate=0.05)
    once = learner.train(start(), blobs(), seed=(3, 4))
    again = learner.train(start(), blobs(), seed=(3, 4))
    other = learner.train(start(), blobs(), seed=(3, 5))
    assert all((a == b).all() for a, b in zip(once, again, strict=True))
    assert any((a != b).any() for a, b in zip(once, other, strict=True))


def test_average_weighs_by_samples() -> None:
    """Three quarters of the samples, three quarters of the say."""
    zero, four = (np.zeros(2, np.float32),), (np.full(2, 4, np.float32),)
    (mean,) = average([(100, zero), (300, four)])
    np.testing.assert_array_equal(mean, np.full(2, 3, np.float32))
    assert mean.dtype == np.float32


def test_federation_of_one_is_training_alone() -> None:
    """The comparison that is reported as accuracy_alone is a fair one."""
    learner = Learner(epochs=2, batch=16, rate=0.05)
    alone = federated = start()
    for number in range(3):
        alone = learner.train(alone, blobs(), seed=(number,))
        federated = average([(200, learner.train(federated, blobs(), seed=(number,)))])
    for a, b in zip(alone, federated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_gradients_are_those_of_the_loss() -> None:
    """Compared with differences of the cross-entropy."""
    from gm.examples.federated.learner import _forward, _gradients

    samples = blobs()
    x, y = samples.x[:8].astype(np.float64), samples.y[:8]
    weights = tuple(array.astype(np.float64) for array in start())

    def loss() -> float:
        scores = _forward(weights, x)[1]  # type: ignore[arg-type]
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(8), y]))

    for array, gradient in zip(weights, _gradients(weights, x, y), strict=True):  # type: ignore[arg-type]
        place = tuple(0 for _ in array.shape)
        kept, step = array[place], 1e-6
        array[place] = kept + step
        above = loss()
        array[place] = kept - step
        below = loss()
        array[place] = kept
        assert gradient[place] == pytest.approx((above - below) / (2 * step), abs=1e-6)
