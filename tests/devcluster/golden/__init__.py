"""Requests that two API servers must answer alike, in the order in which they are sent.

``asking.ask`` sends them all; ``scripts/golden_apiserver.py`` keeps what a real kube-apiserver
answers. Later modules use what earlier ones have made and saved: ``$rv``, ``$old``, the object
``a``.
"""

from __future__ import annotations

from tests.devcluster.golden import (
    bodies,
    builtin,
    changes,
    definitions,
    deletion,
    discovery,
    kinds,
    lists,
    odd,
    options,
    parts,
    paths,
    pods,
    scales,
    schemas,
    values,
    watches,
    writing,
)
from tests.devcluster.golden.steps import Step

__all__ = ["STEPS", "Step"]

STEPS: tuple[Step, ...] = (
    *writing.STEPS,
    *bodies.STEPS,
    *lists.STEPS,
    *watches.STEPS,
    *deletion.STEPS,
    *builtin.STEPS,
    *pods.STEPS,
    *kinds.STEPS,
    *options.STEPS,
    *odd.STEPS,
    *changes.STEPS,
    *parts.STEPS,
    *scales.STEPS,
    *values.STEPS,
    *schemas.STEPS,
    *definitions.STEPS,
    *paths.STEPS,
    *discovery.STEPS,
)
