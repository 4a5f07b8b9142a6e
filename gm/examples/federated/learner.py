"""The learner: a network with one hidden layer, plain SGD with momentum, and federated averaging.

Only numpy: the workers start in a fraction of a second and everything that is learned can be
read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Learner", "Samples", "Weights", "accuracy", "average", "initial_weights"]

Floats = NDArray[np.float32]
Weights = tuple[Floats, ...]
"""Hidden matrix and offsets, output matrix and offsets."""

MOMENTUM = 0.9


@dataclass(frozen=True)
class Samples:
    """Pictures as rows of numbers from 0 to 1, and what they show."""

    x: Floats
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)


def initial_weights(*, features: int, hidden: int, classes: int, seed: int) -> Weights:
    """Random weights that depend on nothing but the arguments."""
    rng = np.random.default_rng(seed)

    def layer(rows: int, columns: int) -> tuple[Floats, Floats]:
        matrix = rng.standard_normal((rows, columns)) * np.sqrt(2 / rows)
        return matrix.astype(np.float32), np.zeros(columns, np.float32)

    return (*layer(features, hidden), *layer(hidden, classes))


def _forward(weights: Weights, x: Floats) -> tuple[Floats, Floats]:
    hidden = np.maximum(x @ weights[0] + weights[1], 0)
    return hidden, hidden @ weights[2] + weights[3]


def accuracy(weights: Weights, samples: Samples) -> float:
    """Share of ``samples`` that are recognised."""
    return float((_forward(weights, samples.x)[1].argmax(axis=1) == samples.y).mean())


def average(updates: Sequence[tuple[int, Weights]]) -> Weights:
    """Federated averaging: weights of each participant count by its number of samples."""
    total = sum(count for count, _ in updates)
    return tuple(
        np.asarray(
            sum(
                np.float64(count) * array for (count, _), array in zip(updates, arrays, strict=True)
            )
            / total,
            dtype=np.float32,
        )
        for arrays in zip(*(weights for _, weights in updates), strict=True)
    )


@dataclass(frozen=True, kw_only=True)
class Learner:
    """How to learn; the same for the federation and for each participant alone."""

    epochs: int
    batch: int
    rate: float

    def train(self, weights: Weights, samples: Samples, *, seed: Sequence[int]) -> Weights:
        """``weights`` after ``epochs`` passes over ``samples`` in an order given by ``seed``."""
        rng = np.random.default_rng(list(seed))
        current = [array.copy() for array in weights]
        velocity = [np.zeros_like(array) for array in weights]
        for _ in range(self.epochs):
            order = rng.permutation(len(samples))
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                gradients = _gradients(tuple(current), samples.x[chosen], samples.y[chosen])
                for index, gradient in enumerate(gradients):
                    velocity[index] = MOMENTUM * velocity[index] - self.rate * gradient
                    current[index] += velocity[index]
        return tuple(current)


def _gradients(weights: Weights, x: Floats, y: NDArray[np.int64]) -> Weights:
    """Of the cross-entropy between softmax and truth, by weight."""
    hidden, scores = _forward(weights, x)
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = scores / scores.sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    back = error @ weights[2].T
    back[hidden <= 0] = 0
    return x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)
