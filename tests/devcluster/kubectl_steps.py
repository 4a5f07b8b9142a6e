"""kubectl commands in a row, and how each of them must end."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.cluster.cluster import Cluster
from tests.devcluster.support import Kubectl, Outcome

__all__ = ["Step", "walk"]


@dataclass(frozen=True)
class Step:
    """One command and how it must end.

    ``out`` and ``err`` are regular expressions to be found in what is printed; ``editor`` is what
    sed makes of the text that ``edit`` opens. In all of them ``%(ns)s`` is the test's namespace.
    """

    command: str
    out: str = ""
    err: str = ""
    stdin: str = ""
    code: int = 0
    editor: str = ""


async def walk(cluster: Cluster, kubectl: Kubectl, steps: Iterable[Step]) -> None:
    """Run the steps; AssertionError at the first that ends otherwise."""
    names = {"ns": cluster.namespace}
    for step in steps:
        outcome = await kubectl.run(
            step.command % names, step.stdin % names, editor=step.editor % names
        )
        _check(step, outcome, names)


def _check(step: Step, outcome: Outcome, names: dict[str, str]) -> None:
    told = f"kubectl {step.command}\n--- stdout\n{outcome.out}\n--- stderr\n{outcome.err}"
    assert outcome.code == step.code, told
    for pattern, text in ((step.out, outcome.out), (step.err, outcome.err)):
        assert re.search(pattern % names, text, re.MULTILINE), f"no {pattern!r} in: {told}"
